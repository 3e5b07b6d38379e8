"""Discovery: finds members of the cluster and the views that they are in. Subclasses decide where requests are sent.

A DiscoveryRequest names its sender, so that joiners find each other. Coordinators and other joiners send a
DiscoveryResponse; ordinary members only if `everyone` is set, so that a joiner does not get fifty of them. GMS starts a
search with FindMembers and receives MembersFound as soon as a coordinator answers, else when the time is over. A joiner
that becomes coordinator sends a response to all joiners whose requests came lately. Views are not sent, only their ids.

Source: JGroups Discovery.java. Deviations: the request is repeated with backoff (one lost datagram must not split a
group); no cache is returned.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.events import AddressesKnown, FindMembers, Found, MembersFound, ViewChange
from jgroups_py.model.ports import AddressBook, ViewSource
from jgroups_py.model.units import flag, millis, seconds
from jgroups_py.model.view import View, ViewId
from jgroups_py.stack.protocol import CONTROL, Protocol, on, receives, timer
from jgroups_py.wire import field

DISCOVERY_ID = 3
FIRST_REPEAT_NS = millis(50)
LONGEST_REPEAT_NS = millis(500)
# Joiners whose requests are not older get a response when this member becomes coordinator; answers are awaited as long.
SEARCH_MEMORY_NS = seconds(3)
MAX_SEARCHERS = 1000
MAX_BOOK = 60                          # members in an answer: some 4 KB


@wire.header(proto=DISCOVERY_ID, kind=1)
class DiscoveryRequest(Header):
    """Request of `member`, which receives at `physical` and is in view `view_id` (None: in no view).

    The view's `coordinator` receives at `place` (None: unknown). everyone: ordinary members answer too.
    """

    member: Address = field(wire.MEMBER)
    physical: PhysicalAddress = field(wire.PHYSICAL)
    view_id: ViewId | None = field(wire.optional(wire.VIEW_ID))
    coordinator: Address | None = field(wire.optional(wire.MEMBER))
    place: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))
    everyone: bool = field(wire.BOOL)


@wire.header(proto=DISCOVERY_ID, kind=2)
class DiscoveryResponse(Header):
    """Answer to a request, also sent later by a new coordinator. book: where other members of the view receive."""

    member: Address = field(wire.MEMBER)
    physical: PhysicalAddress = field(wire.PHYSICAL)
    view_id: ViewId | None = field(wire.optional(wire.VIEW_ID))
    coordinator: Address | None = field(wire.optional(wire.MEMBER))
    place: PhysicalAddress | None = field(wire.optional(wire.PHYSICAL))
    book: dict[Address, PhysicalAddress] = field(wire.ADDRESS_BOOK)


@attrs.frozen
class DiscoveryConfig:
    """The properties that all discovery protocols share."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys((
            "timeout", "num_initial_members", "num_initial_srv_members", "num_ping_requests", "num_discovery_runs",
            "discovery_rsp_expiry_time", "return_entire_cache", "stagger_timeout", "use_disk_cache", "max_members_in_"
            "discovery_request", "max_rank_to_reply", "async_discovery", "async_discovery_use_separate_thread_per_"
            "request", "send_cache_on_join", "dump_ping_data", "force_sending_discovery_rsps", "use_ip_addrs"),
            "GMS sets the duration of a search; requests are repeated, and ordinary members answer only if asked to"),
    }

    break_on_coord_rsp: bool = flag(True, doc="Whether a search ends as soon as a coordinator answers.")


class Discovery(Protocol):
    """The base of PING, TCPPING, DNS_PING, KUBE_PING and FILE_PING."""

    control_only = True
    Config = DiscoveryConfig
    config: DiscoveryConfig
    needs = {"addresses": AddressBook}
    addresses: AddressBook
    COUNTERS = declare(
        counter("requests_sent", "Requests to members of the cluster."),
    )

    def start(self) -> None:
        self.membership: ViewSource | None = self.stack.find(ViewSource)     # None: a stack of SWIM, which has no views
        self.search: FindMembers | None = None
        self.found: dict[Address, Found] = {}          # members found in this search
        self.repeat_ns = 0
        self.began_ns = -SEARCH_MEMORY_NS              # when the latest search began
        self.late: dict[Address, None] = {}            # members whose answer came after its end
        self.searchers: dict[Address, int] = {}        # joiner -> when its latest request came, ns

    def send_request(self, request: Batch) -> None:
        """Send `request` to every physical address where a member may be."""
        raise NotImplementedError

    # --- searching ----------------------------------------------------------------------------------------------------

    @on(FindMembers)
    def find(self, event: FindMembers) -> None:
        self.search, self.found, self.late, self.began_ns = event, {}, {}, self.now_ns
        self.repeat_ns = LONGEST_REPEAT_NS // 2 if event.everyone else FIRST_REPEAT_NS
        self.set_timer("end", event.within_ns)
        self.request()

    @timer("ask")
    def request(self) -> None:
        """Send the request, and set the timer for its repetition; the first one leaves ordinary members silent."""
        search = self.search
        physical = self.addresses.my_physical()
        if search is None or physical is None:
            return
        repeated = self.repeat_ns > FIRST_REPEAT_NS
        request = DiscoveryRequest(self.me, physical, *self.view_fields(), search.everyone or repeated)
        self.count("requests_sent")
        self.send_request(Batch(self.me, None, (), (request,), CONTROL))
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

    def store_address(self, physical: PhysicalAddress) -> None:
        """Called with each physical address at which a member or joiner receives."""

    def add(self, message: DiscoveryRequest | DiscoveryResponse) -> None:
        """Record the sender of a request or response, and pass its physical addresses to the transport."""
        if message.member == self.me:
            return
        book = dict(message.book) if isinstance(message, DiscoveryResponse) else {}
        if message.coordinator is not None and message.place is not None:
            book[message.coordinator] = message.place
        book[message.member] = message.physical
        for physical in book.values():
            self.store_address(physical)
        self.pass_down(AddressesKnown(book))
        is_coordinator = message.coordinator == message.member
        known = self.found.get(message.member)
        trip_ns = known.trip_ns if known else 0
        if isinstance(message, DiscoveryResponse) and not trip_ns:
            # Counted from the first request, so it is never too short; GMS waits longer for distant members.
            trip_ns = self.now_ns - self.began_ns
        found = Found(message.member, message.physical, message.view_id, is_coordinator, trip_ns)
        if self.search is None:
            return self.pass_up_late(message, found)
        self.found[message.member] = found
        if is_coordinator and not self.search.everyone and self.config.break_on_coord_rsp:
            self.end()
        return None

    def pass_up_late(self, message: DiscoveryRequest | DiscoveryResponse, found: Found) -> None:
        """Pass up a response that came after its search: all come late where a round trip exceeds a search.

        Only in a member with a view: a joiner has decided by then, and would take it for an answer to a later search.
        """
        timely = self.now_ns - self.began_ns <= SEARCH_MEMORY_NS
        if (isinstance(message, DiscoveryResponse) and timely and self.current_view() is not None
                and message.member not in self.found and message.member not in self.late
                and len(self.late) < MAX_SEARCHERS):
            self.late[message.member] = None
            self.pass_up(MembersFound((found,)))

    # --- answering ----------------------------------------------------------------------------------------------------

    def current_view(self) -> View | None:
        return self.membership.current_view() if self.membership is not None else None

    def view_fields(self) -> tuple[ViewId | None, Address | None, PhysicalAddress | None]:
        """The id of the current view, its coordinator, and where that receives; all None without a view."""
        view = self.current_view()
        if view is None:
            return None, None, None
        return view.id, view.coordinator, self.addresses.physical_of(view.coordinator)

    def answer(self, member: Address, everyone: bool = False) -> None:
        """Send a DiscoveryResponse to `member`.

        everyone: it looks for all members. Without multicast it can reach only those whose address it is given, so
        the response lists other members too: this member may be gone when they are needed.
        """
        physical = self.addresses.my_physical()
        if physical is not None:
            book = self.book() if everyone and not self.addresses.has_multicast() else {}
            self.send(DiscoveryResponse(self.me, physical, *self.view_fields(), book), member)

    def book(self) -> dict[Address, PhysicalAddress]:
        """Member -> where it receives: of the view, or of other joiners; at most MAX_BOOK, to fit a small frame."""
        view = self.current_view()
        members = tuple(self.searchers) if view is None else view.members
        places = {member: self.addresses.physical_of(member) for member in members[:MAX_BOOK]}
        return {member: place for member, place in places.items() if place is not None}

    @receives(DiscoveryRequest)
    def on_request(self, header: DiscoveryRequest, batch: Batch) -> None:
        if batch.src == self.me:
            return
        self.add(header)
        if header.view_id is None and (len(self.searchers) < MAX_SEARCHERS or batch.src in self.searchers):
            self.searchers[batch.src] = self.now_ns
        view_id, coordinator, _ = self.view_fields()
        # Ordinary members stay silent at first: the coordinator's answer is enough for a joiner.
        if coordinator == self.me or header.everyone or view_id is None:
            self.answer(batch.src, header.everyone and (view_id is None or header.view_id != view_id))

    @receives(DiscoveryResponse)
    def on_response(self, header: DiscoveryResponse, batch: Batch) -> None:
        self.add(header)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        recent = [member for member, requested_ns in self.searchers.items()
                  if self.now_ns - requested_ns <= SEARCH_MEMORY_NS and member not in event.view]
        self.searchers = {member: self.searchers[member] for member in recent}
        before = event.previous.coordinator if event.previous is not None else None
        if event.view.coordinator == self.me != before:
            self.later(lambda: self.answer_searchers(recent))

    def answer_searchers(self, searchers: list[Address]) -> None:
        """Answer the requests that came before this member became coordinator: the joiners need not repeat them."""
        for member in searchers:
            self.answer(member)
