"""FD_SOCK: a ring of TCP connections; a process that dies breaks the one to it, and is suspected at once.

Monitoring: each member holds a link to the listener of the next member in the view. A link that breaks is opened once
more. If the connection is refused, or another process listens there, the monitored process is gone (certain); if there
is no answer at all, the suspicion needs to be verified. A certain suspect is skipped in the ring, so that neighbours
that die together are found one after the other. A member that leaves closes its link gracefully, and is suspected only
if it is still in the view LEAVE_NS later.

Reporting: only one member monitors each, so a suspicion is multicast, and repeated until the view changes. A member
that receives a certain suspicion opens a link of its own to the suspect: only what a member has detected itself is
certain for it; otherwise one false report could exclude any member.

Listeners: members announce their listeners to each other when they meet in a view (ListenerAddress): a listener that is
known only to the process that died cannot be checked. A neighbour whose listener is unknown gets a request
(ListenerRequest); if it does not answer, all members do (ListenerLookup), since it may have died after it had announced
its listener to some of them only.

With ENCRYPT: links are not sealed, so whoever reaches a listener, or is on the path, can refuse, break, answer or end
them. Then nothing that a link shows is certain: it is a suspicion, which VERIFY_SUSPECT verifies by sealed frames. A
neighbour is monitored again until the view changes, also one whose link was closed gracefully.

Place: above the transport, below VERIFY_SUSPECT. Source: JGroups FD_SOCK2.java. Deviation: any free port, announced by
its owner, instead of a port computed from the transport's, so that nothing has to be configured.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare, drop
from jgroups_py.model.events import Connect, Left, LinkDown, LinkUp, Listening, Suspect, ViewChange
from jgroups_py.model.outputs import CloseLink, Listen, MemberGone, OpenLink
from jgroups_py.model.outputs.base import LOCAL
from jgroups_py.model.ports import AddressBook, FrameSealer
from jgroups_py.model.units import count, duration, host, millis, seconds, text
from jgroups_py.stack.protocol import Protocol, on, receives, timer
from jgroups_py.wire import field

FD_SOCK_ID = 5
REQUEST_NS = millis(250)         # between two requests for the address of a neighbour's listener
LEAVE_NS = seconds(2)            # how long a member that leaves may still be in the view
FEW = 2                          # up to so many members get ListenerAddress by unicast rather than by multicast
RETRY_NS = seconds(1)            # until a link that could not be opened is tried again
RESET_RETRY_NS = millis(20)      # until a link that was reset at once is tried again
MAX_NON_MEMBERS = 1000           # so many listeners of non-members are kept: they may join
MAX_RESETS = 5                   # after so many resets in a row the neighbour is suspected


@wire.header(proto=FD_SOCK_ID, kind=1)
class ListenerRequest(Header):
    """Requests the address of the receiver's listener; it answers ListenerAddress."""


@wire.header(proto=FD_SOCK_ID, kind=2)
class ListenerAddress(Header):
    """The source's listener is at `physical`."""

    physical: PhysicalAddress = field(wire.PHYSICAL)


@wire.header(proto=FD_SOCK_ID, kind=3)
class SuspicionHeader(Header):
    """To all: the source suspects these members. certain: it detected that they are gone; each receiver verifies it."""

    members: tuple[Address, ...] = field(wire.sequence(wire.ADDRESS))
    certain: bool = field(wire.BOOL)


@wire.header(proto=FD_SOCK_ID, kind=4)
class ListenerLookup(Header):
    """To all: requests the address of the listener of `member`, which does not answer itself."""

    member: Address = field(wire.ADDRESS)


@wire.header(proto=FD_SOCK_ID, kind=5)
class ListenerLookupReply(Header):
    """Answer to ListenerLookup: `member` announced its listener at `physical`."""

    member: Address = field(wire.ADDRESS)
    physical: PhysicalAddress = field(wire.PHYSICAL)


@attrs.frozen
class FdSockConfig:
    """The properties of FD_SOCK."""

    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("offset", "min_port", "max_port", "client_bind_port", "client_bind_addr", "client_port_range",
         "num_tries", "get_cache_timeout", "keep_alive", "sock_conn_timeout_retries", "linger", "connect_attempts",
         "use_mcast", "log_details", "port_map_timeout", "cache_max_age", "cache_max_elements"),
        "a listener takes any free port of the transport's interface and announces it")

    bind_addr: str = text("", doc="Interface to listen on; empty: the transport's.")
    start_port: int = count(0, most=65535, also=("bind_port",), doc="First port to try; 0: any free one.")
    port_range: int = count(50, doc="How many more ports above start_port are tried.")
    external_addr: str = host("", doc="The address given to other members in place of bind_addr, for a proxy or "
                              "NAT; empty: the transport's.")
    external_port: int = count(0, most=65535, doc="The port given to other members, for a proxy or NAT; 0: the "
                               "bound one.")
    connect_timeout_ns: int = duration(
        "1s", least="1ms", name="sock_conn_timeout", also=("connect_timeout",), doc="How long opening a link may "
        "take. Lower finds dead hosts sooner, higher spares slow networks.")
    repeat_ns: int = duration(
        "1s", least="1ms", name="suspect_msg_interval", also=("suspect_interval",), doc="How often a suspicion is "
        "repeated until the view changes.")
    max_requests: int = count(8, least=1, name="listener_requests", doc="How many requests, each 250 ms, for the "
                              "address of its listener a neighbour may leave unanswered before it is suspected (which "
                              "is verified).")


class FdSock(Protocol):
    """Monitors the next member of the ring, and verifies the suspicions that other members report."""

    control_only = True
    Config = FdSockConfig
    config: FdSockConfig
    needs = {"addresses": AddressBook}
    addresses: AddressBook
    COUNTERS = declare(
        counter("suspected", "How often a neighbour was reported to the group."),
        counter("verified", "Links opened to members that another member reported as gone, to verify it."),
        counter("refuted", "Of these, how many members were alive."),
        counter("suspicions_ignored", "Suspicions that name this member, or a process outside the view."),
        counter("lookups_sent", "How often all members got a request for the listener of a silent neighbour."),
        counter("unsure", "Suspicions that would be certain without ENCRYPT, and are verified instead, as links are "
                          "not sealed."),
        drop("non_member_listeners_dropped", "Listeners of non-members that were not kept: there were too many."),
        drop("non_member_suspicions_dropped", "Suspicions reported by a process outside the view."),
    )

    def start(self) -> None:
        self.links_prove = self.stack.find(FrameSealer) is None
        self.members: tuple[Address, ...] = ()
        self.listeners: dict[Address, PhysicalAddress] = {}  # member -> its listener, as it announced
        self.listener: PhysicalAddress | None = None   # this member's own
        self.requesters: dict[Address, None] = {}      # members that requested it before it was open
        self.last_link = 0                             # number of the last link that was opened
        # The neighbour: the next member of the ring, which this member monitors.
        self.neighbour: Address | None = None
        self.link: int | None = None                   # the number of the link to it
        self.is_up = False                             # that link is established
        self.opened_ns = 0                             # when that link was last opened
        self.resets = 0                                # how often it was reset at once since it was last established
        self.requests = 0                              # requests for its listener that it has not answered
        self.leaving: dict[Address, None] = {}         # members that closed their link gracefully
        # Suspicions.
        self.gone: dict[Address, None] = {}            # certain suspects in the view, all verified by this member
        self.reported: dict[Address, None] = {}        # those of them that this member monitored, and reports to all
        self.verifying: dict[int, Address] = {}        # link -> the member whose reported suspicion it verifies
        self.verified_ns: dict[Address, int] = {}      # member -> when such a link was last opened

    @on(Connect)
    def on_connect(self, event: Connect) -> None:
        self.emit(Listen(self.stack.net, self.config.bind_addr, self.config.start_port, self.config.port_range))

    @on(Listening)
    def on_listening(self, event: Listening) -> None:
        host, port = event.physical
        mine = self.addresses.my_physical()
        if mine is not None and not self.config.bind_addr:
            host = mine[0]                                   # what the transport tells: perhaps its external_addr
        self.listener = self.config.external_addr or host, self.config.external_port or port
        self.announce(tuple(self.requesters))
        self.requesters.clear()
        if len(self.members) > 1:
            self.announce(self.members)

    def announce(self, members: tuple[Address, ...]) -> None:
        """Send this member's listener to `members` now: when they need it, this process may be gone."""
        if self.listener is None:
            return
        others = [member for member in members if member != self.me]
        if len(others) > FEW:
            self.send(ListenerAddress(self.listener), None)
        else:
            for member in others:
                self.send(ListenerAddress(self.listener), member)

    # --- the ring -----------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.members = event.view.members
        self.gone = {member: None for member in self.gone if member in self.members}
        self.reported = {member: None for member in self.reported if member in self.members}
        self.leaving = {member: None for member in self.leaving if member in self.members}
        self.listeners = {member: place for member, place in self.listeners.items() if member in self.members}
        self.verified_ns = {member: at_ns for member, at_ns in self.verified_ns.items() if member in self.members}
        self.stop_verifying_non_members()
        new = self.members if self.me in event.joined else event.joined
        # Later: layers below must have installed the view before they carry a message to its members.
        self.later(lambda: self.announce(new))
        self.later(self.choose_neighbour)

    @on(Left)
    def on_left(self, event: Left) -> None:
        self.members = ()
        self.stop_verifying_non_members()
        self.choose_neighbour()
        self.cancel_timer("repeat")

    def next_member(self) -> Address | None:
        """The next member after this one in the ring that is neither gone nor leaving."""
        if self.me not in self.members:
            return None
        at = self.members.index(self.me)
        ring = self.members[at + 1:] + self.members[:at]
        return next((m for m in ring if m not in self.gone and m not in self.leaving), None)

    def choose_neighbour(self) -> None:
        """Open a link to the next member of the ring, unless it is monitored already."""
        neighbour = self.next_member()
        if neighbour == self.neighbour:
            return
        if self.link is not None:
            self.emit(CloseLink(self.stack.net, self.link))
        self.neighbour, self.link, self.is_up = neighbour, None, False
        self.resets = 0
        self.cancel_timer("request")
        self.cancel_timer("find")
        self.cancel_timer("reopen")
        if neighbour in self.listeners:
            self.open_link()
        elif neighbour is not None:
            self.find_listener()

    @timer("find")
    def find_listener(self) -> None:
        """Begin to request the address of the neighbour's listener."""
        self.requests = 0
        if self.link is None:
            self.request_listener()

    @timer("request")
    def request_listener(self) -> None:
        """Request it of the neighbour; after an unanswered request of all members, too; after too many suspect it."""
        if self.neighbour is None:
            return
        if self.requests >= self.config.max_requests:
            self.requests = 0
            self.suspect(self.neighbour, certain=False)
        self.requests += 1
        self.send(ListenerRequest(), self.neighbour)
        if self.requests > 1 and len(self.members) > FEW:
            self.count("lookups_sent")
            self.send(ListenerLookup(self.neighbour), None)
        self.set_timer("request", REQUEST_NS)

    @receives(ListenerRequest)
    def on_listener_request(self, header: ListenerRequest, batch: Batch) -> None:
        if self.listener is None:
            self.requesters[batch.src] = None
        else:
            self.send(ListenerAddress(self.listener), batch.src)

    @receives(ListenerAddress)
    def on_listener_address(self, header: ListenerAddress, batch: Batch) -> None:
        self.add_listener(batch.src, header.physical, batch)  # also of a non-member, which may be in the next view

    @receives(ListenerLookup)
    def on_listener_lookup(self, header: ListenerLookup, batch: Batch) -> None:
        if header.member in self.listeners:
            self.send(ListenerLookupReply(header.member, self.listeners[header.member]), batch.src)

    @receives(ListenerLookupReply)
    def on_listener_lookup_reply(self, header: ListenerLookupReply, batch: Batch) -> None:
        """Another member's knowledge counts only where this member has none: the owner's own announcement is newer."""
        if batch.src in self.members and header.member == self.neighbour and header.member not in self.listeners:
            self.add_listener(header.member, header.physical, batch)

    def add_listener(self, member: Address, place: PhysicalAddress, batch: Batch) -> None:
        """Record the listener of a member; open a link to it if it is the neighbour and there is no link yet."""
        most = len(self.members) + MAX_NON_MEMBERS             # of the view, and of some that may be in the next one
        if member not in self.members and member not in self.listeners and len(self.listeners) >= most:
            return self.drop("non_member_listeners_dropped", batch, "too many listeners of non-members are kept")
        self.listeners[member] = place
        if member == self.neighbour and self.link is None:
            self.cancel_timer("request")
            self.cancel_timer("find")
            self.open_link()
        return None

    # --- the link -----------------------------------------------------------------------------------------------------

    def open_link(self) -> None:
        assert self.neighbour is not None
        self.last_link += 1
        self.link, self.is_up, self.opened_ns = self.last_link, False, self.now_ns
        place = self.listeners[self.neighbour]
        self.emit(OpenLink(self.stack.net, self.link, place, self.config.connect_timeout_ns))

    @on(LinkUp)
    def on_link_up(self, event: LinkUp) -> None:
        if event.link in self.verifying:
            return self.on_verifying_link_up(event)
        if event.link != self.link or self.neighbour is None:
            return None
        if event.peer == self.neighbour.raw:
            self.is_up, self.resets = True, 0
        else:
            self.emit(CloseLink(self.stack.net, self.link))
            self.link = None
            self.suspect(self.neighbour, certain=True)     # another process listens at its port, so it is gone
        return None

    @on(LinkDown)
    def on_link_down(self, event: LinkDown) -> None:
        if event.link in self.verifying:
            return self.on_verifying_link_down(event)
        if event.link != self.link or self.neighbour is None:
            return None
        broke, self.link, self.is_up = self.is_up, None, False
        if event.graceful:
            self.leaving[self.neighbour] = None
            self.set_timer("leave", LEAVE_NS, self.neighbour)
            self.choose_neighbour()
        elif event.refused:
            self.suspect(self.neighbour, certain=True)     # its host runs, but no process listens at its port
        elif broke:
            self.open_link()                               # its process is gone, or only the connection is lost
        elif self.resets < MAX_RESETS and self.now_ns - self.opened_ns < self.config.connect_timeout_ns:
            # A dying process closes its links before its listener, so the system may accept and reset for a moment.
            # The next attempt is refused, which is certain; a suspicion raised now would have to be verified first.
            self.resets += 1
            self.set_timer("reopen", RESET_RETRY_NS)
        else:
            self.set_timer("find", RETRY_NS)
            self.suspect(self.neighbour, certain=False)
        return None

    @timer("leave")
    def suspect_leaver(self, member: Address) -> None:
        """It closed its link, but no view without it came: the group waits for a process that is gone."""
        if member in self.leaving:
            self.suspect(member, certain=True)
            if not self.links_prove:
                del self.leaving[member]               # its end may be forged: it is monitored again
                self.choose_neighbour()

    @timer("reopen")
    def reopen_link(self) -> None:
        if self.neighbour is not None and self.link is None and self.neighbour in self.listeners:
            self.open_link()

    # --- suspicions ---------------------------------------------------------------------------------------------------

    def suspect(self, member: Address, certain: bool) -> None:
        """Report a suspicion to all members, and pass it up; a certain one is repeated until the view changes."""
        self.count("suspected")
        if certain and not self.links_prove:
            self.count("unsure")
            certain = False
            self.set_timer("find", RETRY_NS)
        self.send(SuspicionHeader((member,), certain), None)
        self.pass_up(Suspect((member,), certain))
        if certain:
            self.reported[member] = None
            self.set_gone(member)
            self.set_timer("repeat", self.config.repeat_ns)
            self.choose_neighbour()

    @timer("repeat")
    def repeat(self) -> None:
        if self.reported:
            self.send(SuspicionHeader(tuple(self.reported), True), None)
            self.pass_up(Suspect(tuple(self.reported), True))
            self.set_timer("repeat", self.config.repeat_ns)

    @receives(SuspicionHeader)
    def on_suspicion(self, header: SuspicionHeader, batch: Batch) -> None:
        if batch.src not in self.members:
            return self.drop("non_member_suspicions_dropped", batch, "its source is not in the view", header)
        suspects = tuple(member for member in header.members if member in self.members and member != self.me)
        if len(suspects) < len(header.members):
            self.count("suspicions_ignored")
        if header.certain:
            for member in suspects:
                self.verify(member)
        elif suspects:
            self.pass_up(Suspect(suspects))            # VERIFY_SUSPECT verifies it
        return None

    # --- verifying what other members report --------------------------------------------------------------------------

    def verify(self, member: Address) -> None:
        """Open a link to a member that another one reports as gone, at most twice in a `suspect_msg_interval`.

        If its listener is unknown, VERIFY_SUSPECT verifies the suspicion, as one that another member raised.
        """
        if member in self.gone:
            return self.pass_up(Suspect((member,), certain=True))
        if member not in self.listeners:
            return self.pass_up(Suspect((member,), accused=True))
        before_ns = self.verified_ns.get(member)
        if before_ns is None or self.now_ns - before_ns >= self.config.repeat_ns // 2:
            self.count("verified")
            self.verified_ns[member] = self.now_ns
            self.last_link += 1
            self.verifying[self.last_link] = member
            self.emit(OpenLink(self.stack.net, self.last_link, self.listeners[member], self.config.connect_timeout_ns))
        return None

    def on_verifying_link_up(self, event: LinkUp) -> None:
        """The suspect is alive if it answered itself; if another process did, it is gone."""
        member = self.verifying.pop(event.link)
        self.emit(CloseLink(self.stack.net, event.link))
        if event.peer == member.raw:
            self.count("refuted")
        else:
            self.pass_up_certain(member)

    def on_verifying_link_down(self, event: LinkDown) -> None:
        """The suspect is gone if the link was refused; if there was no answer at all, VERIFY_SUSPECT has to verify."""
        member = self.verifying.pop(event.link)
        if event.refused:
            self.pass_up_certain(member)
        else:
            self.pass_up(Suspect((member,), accused=True))

    def pass_up_certain(self, member: Address) -> None:
        """Pass up a suspicion that this member has verified. The member that raised it repeats it to all."""
        if not self.links_prove:
            self.count("unsure")
            return self.pass_up(Suspect((member,), accused=True))
        self.set_gone(member)
        self.pass_up(Suspect((member,), certain=True))
        return self.choose_neighbour()

    def set_gone(self, member: Address) -> None:
        """Its process has ended, as this member has seen itself; of a member that only said goodbye that is not certain
        for building blocks."""
        if member not in self.gone:
            self.gone[member] = None
            if member not in self.leaving and self.stack.net == LOCAL:
                self.emit(MemberGone(member))

    def stop_verifying_non_members(self) -> None:
        """Close the links that verify suspicions of processes outside the view."""
        for link in [link for link, member in self.verifying.items() if member not in self.members]:
            del self.verifying[link]
            self.emit(CloseLink(self.stack.net, link))
