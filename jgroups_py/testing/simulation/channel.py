"""SimulatedChannel: the channel of an application on a simulated member, in virtual time.

It has the methods of a JChannel. No call waits, because virtual time does not pass while an application runs: `connect`
and `get_state` return at once, and their results arrive at the receiver; a `send` without room raises SendTimeoutError
immediately; the receiver is called as by a JChannel, one call at a time and in order. Applications that need a clock
and timers use `now` and `later` instead of time and threads.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, Self

from jgroups_py.channel.base import BaseChannel, ChannelState
from jgroups_py.channel.block import Block
from jgroups_py.channel.message import Message, Payload
from jgroups_py.channel.receipt import Receipt
from jgroups_py.channel.receiver import callbacks
from jgroups_py.channel.validation import Coordinator, provider_of
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.batch import RSVP, Flag, Header
from jgroups_py.model.errors import ChannelClosedError, ChannelError, SendTimeoutError
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import GlobalViewInstalled, Output, SiteStatusChanged, ViewInstalled
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.runtime.send_queue import NOW
from jgroups_py.wire.topic_headers import for_sites

LIMIT_BYTES = 3 << 20                       # queued bytes of a channel and its stack above which a send has no room


class ChannelMember(Protocol):
    """The simulated member, as its channel sees it."""

    @property
    def me(self) -> Address:
        """Its address."""

    @property
    def now_ns(self) -> int:
        """The virtual time."""

    def pending_bytes(self) -> int:
        """Bytes that its stack queues because receivers are slow."""

    def stats(self) -> dict[str, dict[str, float]]:
        """Protocol name -> its counters."""

    def send(self, dest: Address | None, payloads: list[bytes], flags: int, headers: tuple[Header, ...]) -> None:
        """Send a batch."""

    def inject(self, event: Event) -> None:
        """Pass an event down the stack."""

    def fetch_state(self, target: Address | None, timeout_ns: int) -> None:
        """Fetch a state; None: of the coordinator."""

    def leave(self) -> None:
        """Leave gracefully."""

    def later(self, delay_ns: int, call: Callable[..., object], *arguments: Any) -> None:
        """Call something in the process after a while."""

    def receiver_changed(self, receiver: object) -> None:
        """The object to call is another one, or has other methods; None: nothing is called."""


class SimulatedChannel(BaseChannel):
    """The channel of one incarnation of a member; a restarted member has a new one.

    lag: seconds by which the receiver's calls are late, as those of one that is busy; set it before connecting.
    """

    def __init__(self, member: ChannelMember, spec: StackSpec, name: str) -> None:
        self._member = member                                # before a receiver is set, which reaches it
        super().__init__(spec, name)
        self._cluster: str | None = None
        self.fetches_state = False
        self.lag = 0.0                                       # seconds by which the receiver's calls are late

    # --- connect and close ------------------------------------------------------------------------------------------

    def connect(
        self, cluster: str, timeout: float = 10.0, state_from: Address | Coordinator | None = None,
    ) -> Self:
        """Join the group of the simulated world, whatever its name; the first view_accepted follows.

        With `state_from` the state of the coordinator is fetched once there is a view with others in it, and
        operations begin after it.

        Raises:
            ChannelError: it is connected already, or it has been.
            TypeError: with `state_from`, if the receiver lacks get_state or set_state.
        """
        if self._status.state is ChannelState.CLOSED:
            raise ChannelClosedError("a simulated member that has left restarts with a new channel")
        if self._status.state is not ChannelState.OPEN:
            raise ChannelError(f"the channel is {self._status.state} already")
        if state_from is not None and not {"get_state", "set_state"} <= callbacks(self.receiver).keys():
            raise TypeError("state_from needs a receiver with get_state and set_state; set it before connecting")
        self._status.state = ChannelState.CONNECTING
        self._cluster = cluster
        self.fetches_state = state_from is not None
        return self

    def disconnect(self) -> None:
        """Leave the group gracefully; a simulated channel cannot connect again."""
        if self._status.state is not ChannelState.CLOSED:
            self._status.state = ChannelState.CLOSED
            self._member.leave()

    def close(self, *, forget: bool = False) -> None:
        """Leave the group and end the channel. Raises ValueError for `forget`, which needs RELAY in the stack."""
        self._check_forget(forget)
        self.disconnect()

    @property
    def address(self) -> Address | None:
        """The member's address in the group; None while not connected."""
        return self._member.me if self.state in (ChannelState.CONNECTING, ChannelState.CONNECTED) else None

    @property
    def cluster(self) -> str | None:
        """The name given to `connect`."""
        return self._cluster

    # --- send -------------------------------------------------------------------------------------------------------

    def send(
        self, dest: Address | Message | Payload | None, payload: Payload | None = None, flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None,
        until: str | Iterable[str] | None = None, wait: bool = True, topic: str | int | None = None,
    ) -> Receipt | None:
        """Send to `dest` (None: all members), or send a Message.

        Raises:
            NotConnectedError, ChannelClosedError: nothing was sent.
            SendTimeoutError: the group is slower than this sender; nothing was sent.
            NotImplementedError: with `until` and without wait=False: it would have to wait.
        """
        dest, data, bits, wired = self._checked_parts(dest, payload, flags, headers, topic)
        receipted = until is not None or bool(bits & RSVP)
        if receipted and wait:
            raise NotImplementedError("a simulated channel does not wait: send(..., until=..., wait=False), and "
                                      "receipt.when_done(...)")
        self._check_room()
        if not receipted:
            self._member.send(dest, [data], bits, wired)
            return None
        found = self.checked_until(until, dest, bits)
        receipt = Receipt(found.words)
        self.receipts.start(found, receipt, data, bits, wired, NOW, self.send_timeout if timeout is None else timeout)
        return receipt

    def send_batch(
        self, dest: Address | None, payloads: Iterable[Any], flags: int = 0, *,
        headers: Mapping[int, bytes] | None = None, timeout: float | None = None, topic: str | int | None = None,
    ) -> None:
        """Send many messages in one batch."""
        found = self._all_bytes(dest, payloads, flags)
        self._check_room()
        self._member.send(dest, found, Flag.bits(flags), self._wire_headers(headers, topic, dest))

    def send_for_sites(self, sites: tuple[str, ...] | None, payloads: Iterable[bytes]) -> None:
        """Multicast many messages that are for these other sites alone, beside the own group; None: for all."""
        self._check_room()
        self._member.send(None, list(payloads), 0, () if sites is None else (for_sites(sites),))

    def _check_room(self) -> None:
        if self._status.state is not ChannelState.CONNECTED:
            raise self._status.not_connected_error()
        if self._member.pending_bytes() > LIMIT_BYTES:
            raise SendTimeoutError(f"{LIMIT_BYTES} bytes are queued: the receivers are slower than this sender")

    # --- state, figures, time ---------------------------------------------------------------------------------------

    def get_state(self, target: Address | Coordinator | None = None, timeout: float = 10.0) -> None:
        """Start to fetch the state of `target` (None: the coordinator); the receiver's set_state gets it."""
        self._check_room()
        self._member.fetch_state(provider_of(target), seconds(timeout))

    def stats(self) -> dict[str, dict[str, float]]:
        """Protocol name -> its counters."""
        return self._member.stats()

    def _receiver_changed(self) -> None:
        self._member.receiver_changed(self._receiver)

    def _interest_changed(self, change: Event) -> None:
        if self._status.state is ChannelState.CONNECTED:
            self.inject(change)

    def inject(self, event: Event) -> None:
        """Pass an event down the member's stack."""
        self._check_room()
        self._member.inject(event)

    @property
    def now(self) -> float:
        """Virtual seconds since the world began."""
        return self._member.now_ns / NS_PER_S

    def later(self, delay: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call a function after `delay` seconds, unless the process has ended; a paused process calls it on resume."""
        self._member.later(seconds(delay), call, *arguments)

    def attach(self, block: Block) -> None:
        """Refuse a building block: blocks wait for answers, which a simulated application cannot do.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("building blocks do not run on a simulated channel, but for receipts")

    # --- from the member --------------------------------------------------------------------------------------------

    def shown(self, output: Output) -> None:
        """Update the properties before the receiver is called."""
        if isinstance(output, ViewInstalled):
            self._status.view = output.view
            if self._status.state is ChannelState.CONNECTING:
                self._status.state = ChannelState.CONNECTED
        elif isinstance(output, GlobalViewInstalled):
            self._status.global_view = output.view
        elif isinstance(output, SiteStatusChanged):
            self._status.sites[output.site] = output.status

    def ended(self, reason: str) -> None:
        """Close the channel: the member has ended."""
        status = self._status
        status.state, status.closed_because, status.view = ChannelState.CLOSED, reason, None
