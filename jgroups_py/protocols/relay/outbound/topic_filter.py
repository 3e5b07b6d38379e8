"""Messages of topics that no member of a site has subscribed to cross the bridge as their numbers only.

Such a batch is replaced by one of as many empty messages, marked PassedBy with its topics. So it is numbered,
disseminated, acknowledged, replayed and counted like any other: contiguous prefixes, vectors and the ledger do not
depend on topics. Consecutive batches of this kind are joined: each waits for the next one, `PASSED_WAIT_NS` at most.

A site's interest is what TOPICS, above, reports to its coordinator. Until all members of a new view have reported, it
is everything. The relay sends it to every other relay. The sending relay may have filtered by an interest that has
changed meanwhile. So the receiving relay checks again, refuses numbers of topics that are subscribed by now, and
requests the messages.

What the trust file keeps from a site crosses in the same form, marked with no topics: no site refuses that. So do
batches whose sender names the sites that they are for (ForSites), for all others: the sender's word is final, and no
interest of a site can be too late for it.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import SiteInterest, ViewChange
from jgroups_py.model.topics import EVERYTHING, NOTHING, Interest
from jgroups_py.model.units import millis
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Disseminate, SiteInterestHeader
from jgroups_py.protocols.relay.origin.hold import HeldBatch, held_batch
from jgroups_py.protocols.relay.outbound.peers import RelayPeer, RelayPeers
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, receives_from_bridge
from jgroups_py.protocols.relay.ports import BridgePort, SiteGuardPort, TopicFilterPort
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import STOP, on
from jgroups_py.wire.archive_header import Archived
from jgroups_py.wire.topic_headers import PassedBy, passed_by, sites_of, topic_of

WITHOUT_TOPICS = PassedBy(NOTHING)
PASSED_WAIT_NS = millis(50)          # numbers alone are not urgent; what comes meanwhile is sent with them
MAX_PASSED = 4096                    # numbers in one batch


class TopicFilter(RelayPart, TopicFilterPort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    peers: RelayPeers = needs(RelayPeers)
    bridge: BridgePort = needs(BridgePort)
    guard: SiteGuardPort = needs(SiteGuardPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.own_interest: Interest = EVERYTHING     # of this site
        self.used = False                            # this stack has TOPICS

    # --- the interest of this site ------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """A new member's interests are unknown, so the site counts as subscribed to everything.

        This part handles a view change before any that sends HELLO, so the interest of an earlier view is not sent.
        """
        if event.joined or not self.group.is_relay:
            self.set_interest(EVERYTHING)

    @on(SiteInterest)
    def interest_changed(self, event: SiteInterest) -> object:
        """From TOPICS, above: the interest of all members of this site."""
        self.used = True
        if self.group.is_relay:
            self.set_interest(event.interest)
        return STOP

    def set_interest(self, interest: Interest) -> None:
        """Set this site's interest; if it changed, send it to all peers."""
        if interest == self.own_interest:
            return
        self.own_interest = interest
        if self.group.is_relay:
            for peer in self.peers:
                self.send_interest(peer.address)

    def send_interest(self, to: Address) -> None:
        if self.used:
            self.bridge.send_to(to, SiteInterestHeader(self.own_interest))

    def refuses(self, batch: Batch) -> bool:
        mark = batch.headers[-1] if batch.headers else None
        return isinstance(mark, PassedBy) and self.own_interest.meets(mark.topics)

    def refuse(self, peer: RelayPeer, batch: Batch) -> None:
        self.drop("passed_by_refused", batch, "only its numbers came, and a member has subscribed to its topics by now")
        self.send_interest(peer.address)

    def outdated(self, batches: Iterable[tuple[Disseminate, Batch]]) -> bool:
        return any(self.refuses(batch) for _, batch in batches)

    # --- the interests of other sites ---------------------------------------------------------------------------------

    @receives_from_bridge(SiteInterestHeader)
    def interest_received(self, header: SiteInterestHeader, batch: Batch) -> None:
        """The interest of a relay's site. Of a fenced relay too: it disseminates in its half (relay rule 11)."""
        peer = self.peers.get(batch.src)
        if peer is None:
            return self.drop("non_peer_dropped", batch, "its relay has not sent HELLO", header)
        peer.subscribe(header.interest)
        return None

    def filtered(self, peer: RelayPeer, origin: Address, held: HeldBatch) -> Iterator[HeldBatch]:
        """What to send of a batch now. Numbers that wait go first: a peer gets an origin's numbers in order (relay rule
        3)."""
        mark = self.withheld(peer, held.batch)
        if mark is not None:
            self.drop("withheld", held.batch, f"the trust file keeps it from {peer.site.name}; its numbers are sent")
        elif (sites := sites_of(held.batch.headers)) is not None and peer.site.name not in sites:
            mark = WITHOUT_TOPICS
            self.drop("for_other_sites", held.batch, f"it is not for {peer.site.name}; its numbers are sent")
        else:
            mark = passed_by(held.batch, peer.interest)
            if mark is None:
                yield from peer.take_deferred(origin)
                yield held
                return
            self.drop("passed_by", held.batch, "no member there has subscribed to its topics; its numbers are sent")
        before = peer.deferred_numbers.get(origin)
        both = None if before is None else joined(before, held, mark)
        if both is None:
            yield from peer.take_deferred(origin)
        peer.defer_numbers(origin, _numbers(held, held.first, held.batch.count, mark.topics) if both is None else both)
        self.set_timer_once("passed", PASSED_WAIT_NS)

    def withheld(self, peer: RelayPeer, batch: Batch) -> PassedBy | None:
        """The header in place of a batch that the peer's site may not receive; None: it may."""
        allowed = self.guard.rights(peer.site.name).receives
        if allowed.everything:
            return None
        topic = topic_of(batch.headers)
        return None if topic is not None and allowed.includes(topic) else WITHOUT_TOPICS

    def numbers_of(self, first: int, batch: Batch) -> Batch:
        return empty(batch, first, batch.count, NOTHING)

    def deferred(self, peer: RelayPeer) -> Iterator[tuple[Address, HeldBatch]]:
        for origin in list(peer.deferred_numbers):
            for held in peer.take_deferred(origin):
                yield origin, held


def joined(before: HeldBatch, held: HeldBatch, mark: PassedBy) -> HeldBatch | None:
    """Numbers that wait, and those of the batch that follows them, as one; None if that is too much for one batch."""
    assert before.stop == held.first, "numbers that wait end where the cursor stood"
    waiting = before.batch.headers[-1]
    assert isinstance(waiting, PassedBy), "only numbers wait"
    topics, count = waiting.topics.union(mark.topics), before.batch.count + held.batch.count
    return None if count > MAX_PASSED or topics.announced != topics else _numbers(before, before.first, count, topics)


def _numbers(like: HeldBatch, first: int, count: int, topics: Interest) -> HeldBatch:
    return held_batch(first, empty(like.batch, first, count, topics), like.since_ns)


def empty(like: Batch, first: int, count: int, topics: Interest) -> Batch:
    """So many messages of a batch's source from number `first` on, about these topics and without payloads."""
    # ARCHIVE numbers messages as RELAY does; its header stays, so that it records at the other site which were passed
    # by.
    archived = [Archived(first) for header in like.headers if isinstance(header, Archived)]
    return Batch(like.src, None, (b"",) * count, (*archived, PassedBy(topics)), 0)
