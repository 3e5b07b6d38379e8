"""Components: parts of a protocol, each with its own state and its own handlers, declared by the marks of a protocol.

A protocol that does several things consists of parts that do one each:

    class Requester(Component):
        @timer("round")
        def begin_round(self) -> None: ...

    class Counter(Component):
        @receives(EchoReply)
        def on_reply(self, header: EchoReply, batch: Batch) -> None: ...

    class Example(Protocol):
        components = (Requester, Counter)

The stack makes the parts (`Protocol.assemble`, to be overridden where parts get more arguments than the layer), binds
their handlers once, and starts them after the protocol, in declared order. A header or a timer belongs to one part; a
second claim is a TypeError when the class is built. An event may be observed by several: first the protocol, then its
parts in declared order, as if they were layers on top of each other, so STOP also stops it for the later parts.

A part acts through `LayerPort`, the narrow side of its layer: it sends, emits, counts and sets timers, and sees nothing
of what other parts own, except the ports that it declares:

    class Counter(Component):
        group: GroupPort = needs(GroupPort)          # bound to the part that is a GroupPort, once all are made

Names of timers belong to the layer: two parts cannot use one name.
"""
from __future__ import annotations

import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from random import Random
from typing import Any, ClassVar, NamedTuple, TypeVar

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, NO_RELAY, NO_RELIABILITY, Batch, Header
from jgroups_py.model.counters import Counter
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import Output

CONTROL = NO_RELIABILITY | NO_FC | NO_RELAY
"""Flags of a layer's own messages, unless it sends them reliably."""

F = TypeVar("F", bound=Callable[..., Any])
Receiver = Callable[[Any, Batch], object]


def mark(attribute: str, key: object) -> Callable[[F], F]:
    """Record in `attribute` of a function that it handles `key`; `marked` finds it. The marks below use this."""
    def note(function: F) -> F:
        function.__dict__.setdefault(attribute, []).append(key)
        return function
    return note


def receives(header: type[Header]) -> Callable[[F], F]:
    """Mark the handler of batches whose lowest header is a `header`."""
    return mark("_receives", header)


def on(event: type[Event]) -> Callable[[F], F]:
    """Mark the observer of an event; it travels on unless the observer returns STOP."""
    return mark("_on", event)


def timer(name: str) -> Callable[[F], F]:
    """Mark the handler of a named timer."""
    return mark("_timer", name)


def marked(cls: type, attribute: str) -> dict[Any, str]:
    """What the methods of a class and its bases are marked with: key -> method. A subclass may redefine a key.

    Raises TypeError if two methods of one class body claim the same key.
    """
    found: dict[Any, str] = {}
    for base in reversed(cls.__mro__):
        here: dict[Any, str] = {}
        for name, member in vars(base).items():
            for key in getattr(member, attribute, ()):
                if key in here:
                    raise TypeError(f"{base.__name__}: {here[key]} and {name} both claim {_named(key)}")
                here[key] = name
        found.update(here)
    return found


@attrs.frozen
class Need:
    """A port that `connect` has not bound yet."""

    port: type


def needs(port: type) -> Any:
    """A class attribute of a component that becomes the one part of the layer that is a `port`."""
    return Need(port)


class LayerPort(typing.Protocol):
    """The layer, as its components see it; the methods are documented in `Protocol`."""

    @property
    def config(self) -> Any: ...
    @property
    def me(self) -> Address: ...
    @property
    def rng(self) -> Random: ...
    @property
    def now_ns(self) -> int: ...
    def send(self, header: Header, dest: Address | None, payloads: tuple[bytes, ...] = ...,
             flags: int = ...) -> None: ...
    def dispatch(self, header: Header, batch: Batch) -> None: ...
    def emit(self, output: Output) -> None: ...
    def set_timer(self, name: str, delay_ns: int, about: Hashable = ...) -> None: ...
    def cancel_timer(self, name: str, about: Hashable = ...) -> None: ...
    def timer_is_set(self, name: str, about: Hashable = ...) -> bool: ...
    def later(self, function: Callable[[], None]) -> None: ...
    def count(self, name: str, number: int = ...) -> None: ...
    def drop(self, name: str, batch: Batch | None, why: str, header: Header | None = ..., *,
             number: int | None = ...) -> None: ...
    def warn(self, text: str) -> None: ...


class Component:
    """One part of a protocol. State is made in `__init__`; timers are set and messages sent from `start` on.

    The calls are the layer's own, bound once, so that `self.send` of a part costs what it costs in the protocol.
    """

    COUNTERS: ClassVar[tuple[Counter, ...]] = ()          # what the part counts; they are the layer's counters
    needed: ClassVar[dict[str, type]] = {}       # attribute -> port, made from the attributes that `needs` marked

    config: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name: value.port for name, value in vars(cls).items() if isinstance(value, Need)}
        cls.needed = {**cls.needed, **own}

    def __init__(self, layer: LayerPort) -> None:
        self.layer = layer
        self.config = layer.config
        self.me = layer.me
        self.send = layer.send
        self.dispatch = layer.dispatch
        self.emit = layer.emit
        self.set_timer = layer.set_timer
        self.cancel_timer = layer.cancel_timer
        self.timer_is_set = layer.timer_is_set
        self.later = layer.later
        self.count = layer.count
        self.drop = layer.drop
        self.warn = layer.warn
        self.pass_up: Callable[[Batch | Event], None] = unattached
        self.pass_down: Callable[[Batch | Event], None] = unattached

    def start(self) -> None:
        """Set timers. Called once, when the stack is complete: after the protocol's own `start`, in declared order."""

    @property
    def now_ns(self) -> int:
        """The time of this step; it stands still inside a handler."""
        return self.layer.now_ns

    @property
    def rng(self) -> Random:
        """The only source of randomness: the layer's generator."""
        return self.layer.rng


class Handler(NamedTuple):
    """Where a handler is: in which part (None: in the protocol itself), and the name of its method."""

    part: type[Component] | None
    method: str


@attrs.frozen
class Tables:
    """What a protocol class and its parts handle."""

    receivers: dict[type[Header], Handler]
    observers: dict[type[Event], tuple[Handler, ...]]
    timers: dict[str, Handler]


def tables_of(protocol: type, parts: Iterable[type[Component]]) -> Tables:
    """The handlers of a protocol with these parts. Raises TypeError where two claim a header or a timer."""
    sources: list[tuple[type[Component] | None, type]] = [(None, protocol), *((part, part) for part in parts)]
    observers: dict[type[Event], tuple[Handler, ...]] = {}
    for part, cls in sources:
        for event, method in marked(cls, "_on").items():
            observers[event] = (*observers.get(event, ()), Handler(part, method))
    return Tables(_sole(protocol, sources, "_receives"), observers, _sole(protocol, sources, "_timer"))


def _sole(
    protocol: type, sources: Iterable[tuple[type[Component] | None, type]], attribute: str,
) -> dict[Any, Handler]:
    """Key -> the one handler of it."""
    found: dict[Any, Handler] = {}
    for part, cls in sources:
        for key, method in marked(cls, attribute).items():
            if key in found:
                other = found[key].part or protocol
                raise TypeError(f"{protocol.__name__}: {other.__name__} and {cls.__name__} both claim {_named(key)}")
            found[key] = Handler(part, method)
    return found


def bind(layer: object, parts: Mapping[type[Component], Component], handler: Handler) -> Callable[..., Any]:
    """The handler as a bound method of the layer or of the part that declares it."""
    owner = layer if handler.part is None else parts[handler.part]
    bound: Callable[..., Any] = getattr(owner, handler.method)
    return bound


def connect(parts: Iterable[Component]) -> None:
    """Bind the ports that the parts need of each other. Raises TypeError if a port has no provider, or several."""
    made = tuple(parts)
    for needing, attribute, providing in _connections(tuple(map(type, made))):
        setattr(made[needing], attribute, made[providing])


@cache
def _connections(classes: tuple[type[Component], ...]) -> tuple[tuple[int, str, int], ...]:
    """(place of a part, attribute, place of the part that it becomes); the same for all layers of a kind, so cached."""
    found = []
    for at, cls in enumerate(classes):
        for attribute, port in cls.needed.items():
            providers = [place for place, other in enumerate(classes) if issubclass(other, port)]
            if len(providers) != 1:
                raise TypeError(f"{cls.__name__} needs a part that is a {port.__name__}; "
                                f"{len(providers) or 'none'} of the layer are")
            found.append((at, attribute, providers[0]))
    return tuple(found)


def unattached(item: Batch | Event) -> None:
    """In place of `pass_up` and `pass_down` until the stack has wired the layer."""
    raise AssertionError("the protocol is in no stack yet")


def _named(key: object) -> str:
    return key.__name__ if isinstance(key, type) else f"timer {key!r}"
