"""Receipts: the report to an origin that every member of a site has its message, for `send(until=...)`.

    origin --AWAIT--> its relay --AWAIT_SETTLED--> relays of the site --CHECK--> their members
    origin <-GRANTED- its relay <----SETTLED------ relays of the site <-CHECKED- their members

Delivery needs none of this, so it runs only while the application waits for a receipt. All numbers only rise, so each
step may be repeated: the origin repeats AWAIT on a timer and when its relay changed, a relay repeats AWAIT_SETTLED to
each relay that sends HELLO. A failover at either end needs nothing else. A site has a message when all its relays on
the bridge have reported so, one for each half of a split site. For its own site the origin runs the check itself
(delivery_check.py).
"""
from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import SendUntil, StopWaiting, ViewChange
from jgroups_py.model.outputs import SiteReceipt
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.announcements import OriginForgotten, PeerIntroduced, SitesChanged
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Vector
from jgroups_py.protocols.relay.headers.receipts import Await, AwaitSettled, Granted, Ranges, Settled
from jgroups_py.protocols.relay.outbound.peers import RelayPeer, RelayPeers
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement, receives_from_bridge
from jgroups_py.protocols.relay.ports import BridgePort, DeliveryCheckPort, GatePort, NumberingPort, ReceiptsPort
from jgroups_py.protocols.relay.sites.table import OFFLINE, SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import STOP, on, receives, timer

ALL_SITES = "*"


@attrs.define(eq=False)
class PendingReceipt:
    """A message of this member for which the application waits.

    sites: those that do not have it yet; views: site -> the views whose members have it.
    """

    ticket: int
    number: int
    sites: dict[str, None]
    views: dict[str, tuple[ViewId, ...]] = attrs.Factory(dict)


@attrs.frozen
class Settlement:
    """The last SETTLED of a remote relay about one origin."""

    number: int
    lost: Ranges
    epoch: ViewId


class ReceiptTracker(RelayPart, ReceiptsPort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    table: SiteTable = needs(SiteTable)
    peers: RelayPeers = needs(RelayPeers)
    bridge: BridgePort = needs(BridgePort)
    numbering: NumberingPort = needs(NumberingPort)
    send_gate: GatePort = needs(GatePort)
    delivery_check: DeliveryCheckPort = needs(DeliveryCheckPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        # Of the origin: site -> ticket -> message, in order of the messages' numbers
        self.pending: dict[str, dict[int, PendingReceipt]] = {}
        # Of the relay:
        self.awaited: Vector = {}                            # site -> origin -> the number in its AWAIT
        self.settlements: dict[tuple[Address, Address], Settlement] = {}     # (remote relay, origin) -> its SETTLED

    # --- the origin -------------------------------------------------------------------------------------------------

    @on(SendUntil)
    def send_until(self, event: SendUntil) -> object:
        """The application sends a message, and waits until all members of the sites have it."""
        number = self.numbering.coming_number
        self.send_gate.multicast(Batch(self.me, None, (event.payload,), event.headers, event.flags))
        sites = dict.fromkeys(self._all_sites() if ALL_SITES in event.sites else event.sites)
        receipt = PendingReceipt(event.ticket, number, sites)
        for site in sites:
            self.pending.setdefault(site, {})[event.ticket] = receipt
        self.end_lost()
        self.set_timer("await", 0)
        return STOP

    @on(StopWaiting)
    def stop_waiting(self, event: StopWaiting) -> object:
        """The application no longer waits for this receipt."""
        self.give_up(event.ticket)
        return STOP

    def _all_sites(self) -> list[str]:
        return [self.config.site, *(site.name for site in self.table if site.status != OFFLINE)]

    def give_up(self, ticket: int) -> None:
        """Stop waiting for a receipt."""
        for receipts in self.pending.values():
            receipts.pop(ticket, None)

    @timer("await")
    def send_await(self) -> None:
        """Send AWAIT with the highest awaited number of each site; again on a timer.

        For the own site no AWAIT is needed: this member is the origin, and checks its group itself.
        """
        self.pending = {site: receipts for site, receipts in self.pending.items() if receipts}
        if not self.pending:
            return
        sites = {site: next(reversed(receipts.values())).number + 1 for site, receipts in self.pending.items()}
        own = sites.pop(self.config.site, None)
        self.set_timer("await", self.config.resend_interval_ns)
        if sites and self.group.is_relay:
            self.await_sites(self.me, sites)
        elif sites:
            self.send(Await(sites), self.group.view.coordinator, flags=RELIABLE)
        if own is not None:
            self.delivery_check.require(self.config.site, self.me, own)

    @receives(Granted)
    def granted_received(self, header: Granted, batch: Batch) -> None:
        """All members of a site have this member's messages below a number, except the lost ranges."""
        receipts = self.pending.get(header.site, {})
        for receipt in list(takewhile(lambda receipt: receipt.number < header.number, receipts.values())):
            if within(receipt.number, header.lost):
                self._end(receipt, header.site)
                continue
            del receipts[receipt.ticket], receipt.sites[header.site]
            receipt.views[header.site] = header.views
            if not receipt.sites:
                self._end(receipt)

    @on_announcement(SitesChanged)
    def sites_changed(self, event: SitesChanged) -> None:
        """Statuses and losses may have changed, so some messages may now never arrive at a site."""
        self.end_lost()

    def end_lost(self) -> None:
        """End the receipts of messages that are lost for a site: declared lost, or not acknowledged by an OFFLINE one.

        A site that is OFFLINE gets nothing of what it has not acknowledged (relay rule 14), so waiting would not end.
        """
        for site in self.table:
            receipts = self.pending.get(site.name)
            if receipts:
                lost, acked = site.lost.get(self.me, ()), site.acked.get(self.me, 1)
                for receipt in list(receipts.values()):
                    if within(receipt.number, lost) or (site.status == OFFLINE and receipt.number >= acked):
                        self._end(receipt, site.name)

    def _end(self, receipt: PendingReceipt, lost_for: str = "") -> None:
        self.give_up(receipt.ticket)
        self.count("receipts_lost" if lost_for else "receipts")
        self.emit(SiteReceipt(receipt.ticket, receipt.views, lost_for))

    # --- the origin's relay -----------------------------------------------------------------------------------------

    @receives(Await)
    def await_received(self, header: Await, batch: Batch) -> None:
        """A member of this site waits for other sites. A member that is not the relay yet keeps AWAIT until it is."""
        self.await_sites(batch.src, header.sites)

    def await_sites(self, origin: Address, sites: dict[str, int]) -> None:
        """Send AWAIT_SETTLED for an origin's messages to the relays of other sites."""
        for site, number in sites.items():
            numbers = self.awaited.setdefault(site, {})
            numbers[origin] = max(number, numbers.get(origin, 1))
            self.bridge.send_to_relays_of(site, AwaitSettled({origin: number}))

    @on_announcement(PeerIntroduced)
    def peer_introduced(self, event: PeerIntroduced) -> None:
        """HELLO of a relay: after a failover it has not received the AWAIT_SETTLED that its predecessor got."""
        peer = event.peer
        numbers = self.awaited.get(peer.site.name)
        if numbers:
            self.bridge.send_to(peer.address, AwaitSettled(dict(numbers)))

    @receives_from_bridge(Settled)
    def settled_received(self, header: Settled, batch: Batch) -> None:
        """From a remote relay: all members of its view have these messages, except the lost ranges."""
        src = batch.src
        peer = self.peers.get(src)
        if peer is None:
            return self.drop("non_peer_dropped", batch, "its relay has not sent HELLO", header)
        for origin, number in header.numbers.items():
            before = self.settlements.get((src, origin))
            if before is None or number >= before.number:
                self.settlements[src, origin] = Settlement(number, header.lost.get(origin, ()), header.epoch)
            self._grant(peer.site.name, origin)
        return None

    def _grant(self, site: str, origin: Address) -> None:
        """Report to the origin the lowest number that all relays of a site on the bridge have settled.

        Nothing is reported while one of them has not answered, or while the accepted relay is not on the bridge: its
        half may lack the messages.
        """
        awaited = self.awaited.get(site, {}).get(origin)
        peers = self.peers.of(site)
        reports = [self.settlements.get((peer.address, origin)) for peer in peers]
        known = [settlement for settlement in reports if settlement is not None]
        if awaited is None or len(known) < len(reports) or self.peers.accepted(site) is None:
            return
        number = min(settlement.number for settlement in known)
        lost = tuple(sorted({lost: None for settlement in known for lost in settlement.lost}))
        header = Granted(site, number, lost, tuple(settlement.epoch for settlement in known))
        if number >= awaited:
            del self.awaited[site][origin]
            self._drop_settlements(origin, peers)
        if origin == self.me:
            self.granted_received(header, Batch(self.me, self.me))
        else:
            self.send(header, origin, flags=RELIABLE)

    def _drop_settlements(self, origin: Address, peers: list[RelayPeer]) -> None:
        for peer in peers:
            self.settlements.pop((peer.address, origin), None)

    # --- the relay of a site that is awaited ------------------------------------------------------------------------

    @receives_from_bridge(AwaitSettled)
    def await_settled_received(self, header: AwaitSettled, batch: Batch) -> None:
        """A remote relay waits until all members of this site have these messages."""
        peer = self.peers.get(batch.src)
        if peer is None:
            return self.drop("non_peer_dropped", batch, "its relay has not sent HELLO", header)
        for origin, number in header.numbers.items():
            self.delivery_check.require(peer.site.name, origin, number)
        return None

    def settled_here(self, site: str, origin: Address, number: int, lost: Ranges) -> None:
        if site == self.config.site:
            return self.granted_received(Granted(site, number, lost, (self.group.view.id,)), Batch(self.me, self.me))
        header = Settled(self.group.view.id, {origin: number}, {origin: lost} if lost else {})
        return self.bridge.send_to_relays_of(site, header)

    # --- every member -------------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """A new relay has no AWAIT of this member yet, so it is repeated at once."""
        if not self.group.is_relay:
            self.awaited, self.settlements = {}, {}
        if any(self.pending.values()):
            self.set_timer("await", 0)

    @on_announcement(OriginForgotten)
    def forget(self, event: OriginForgotten) -> None:
        origin = event.origin
        for numbers in self.awaited.values():
            numbers.pop(origin, None)
        for key in [key for key in self.settlements if key[1] == origin]:
            del self.settlements[key]


def within(number: int, ranges: Iterable[tuple[int, int]]) -> bool:
    """Whether some range (half-open) contains the number."""
    return any(first <= number < stop for first, stop in ranges)
