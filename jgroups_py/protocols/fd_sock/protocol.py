"""FD_SOCK: a ring of TCP connections; a process that dies breaks the one to it, and is suspected at once.

Watching: each member holds a link to the listener of the next member in the view. A link that breaks is opened once
more. If the connection is refused, or another process listens there, the watched process is gone (certain); if there
is no answer at all, the suspicion needs to be verified. A certain suspect is skipped in the ring, so that neighbours
that die together are found one after the other. A member that leaves closes its link gracefully and is suspected only
if it is still in the view GOODBYE_NS later.

Reporting: only one member watches each, so a suspicion is multicast, and repeated until the view changes. A member that
receives a certain suspicion opens a link of its own to the suspect: only what a member has seen itself is certain for
it; otherwise one false report could exclude any member.

Listeners: members announce where they listen when they meet in a view (HereIs), since a member's knowledge of its
neighbour dies with it. A neighbour whose listener is not known is asked (WhereIs); if it does not answer, all members
are asked (WhoKnows), since it may have died after it had announced its listener to some of them only.

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
from jgroups_py.model.outputs import CloseLink, Listen, OpenLink
from jgroups_py.model.ports import AddressBook
from jgroups_py.model.units import count, duration, host, millis, seconds, text
from jgroups_py.stack.protocol import Protocol, on, receives, timer
from jgroups_py.wire import field

FD_SOCK_ID = 5
ASK_NS = millis(250)             # between two questions to a neighbour where it listens
GOODBYE_NS = seconds(2)          # how long a member that leaves may still be in the view
FEW = 2                          # up to so many members get HereIs by unicast rather than by multicast
RETRY_NS = seconds(1)            # until a neighbour that could not be reached is tried again
RESET_RETRY_NS = millis(20)      # until a link that was reset at once is tried again
MAX_NON_MEMBERS = 1000           # so many listeners of non-members are kept: they may join
MAX_RESETS = 5                   # after so many resets in a row the neighbour is suspected


@wire.header(proto=FD_SOCK_ID, kind=1)
class WhereIs(Header):
    """Asks the receiver where it listens."""


@wire.header(proto=FD_SOCK_ID, kind=2)
class HereIs(Header):
    """The sender listens at `physical`."""

    physical: PhysicalAddress = field(wire.PHYSICAL)


@wire.header(proto=FD_SOCK_ID, kind=3)
class SuspicionHeader(Header):
    """To all: the link to these members broke. certain: their processes are gone; each receiver verifies that."""

    members: tuple[Address, ...] = field(wire.sequence(wire.ADDRESS))
    certain: bool = field(wire.BOOL)


@wire.header(proto=FD_SOCK_ID, kind=4)
class WhoKnows(Header):
    """To all: where does `member`, which does not answer, listen?"""

    member: Address = field(wire.ADDRESS)


@wire.header(proto=FD_SOCK_ID, kind=5)
class ThereIs(Header):
    """Answer to WhoKnows: `member` announced that it listens at `physical`."""

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
                              "NAT.")
    external_port: int = count(0, most=65535, doc="The port given to other members, for a proxy or NAT; 0: the "
                               "bound one.")
    connect_timeout_ns: int = duration(
        "1s", least="1ms", name="sock_conn_timeout", also=("connect_timeout",), doc="How long opening a link may "
        "take. Lower finds dead hosts sooner, higher spares slow networks.")
    repeat_ns: int = duration(
        "1s", least="1ms", name="suspect_msg_interval", also=("suspect_interval",), doc="How often a suspicion is "
        "repeated until the view changes.")
    ask_times: int = count(8, least=1, name="where_is_tries", doc="How often, each 250 ms, a neighbour is asked where "
                           "it listens before its silence is a suspicion (which is verified).")


class FdSock(Protocol):
    """Watches the next member of the ring, and verifies what other members report of theirs."""

    control_only = True
    Config = FdSockConfig
    config: FdSockConfig
    needs = {"addresses": AddressBook}
    addresses: AddressBook
    COUNTERS = declare(
        counter("suspected", "How often a neighbour was reported to the group."),
        counter("checked", "Members accused by others that we connected to in order to see for ourselves."),
        counter("accusations_refuted", "Of these, how many were there after all."),
        counter("accused_ourselves", "Accusations that name this member, or a process outside the view."),
        counter("asked_others", "How often all members were asked where a silent neighbour listens."),
        drop("places_of_strangers_dropped", "Listening places of non-members that were not kept: there were too many."),
        drop("accusers_outside_view", "Accusations by a process outside the view."),
    )

    def start(self) -> None:
        self.members: tuple[Address, ...] = ()
        self.listener: PhysicalAddress | None = None
        self.askers: dict[Address, None] = {}          # members that asked before our listener was open
        self.neighbour: Address | None = None
        self.places: dict[Address, PhysicalAddress] = {}   # member -> where it listens, as it announced
        self.numbers = 0                               # links opened so far
        self.link: int | None = None                   # the number of the current link
        self.is_up = False                             # the current link is established
        self.opened_ns = 0                             # when the current link was last tried
        self.resets = 0                                # attempts reset at once since the link was last established
        self.asked = 0                                 # questions sent to the neighbour
        self.gone: dict[Address, None] = {}            # certain suspects in the view, all verified by this member
        self.witnessed: dict[Address, None] = {}       # those of them that this member watched, and reports
        self.checks: dict[int, Address] = {}           # link -> the reported suspect that it verifies
        self.checked_ns: dict[Address, int] = {}       # suspect -> when it was last verified
        self.leaving: dict[Address, None] = {}         # members that closed their link gracefully

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        mine = self.addresses.my_physical()
        host = self.config.bind_addr or (mine[0] if mine is not None else "")
        self.emit(Listen(self.stack.net, host, self.config.start_port, self.config.port_range))

    @on(Listening)
    def listening(self, event: Listening) -> None:
        host, port = event.physical
        self.listener = self.config.external_addr or host, self.config.external_port or port
        self.announce(tuple(self.askers))
        self.askers.clear()
        if len(self.members) > 1:
            self.announce(self.members)

    def announce(self, members: tuple[Address, ...]) -> None:
        """Send HereIs to `members`, so that they need not ask when this process is gone already."""
        if self.listener is None:
            return
        others = [member for member in members if member != self.me]
        if len(others) > FEW:
            self.send(HereIs(self.listener), None)
        else:
            for member in others:
                self.send(HereIs(self.listener), member)

    # --- the ring -----------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.members = event.view.members
        self.gone = {member: None for member in self.gone if member in self.members}
        self.witnessed = {member: None for member in self.witnessed if member in self.members}
        self.leaving = {member: None for member in self.leaving if member in self.members}
        self.places = {member: place for member, place in self.places.items() if member in self.members}
        self.checked_ns = {member: at_ns for member, at_ns in self.checked_ns.items() if member in self.members}
        self.stop_checks()
        new = self.members if self.me in event.joined else event.joined
        # Later: layers below must have installed the view before they carry a message to its members.
        self.later(lambda: self.announce(new))
        self.later(self.choose)

    @on(Left)
    def left(self, event: Left) -> None:
        self.members = ()
        self.stop_checks()
        self.choose()
        self.cancel_timer("repeat")

    def next_member(self) -> Address | None:
        """The next member after this one in the ring that is neither gone nor leaving."""
        if self.me not in self.members:
            return None
        at = self.members.index(self.me)
        ring = self.members[at + 1:] + self.members[:at]
        return next((m for m in ring if m not in self.gone and m not in self.leaving), None)

    def choose(self) -> None:
        """Link to the next member, unless it is the one that is watched already."""
        neighbour = self.next_member()
        if neighbour == self.neighbour:
            return
        if self.link is not None:
            self.emit(CloseLink(self.stack.net, self.link))
        self.neighbour, self.link, self.is_up = neighbour, None, False
        self.resets = 0
        self.cancel_timer("ask")
        self.cancel_timer("find")
        self.cancel_timer("again")
        if neighbour in self.places:
            self.connect()
        elif neighbour is not None:
            self.find()

    @timer("find")
    def find(self) -> None:
        """Ask the neighbour where it listens."""
        self.asked = 0
        if self.link is None:
            self.ask()

    @timer("ask")
    def ask(self) -> None:
        if self.neighbour is None:
            return
        if self.asked >= self.config.ask_times:
            self.asked = 0
            self.suspect(self.neighbour, certain=False)
        self.asked += 1
        self.send(WhereIs(), self.neighbour)
        if self.asked > 1 and len(self.members) > FEW:
            self.count("asked_others")
            self.send(WhoKnows(self.neighbour), None)
        self.set_timer("ask", ASK_NS)

    @receives(WhereIs)
    def where(self, header: WhereIs, batch: Batch) -> None:
        if self.listener is None:
            self.askers[batch.src] = None
        else:
            self.send(HereIs(self.listener), batch.src)

    @receives(HereIs)
    def here(self, header: HereIs, batch: Batch) -> None:
        self.learn(batch.src, header.physical, batch)         # also of a non-member, which may be in the next view

    @receives(WhoKnows)
    def who_knows(self, header: WhoKnows, batch: Batch) -> None:
        if header.member in self.places:
            self.send(ThereIs(header.member, self.places[header.member]), batch.src)

    @receives(ThereIs)
    def there(self, header: ThereIs, batch: Batch) -> None:
        if batch.src in self.members and header.member == self.neighbour and header.member not in self.places:
            self.learn(header.member, header.physical, batch)

    def learn(self, member: Address, place: PhysicalAddress, batch: Batch) -> None:
        """Record where a member listens; link to it if it is the neighbour and there is no link yet."""
        most = len(self.members) + MAX_NON_MEMBERS             # of the view, and of some that may be in the next one
        if member not in self.members and member not in self.places and len(self.places) >= most:
            return self.drop("places_of_strangers_dropped", batch, "too many places of non-members are kept")
        self.places[member] = place
        if member == self.neighbour and self.link is None:
            self.cancel_timer("ask")
            self.cancel_timer("find")
            self.connect()
        return None

    # --- the link -----------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        assert self.neighbour is not None
        self.numbers += 1
        self.link, self.is_up, self.opened_ns = self.numbers, False, self.now_ns
        place = self.places[self.neighbour]
        self.emit(OpenLink(self.stack.net, self.link, place, self.config.connect_timeout_ns))

    @on(LinkUp)
    def link_up(self, event: LinkUp) -> None:
        if event.link in self.checks:
            return self.check_up(event)
        if event.link != self.link or self.neighbour is None:
            return None
        if event.peer == self.neighbour.raw:
            self.is_up, self.resets = True, 0
        else:
            self.emit(CloseLink(self.stack.net, self.link))
            self.link = None
            self.suspect(self.neighbour, certain=True)     # another process has taken its port, so it is gone
        return None

    @on(LinkDown)
    def link_down(self, event: LinkDown) -> None:
        if event.link in self.checks:
            return self.check_down(event)
        if event.link != self.link or self.neighbour is None:
            return None
        broke, self.link, self.is_up = self.is_up, None, False
        if event.graceful:
            self.leaving[self.neighbour] = None
            self.set_timer("goodbye", GOODBYE_NS, self.neighbour)
            self.choose()
        elif event.refused:
            self.suspect(self.neighbour, certain=True)
        elif broke:
            self.connect()
        elif self.resets < MAX_RESETS and self.now_ns - self.opened_ns < self.config.connect_timeout_ns:
            # A dying process closes its links before its listener, so the system may accept and reset for a moment.
            # The next attempt is refused, which is certain; suspecting now would need a verification.
            self.resets += 1
            self.set_timer("again", RESET_RETRY_NS)
        else:
            self.set_timer("find", RETRY_NS)
            self.suspect(self.neighbour, certain=False)
        return None

    @timer("goodbye")
    def overstayed(self, member: Address) -> None:
        if member in self.leaving:
            self.suspect(member, certain=True)

    @timer("again")
    def again(self) -> None:
        if self.neighbour is not None and self.link is None and self.neighbour in self.places:
            self.connect()

    # --- suspicions ---------------------------------------------------------------------------------------------------

    def suspect(self, member: Address, certain: bool) -> None:
        """Report a suspicion to all members and upwards; a certain one is repeated until the view changes."""
        self.count("suspected")
        self.send(SuspicionHeader((member,), certain), None)
        self.pass_up(Suspect((member,), certain))
        if certain:
            self.gone[member] = self.witnessed[member] = None
            self.set_timer("repeat", self.config.repeat_ns)
            self.choose()

    @timer("repeat")
    def repeat(self) -> None:
        if self.witnessed:
            self.send(SuspicionHeader(tuple(self.witnessed), True), None)
            self.pass_up(Suspect(tuple(self.witnessed), True))
            self.set_timer("repeat", self.config.repeat_ns)

    @receives(SuspicionHeader)
    def suspicion(self, header: SuspicionHeader, batch: Batch) -> None:
        if batch.src not in self.members:
            return self.drop("accusers_outside_view", batch, "its source is not in our view", header)
        suspects = tuple(member for member in header.members if member in self.members and member != self.me)
        if len(suspects) < len(header.members):
            self.count("accused_ourselves")
        if header.certain:
            for member in suspects:
                self.check(member)
        elif suspects:
            self.pass_up(Suspect(suspects))            # VERIFY_SUSPECT verifies it
        return None

    # --- verifying what others report ---------------------------------------------------------------------------------

    def check(self, member: Address) -> None:
        """Open a link to a member that another one reports as gone, at most twice in a `suspect_msg_interval`.

        Without its listener the suspicion goes to VERIFY_SUSPECT as one that another member raised.
        """
        if member in self.gone:
            return self.pass_up(Suspect((member,), certain=True))
        if member not in self.places:
            return self.pass_up(Suspect((member,), accused=True))
        before_ns = self.checked_ns.get(member)
        if before_ns is None or self.now_ns - before_ns >= self.config.repeat_ns // 2:
            self.count("checked")
            self.checked_ns[member] = self.now_ns
            self.numbers += 1
            self.checks[self.numbers] = member
            self.emit(OpenLink(self.stack.net, self.numbers, self.places[member], self.config.connect_timeout_ns))
        return None

    def check_up(self, event: LinkUp) -> None:
        """The suspect lives if it answered itself; if another process did, it is gone."""
        member = self.checks.pop(event.link)
        self.emit(CloseLink(self.stack.net, event.link))
        if event.peer == member.raw:
            self.count("accusations_refuted")
        else:
            self.is_gone(member)

    def check_down(self, event: LinkDown) -> None:
        """The suspect is gone if the link was refused; without any answer VERIFY_SUSPECT has to find out."""
        member = self.checks.pop(event.link)
        if event.refused:
            self.is_gone(member)
        else:
            self.pass_up(Suspect((member,), accused=True))

    def is_gone(self, member: Address) -> None:
        """Pass up a suspicion that this member has verified; it is the watching member that repeats it to all."""
        self.gone[member] = None
        self.pass_up(Suspect((member,), certain=True))
        self.choose()

    def stop_checks(self) -> None:
        """Close the links that verify suspicions of members outside the view."""
        for link in [link for link, member in self.checks.items() if member not in self.members]:
            del self.checks[link]
            self.emit(CloseLink(self.stack.net, link))
