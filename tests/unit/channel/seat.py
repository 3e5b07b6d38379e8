"""A simulated channel whose member is a list of the calls on it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.events import Event, GetState
from jgroups_py.model.outputs import ViewInstalled
from jgroups_py.protocols.transport.protocol import UdpConfig
from jgroups_py.testing.bench import address, view_of
from jgroups_py.testing.simulation.channel import ChannelMember, SimulatedChannel

Sent = tuple[Address | None, list[bytes], int]


class Seat(ChannelMember):
    """The port of the channel of A, in a view with B. backlog: bytes that its stack keeps back."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.events: list[Event] = []
        self.left = 0
        self.backlog = 0
        self.channel = SimulatedChannel(self, StackSpec((LayerSpec("UDP", UdpConfig()),)), "A")

    def connected(self) -> SimulatedChannel:
        """Its channel, in a view."""
        self.channel.connect("chat").shown(ViewInstalled(view_of("A", "B")))
        return self.channel

    @property
    def me(self) -> Address:
        return address("A")

    @property
    def now_ns(self) -> int:
        return 0

    def pending_bytes(self) -> int:
        return self.backlog

    def stats(self) -> dict[str, dict[str, float]]:
        return {}

    def send(self, dest: Address | None, payloads: list[bytes], flags: int, headers: tuple[Header, ...]) -> None:
        self.sent.append((dest, payloads, flags))

    def inject(self, event: Event) -> None:
        self.events.append(event)

    def fetch_state(self, target: Address | None, timeout_ns: int) -> None:
        self.events.append(GetState(target, timeout_ns))

    def leave(self) -> None:
        self.left += 1

    def receiver_changed(self, receiver: object) -> None:
        """Nothing is delivered to it."""

    def later(self, delay_ns: int, call: Callable[..., object], *arguments: Any) -> None:
        raise AssertionError("no time passes here")
