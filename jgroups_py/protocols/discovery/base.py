"""Discovery: asks whoever may be there which group they are in. Subclasses say how strangers are reached.

A question (WhoIsThere) says who asks, so that joiners see each other; coordinators and other joiners answer (Here),
ordinary members only if `everyone` is set, which spares a joiner fifty answers. GMS asks with FindMembers and gets
MembersFound at once when a coordinator answers, else at the end of the time. A joiner that becomes a coordinator
tells everybody who was looking. Views are not sent, only their ids. Source: JGroups Discovery.java. Deviations: the
question is repeated in growing intervals (one lost datagram must not split a group), no cache is returned.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch, Header
from jgroups_py.events import AddressesKnown, FindMembers, Found, MembersFound, ViewChange
from jgroups_py.ports import AddressBook, Membership
from jgroups_py.protocol import CONTROL, Protocol, on, receives, timer
from jgroups_py.units import flag, millis, seconds
from jgroups_py.view import View, ViewId
from jgroups_py.wire import field

DISCOVERY_ID = 3
FIRST_REPEAT_NS = millis(50)
LONGEST_REPEAT_NS = millis(500)
# Whoever asked within this time is told when we become coordinator; so long after a question its answer is expected.
SEARCH_MEMORY_NS = seconds(3)
MAX_SEARCHERS = 1000
MAX_BOOK = 60                          # members in an answer: some 4 KB


@wire.header(proto=DISCOVERY_ID, kind=1)
class WhoIsThere(Header):
    """Question of `member`, which receives at `physical` and is in view `view_id` (None: in none).

    The view's `coordinator` receives at `place` (None: unknown). everyone: ordinary members shall answer too.
    """

    member: Address = field(wire.MEMBER)
    physical: PhysicalAddress = field(wire.PHYSICAL)
    view_id: ViewId | None = field(wire.optional(wire.VIEW_ID))
    coordinator: Address | None = field(wire.optional(wire.MEMBER))
    place: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))
    everyone: bool = field(wire.BOOL)


@wire.header(proto=DISCOVERY_ID, kind=2)
class Here(Header):
    """Answer to it, or news to somebody who asked before. book: where other members of the view receive."""

    member: Address = field(wire.MEMBER)
    physical: PhysicalAddress = field(wire.PHYSICAL)
    view_id: ViewId | None = field(wire.optional(wire.VIEW_ID))
    coordinator: Address | None = field(wire.optional(wire.MEMBER))
    place: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))
    book: dict[Address, PhysicalAddress] = field(wire.ADDRESS_BOOK)


@attrs.frozen
class DiscoveryConfig:
    """What all ways of discovery share."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys((
            "timeout", "num_initial_members", "num_initial_srv_members", "num_ping_requests", "num_discovery_runs",
            "discovery_rsp_expiry_time", "return_entire_cache", "stagger_timeout", "use_disk_cache", "max_members_in_"
            "discovery_request", "max_rank_to_reply", "async_discovery", "async_discovery_use_separate_thread_per_"
            "request", "send_cache_on_join", "dump_ping_data", "force_sending_discovery_rsps", "use_ip_addrs"),
            "GMS says how long to look; questions are repeated and answered by those that matter"),
    }

    break_on_coord_rsp: bool = flag(True, doc="Whether a search ends as soon as a coordinator answers.")


class Discovery(Protocol):
    """The base of PING, TCPPING and FILE_PING."""

    control_only = True
    Config = DiscoveryConfig
    config: DiscoveryConfig
    needs = {"addresses": AddressBook}
    addresses: AddressBook

    def start(self) -> None:
        self.membership: Membership | None = self.stack.find(Membership)     # None: SWIM asks, there are no views
        self.search: FindMembers | None = None
        self.found: dict[Address, Found] = {}          # who answered in this search
        self.repeat_ns = 0
        self.began_ns = -SEARCH_MEMORY_NS              # when the latest search began
        self.late: dict[Address, None] = {}            # whose answer came after the end of that, if it was for everyone
        self.searchers: dict[Address, int] = {}        # joiners that asked -> when, ns

    def reach(self, question: Batch) -> None:
        """Send `question` to everybody who may be there."""
        raise NotImplementedError

    # --- searching ----------------------------------------------------------------------------------------------------

    @on(FindMembers)
    def find(self, event: FindMembers) -> None:
        self.search, self.found, self.late, self.began_ns = event, {}, {}, self.now_ns
        self.repeat_ns = LONGEST_REPEAT_NS // 2 if event.everyone else FIRST_REPEAT_NS
        self.set_timer("end", event.within_ns)
        self.ask()

    @timer("ask")
    def ask(self) -> None:
        search = self.search
        physical = self.addresses.my_physical()
        if search is None or physical is None:
            return
        repeated = self.repeat_ns > FIRST_REPEAT_NS
        question = WhoIsThere(self.me, physical, *self.standing(), search.everyone or repeated)
        self.count("questions_sent")
        self.reach(Batch(self.me, None, (), (question,), CONTROL))
        self.set_timer("ask", self.repeat_ns)
        self.repeat_ns = min(2 * self.repeat_ns, LONGEST_REPEAT_NS)

    @timer("end")
    def end(self) -> None:
        if self.search is None:
            return
        self.search = None
        self.cancel_timer("ask")
        self.cancel_timer("end")
        self.pass_up(MembersFound(tuple(self.found.values())))

    def met(self, physical: PhysicalAddress) -> None:
        """Somebody receives there."""

    def add(self, said: WhoIsThere | Here) -> None:
        """Somebody told us who it is and where."""
        if said.member == self.me:
            return
        book = dict(said.book) if isinstance(said, Here) else {}
        if said.coordinator is not None and said.place is not None:
            book[said.coordinator] = said.place
        book[said.member] = said.physical
        for physical in book.values():
            self.met(physical)
        self.pass_down(AddressesKnown(book))
        is_coordinator = said.coordinator == said.member
        known = self.found.get(said.member)
        trip_ns = known.trip_ns if known else 0
        if isinstance(said, Here) and not trip_ns:
            trip_ns = self.now_ns - self.began_ns
        found = Found(said.member, said.physical, said.view_id, is_coordinator, trip_ns)
        if self.search is None:
            return self.came_late(said, found)
        self.found[said.member] = found
        if is_coordinator and not self.search.everyone and self.config.break_on_coord_rsp:
            self.end()
        return None

    def came_late(self, said: WhoIsThere | Here, found: Found) -> None:
        """Where a round trip takes longer than a search, its answers come when it is over: members want them still."""
        timely = self.now_ns - self.began_ns <= SEARCH_MEMORY_NS
        if (isinstance(said, Here) and timely and self.current_view() is not None and said.member not in self.found
                and said.member not in self.late and len(self.late) < MAX_SEARCHERS):
            self.late[said.member] = None
            self.pass_up(MembersFound((found,)))

    # --- answering ----------------------------------------------------------------------------------------------------

    def current_view(self) -> View | None:
        return self.membership.current_view() if self.membership is not None else None

    def standing(self) -> tuple[ViewId | None, Address | None, PhysicalAddress | None]:
        """Our view's id, its coordinator, and where that receives."""
        view = self.current_view()
        if view is None:
            return None, None, None
        return view.id, view.coordinator, self.addresses.physical_of(view.coordinator)

    def answer(self, member: Address, everyone: bool = False) -> None:
        """Say who we are; without multicast also who else is there, as those may soon be all that is left of us."""
        physical = self.addresses.my_physical()
        if physical is not None:
            book = self.book() if everyone and not self.addresses.has_multicast() else {}
            self.send(Here(self.me, physical, *self.standing(), book), member)

    def book(self) -> dict[Address, PhysicalAddress]:
        """Where members of our view receive, or other joiners, so many as fit a small frame."""
        view = self.current_view()
        members = tuple(self.searchers) if view is None else view.members
        places = {member: self.addresses.physical_of(member) for member in members[:MAX_BOOK]}
        return {member: place for member, place in places.items() if place is not None}

    @receives(WhoIsThere)
    def asked(self, header: WhoIsThere, batch: Batch) -> None:
        if batch.src == self.me:
            return
        self.add(header)
        if header.view_id is None and (len(self.searchers) < MAX_SEARCHERS or batch.src in self.searchers):
            self.searchers[batch.src] = self.now_ns
        view_id, coordinator, _ = self.standing()
        if coordinator == self.me or header.everyone or view_id is None:
            self.answer(batch.src, header.everyone and (view_id is None or header.view_id != view_id))

    @receives(Here)
    def answered(self, header: Here, batch: Batch) -> None:
        self.add(header)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        recent = [member for member, asked_ns in self.searchers.items()
                  if self.now_ns - asked_ns <= SEARCH_MEMORY_NS and member not in event.view]
        self.searchers = {member: self.searchers[member] for member in recent}
        if event.previous is None and event.view.coordinator == self.me:
            self.later(lambda: self.tell_searchers(recent))

    def tell_searchers(self, searchers: list[Address]) -> None:
        """We have just become a coordinator, which is what they are looking for."""
        for member in searchers:
            self.answer(member)
