"""What sites want: runs about a topic that nobody at a site wants cross the bridge as their numbers only.

A run of which only the numbers are wanted is a run of as many empty messages, marked PassedBy with its topics. So it
is numbered, disseminated, deduplicated, acknowledged, replayed and counted like any other: contiguity, the seen vectors
and the ledger know nothing of topics. Neighbours become one run while they wait for company, `PASSED_WAIT_NS` at most.

What a site wants is known to its coordinator only, from TOPICS above; until all members of a new view have told it,
that is everything. It tells every relay (Wants). The sender's choice may be older than what is wanted by now: so the
receiving relay looks again, refuses numbers of what somebody wants meanwhile, and has the messages sent after all.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.batch import Batch, Header
from jgroups_py.protocol import STOP, Protocol, on, timer
from jgroups_py.protocols.relay.buffer import HeldRun, held_run
from jgroups_py.protocols.relay.headers import PROTO, Disseminate
from jgroups_py.protocols.relay.peers import Peer
from jgroups_py.recording import Archived
from jgroups_py.topics import EVERYTHING, INTEREST, Interest, PassedBy, SiteInterest, passed_by
from jgroups_py.units import millis

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

PASSED_WAIT_NS = millis(50)          # numbers alone are in no hurry; what comes meanwhile travels with them
MAX_PASSED = 4096                    # numbers in one run


@wire.header(proto=PROTO, kind=30)
class Wants(Header):
    """A relay to those of other sites: of messages about topics its site wants these."""

    interest: Interest = wire.field(INTEREST)


class Interests:
    """See the module."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.mine: Interest = EVERYTHING             # of our site
        self.used = False                            # our stack has TOPICS

    # --- what our site wants ------------------------------------------------------------------------------------------

    def view_changed(self, *, joined: bool) -> None:
        """Before anything else in a new view: of whoever came nobody knows yet what he wants."""
        if joined or not self.relay.is_relay:
            self.set(EVERYTHING)

    def set(self, interest: Interest) -> None:
        """What our site wants from now on."""
        if interest == self.mine:
            return
        self.mine = interest
        if self.relay.is_relay:
            for peer in self.relay.sending.peers:
                self.tell(peer.address)

    def tell(self, to: Address) -> None:
        """Say it to another relay."""
        if self.used:
            self.relay.to_bridge(to, Wants(self.mine))

    def refuses(self, batch: Batch) -> bool:
        """Whether only numbers came of what our site wants by now."""
        mark = batch.headers[-1] if batch.headers else None
        return isinstance(mark, PassedBy) and self.mine.meets(mark.topics)

    def refuse(self, peer: Peer, batch: Batch) -> None:
        """Say again what we want, before the messages are asked for."""
        self.relay.count("passed_by_refused", batch.count)
        self.tell(peer.address)

    def outdated(self, runs: Iterable[tuple[Disseminate, Batch]]) -> bool:
        """Whether such a run is among those that a view change swallowed."""
        return any(self.refuses(batch) for _, batch in runs)

    # --- what other sites want ----------------------------------------------------------------------------------------

    def heard(self, header: Wants, src: Address) -> None:
        """A relay tells what its site wants. Fenced ones too: they disseminate for their half."""
        peer = self.relay.sending.peers.get(src)
        if peer is not None:
            peer.interest = header.interest

    def pass_on(self, peer: Peer, origin: Address, run: HeldRun) -> None:
        """Send a run, or keep its numbers for a moment, as the peer's site wants it."""
        mark = passed_by(run.batch, peer.interest)
        if mark is None:
            self.send_numbers(peer, origin)
            return self.relay.sending.forward(peer, origin, run)
        self.relay.count("passed_by", run.batch.count)
        before = peer.passed.get(origin)
        both = None if before is None else joined(before, run, mark)
        if both is None:
            self.send_numbers(peer, origin)
        peer.passed[origin] = _numbers(run, run.first, run.batch.count, mark.topics) if both is None else both
        return self.relay.set_timer_once("passed", PASSED_WAIT_NS)

    def send_numbers(self, peer: Peer, origin: Address) -> None:
        """Send the numbers that wait."""
        run = peer.passed.pop(origin, None)
        if run is not None:
            self.relay.sending.forward(peer, origin, run)

    def send_all_numbers(self) -> None:
        """On a timer."""
        for peer in self.relay.sending.peers:
            self.flush(peer)

    def flush(self, peer: Peer) -> None:
        """Send all that waits for a peer."""
        for origin in list(peer.passed):
            self.send_numbers(peer, origin)


def joined(before: HeldRun, run: HeldRun, mark: PassedBy) -> HeldRun | None:
    """Numbers that wait, and those of the run that follows them; None if that is too much for one run."""
    assert before.stop == run.first, "numbers that wait end where the cursor stood"
    waiting = before.batch.headers[-1]
    assert isinstance(waiting, PassedBy), "only numbers wait"
    topics, count = waiting.topics.union(mark.topics), before.batch.count + run.batch.count
    return None if count > MAX_PASSED or topics.told != topics else _numbers(before, before.first, count, topics)


def _numbers(like: HeldRun, first: int, count: int, topics: Interest) -> HeldRun:
    # ARCHIVE's numbers are ours; it records which were passed by.
    archived = [Archived(first) for header in like.batch.headers if isinstance(header, Archived)]
    batch = Batch(like.batch.src, None, (b"",) * count, (*archived, PassedBy(topics)), 0)
    return held_run(first, batch, like.since_ns)


class InterestTalk(Protocol):
    """A base of Relay that is told what sites want."""

    interests: Interests
    is_relay: bool

    @on(SiteInterest)
    def on_site_interest(self, event: SiteInterest) -> object:
        self.interests.used = True
        if self.is_relay:
            self.interests.set(event.interest)
        return STOP

    @timer("passed")
    def send_passed(self) -> None:
        self.interests.send_all_numbers()
