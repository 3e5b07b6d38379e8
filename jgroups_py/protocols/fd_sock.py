"""FD_SOCK: a ring of TCP connections; a process that dies breaks the one to it, and is suspected at once.

Each member holds a link to the listener of the next member in the view. A link that breaks is opened once more: if
nobody listens there any more, or somebody else does, the process is gone (certain); if there is no answer at all,
the suspicion needs to be verified. A suspicion is multicast, since only one member watches each, and repeated until
the view changes. Who is told of a certain one looks for itself, by a link of its own to the suspect: only what a member
sees itself is certain, or a single false word would exclude anybody. A certain suspect is skipped in the ring, so that
neighbours that die together are found one after the other. A member that leaves says goodbye and is only suspected if
it is still in the view a while later. Where they listen members tell each other when they meet (HereIs), since with a
member dies also its knowledge of the next one; a neighbour that is not known is asked (WhereIs), and if it does not
answer, all others are (WhoKnows): it may have died before it told, and only who knows where it listened finds out. Sits
above the transport, below VERIFY_SUSPECT.
Source: JGroups FD_SOCK2.java. Deviation: any free port, told by its owner, instead of a port computed from the
transport's, so that nothing has to be configured.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch, Header
from jgroups_py.events import Connect, Left, LinkDown, LinkUp, Listening, Suspect, ViewChange
from jgroups_py.outputs import CloseLink, Listen, OpenLink
from jgroups_py.ports import AddressBook
from jgroups_py.protocol import Protocol, on, receives, timer
from jgroups_py.units import count, duration, host, millis, seconds, text
from jgroups_py.wire import field

FD_SOCK_ID = 5
ASK_NS = millis(250)             # how often a neighbour is asked where it listens
GOODBYE_NS = seconds(2)          # how long a member that said goodbye may still be in the view
FEW = 2                          # so many members are told one by one rather than all at once
RETRY_NS = seconds(1)             # when a neighbour that could not be reached is tried again
RESET_RETRY_NS = millis(20)      # when a link that was reset at once is tried again
MAX_STRANGERS = 1000             # of so many that are not members is kept where they listen: they may join
MAX_RESETS = 5                   # after so many it is a suspicion like any other


@wire.header(proto=FD_SOCK_ID, kind=1)
class WhereIs(Header):
    """Where do you listen?"""


@wire.header(proto=FD_SOCK_ID, kind=2)
class HereIs(Header):
    """I listen there."""

    physical: PhysicalAddress = field(wire.PHYSICAL)


@wire.header(proto=FD_SOCK_ID, kind=3)
class Suspected(Header):
    """To all: the link to these members broke; certain: their processes are gone, see for yourselves."""

    members: tuple[Address, ...] = field(wire.sequence(wire.ADDRESS))
    certain: bool = field(wire.BOOL)


@wire.header(proto=FD_SOCK_ID, kind=4)
class WhoKnows(Header):
    """To all: where does this member listen? It does not answer."""

    member: Address = field(wire.ADDRESS)


@wire.header(proto=FD_SOCK_ID, kind=5)
class ThereIs(Header):
    """Answer to it: this member told that it listens there."""

    member: Address = field(wire.ADDRESS)
    physical: PhysicalAddress = field(wire.PHYSICAL)


@attrs.frozen
class FdSockConfig:
    """Where to listen, how long to wait."""

    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("offset", "min_port", "max_port", "client_bind_port", "client_bind_addr", "client_port_range",
         "num_tries", "get_cache_timeout", "keep_alive", "sock_conn_timeout_retries", "linger", "connect_attempts",
         "use_mcast", "log_details", "port_map_timeout", "cache_max_age", "cache_max_elements"),
        "a listener takes any free port of the transport's interface and tells its neighbour")

    bind_addr: str = text("", doc="Interface to listen on; empty: the transport's.")
    start_port: int = count(0, most=65535, also=("bind_port",), doc="First port to try; 0: any free one.")
    port_range: int = count(50, doc="How many more ports above start_port are tried.")
    external_addr: str = host("", doc="The address told to others in place of bind_addr, for a proxy or NAT.")
    external_port: int = count(0, most=65535, doc="The port told to others, for a proxy or NAT; 0: the bound one.")
    connect_timeout_ns: int = duration(
        "1s", least="1ms", name="sock_conn_timeout", also=("connect_timeout",), doc="How long opening a link may "
        "take. Lower finds dead hosts sooner, higher spares slow networks.")
    repeat_ns: int = duration(
        "1s", least="1ms", name="suspect_msg_interval", also=("suspect_interval",), doc="How often a suspicion is "
        "repeated until the view changes.")
    ask_times: int = count(8, least=1, name="where_is_tries", doc="How often, each 250 ms, a neighbour is asked where "
                           "it listens before its silence is a suspicion (which is verified).")


class FdSock(Protocol):
    """Watches the next member."""

    control_only = True
    Config = FdSockConfig
    config: FdSockConfig
    needs = {"addresses": AddressBook}
    addresses: AddressBook

    def start(self) -> None:
        self.members: tuple[Address, ...] = ()
        self.listener: PhysicalAddress | None = None
        self.askers: dict[Address, None] = {}          # who asked before the listener stood
        self.neighbour: Address | None = None
        self.places: dict[Address, PhysicalAddress] = {}   # where members listen, as far as they told
        self.numbers = 0                               # how many links were opened
        self.link: int | None = None                   # the number of the current link
        self.is_up = False                             # it stands
        self.opened_ns = 0                             # when the current link was last tried
        self.resets = 0                                # how often it broke at once since it last stood
        self.asked = 0                                 # how often the neighbour was asked
        self.gone: dict[Address, None] = {}            # certain suspects in the view, all found out by ourselves
        self.witnessed: dict[Address, None] = {}       # those of them that we watched, and tell others of
        self.checks: dict[int, Address] = {}           # link -> whom others accuse, and we look for
        self.checked_ns: dict[Address, int] = {}       # when we looked for it last
        self.leaving: dict[Address, None] = {}         # who said goodbye

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        mine = self.addresses.my_physical()
        host = self.config.bind_addr or (mine[0] if mine is not None else "")
        self.emit(Listen(self.stack.net, host, self.config.start_port, self.config.port_range))

    @on(Listening)
    def listening(self, event: Listening) -> None:
        host, port = event.physical
        self.listener = self.config.external_addr or host, self.config.external_port or port
        self.tell(tuple(self.askers))
        self.askers.clear()
        if len(self.members) > 1:
            self.tell(self.members)

    def tell(self, members: tuple[Address, ...]) -> None:
        """Tell them where we listen, so that they need not ask when it may be too late."""
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
        # Layers below must know the view before we speak to its members.
        self.later(lambda: self.tell(new))
        self.later(self.choose)

    @on(Left)
    def left(self, event: Left) -> None:
        self.members = ()
        self.stop_checks()
        self.choose()
        self.cancel_timer("repeat")

    def next_member(self) -> Address | None:
        """The next one after us in the ring that may live."""
        if self.me not in self.members:
            return None
        at = self.members.index(self.me)
        ring = self.members[at + 1:] + self.members[:at]
        return next((m for m in ring if m not in self.gone and m not in self.leaving), None)

    def choose(self) -> None:
        """Watch the neighbour, if it is not the one we watch already."""
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
            self.accuse(self.neighbour, certain=False)
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
        self.learn(batch.src, header.physical)         # kept if it is a member of the next view too

    @receives(WhoKnows)
    def who_knows(self, header: WhoKnows, batch: Batch) -> None:
        if header.member in self.places:
            self.send(ThereIs(header.member, self.places[header.member]), batch.src)

    @receives(ThereIs)
    def there(self, header: ThereIs, batch: Batch) -> None:
        if batch.src in self.members and header.member == self.neighbour and header.member not in self.places:
            self.learn(header.member, header.physical)

    def learn(self, member: Address, place: PhysicalAddress) -> None:
        """It listens there; if it is the neighbour that we look for, watch it."""
        if member not in self.members and member not in self.places and len(self.places) >= self.most_places():
            return self.count("places_of_strangers_dropped")
        self.places[member] = place
        if member == self.neighbour and self.link is None:
            self.cancel_timer("ask")
            self.cancel_timer("find")
            self.connect()
        return None

    def most_places(self) -> int:
        """How many places are kept: those of the view, and of some that may be in the next one."""
        return len(self.members) + MAX_STRANGERS

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
            return self.looked_up(event)
        if event.link != self.link or self.neighbour is None:
            return None
        if event.peer == self.neighbour.raw:
            self.is_up, self.resets = True, 0
        else:
            self.emit(CloseLink(self.stack.net, self.link))
            self.link = None
            self.accuse(self.neighbour, certain=True)      # somebody else listens in its place
        return None

    @on(LinkDown)
    def link_down(self, event: LinkDown) -> None:
        if event.link in self.checks:
            return self.looked_down(event)
        if event.link != self.link or self.neighbour is None:
            return None
        broke, self.link, self.is_up = self.is_up, None, False
        if event.graceful:
            self.leaving[self.neighbour] = None
            self.set_timer("goodbye", GOODBYE_NS, self.neighbour)
            self.choose()
        elif event.refused:
            self.accuse(self.neighbour, certain=True)
        elif broke:
            self.connect()
        elif self.resets < MAX_RESETS and self.now_ns - self.opened_ns < self.config.connect_timeout_ns:
            # A dying process closes its links before its listener: the system still accepts, then resets. Refusal,
            # which is certain, is a moment away.
            self.resets += 1
            self.set_timer("again", RESET_RETRY_NS)
        else:
            self.set_timer("find", RETRY_NS)
            self.accuse(self.neighbour, certain=False)
        return None

    @timer("goodbye")
    def overstayed(self, member: Address) -> None:
        if member in self.leaving:
            self.accuse(member, certain=True)

    @timer("again")
    def again(self) -> None:
        if self.neighbour is not None and self.link is None and self.neighbour in self.places:
            self.connect()

    # --- suspicions ---------------------------------------------------------------------------------------------------

    def accuse(self, member: Address, certain: bool) -> None:
        """Tell everybody."""
        self.count("suspected")
        self.send(Suspected((member,), certain), None)
        self.pass_up(Suspect((member,), certain))
        if certain:
            self.gone[member] = self.witnessed[member] = None
            self.set_timer("repeat", self.config.repeat_ns)
            self.choose()

    @timer("repeat")
    def repeat(self) -> None:
        if self.witnessed:
            self.send(Suspected(tuple(self.witnessed), True), None)
            self.pass_up(Suspect(tuple(self.witnessed), True))
            self.set_timer("repeat", self.config.repeat_ns)

    @receives(Suspected)
    def accused(self, header: Suspected, batch: Batch) -> None:
        if batch.src not in self.members:
            return self.count("accusers_outside_view")
        accused = tuple(member for member in header.members if member in self.members and member != self.me)
        if len(accused) < len(header.members):
            self.count("accused_ourselves")
        if header.certain:
            for member in accused:
                self.check(member)
        elif accused:
            self.pass_up(Suspect(accused))
        return None

    # --- looking for ourselves ----------------------------------------------------------------------------------------

    def check(self, member: Address) -> None:
        """Another member says that the process of `member` is gone: knock there ourselves, now and then."""
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

    def looked_up(self, event: LinkUp) -> None:
        """Somebody listens there."""
        member = self.checks.pop(event.link)
        self.emit(CloseLink(self.stack.net, event.link))
        if event.peer == member.raw:
            self.count("accusations_refuted")
        else:
            self.is_gone(member)

    def looked_down(self, event: LinkDown) -> None:
        """Nobody does, or there was no answer."""
        member = self.checks.pop(event.link)
        if event.refused:
            self.is_gone(member)
        else:
            self.pass_up(Suspect((member,), accused=True))

    def is_gone(self, member: Address) -> None:
        """We saw ourselves that its process is gone; whoever watches it tells the others."""
        self.gone[member] = None
        self.pass_up(Suspect((member,), certain=True))
        self.choose()

    def stop_checks(self) -> None:
        """Of members that are out of the view."""
        for link in [link for link, member in self.checks.items() if member not in self.members]:
            del self.checks[link]
            self.emit(CloseLink(self.stack.net, link))
