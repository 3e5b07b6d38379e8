"""Interfaces of services: what counts for the key of a method, how arguments and faults travel, what is refused."""
from __future__ import annotations

import dataclasses
import enum
from collections.abc import AsyncIterator, Iterator
from typing import Any

import attrs
import msgspec
import pytest

import jgroups_py as jg
from jgroups_py.blocks.service import Service, codec, interface, method
from jgroups_py.blocks.service.interface import MethodSpec, interface_of
from jgroups_py.model.errors import ConfigError


@attrs.frozen
class Line:
    what: str
    count: int


@attrs.frozen
class LineOfLater:
    what: str
    count: int
    note: str = ""


@dataclasses.dataclass
class LineOfData:
    count: int
    what: str


@attrs.frozen
class LineRetyped:
    what: str
    count: str


@attrs.frozen
class Node:
    value: int
    next: Node | None


class Colour(enum.Enum):
    RED = "red"


class OutOfStock(jg.RemoteFault):
    what: str
    left: int = 0


class Shop(Service, name="shop", version="1"):
    @method(raises=(OutOfStock,))
    def order(self, line: Line, by: str, urgent: bool = False, note: str | None = None) -> int:
        return line.count

    @method()
    def raw(self, data: bytes) -> bytes:
        return data

    @method()
    def nothing(self) -> None:
        return None


def spec(kind: Any, name: str = "order") -> MethodSpec:
    return interface_of(kind)[name]


def shop_of(line: Any, result: Any = int, name: str = "shop") -> type[Service]:
    """A shop whose method takes another type, or gives one."""
    def order(self: Any, line: Any, by: Any) -> Any:
        return None
    order.__annotations__ = {"line": line, "by": str, "return": result}
    made: type[Service] = type("Other", (Service,), {"order": method()(order)}, name=name)  # type: ignore[call-overload]
    return made


@pytest.mark.parametrize(("kind", "same"), [
    (shop_of(Line), True), (shop_of(LineOfLater), True), (shop_of(LineOfData), True), (shop_of(LineRetyped), False),
    (shop_of(Line, str), False), (shop_of(Line | None), False), (shop_of(Line, name="store"), False)])
def test_the_key_of_a_method_covers_required_fields_their_types_and_the_result(kind: type[Service], same: bool):
    assert (spec(kind).key == spec(Shop).key) is same


def test_coroutines_and_functions_are_one_interface():
    class Shop(Service, name="shop"):
        @method()
        async def order(self, line: Line, by: str) -> int:
            return 1
    assert spec(Shop).coroutine
    assert spec(Shop).key == spec(shop_of(Line)).key


def test_recursive_types_enums_and_collections_have_shapes():
    assert codec.type_text(Node, "x") == "{next:^1|none,value:int"
    assert codec.type_text(list[int], "x") == codec.type_text(tuple[int, ...], "x")
    assert codec.type_text(dict[str, set[Colour]], "x") == "dict(str,list(enum))"
    assert codec.type_text(tuple[int, str], "x") == "tuple(int,str)"


def test_arguments_without_defaults_travel_by_place_and_others_by_name():
    arguments = spec(Shop).arguments
    line = Line("apple", 2)
    data = arguments.encode((line, "me"), {})
    assert msgspec.msgpack.decode(data) == [{"what": "apple", "count": 2}, "me"]
    assert arguments.decode(data) == ((line, "me"), {})
    data = arguments.encode((line,), {"by": "me", "note": None})
    assert msgspec.msgpack.decode(data) == [{"what": "apple", "count": 2}, "me", {"note": None}]
    assert arguments.decode(data) == ((line, "me"), {"note": None})
    unknown = msgspec.msgpack.encode([{"what": "x", "count": 1, "new": 3}, "me", {"of later": 1, "urgent": True}])
    assert arguments.decode(unknown) == ((Line("x", 1), "me"), {"urgent": True})


@pytest.mark.parametrize(("args", "named"), [
    ((), {}), ((1,), {}), ((1, "me", True, None, 5), {}), ((1, "me"), {"by": "you"}), ((1, "me"), {"colour": 1})])
def test_arguments_are_those_of_a_function_call(args: tuple[Any, ...], named: dict[str, Any]):
    with pytest.raises(TypeError, match=r"Shop\.order takes line, by, urgent, note; got"):
        spec(Shop).arguments.encode(args, named)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91" * 5000, b"\xdd\xff\xff\xff\xff", b"\x92\x01\x02", b"\x90"])
def test_bytes_that_are_no_arguments_raise_and_reserve_nothing(data: bytes):
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        spec(Shop).arguments.decode(data)


def test_bytes_travel_as_they_are_and_need_no_msgspec(monkeypatch: pytest.MonkeyPatch):
    raw = spec(Shop, "raw")
    assert raw.arguments.encode((b"\x00x",), {}) == b"\x00x"
    assert raw.result.decode(b"y") == b"y"
    with pytest.raises(TypeError, match="declares bytes, not str"):
        raw.result.encode("y")
    assert spec(Shop, "nothing").result.encode(None) == b""
    monkeypatch.setattr(codec, "msgspec", None)

    class Plain(Service, name="plain"):
        @method()
        def echo(self, data: bytes) -> bytes:
            return data

    class Typed(Service, name="typed"):
        @method()
        def add(self, number: int) -> int:
            return number
    assert interface_of(Plain)["echo"].key
    with pytest.raises(ConfigError, match=r"needs msgspec: pip install 'jgroups_py\[typed\]'"):
        interface_of(Typed)


def test_a_fault_travels_by_its_fields():
    faults = spec(Shop).faults["OutOfStock"]
    text = faults.encode(OutOfStock("apple"))
    assert text == '{"what":"apple","left":0}'
    found = faults.decode('{"what":"pear","later":1}')
    assert isinstance(found, OutOfStock)
    assert (found.what, found.left, str(found)) == ("pear", 0, "OutOfStock(what='pear', left=0)")
    with pytest.raises(msgspec.ValidationError):
        faults.decode('{"what":1}')
    for wrong in ((), ("a", 1, 2)):
        with pytest.raises(TypeError, match="OutOfStock has the fields"):
            OutOfStock(*wrong)
    with pytest.raises(TypeError, match="OutOfStock has the fields"):
        OutOfStock("a", colour=1)                            # type: ignore[call-arg]


def declared(annotation: Any, **options: Any) -> type[Service]:
    """A service with one method of one parameter."""
    def one(self: Any, value: Any) -> Any:
        return value
    one.__annotations__ = {"value": annotation, "return": int}
    made: type[Service] = type("Odd", (Service,), {"one": method(**options)(one)}, name="odd")   # type: ignore[call-overload]
    return made


class Strange:
    """No type that travels."""


def test_what_cannot_travel_is_refused_with_its_place():
    with pytest.raises(ConfigError, match=r"Odd\.one: parameter value: .*Strange.* cannot be encoded"):
        interface_of(declared(Strange))
    with pytest.raises(ConfigError, match="it may run twice, or it must not"):
        declared(int, idempotent=True, once=True)
    with pytest.raises(ConfigError, match="is no subclass of"):
        declared(int, raises=(KeyError,))
    with pytest.raises(ConfigError, match="has no method"):
        interface_of(type("Empty", (Service,), {}, name="empty"))            # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="a service has a name"):
        interface_of(type("Nameless", (Service,), {}))
    with pytest.raises(ConfigError, match="a name is 1 to 255 bytes"):
        type("Bad", (Service,), {}, name="a\x1bb")                           # type: ignore[call-overload]


def test_a_coroutine_that_returns_an_iterator_is_refused():
    class Streams(Service, name="streams"):
        @method()
        async def tail(self) -> AsyncIterator[int]:
            raise NotImplementedError
    with pytest.raises(ConfigError, match="without a `yield` gives no items"):
        interface_of(Streams)

    class Twice(Service, name="streams"):
        @method(idempotent=True)
        def tail(self) -> Iterator[int]:
            raise NotImplementedError
    with pytest.raises(ConfigError, match="never begun again"):
        interface_of(Twice)


def test_methods_are_inherited_and_an_implementation_may_override_them():
    class Impl(Shop):
        def nothing(self) -> None:
            return None
    assert interface_of(Impl).keys() == interface_of(Shop).keys()
    assert interface_of(Impl)["nothing"].key == interface_of(Shop)["nothing"].key
    assert len(interface_of(Shop)["nothing"].key) == interface.KEY_BYTES
