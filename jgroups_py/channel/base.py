"""What JChannel and AsyncChannel share: properties, checking what is to be sent, and the port for building blocks."""
from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from jgroups_py.channel.block import Block
from jgroups_py.channel.callback_registry import CallbackRegistry
from jgroups_py.channel.environment import NewHost
from jgroups_py.channel.message import Message, Payload, as_bytes, wire_headers
from jgroups_py.channel.observer import MessageObserver
from jgroups_py.channel.receipts import HANDLED, TOTAL, Receipts, Until, check_message, until_of
from jgroups_py.channel.receiver import ReceiverLike
from jgroups_py.channel.session import ChannelListener, Session
from jgroups_py.channel.subscriptions import Subscriptions, interest_of
from jgroups_py.channel.validation import check_destination, checked_name, default_name, loaded, max_message_bytes
from jgroups_py.config.check import has_no_views
from jgroups_py.config.load import Source
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELIABILITY, RSVP, Flag, Header
from jgroups_py.model.errors import (
    ChannelClosedError,
    ChannelError,
    ConfigError,
    JoinTimeoutError,
    MembersTimeoutError,
    NotConnectedError,
)
from jgroups_py.model.events import Event
from jgroups_py.model.units import show_size
from jgroups_py.model.view import GlobalView, View
from jgroups_py.runtime.send_queue import CLOSED_INTAKE, MESSAGE_COST, Intake

SEND_SECONDS = 60.0                         # how long a send waits for room by default
PLAIN = {bytes}                             # types of payloads that are sent as they are


class ChannelState(enum.StrEnum):
    """What a channel is doing."""

    OPEN = "OPEN"
    CONNECTING = "CONNECTING"
    CONNECTED = "CONNECTED"
    CLOSED = "CLOSED"


@attrs.define(eq=False)
class ChannelStatus(ChannelListener):
    """The state of a channel and what it reports of the group; the current session keeps it up to date.

    session: None while not connected. intake: the short way to its queue, closed while not connected. view: the one in
    which the messages that are being delivered now were sent. sites: other site -> its status. over: called when a
    session has ended, or the channel has closed by itself. watched: `intake` stays closed, so that the observer is
    asked about each message, and those that it lets pass take `passing`, which is what `intake` is otherwise.
    """

    state: ChannelState = ChannelState.OPEN
    closed_because: str = ""
    session: Session | None = None
    intake: Intake = CLOSED_INTAKE
    passing: Intake = CLOSED_INTAKE
    view: View | None = None
    global_view: GlobalView | None = None
    sites: dict[str, str] = attrs.Factory(dict)
    over: Callable[[], None] = lambda: None
    watched: bool = False

    def not_connected_error(self) -> ChannelError:
        """The error to raise where a connection is needed and there is none."""
        if self.state is ChannelState.CLOSED:
            return ChannelClosedError(self.closed_because or "the channel is closed")
        return NotConnectedError(f"the channel is {self.state}, not connected")

    def switch(self, passing: Intake | None = None, *, watched: bool | None = None) -> None:
        """Another intake, or another need to watch. From any thread: each looks again after it has written `intake`."""
        if passing is not None:
            self.passing = passing
        if watched is not None:
            self.watched = watched
        while self.intake is not (wanted := CLOSED_INTAKE if self.watched else self.passing):
            self.intake = wanted

    def session_ended(self, session: Session) -> None:
        """The session has ended."""
        if session is self.session:
            self.session, self.view = None, None
            self.switch(CLOSED_INTAKE)
            if self.state is not ChannelState.CLOSED:
                self.state = ChannelState.OPEN
            self.over()

    def view_installed(self, session: Session, view: View) -> None:
        if session is self.session:
            self.view = view
            if self.state is ChannelState.CONNECTING:
                self.state = ChannelState.CONNECTED
                self.switch(session.sends.intake)

    def global_view_installed(self, session: Session, view: GlobalView) -> None:
        if session is self.session:
            self.global_view = view

    def site_status_changed(self, session: Session, site: str, status: str) -> None:
        if session is self.session:
            self.sites[site] = status

    def closed_itself(self, session: Session, reason: str) -> None:
        if session is self.session:
            self.state, self.closed_because, self.view = ChannelState.CLOSED, reason, None
            self.switch(CLOSED_INTAKE)
            self.over()


class BaseChannel(Subscriptions, CallbackRegistry):
    """What JChannel and AsyncChannel share: properties, and checking what is to be sent.

    spec: the stack. name: the logical name. send_timeout: seconds that a send waits for room if none is given, None:
    for ever. max_message_bytes: the largest payload.
    """

    def __init__(
        self, stack: Source = "udp", name: str | None = None, properties: Mapping[str, object] | None = None,
        receiver: ReceiverLike | None = None,
    ) -> None:
        self.spec: StackSpec = loaded(stack, properties)
        if has_no_views(self.spec.layers):
            raise ConfigError(f"{self.spec.source}: SWIM alone forms no group and carries no messages; such a stack is "
                              "for jgroups_py.blocks.swim_membership, a channel's has GMS too")
        if not name and getattr(self.spec.config_of("RELAY"), "hold_dir", None):
            raise ConfigError("with RELAY's hold_dir a member needs a name that stays the same: its folder's")
        self.name = checked_name(name, "a member's name") if name else default_name()
        self.send_timeout: float | None = SEND_SECONDS
        self.max_message_bytes = max_message_bytes(self.spec)
        self._status = ChannelStatus()
        self._discard_own = False
        self._observer: MessageObserver | None = None
        self._interest = interest_of(self.spec)
        self._untils: dict[str, Until] = {}                  # what `until` means, of words that were checked
        self.receipts = Receipts(self.site)                  # for building blocks
        self.blocks: tuple[Block, ...] = (self.receipts,)    # as they were attached
        self.receiver = receiver

    # --- properties -------------------------------------------------------------------------------------------------

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
        return self._status.state

    @property
    def closed_because(self) -> str:
        """Why the channel closed by itself; "" while it has not."""
        return self._status.closed_because

    @property
    def address(self) -> Address | None:
        """This member's address in the group; None while not connected. Every connect gives a new one."""
        session = self._session
        return None if session is None else session.address

    @property
    def cluster(self) -> str | None:
        """The name of the group; None while not connected."""
        return None if self._session is None else self._session.cluster

    @property
    def view(self) -> View | None:
        """The view in which the messages that are being delivered now were sent; None while not connected."""
        return self._status.view

    @property
    def me(self) -> Address:
        """`address`, for code that runs while connected.

        Raises:
            NotConnectedError, ChannelClosedError: this member has none.
        """
        address = self.address
        if address is None:
            raise self._status.not_connected_error()
        return address

    @property
    def members(self) -> tuple[Address, ...]:
        """The members of `view`, the coordinator first; empty while not connected."""
        view = self.view
        return () if view is None else view.members

    @property
    def others(self) -> tuple[Address, ...]:
        """The members of `view` but this one."""
        me = self.address
        return tuple([member for member in self.members if member != me])

    @property
    def coordinator(self) -> Address | None:
        """The first member of `view`; None while not connected."""
        view = self.view
        return None if view is None else view.coordinator

    @property
    def is_coordinator(self) -> bool:
        """Whether this is the first member of the view."""
        view = self.view
        return view is not None and view.coordinator == self.address

    @property
    def site(self) -> str | None:
        """With RELAY: the name of this member's site."""
        relay = self.spec.config_of("RELAY")
        return None if relay is None else str(relay.site)

    @property
    def sites(self) -> dict[str, str]:
        """With RELAY: other site -> "UP", "DOWN" or "OFFLINE"."""
        return dict(self._status.sites)

    @property
    def global_view(self) -> GlobalView | None:
        """With RELAY: the members of all sites; None until it is known."""
        return self._status.global_view

    def _waited_enough(self, members: int) -> bool:
        """Whether `wait_for(members)` need not wait any more: they are there, or the connection is gone."""
        return len(self.members) >= members or self._status.state is not ChannelState.CONNECTED

    def _awaited_view(self, members: int, timeout: float | None) -> View:
        """What `wait_for` returns or raises when it has waited."""
        view, status = self.view, self._status
        if view is None or status.state is not ChannelState.CONNECTED:
            raise status.not_connected_error()
        if len(view.members) < members:
            raise MembersTimeoutError(f"{len(view.members)} of {members} members were in the view of {self.cluster!r} "
                                      f"after {timeout:g} s: {', '.join(map(str, view.members))}")
        return view

    def _check_wait(self, members: object, inside: bool) -> None:
        """Refuse a `wait_for` that makes no sense.

        Raises:
            TypeError, ValueError, ChannelError, NotConnectedError, ChannelClosedError.
        """
        if not isinstance(members, int):
            raise TypeError(f"wait_for takes the number of members, not {type(members).__name__}")
        if members < 1:
            raise ValueError(f"wait_for(members={members}): a connected channel has 1 member at least")
        if self._status.state is not ChannelState.CONNECTED:
            raise self._status.not_connected_error()
        if inside:
            raise ChannelError("inside a callback of this channel its view does not change; use on_view")

    def _check_forget(self, forget: bool) -> None:
        """Refuse close(forget=True) where there are no other sites.

        Raises:
            ValueError: the stack has no RELAY.
        """
        if forget and self.site is None:
            raise ValueError("close(forget=True) needs RELAY in the stack: it ends what other sites hold for this one")

    def __str__(self) -> str:
        return f"{self.name}@{self.cluster or '-'} ({self.state})"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    # --- for building blocks ----------------------------------------------------------------------------------------

    def attach(self, block: Block) -> None:
        """Add a building block; it stays for all connections of this channel."""
        self.blocks = (*self.blocks, block)
        if self._session is not None:
            self._session.attach(block)

    def observe(self, observer: MessageObserver | None) -> None:
        """Tell `observer` of the application's messages from now on, over all connections; None: nobody any more.

        Raises:
            ChannelError: the channel has another one.
        """
        if observer is not None and self._observer is not None:
            raise ChannelError("the channel has an observer of its messages already; end it first")
        session = self._session
        self._observer = observer
        self.watch(observer is not None and observer.watching)
        if session is not None:
            session.sends.count_down(observer)
            session.dispatcher.observer = observer
            self._receiver_changed()

    def _passes(self, payload: bytes) -> bool:
        """Whether a plain message passes the observer, and has taken the intake, which was closed or had no room."""
        observer, session, status = self._observer, self._session, self._status
        if observer is None or session is None or (status.watched and observer.wants()):
            return False
        intake = status.passing
        left = intake.left - len(payload)
        if left <= 0 and session.sends.uncounted:
            session.sends.renew()
            left = intake.left - len(payload)
        if left <= 0:
            return False
        intake.append(payload)
        intake.left = left - MESSAGE_COST
        return not intake.attend or intake.tell(payload)

    def _asking(self) -> MessageObserver | None:
        """The observer, if its `sending` is to be called for a send that takes the long way."""
        observer, session = self._observer, self._session
        if observer is not None and session is not None and session.sends.uncounted:
            session.sends.renew()                            # first what was sent before is counted
        return observer if observer is not None and observer.asks() else None

    def watch(self, watched: bool) -> None:
        """For the observer, from any thread: whether it is asked about each message, or about those in its turn."""
        self._status.switch(watched=watched)

    def connection(self) -> Session:
        """The connection to the group, of which a building block uses what `Connection` has.

        Raises:
            NotConnectedError, ChannelClosedError: there is none.
        """
        status = self._status
        if status.session is None or status.state is not ChannelState.CONNECTED:
            raise status.not_connected_error()
        return status.session

    def work_until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        """Run the channel's rounds until `holds()`, if no other thread does, instead of blocking while one waits.

        timeout: seconds, None: for ever. It may return earlier, even at once: the caller checks its condition again,
        and blocks as it would without this.
        """

    def check_size(self, nbytes: int) -> None:
        """Check that a payload of this size can be sent.

        Raises:
            ValueError: it is too large.
        """
        if nbytes > self.max_message_bytes:
            why = "" if self.spec.config_of("FRAG") else "; the stack has no FRAG, so a message must fit one frame"
            raise ValueError(f"a payload of {nbytes} bytes exceeds the limit of {self.max_message_bytes} bytes "
                             f"({show_size(self.max_message_bytes)}){why}")

    # --- sending ----------------------------------------------------------------------------------------------------

    def _interest_changed(self, change: Event) -> None:
        session = self._session
        if session is not None:
            session.host.change_interest(change)

    def _checked_parts(
        self, dest: Address | Message | Payload | None, payload: Any, flags: int, headers: Mapping[int, bytes] | None,
        topic: str | int | None,
    ) -> tuple[Address | None, bytes, int, tuple[Header, ...]]:
        """The arguments of `send`, checked: destination, payload, flags and headers."""
        if dest is not None and not isinstance(dest, Address):
            if payload is not None:
                raise TypeError(f"a destination is an Address, or None for all members, not {type(dest).__name__}; a "
                                "payload alone goes to all")
            if isinstance(dest, Message):
                message, dest = dest, dest.dest
                payload, flags = message.payload, (Flag.bits(flags) if flags else 0) | message._flags
                headers = {**message.headers, **(headers or {})}
                topic = message.topic if topic is None else topic
                check_destination(dest)
            else:
                dest, payload = None, as_bytes(dest)
        data = payload if payload.__class__ is bytes else as_bytes(payload)
        if len(data) > self.max_message_bytes:
            self.check_size(len(data))                       # raises
        return dest, data, Flag.bits(flags) if flags else 0, self._wire_headers(headers, topic, dest)

    def _wire_headers(
        self, headers: Mapping[int, bytes] | None, topic: str | int | None, dest: Address | None,
    ) -> tuple[Header, ...]:
        """The application's headers and the header of the topic, as the stack carries them."""
        wired = wire_headers(headers) if headers else ()
        return wired if topic is None else (*wired, self._topic_header(topic, dest))

    def _all_bytes(self, dest: Address | None, payloads: Iterable[Any], flags: int) -> list[bytes]:
        check_destination(dest)
        if isinstance(flags, int) and flags & RSVP:
            raise ValueError("send_batch has no receipt (RSVP): send the last message by itself, with it")
        found = list(payloads)
        if not set(map(type, found)) <= PLAIN:
            found = [payload if payload.__class__ is bytes else as_bytes(payload) for payload in found]
        self.check_size(max(map(len, found), default=0))
        return found

    def checked_until(self, until: str | Iterable[str] | None, dest: Address | None, flags: int) -> Until:
        """What a send with `until`, or with the flag RSVP, waits for, checked.

        Raises:
            ValueError: the stack cannot answer it, or there is no receipt for such a message. UnknownSiteError.
        """
        if until.__class__ is str and not flags & (RSVP | NO_RELIABILITY) and dest is None:
            known = self._untils.get(until)
            if known is not None:
                return known
        relay = self.spec.config_of("RELAY")
        own = self.site
        if flags & RSVP:
            words = () if until is None else (until,) if isinstance(until, str) else tuple(until)
            until = tuple(dict.fromkeys((*words, HANDLED)))
        assert until is not None, "called for sends with a receipt"
        orders = any(layer.name == TOTAL for layer in self.spec.layers)
        found = until_of(until, own, self._status.sites, orders=orders)
        check_message(dest, flags, found.sites, own, relay is not None and relay.relay_multicasts)
        if own is None and isinstance(until, str):           # with RELAY its meaning depends on the sites of the moment
            self._untils[until] = found
        return found

    def _check_handled(self, until: Until, inside: bool) -> None:
        """Refuse to wait inside a callback for its own return."""
        if until.handled and inside:
            raise ChannelError("inside a callback of this channel, 'handled' would wait for the return of that "
                               "callback; use wait=False, or wait elsewhere")

    def inject(self, event: Event) -> None:
        """Pass an event down the stack, in order with the messages: for fault layers and tools."""
        self.connection().sends.put_event(event, 0, None)

    def _receiver_changed(self) -> None:
        if self._session is not None:
            self._session.dispatcher.set_receiver(self._receiver)

    # --- the course of a session ------------------------------------------------------------------------------------

    @property
    def _session(self) -> Session | None:
        return self._status.session

    def _begin(self, cluster: str, changed: Callable[[], None], new_host: NewHost) -> Session:
        status = self._status
        if not checked_name(cluster, "a cluster's name"):
            raise ValueError("a cluster has a name")
        if status.state is ChannelState.CLOSED:
            raise status.not_connected_error()
        if status.state is not ChannelState.OPEN:
            raise ChannelError(f"the channel is {status.state} already")
        status.state = ChannelState.CONNECTING
        status.sites, status.view, status.global_view = {}, None, None
        try:
            session = Session(self.spec, cluster, self.name, status, changed, new_host)
        except BaseException:
            status.state = ChannelState.OPEN
            raise
        session.dispatcher.discard_own = self._discard_own
        session.dispatcher.on_unhandled = self.receipts.failed
        session.dispatcher.observer = self._observer
        session.dispatcher.set_receiver(self._receiver)
        session.sends.open_intake(self.max_message_bytes)
        session.sends.count_down(self._observer)
        for block in self.blocks:
            session.attach(block)
        status.session = session
        return session

    def _join_failure(self, session: Session, timeout: float) -> ChannelError:
        if not session.ended:
            return JoinTimeoutError(f"{self.name} found no group {session.cluster!r} and founded none within "
                                    f"{timeout:g} s")
        if session.dispatcher.unrequested:
            return ChannelError(f"{self.name} cannot join {session.cluster!r}: {session.reason}")
        return ChannelClosedError(self._status.closed_because or "the channel was closed while it was connecting")
