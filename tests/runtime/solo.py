"""A group of all that run: real sockets, no membership protocol. For tests of the runtime alone."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import Connect, Disconnect, Left, ViewChange
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.transport.protocol import TcpConfig, UdpConfig
from jgroups_py.stack.protocol import Protocol, on


class Solo(Protocol):
    """Installs a view of ourselves as soon as we are connected; own multicasts loop back; leaves when asked."""

    def down(self, batch: Batch) -> None:
        self.pass_down(batch)
        if batch.dest is None:
            self.pass_up(batch)

    @on(Connect)
    def connected(self, event: Connect) -> None:
        view = View(ViewId(0, self.me), (self.me,))
        self.later(lambda: self.pass_up(ViewChange(view, None, view.members, ())))

    @on(Disconnect)
    def disconnected(self, event: Disconnect) -> None:
        self.later(lambda: self.pass_up(Left()))


@attrs.frozen
class SoloSpec(StackSpec):
    """A transport, more layers if given, and Solo on top."""

    more: tuple[type[Protocol], ...] = (Solo,)

    def build(self) -> list[Protocol]:
        return [*super().build(), *[layer() for layer in self.more]]


def udp(*more: type[Protocol], **properties: Any) -> SoloSpec:
    """UDP on the loopback interface below Solo."""
    return SoloSpec((LayerSpec("UDP", UdpConfig(**properties)),), more=more or (Solo,))


def tcp(*more: type[Protocol], **properties: Any) -> SoloSpec:
    """TCP on any port of the loopback interface below Solo."""
    return SoloSpec((LayerSpec("TCP", TcpConfig(**{"bind_port": 0, **properties})),), more=more or (Solo,))
