"""Leading: replicating entries to a majority, answering clients, sending the state to replicas that lack the log."""
from __future__ import annotations

from collections.abc import Callable

import attrs

from jgroups_py.blocks.replication.electing import Electing
from jgroups_py.blocks.replication.log import ReplicatedEntry
from jgroups_py.blocks.replication.messages import (
    Append,
    Appended,
    ContentPiece,
    ContentStored,
    Leads,
    PartitionNotice,
    ReplyStatus,
    TakeOver,
)
from jgroups_py.blocks.replication.ports import PartitionPort, Ticket
from jgroups_py.blocks.replication.quorums import Configuration
from jgroups_py.blocks.replication.state import ReplicaState
from jgroups_py.blocks.replication.supervisor import Supervisor
from jgroups_py.blocks.replication.term import Term
from jgroups_py.model.address import Address

NEARLY = 64                                # entries that a learner may lack when it becomes a replica


@attrs.define(eq=False)
class StateFeed:
    """A state that is being sent to a peer. sent, acknowledged: bytes."""

    stop: int
    last_epoch: int
    configuration: Configuration
    data: bytes
    sent: int = 0
    acknowledged: int = 0


@attrs.define(eq=False)
class ReplicaPeer:
    """Another replica, or a host that is to become one.

    next: the entry to be sent next; began: the first one sent, since entries were last sent anew; match: up to where
    its log is known to equal this one; committed: the commit number that it was sent last; round: the latest round of
    reads that it answered.
    """

    next: int
    began: int
    match: int = 1
    committed: int = 0
    round: int = 0
    feed: StateFeed | None = None
    progress: tuple[int, int, int] = (0, 0, 0)             # when "again" fired last

    @property
    def under_way(self) -> int:
        """How many entries were sent to it and are not acknowledged. Entries before `began` do not count: a new leader
        has no acknowledgements yet, and a log longer than the window would hold back its first entry."""
        return self.next - max(self.match, self.began)

    def begin(self, number: int) -> None:
        """Entries are sent from this one on."""
        self.next = self.began = number


@attrs.frozen
class StrongRead:
    """round: a majority must have answered this round before the read may be answered."""

    round: int
    ticket: Ticket
    query: bytes


class Leadership:
    """The state of a leader in its epoch. progressed: called with a peer that has acknowledged entries; since_ns: after
    that no leader of an earlier epoch did anything that takes a majority."""

    def __init__(
        self, port: PartitionPort, term: Term, state: ReplicaState, progressed: Callable[[Address], None],
        since_ns: int,
    ) -> None:
        self.port = port
        self.term = term
        self.state = state
        self.progressed = progressed
        self.began = state.log.stop                        # the number of the entry that the epoch begins with
        self.since_ns = since_ns
        self.peers: dict[Address, ReplicaPeer] = {}
        self.tickets: dict[int, list[Ticket]] = {}         # entry -> requests to answer when it is applied
        self.numbers: dict[bytes, int] = {}                # request -> its entry, while that is not applied
        self.announced = 0                                 # number of Leads sent in this epoch
        self.round = 0
        self.reads: list[StrongRead] = []
        self.supervisor: Supervisor | None = None          # once it is ready
        self.learner: Address | None = None                # gets the log, and becomes a replica once it has it
        self.last: tuple[tuple[int, ...], Append | None] = (), None     # what was sent last, to be sent to others too
        self.keep_peers()

    @property
    def ready(self) -> bool:
        """Whether an entry of this epoch is committed. Before that it is open which earlier entries are, so the leader
        may neither answer reads nor change members (Raft 5.4.2 and 8)."""
        return self.state.committed > self.began

    def holders(self) -> tuple[Address, ...]:
        """The hosts that have a replica, or are getting one."""
        found = (*self.state.configuration.all_members, *(() if self.learner is None else (self.learner,)))
        return tuple(dict.fromkeys(found))

    def keep_peers(self) -> None:
        """A peer for each other holder; those that stay keep their progress."""
        stop = self.state.log.stop
        self.peers = {member: self.peers.get(member) or ReplicaPeer(stop, stop) for member in self.holders()
                      if member != self.port.me}

    def set_learner(self, member: Address | None) -> None:
        """Send the log to a host that is to become a replica; None: to none."""
        self.learner = member
        self.keep_peers()

    def has_caught_up(self, member: Address | None) -> bool:
        """Whether a learner lacks so few entries that it may become a replica."""
        peer = None if member is None else self.peers.get(member)
        return peer is not None and peer.match >= self.state.committed and self.state.log.stop - peer.match <= NEARLY

    # --- sending ----------------------------------------------------------------------------------------------------

    def view_changed(self) -> None:
        """Send all peers the proof that this replica leads; peers that left get no state any more."""
        for member, peer in self.peers.items():
            if member not in self.port.members:
                peer.feed = None
        self.show_all()

    def show_all(self) -> None:
        """Send all peers the proof that this replica leads."""
        for member in self.peers:
            self.show(member)

    def show(self, member: Address) -> None:
        """Send a peer again what it has not acknowledged, or an Append without entries: it shows who leads."""
        peer = self.peers.get(member)
        if peer is None:
            return
        if peer.feed is not None:
            peer.feed.sent = peer.feed.acknowledged
            self.send_state(member, peer)
        else:
            if peer.match > 1:
                peer.begin(peer.match)
            self.send_entries(member, peer, also_none=True)

    def send_all(self, *, also_none: bool = False) -> None:
        """Send all peers their next entries."""
        for member, peer in self.peers.items():
            if peer.feed is None:
                self.send_entries(member, peer, also_none=also_none)

    def send_entries(self, member: Address, peer: ReplicaPeer, *, also_none: bool = False) -> None:
        """Send the entries that the peer lacks, within the window. also_none: send a message without entries if there
        is none."""
        port, log, committed = self.port, self.state.log, self.state.committed
        if peer.next < log.first:
            return self.begin_state(member, peer)
        while also_none or (peer.next < log.stop and peer.under_way < port.options.window_entries):
            also_none = False
            message = self.entries_from(peer.next)
            port.send(member, message)
            peer.next += len(message.entries)
            peer.committed = committed
        port.arm("again", port.options.again_ns)
        return None

    def entries_from(self, first: int) -> Append:
        """The message with the entries from this one on: the same object for peers that need the same."""
        port, log = self.port, self.state.log
        key = self.term.epoch, self.announced, self.round, first, self.state.committed, log.stop
        if self.last[0] != key or self.last[1] is None:
            entries = log.entries(first, port.options.piece_bytes)
            self.last = key, Append(port.partition, self.term.epoch, self.announced, self.round, first,
                                    log.epoch_of(first - 1), self.state.committed, entries)
        assert self.last[1] is not None, "made above"
        return self.last[1]

    def begin_state(self, member: Address, peer: ReplicaPeer) -> None:
        """The entries that the peer lacks are folded into the state: send it the state."""
        stop, log = self.state.committed, self.state.log
        peer.feed = StateFeed(stop, log.epoch_of(stop - 1), log.configuration_before(stop), self.state.content.save())
        self.port.count("states_sent")
        self.send_state(member, peer)

    def send_state(self, member: Address, peer: ReplicaPeer) -> None:
        """Send the next pieces of the state."""
        port, options, feed = self.port, self.port.options, peer.feed
        assert feed is not None, "there is a state to be sent"
        total = len(feed.data)
        while feed.sent < total and feed.sent - feed.acknowledged < options.window_pieces * options.piece_bytes:
            piece = feed.data[feed.sent:feed.sent + options.piece_bytes]
            port.send(member, ContentPiece(port.partition, self.term.epoch, self.announced, feed.stop, feed.last_epoch,
                                           feed.configuration, feed.sent, total, piece))
            feed.sent += len(piece)
        port.arm("again", options.again_ns)

    # --- answers of peers -------------------------------------------------------------------------------------------

    def on_content_stored(self, message: ContentStored, src: Address) -> None:
        """A peer acknowledges bytes of the state."""
        peer = self.peers.get(src)
        if peer is not None and peer.feed is not None and peer.feed.stop == message.stop:
            peer.feed.acknowledged = max(peer.feed.acknowledged, message.offset)
            self.send_state(src, peer)

    def on_appended(self, message: Appended, src: Address) -> None:
        """A peer acknowledges entries, or requests earlier ones."""
        peer = self.peers.get(src)
        if peer is None:
            return
        peer.round = max(peer.round, message.round)
        if message.ok:
            if peer.feed is not None and message.stop >= peer.feed.stop:
                peer.feed = None
            peer.match = max(peer.match, min(message.stop, self.state.log.stop))
            peer.next = max(peer.next, peer.match)
            self.progressed(src)
        elif peer.feed is None:
            peer.begin(max(1, min(peer.next, message.stop)))
            if not message.stop:
                return self.begin_state(src, peer)
        # What was committed by this may have removed this leader from the configuration.
        if self.term.is_leader and peer.feed is None:
            self.send_entries(src, peer, also_none=not message.ok)
        return None

    def send_committed(self) -> None:
        """Send the commit number to followers, if no entries have carried it meanwhile."""
        for member, peer in self.peers.items():
            if peer.feed is None and peer.committed < self.state.committed:
                self.send_entries(member, peer, also_none=True)

    def retransmit(self) -> None:
        """Send unacknowledged entries again to the peers that made no progress since the last call."""
        for member, peer in self.peers.items():
            if member not in self.port.members or not self.awaits(peer):
                continue
            progress = peer.match, peer.round, 0 if peer.feed is None else peer.feed.acknowledged
            if progress == peer.progress:
                self.show(member)
            peer.progress = progress
            self.port.arm("again", self.port.options.again_ns)

    def awaits(self, peer: ReplicaPeer) -> bool:
        """Whether an answer of the peer is due."""
        return peer.feed is not None or peer.match < self.state.log.stop or (
            bool(self.reads) and peer.round < self.round)

    # --- reads ------------------------------------------------------------------------------------------------------

    def read(self, ticket: Ticket, query: bytes) -> None:
        """A strong read: this replica must still lead after the request arrived, so a majority has to answer a round
        that begins after it (read index, Ongaro's thesis, 6.4)."""
        if self.supervisor is not None:
            self.supervisor.asked(query, self.port.now_ns)
        under_way = bool(self.reads)
        self.reads.append(StrongRead(self.round + 1, ticket, query))
        if not under_way:
            self.begin_round()

    def begin_round(self) -> None:
        self.round += 1
        self.send_all(also_none=True)
        self.answer_reads()

    def answer_reads(self) -> None:
        """Answer the reads whose round a majority has answered."""
        if not self.reads or not self.ready:
            return
        rounds = {self.port.me: self.round, **{member: peer.round for member, peer in self.peers.items()}}
        confirmed = self.state.configuration.reached(lambda member: rounds.get(member, 0))
        answered = [read for read in self.reads if read.round <= confirmed]
        self.reads = [read for read in self.reads if read.round > confirmed]
        for read in answered:
            answer = None if self.supervisor is None else self.supervisor.answer(read.query)
            self.port.answer(read.ticket, ReplyStatus.OK,
                             self.state.content.machine.read(read.query) if answer is None else answer)
        if answered and self.reads:
            self.begin_round()


class Leading:
    """The part of a replica that leads. leadership: None while it does not."""

    def __init__(self, port: PartitionPort, term: Term, state: ReplicaState, electing: Electing) -> None:
        self.port = port
        self.term = term
        self.state = state
        self.electing = electing
        self.leadership: Leadership | None = None

    def leads(self) -> Leadership:
        """The leadership; to be called only while this replica leads."""
        assert self.leadership is not None, "only a leader has it"
        return self.leadership

    def lead(self) -> None:
        """This replica is elected: begin its epoch with an entry of its own, so that earlier entries can be
        committed."""
        self.term.lead()
        self.electing.leader_known()
        self.leadership = Leadership(self.port, self.term, self.state, self.progressed, self.electing.latest_contact_ns)
        self.port.count("elections_won")
        self.append(ReplicatedEntry(self.term.epoch))

    def step_down(self) -> None:
        """Stop leading, or being a candidate. The outcome of writes under way is open; reads are redirected."""
        if self.leadership is None:
            return self.term.stop_standing()
        leadership, self.leadership = self.leadership, None
        self.term.step_down(self.port.now_ns)
        self.port.cancel_timer("again")
        self.port.cancel_timer("review")
        self.port.cancel_timer("supervisor")
        self.port.leadership_lost()
        for tickets in leadership.tickets.values():
            for ticket in tickets:
                self.port.answer(ticket, ReplyStatus.UNKNOWN)
        for read in leadership.reads:
            self.port.redirect(read.ticket)
        return None

    def announce(self) -> None:
        """Announce the leader and the holders to all hosts: for routing, and so that other hosts drop their data."""
        state, leadership = self.state, self.leads()
        holders = dict.fromkeys(leadership.holders())
        if state.is_changing:
            holders |= dict.fromkeys(state.log.configuration_before(state.log.changed_at).all_members)
        leadership.announced += 1
        self.port.announce(Leads(self.port.partition, self.term.epoch, leadership.announced,
                                 state.configuration.members, tuple(holders)))
        self.port.set_timer("review", self.port.options.settle_ns)

    def view_changed(self) -> None:
        """A view in which this leader has a quorum: prove it to the others."""
        leadership = self.leads()
        leadership.view_changed()
        if leadership.ready:
            self.announce()

    # --- entries ------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send the entries of this step."""
        if self.leadership is not None:
            self.leadership.send_all()

    def write(self, ticket: Ticket, request: bytes, data: bytes) -> None:
        """A client's write; answered when a majority has it. A repeated request is the same write."""
        leadership, state = self.leads(), self.state
        result = state.content.results.get(request)
        if result is not None:
            return self.port.answer(ticket, ReplyStatus.OK, result)
        number = leadership.numbers.get(request)
        if number is not None:
            leadership.tickets.setdefault(number, []).append(ticket)
            return None
        if state.log.stop - state.committed >= self.port.options.max_uncommitted:
            return self.port.answer(ticket, ReplyStatus.BUSY)
        number = leadership.numbers[request] = state.log.stop
        leadership.tickets[number] = [ticket]
        return self.append(ReplicatedEntry(self.term.epoch, request, data))

    def change(self, joint: Configuration) -> None:
        """Append a joint configuration; its new member is a replica from now on."""
        self.leads().learner = None
        self.port.count("configurations")
        self.append(ReplicatedEntry(self.term.epoch, change=joint))

    def append(self, entry: ReplicatedEntry) -> None:
        """Append an entry. It is sent together with later ones of the same step."""
        self.state.append(entry)
        if entry.change is not None:
            self.leads().keep_peers()
        self.port.schedule_flush()
        self.commit_more()

    def progressed(self, member: Address) -> None:
        """A peer has acknowledged entries: some may be committed now, and a learner may have all."""
        self.commit_more()
        leadership = self.leadership
        if leadership is not None and leadership.learner == member and leadership.has_caught_up(member):
            self.port.set_timer("review", 0)

    def commit_more(self) -> None:
        """Commit what a quorum has, if it ends in an entry of this epoch (Raft 5.4.2)."""
        leadership, state = self.leads(), self.state
        peers, stop = leadership.peers, state.log.stop
        reached = state.configuration.reached(
            lambda member: stop if member == self.port.me else peers[member].match if member in peers else 1)
        if reached > state.committed and state.log.epoch_of(reached - 1) == self.term.epoch:
            self.commit(reached)
        if self.leadership is leadership:
            leadership.answer_reads()

    def commit(self, stop: int) -> None:
        """Carry out the entries below `stop`, answer their clients, and schedule the notice to the followers."""
        leadership, state, first = self.leads(), self.state, self.state.committed
        was_ready = leadership.ready
        while state.committed < stop:
            number, entry, result = state.commit_next()
            if number == leadership.began:
                self.begin_supervisor()
            leadership.numbers.pop(entry.request, None)
            for ticket in leadership.tickets.pop(number, ()):
                self.port.answer(ticket, ReplyStatus.OK, result or b"")
        for member, data in state.take_notices():
            self.port.send(member, PartitionNotice(self.port.partition, data))
        if leadership.supervisor is not None:
            leadership.supervisor.applied(self.port.now_ns)
            self.plan_supervisor()
        # Entries behind a state that is being sent are needed until it has arrived.
        if not any(peer.feed for peer in leadership.peers.values()):
            state.fold()
        self.port.arm("send_committed", self.port.options.commit_notice_ns)
        changed = first <= state.log.changed_at < stop
        if state.configuration.old and not state.is_changing:
            self.append(ReplicatedEntry(self.term.epoch, change=Configuration(state.configuration.members)))
        elif changed and self.port.me not in state.configuration.members:
            self.retire()
        elif changed or not was_ready:
            self.announce()

    def begin_supervisor(self) -> None:
        """The entries of earlier epochs, and none of this one, were carried out. Reads that came before are asked now:
        they are answered in this epoch."""
        leadership, now_ns = self.leads(), self.port.now_ns
        leadership.supervisor = self.state.content.machine.begin_supervisor(leadership.since_ns)
        if leadership.supervisor is not None:
            for read in leadership.reads:
                leadership.supervisor.asked(read.query, now_ns)
            for member in self.port.gone:
                leadership.supervisor.gone(member, now_ns)

    def gone(self, member: Address) -> None:
        """The process of a member has ended for certain."""
        if self.leadership is not None and self.leadership.supervisor is not None:
            self.leadership.supervisor.gone(member, self.port.now_ns)
            self.plan_supervisor()

    def plan_supervisor(self) -> None:
        """Set the timer of the supervisor."""
        supervisor = self.leads().supervisor
        due_ns = None if supervisor is None else supervisor.next_deadline_ns
        if due_ns is not None:
            self.port.set_timer("supervisor", max(0, due_ns - self.port.now_ns))

    def retire(self) -> None:
        """This leader is no longer in the configuration: send the others the outcome, and hand over to one of them."""
        leadership = self.leads()
        self.announce()
        leadership.show_all()
        best = next((member for member in self.state.others()
                     if leadership.peers[member].match == self.state.log.stop), None)
        if best is not None:
            self.port.send(best, TakeOver(self.port.partition, self.term.epoch))
        self.step_down()

    # --- timers -------------------------------------------------------------------------------------------------------

    def again_due(self) -> None:
        """The timer has fired: peers have had the time to acknowledge."""
        if self.leadership is not None:
            self.leadership.retransmit()

    def send_committed_due(self) -> None:
        """The timer has fired: no entries may have carried the commit number."""
        if self.leadership is not None:
            self.leadership.send_committed()

    def supervisor_due(self) -> None:
        """The timer has fired: the supervisor's commands are written."""
        leadership = self.leadership
        if leadership is None or leadership.supervisor is None:
            return
        for command in leadership.supervisor.advance(self.port.now_ns):
            if self.leadership is leadership:                  # a commit may have ended it
                name = b"%d/%d" % (self.term.epoch, self.state.log.stop)
                self.append(ReplicatedEntry(self.term.epoch, name, command))
        if self.leadership is leadership:
            self.plan_supervisor()
