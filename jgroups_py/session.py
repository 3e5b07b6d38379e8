"""One connection of a channel to a group: from connect to the end, what JChannel and AsyncChannel share of it."""
from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jgroups_py.address import Address
from jgroups_py.arguments import check_destination, checked_name, default_name, loaded, max_message_bytes
from jgroups_py.batch import Flag, Header
from jgroups_py.block import Block
from jgroups_py.config.check import alone
from jgroups_py.config.load import Source
from jgroups_py.config.spec import StackSpec
from jgroups_py.delivery import Dispatcher
from jgroups_py.errors import ChannelClosedError, ChannelError, ConfigError, JoinTimeoutError, NotConnectedError
from jgroups_py.events import Event, GetState
from jgroups_py.message import Message, as_bytes, wire_headers
from jgroups_py.news import News
from jgroups_py.outputs import Closed, GlobalViewInstalled, Output, SiteStatusChanged, StateAdvised, ViewInstalled
from jgroups_py.receipts import Receipts, check_message, sites_of
from jgroups_py.receiver import callbacks
from jgroups_py.runtime.host import Host
from jgroups_py.runtime.inbox import Inbox
from jgroups_py.runtime.loop import clock
from jgroups_py.subscriber import Subscriber, interest_of
from jgroups_py.units import seconds, show_size
from jgroups_py.view import GlobalView, View

ADVISED_STATE_NS = seconds(10)              # how long a state that RELAY advises may not move
SEND_SECONDS = 60.0                         # how long a send waits for room by default
PLAIN = {bytes}                             # what payloads are that need no look one by one


class ChannelState(enum.StrEnum):
    """What a channel is doing."""

    OPEN = "OPEN"
    CONNECTING = "CONNECTING"
    CONNECTED = "CONNECTED"
    CLOSED = "CLOSED"


class Session:
    """What exists between one connect and its end.

    settled: called from a round or the consumer's thread whenever `joined` or `ended` may have become true.
    """

    def __init__(
        self, channel: BaseChannel, cluster: str, settled: Callable[[], None],
    ) -> None:
        self.channel = channel
        self.cluster = cluster
        self.inbox = Inbox()
        self.joined = False                                  # the first view was delivered
        self.ended = False                                   # the node is gone
        self.reason = ""
        self._settled = settled
        self.host = Host(channel.spec, cluster, channel.name, self.inbox, self._host_ended)
        self.dispatcher = Dispatcher(channel.name, self.inbox, lambda: self.host.sends, self._shown, self._after)
        self.dispatcher.discard_own = channel.discard_own_messages
        self.dispatcher.set_receiver(channel.receiver)
        self._news = News(channel.name, cluster, clock)
        self._blocks: tuple[Block, ...] = ()
        for block in channel.blocks:
            self.attach(block)

    def attach(self, block: Block) -> None:
        """Let a building block take part."""
        self._blocks = (*self._blocks, block)
        self.dispatcher.attach(block)
        self.inbox.early = self._early
        block.begin(self)

    def _early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        for block in self._blocks:
            outputs = block.early(outputs)
        return outputs

    def start(self) -> None:
        """Look for the group."""
        self.host.start()

    def _host_ended(self, reason: str, unasked: bool) -> None:
        self.reason, self.dispatcher.unasked = reason, unasked
        self.ended = True
        self._settled()

    def _shown(self, output: Output) -> None:
        kind = output.__class__
        if kind is ViewInstalled:
            if self.host.node is not None:
                self.dispatcher.me = self.host.node.me
            self.channel._view_installed(self, output.view)              # type: ignore[attr-defined]
        elif kind is GlobalViewInstalled:
            self.channel._global_view = output.view                      # type: ignore[attr-defined]
        elif kind is Closed and self.dispatcher.unasked:
            self.channel._closed_itself(self)
        elif kind is SiteStatusChanged:
            self.channel._sites[output.site] = output.status             # type: ignore[attr-defined]
        elif kind is StateAdvised:
            self._fetch_state(output.site)                               # type: ignore[attr-defined]
        self._news.tell(output, self.dispatcher.unasked and self.joined)

    def _fetch_state(self, site: str) -> None:
        """Our site missed messages of another one: get its state, if the application can take one."""
        view = self.channel.global_view
        members = view.sites.get(site, ()) if view is not None else ()
        if members and self.dispatcher.has("set_state") and self.dispatcher.transfer is None:
            with contextlib.suppress(ChannelError):                      # the channel is being closed
                self.host.sends.put_event(GetState(members[0], ADVISED_STATE_NS), 0, None)

    def _after(self, output: Output) -> None:
        kind = output.__class__
        if kind is ViewInstalled and not self.joined:
            self.joined = True
            self._settled()


class BaseChannel(Subscriber):
    """What JChannel and AsyncChannel share: properties, and checking what is to be sent.

    spec: the stack. name: our logical name. send_timeout: seconds that a send waits for room if it is not told, None:
    for ever. max_message_bytes: the largest payload.
    """

    def __init__(
        self, stack: Source = "udp", name: str | None = None, properties: Mapping[str, object] | None = None,
        receiver: object = None,
    ) -> None:
        self.spec: StackSpec = loaded(stack, properties)
        if alone(self.spec.layers):
            raise ConfigError(f"{self.spec.source}: SWIM alone forms no group and carries no messages; such a stack is "
                              "for jgroups_py.blocks.membership, a channel's has GMS too")
        if not name and getattr(self.spec.config_of("RELAY"), "hold_dir", None):
            raise ConfigError("with RELAY's hold_dir a member needs a name that stays the same: its folder's")
        self.name = checked_name(name, "a member's name") if name else default_name()
        self.send_timeout: float | None = SEND_SECONDS
        self.max_message_bytes = max_message_bytes(self.spec)
        self._state = ChannelState.OPEN
        self._closed_because = ""
        self._session: Session | None = None
        self._receiver: object = None
        self._discard_own = False
        self._interest = interest_of(self.spec)
        self._view: View | None = None
        self._global_view: GlobalView | None = None
        self._sites: dict[str, str] = {}
        self._receipts = Receipts()
        self.blocks: tuple[Block, ...] = (self._receipts,) if self.site is not None else ()  # as they were attached
        self.receiver = receiver

    # --- properties -------------------------------------------------------------------------------------------------

    @property
    def receiver(self) -> object:
        """Whom to call: a Receiver, any object with some of its methods, or a function of a message."""
        return self._receiver

    @receiver.setter
    def receiver(self, receiver: object) -> None:
        callbacks(receiver)                                  # says now if it is none
        self._receiver = receiver
        if self._session is not None:
            self._session.dispatcher.set_receiver(receiver)

    @property
    def discard_own_messages(self) -> bool:
        """Whether the receiver is spared the messages that this channel sent."""
        return self._discard_own

    @discard_own_messages.setter
    def discard_own_messages(self, on: bool) -> None:
        self._discard_own = on
        if self._session is not None:
            self._session.dispatcher.discard_own = on

    @property
    def state(self) -> ChannelState:
        """OPEN, CONNECTING, CONNECTED or CLOSED."""
        return self._state

    @property
    def address(self) -> Address | None:
        """Who we are in the group; None while not connected. Every connect gives a new one."""
        session = self._session
        return None if session is None or session.host.node is None else session.host.node.me

    @property
    def cluster(self) -> str | None:
        """The name of the group; None while not connected."""
        return None if self._session is None else self._session.cluster

    @property
    def view(self) -> View | None:
        """The view in which the messages that are being delivered now were sent; None while not connected."""
        return self._view

    @property
    def is_coordinator(self) -> bool:
        """Whether we are the first member of the view."""
        return self._view is not None and self._view.coordinator == self.address

    @property
    def site(self) -> str | None:
        """With RELAY: the name of our site."""
        relay = self.spec.config_of("RELAY")
        return None if relay is None else str(relay.site)

    @property
    def sites(self) -> dict[str, str]:
        """With RELAY: other site -> "UP", "DOWN" or "OFFLINE"."""
        return dict(self._sites)

    @property
    def global_view(self) -> GlobalView | None:
        """With RELAY: the members of all sites; None until it is known."""
        return self._global_view

    def _may_forget(self, forget: bool) -> None:
        """Refuse close(forget=True) where there are no other sites.

        Raises:
            ValueError: the stack has no RELAY.
        """
        if forget and self.site is None:
            raise ValueError("close(forget=True) needs RELAY in the stack: it is about what other sites hold for ours")

    def __str__(self) -> str:
        return f"{self.name}@{self.cluster or '-'} ({self._state})"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _work_until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        """Inside a callback: do the channel's work meanwhile, as long as nobody else does. See ChannelThread."""

    # --- sending ----------------------------------------------------------------------------------------------------

    def _ready(self) -> Session:
        session = self._session
        if session is None or self._state is not ChannelState.CONNECTED:
            raise self._why_not()
        return session

    def _why_not(self) -> ChannelError:
        if self._state is ChannelState.CLOSED:
            return ChannelClosedError(self._closed_because or "the channel is closed")
        return NotConnectedError(f"the channel is {self._state}, not connected")

    def _parts(
        self, dest: Address | Message | None, payload: Any, flags: int, headers: Mapping[int, bytes] | None,
        topic: str | int | None,
    ) -> tuple[Address | None, bytes, int, tuple[Header, ...]]:
        """What `send` was given, checked."""
        if isinstance(dest, Message):
            message, dest = dest, dest.dest
            payload, flags = message.payload, (Flag.bits(flags) if flags else 0) | message._flags
            headers = {**message.headers, **(headers or {})}
            topic = message.topic if topic is None else topic
        check_destination(dest)
        data = payload if payload.__class__ is bytes else as_bytes(payload)
        if len(data) > self.max_message_bytes:
            raise self._too_large(len(data))
        return dest, data, Flag.bits(flags) if flags else 0, self._wired(headers, topic, dest)

    def _wired(
        self, headers: Mapping[int, bytes] | None, topic: str | int | None, dest: Address | None,
    ) -> tuple[Header, ...]:
        """The application's headers and the mark of the topic, as the stack carries them."""
        wired = wire_headers(headers) if headers else ()
        return wired if topic is None else (*wired, self._about(topic, dest))

    def _all_bytes(self, dest: Address | None, payloads: Iterable[Any]) -> list[bytes]:
        check_destination(dest)
        found = list(payloads)
        if not set(map(type, found)) <= PLAIN:
            found = [payload if payload.__class__ is bytes else as_bytes(payload) for payload in found]
        largest = max(map(len, found), default=0)
        if largest > self.max_message_bytes:
            raise self._too_large(largest)
        return found

    def _too_large(self, nbytes: int) -> ValueError:
        why = "" if self.spec.config_of("FRAG") else "; the stack has no FRAG, so a message must fit one frame"
        return ValueError(f"a payload of {nbytes} bytes exceeds the limit of {self.max_message_bytes} bytes "
                          f"({show_size(self.max_message_bytes)}){why}")

    def attach(self, block: Block) -> None:
        """Add a building block; it stays for all connections of this channel."""
        self.blocks = (*self.blocks, block)
        if self._session is not None:
            self._session.attach(block)

    def _sites_of(self, until: str | Iterable[str], dest: Address | None, flags: int) -> tuple[str, ...]:
        """The sites that are to have a message, checked."""
        relay = self.spec.config_of("RELAY")
        own = self.site
        sites = sites_of(until, own, self._sites)
        check_message(dest, flags, sites, own, relay is not None and relay.relay_multicasts)
        return sites

    def inject(self, event: Event) -> None:
        """Pass an event down our stack, in order with the messages: for fault layers and tools."""
        self._ready().host.sends.put_event(event, 0, None)

    # --- the course of a session ------------------------------------------------------------------------------------

    def _begin(self, cluster: str, settled: Callable[[], None]) -> Session:
        if not checked_name(cluster, "a cluster's name"):
            raise ValueError("a cluster has a name")
        if self._state is not ChannelState.OPEN:
            raise (self._why_not() if self._state is ChannelState.CLOSED
                   else ChannelError(f"the channel is {self._state} already"))
        self._state = ChannelState.CONNECTING
        self._sites, self._view, self._global_view = {}, None, None
        try:
            self._session = Session(self, cluster, settled)
        except BaseException:
            self._state = ChannelState.OPEN
            raise
        return self._session

    def _view_installed(self, session: Session, view: View) -> None:
        if session is self._session:
            self._view = view
            if self._state is ChannelState.CONNECTING:
                self._state = ChannelState.CONNECTED

    def _closed_itself(self, session: Session) -> None:
        if session is self._session and session.joined:
            self._state, self._closed_because, self._view = ChannelState.CLOSED, session.reason, None

    def _over(self, session: Session) -> None:
        if session is self._session:
            self._session, self._view = None, None
            if self._state is not ChannelState.CLOSED:
                self._state = ChannelState.OPEN

    def _join_failure(self, session: Session, timeout: float) -> ChannelError:
        if not session.ended:
            return JoinTimeoutError(f"{self.name} found no group {session.cluster!r} and founded none within "
                                    f"{timeout:g} s")
        if session.dispatcher.unasked:
            return ChannelError(f"{self.name} cannot join {session.cluster!r}: {session.reason}")
        return ChannelClosedError("the channel was closed while it was connecting")
