"""Service and @method: what a class offers to other members, and the fingerprint of each method.

    class Orders(Service, name="orders", version="1.2.0"):
        @method(idempotent=True, raises=(NoSuchOrder,))
        async def find(self, id: int) -> Order: ...

The class is the interface, and may be the implementation; another class of the same name and signatures is the same
interface to the members, so a program on threads declares with `def` what a program of coroutines serves with
`async def`. A method travels as its *key*: 64 bits of the hash of the service's name, its own, and the shapes of its
required parameters and fields and of its result. A member that has not this key does not run it: no exchange is needed
before the first call, and none can be out of date.
"""
from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import attrs

from jgroups_py.blocks.service.codec import ArgumentsCodec, FaultCodec, ValueCodec, result_codec
from jgroups_py.model.errors import ConfigError, RemoteFault
from jgroups_py.model.text import is_name

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__jgroups_method__"                 # attributes of functions: what `method` was given,
OWNER = "__jgroups_service__"               # and the class that declares it
KEY_BYTES = 8
STREAMS = {AsyncIterator: True, AsyncGenerator: True, Iterator: False, Generator: False}


@attrs.frozen
class MethodOptions:
    """What `method` was given."""

    raises: tuple[type[RemoteFault], ...] = ()
    idempotent: bool = False
    once: bool = False
    unordered: bool = False


def method(
    *, raises: tuple[type[RemoteFault], ...] = (), idempotent: bool = False, once: bool = False,
    unordered: bool = False,
) -> Callable[[F], F]:
    """Offer a method of a Service to other members.

    raises: the errors that callers get as such; all others are a RemoteError with the name of the class and its text.
    idempotent: it may run more than once for a call, also at several members: `any`, `site` and `nearest` try another
    member when one is gone or late. once: it runs at most once for a call, and the call outlives that the member was
    out of view for a moment: it asks again there, and gets the answer that is kept. unordered: it may overtake earlier
    calls and messages (Flag.OOB).

    Raises:
        ConfigError: idempotent and once exclude each other; raises has something that is no RemoteFault.
    """
    if idempotent and once:
        raise ConfigError("method(idempotent=True, once=True): it may run twice, or it must not: one of them")
    for kind in raises:
        if not (isinstance(kind, type) and issubclass(kind, RemoteFault)):
            raise ConfigError(f"method(raises=...): {kind!r} is no subclass of jgroups_py.RemoteFault")
    if len({kind.__name__ for kind in raises}) < len(raises):
        raise ConfigError("method(raises=...): two classes of one name; faults travel by the name of their class")
    options = MethodOptions(raises, idempotent, once, unordered)

    def mark(function: F) -> F:
        setattr(function, MARK, options)
        return function
    return mark


class Service:
    """Base of services: `class Orders(Service, name="orders", version="1.2.0")`.

    service_name: the same at all members, "" for a class that is only a base; service_version: for people, see
    `offers`; what fits together is decided by the methods. A subclass has the name, version and methods of its base.
    """

    service_name: ClassVar[str] = ""
    service_version: ClassVar[str] = "0"

    def __init_subclass__(cls, *, name: str | None = None, version: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        for value, what in ((name, "name"), (version, "version")):
            if value is not None and not (isinstance(value, str) and is_name(value)):
                raise ConfigError(f"class {cls.__name__}({what}={value!r}): a {what} is 1 to 255 bytes of plain text")
        for value in vars(cls).values():
            if hasattr(value, MARK):
                setattr(value, OWNER, cls)
        cls.service_name = cls.service_name if name is None else name
        cls.service_version = cls.service_version if version is None else version


@attrs.frozen(eq=False)
class MethodSpec:
    """A method of an interface.

    label: "orders.find". coroutine: it is declared `async def`; stream: it gives items. key: see the module.
    """

    name: str
    label: str
    options: MethodOptions
    coroutine: bool
    stream: bool
    arguments: ArgumentsCodec
    result: ValueCodec
    faults: dict[str, FaultCodec]
    key: bytes


_SPECS: dict[type[Service], dict[str, MethodSpec]] = {}


def interface_of(kind: type[Service]) -> dict[str, MethodSpec]:
    """The methods of a service class, by name.

    Raises:
        ConfigError: it has no name or methods; a method lacks annotations, or has a type that cannot travel.
    """
    found = _SPECS.get(kind)
    if found is None:
        if not (isinstance(kind, type) and issubclass(kind, Service)):
            raise ConfigError(f"{kind!r} is no subclass of Service")
        if not kind.service_name:
            raise ConfigError(f"class {kind.__name__}: a service has a name: class {kind.__name__}(Service, name=...)")
        marked: dict[str, Callable[..., Any]] = {}
        for base in reversed(kind.__mro__):
            marked |= {name: value for name, value in vars(base).items() if hasattr(value, MARK)}
        if not marked:
            raise ConfigError(f"class {kind.__name__} has no method that is marked with @method()")
        found = _SPECS[kind] = {name: spec_of(kind, name, function) for name, function in sorted(marked.items())}
    return found


def spec_of(kind: type[Service], name: str, function: Callable[..., Any]) -> MethodSpec:
    """One method, examined."""
    what = f"{kind.__name__}.{name}"
    options: MethodOptions = getattr(function, MARK)
    hints = hints_of(function, what)
    parameters = dict(list(inspect.signature(function).parameters.items())[1:])      # without self
    if "return" not in hints:
        raise ConfigError(f"{what} has no annotation of its result")
    result = hints["return"]
    stream, coroutine = get_origin(result) in STREAMS, inspect.iscoroutinefunction(function)
    if stream:
        if coroutine:
            raise ConfigError(f"{what}: `async def` without a `yield` gives no items: declare `def {name}(...) -> "
                              "AsyncIterator[...]`, or yield in it")
        coroutine, result = STREAMS[get_origin(result)], get_args(result)[0]
        if options.idempotent or options.once:
            raise ConfigError(f"{what} gives a stream, which is never begun again: no idempotent, no once")
    arguments, codec = ArgumentsCodec(parameters, hints, what), result_codec(result, f"{what}: the result")
    faults = {fault.__name__: FaultCodec(fault, hints_of(fault, fault.__name__), f"{what}: {fault.__name__}")
              for fault in options.raises}
    text = f"{kind.service_name}\n{name}\n{'stream' if stream else 'call'}\n{arguments.text}\n{codec.text}"
    key = blake2b(text.encode(), digest_size=KEY_BYTES, person=b"jgroups-method").digest()
    return MethodSpec(name, f"{kind.service_name}.{name}", options, coroutine, stream, arguments, codec, faults, key)


def hints_of(of: Any, what: str) -> dict[str, Any]:
    """The annotations of a function or class, resolved."""
    try:
        return get_type_hints(of, include_extras=True)
    except NameError as error:
        raise ConfigError(f"{what}: {error}; annotations name what is at the top of their module") from error
