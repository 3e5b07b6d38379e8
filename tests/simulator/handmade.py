"""Hand-made protocols to try the world with, without the real ones above the transport."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.events import Bound, Connect, Disconnect, Event, Left, LinkDown, LinkUp, Listening, ViewChange
from jgroups_py.model.outputs import CloseLink, Listen, OpenLink
from jgroups_py.model.view import View, ViewId
from jgroups_py.simulator import make_stack
from jgroups_py.stack.protocol import Protocol, on


class Solo(Protocol):
    """A group membership that always has one member, and leaves when asked."""

    @on(Connect)
    def connect(self, _: Connect) -> None:
        view = View(ViewId(0, self.me), (self.me,))
        self.pass_up(ViewChange(view, None, (self.me,), ()))

    @on(Disconnect)
    def disconnect(self, _: Disconnect) -> None:
        self.pass_up(Left())


@attrs.frozen
class Dial(Event):
    """Down: open a link."""

    number: int
    to: Any
    timeout_ns: int


@attrs.frozen
class HangUp(Event):
    """Down: close a link."""

    number: int


class Wires(Solo):
    """Listens, opens and closes links as its test asks for, and keeps the events about them."""

    def start(self) -> None:
        self.news: list[Event] = []
        self.at: Any = None

    @on(Bound)
    def bound(self, event: Bound) -> None:
        self.emit(Listen(self.stack.net, event.physical[0], 0, 0))

    @on(Listening)
    def listening(self, event: Listening) -> None:
        self.at = event.physical

    @on(LinkUp)
    def link_up(self, event: LinkUp) -> None:
        self.news.append(event)

    @on(LinkDown)
    def link_down(self, event: LinkDown) -> None:
        self.news.append(event)

    @on(Dial)
    def dial(self, event: Dial) -> None:
        self.emit(OpenLink(self.stack.net, event.number, event.to, event.timeout_ns))

    @on(HangUp)
    def hang_up(self, event: HangUp) -> None:
        self.emit(CloseLink(self.stack.net, event.number))


@attrs.frozen
class Handmade(LayerSpec):
    """A layer that is not in the registry."""

    cls: type[Protocol] = Solo

    def build(self) -> Protocol:
        return self.cls(self.config)


def stack_of(transport: Any, cls: type[Protocol] = Solo) -> StackSpec:
    """A transport and one hand-made layer."""
    spec = make_stack(transport)
    return StackSpec((*spec.layers, Handmade(cls.__name__, cls.Config(), cls=cls)))
