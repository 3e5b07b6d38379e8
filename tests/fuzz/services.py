"""Hostile payloads of typed services (blocks/service): requests, answers, items, faults, offers, of any content."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import attrs
import msgspec

from jgroups_py.blocks.rpc.serving import Request
from jgroups_py.blocks.service import Service, method
from jgroups_py.blocks.service.base import BaseServices, CallContext, Served
from jgroups_py.blocks.service.interface import MethodSpec, interface_of
from jgroups_py.blocks.service.messages import (
    CALL,
    CALL_HEAD,
    CALL_ONCE,
    CANCEL,
    FAULT,
    NUMBERED,
    ONCE_HEAD,
    OPEN,
    OPEN_HEAD,
    PULL,
    Offered,
    decode_items,
    encode_items,
    encode_offer,
)
from jgroups_py.model.address import Address
from jgroups_py.model.errors import AnswerError, RemoteError, RemoteFault, RequestError, WireError

PEER = Address(b"p" * 16, "P")


@attrs.frozen
class Tree:
    """Nested without end."""

    value: int
    children: list[Tree]
    more: dict[str, Any] = attrs.field(factory=dict)


class Bad(RemoteFault):
    """A fault with all sorts of fields."""

    code: int
    tree: Tree


class Attacked(Service, name="attacked", version="1"):
    """Methods with types of all sorts."""

    @method(raises=(Bad,))
    def grow(self, tree: Tree, note: str = "", parts: tuple[int, ...] = ()) -> Tree:
        return tree

    @method(once=True)
    def any(self, value: dict[str, Any] | list[Any] | int | None) -> Any:
        return value

    @method()
    def raw(self, data: bytes) -> bytes:
        return data

    @method()
    def items(self, numbers: set[int]) -> Iterator[int]:
        return iter(numbers)


class FakeChannel:
    """What services need of a channel that is not connected."""

    max_message_bytes = 1 << 20
    site = None

    def attach(self, block: object) -> None:
        """Nothing follows."""


class FakeConnection:
    """A connection whose clock stands still."""

    ended = True
    sends = None

    def clock_ns(self) -> int:
        """Now."""
        return 0


class Attackee(BaseServices):
    """Services whose streams are read at once."""

    def __init__(self) -> None:
        super().__init__(FakeChannel(), 1, 1 << 20)                          # type: ignore[arg-type]
        self._connection = FakeConnection()                                  # type: ignore[assignment]
        self.serve(Attacked())
        self.directory.view((PEER,))

    def open(
        self, request: Request, served: Served, args: Any, named: Any, context: CallContext, window: int,
    ) -> Any:
        return encode_items(map(served.spec.result.encode, served.function(*args, **named)), False)

    def numbered(self, kind: int, request: Request, number: int) -> Any:
        return number

    def changed(self) -> None:
        """No call waits."""


class Sink:
    """A server whose answers go nowhere."""

    def send(self, kind: type, request: Request, payload: bytes) -> None:
        """Forget it."""


def specs() -> dict[str, MethodSpec]:
    """The methods that are attacked."""
    return interface_of(Attacked)


def read_request() -> Callable[[bytes], object]:
    """What a member does with a request: it raises nothing, whatever came."""
    services = Attackee()

    def read(data: bytes) -> object:
        for number in (7, -1):
            services.handle(Request(Sink(), PEER, data, number))             # type: ignore[arg-type]
        return None
    return read


def read_answer(data: bytes) -> object:
    """What a caller does with an answer."""
    services = Attackee()
    for spec in specs().values():
        with suppress(AnswerError):
            services.result(spec, data)
    with suppress(WireError):
        decode_items(data, 64)
    return None


def read_failure(data: bytes) -> object:
    """What a caller does with a failure."""
    kind, _, text = data.decode("utf-8", "replace").partition("\n")
    found = Attackee().fault(specs()["grow"], RemoteError(PEER, kind, text))
    assert isinstance(found, RequestError)
    return None


def attacks() -> list[tuple[str, Callable[[bytes], object], tuple[bytes, ...]]]:
    """Name, reader, inputs to begin with."""
    known, tree = specs(), {"value": 1, "children": [{"value": 2, "children": []}], "more": {"a": [1.5, None]}}
    pack = msgspec.msgpack.encode
    requests = (
        CALL_HEAD.pack(CALL, known["grow"].key, 100) + pack([tree, {"note": "x", "parts": [1]}]),
        CALL_HEAD.pack(CALL, known["raw"].key, 0) + b"bytes",
        ONCE_HEAD.pack(CALL_ONCE, known["any"].key, 5, 1, 0) + pack([{"a": [1, [2, [3]]]}]),
        OPEN_HEAD.pack(OPEN, known["items"].key, 5, 64) + pack([[1, 2, 3]]),
        NUMBERED.pack(PULL, 7), NUMBERED.pack(CANCEL, 7),
        encode_offer((Offered("orders", "1.2", (known["grow"].key,)), Offered("x", "0", ()))))
    answers = pack(tree), pack({"a": [1]}), encode_items([pack(1), pack(2)], True)
    failures = b'!fault\nBad\n{"code":1,"tree":{"value":1,"children":[]}}', b"KeyError\n1", f"{FAULT}\nBad\n[]".encode()
    return [("service-request", read_request(), requests), ("service-answer", read_answer, answers),
            ("service-failure", read_failure, failures)]
