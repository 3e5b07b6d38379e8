"""SimulatedChannel: what a JChannel is to an application, on a simulated member and in virtual time.

It has the names of a JChannel. Nothing waits, because time stands still while an application runs: `connect` and
`get_state` return at once and the receiver hears what comes of them; a `send` for which there is no room raises
SendTimeoutError without a wait; the receiver is called as a JChannel calls it, one call at a time and in order.
`now` and `later` are for applications that need a clock and timers: give them these instead of time and threads.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from jgroups_py.address import Address
from jgroups_py.arguments import Coordinator, provider_of
from jgroups_py.batch import Flag
from jgroups_py.block import Block
from jgroups_py.config.spec import StackSpec
from jgroups_py.errors import ChannelClosedError, ChannelError, SendTimeoutError
from jgroups_py.events import Event
from jgroups_py.message import Message
from jgroups_py.outputs import GlobalViewInstalled, Output, SiteStatusChanged, ViewInstalled
from jgroups_py.receiver import callbacks
from jgroups_py.session import BaseChannel, ChannelState
from jgroups_py.units import NS_PER_S, seconds

if TYPE_CHECKING:
    from jgroups_py.simulation.member import Member

LIMIT_BYTES = 3 << 20                       # what a channel and its stack keep back before a send has to wait


class SimulatedChannel(BaseChannel):
    """The channel of one incarnation of a member; a member that starts again has a new one."""

    def __init__(self, member: Member, spec: StackSpec, name: str) -> None:
        super().__init__(spec, name)
        self._member = member
        self._cluster: str | None = None
        self.wants_state = False

    # --- connect and close ------------------------------------------------------------------------------------------

    def connect(
        self, cluster: str, timeout: float = 10.0, state_from: Address | Coordinator | None = None,
    ) -> Self:
        """Join the group of the simulated world, whatever its name; the first view_accepted says that it is done.

        With `state_from` the state of the coordinator is fetched once there is a view with others in it, and
        operations begin after it.

        Raises:
            ChannelError: it is connected already, or it has been.
            TypeError: a state is to be fetched, but the receiver has no get_state and set_state.
        """
        if self._state is ChannelState.CLOSED:
            raise ChannelClosedError("a simulated member that left comes back with a new channel")
        if self._state is not ChannelState.OPEN:
            raise ChannelError(f"the channel is {self._state} already")
        if state_from is not None and not {"get_state", "set_state"} <= callbacks(self.receiver).keys():
            raise TypeError("a receiver that fetches a state has get_state and set_state; set it before connecting")
        self._state = ChannelState.CONNECTING
        self._cluster = cluster
        self.wants_state = state_from is not None
        return self

    def disconnect(self) -> None:
        """Leave the group gracefully; a simulated channel does not come back."""
        if self._state is not ChannelState.CLOSED:
            self._state = ChannelState.CLOSED
            self._member.leave()

    def close(self, *, forget: bool = False) -> None:
        """Leave the group and end the channel. Raises ValueError for `forget`, which needs RELAY in the stack."""
        self._may_forget(forget)
        self.disconnect()

    @property
    def address(self) -> Address | None:
        """Who we are in the group; None while not connected."""
        return self._member.process.me if self._state in (ChannelState.CONNECTING, ChannelState.CONNECTED) else None

    @property
    def cluster(self) -> str | None:
        """The name given to `connect`."""
        return self._cluster

    # --- send -------------------------------------------------------------------------------------------------------

    def send(
        self, dest: Address | Message | None, payload: Any = b"", flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None,
        until: str | Iterable[str] | None = None, topic: str | int | None = None,
    ) -> None:
        """Send to `dest` (None: all members), or send a Message.

        Raises:
            NotConnectedError, ChannelClosedError: nothing was sent.
            SendTimeoutError: the group is slower than this sender just now; nothing was sent.
            NotImplementedError: `until` would have to wait.
        """
        if until is not None:
            raise NotImplementedError("a simulated channel does not wait, so it cannot send until something holds")
        dest, data, bits, wired = self._parts(dest, payload, flags, headers, topic)
        self._check_room()
        self._member.send(dest, [data], bits, wired)

    def send_batch(
        self, dest: Address | None, payloads: Iterable[Any], flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None, topic: str | int | None = None,
    ) -> None:
        """Send many messages in one run."""
        found = self._all_bytes(dest, payloads)
        self._check_room()
        self._member.send(dest, found, Flag.bits(flags), self._wired(headers, topic, dest))

    def _check_room(self) -> None:
        if self._state is not ChannelState.CONNECTED:
            raise self._why_not()
        if self._member.process.node.pending_bytes() > LIMIT_BYTES:
            raise SendTimeoutError(f"{LIMIT_BYTES} bytes are kept back: the receivers are slower than this sender")

    # --- state, figures, time ---------------------------------------------------------------------------------------

    def get_state(self, target: Address | Coordinator | None = None, timeout: float = 10.0) -> None:
        """Begin to fetch the state of `target` (None: the coordinator) into the receiver's set_state."""
        self._check_room()
        self._member.fetch_state(provider_of(target), seconds(timeout))

    def stats(self) -> dict[str, dict[str, float]]:
        """Protocol name -> its counters."""
        return self._member.process.node.stats()

    def _tell_interest(self, change: Event) -> None:
        if self._state is ChannelState.CONNECTED:
            self.inject(change)

    def inject(self, event: Event) -> None:
        """Pass an event down our stack."""
        self._check_room()
        self._member.world.give_down(self._member.process, event)

    @property
    def now(self) -> float:
        """Virtual seconds since the world began."""
        return self._member.world.now_ns / NS_PER_S

    def later(self, delay: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call something after so many seconds, unless the process is gone by then; a paused one does it afterwards."""
        self._member.later(seconds(delay), call, *arguments)

    def attach(self, block: Block) -> None:
        """Building blocks wait for answers, which a simulated application cannot.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("building blocks do not run on a simulated channel")

    # --- from the member --------------------------------------------------------------------------------------------

    def shown(self, output: Output) -> None:
        """Bring the properties up to date before the receiver hears of it."""
        if isinstance(output, ViewInstalled):
            self._view = output.view
            if self._state is ChannelState.CONNECTING:
                self._state = ChannelState.CONNECTED
        elif isinstance(output, GlobalViewInstalled):
            self._global_view = output.view
        elif isinstance(output, SiteStatusChanged):
            self._sites[output.site] = output.status

    def ended(self, reason: str) -> None:
        """The member is out."""
        self._state, self._closed_because, self._view = ChannelState.CLOSED, reason, None
