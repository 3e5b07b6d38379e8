"""Leading: bringing entries to a majority, answering clients, feeding states to replicas that come."""
from __future__ import annotations

import attrs

from jgroups_py.address import Address
from jgroups_py.blocks.replicas.electing import Electing
from jgroups_py.blocks.replicas.following import Following
from jgroups_py.blocks.replicas.log import Entry
from jgroups_py.blocks.replicas.messages import Append, Appended, State, Stated, Status, TakeOver
from jgroups_py.blocks.replicas.quorums import Configuration
from jgroups_py.blocks.replicas.state import Role, Ticket


@attrs.define(eq=False)
class Transfer:
    """A state on its way to a peer. sent, got: bytes."""

    stop: int
    last_epoch: int
    configuration: Configuration
    data: bytes
    sent: int = 0
    got: int = 0


@attrs.define(eq=False)
class Peer:
    """Another replica, or one that is to become one. next: what it is sent next; match: up to where it has our log;
    told: the `committed` that it was told; round: the latest round of reads that it answered."""

    next: int
    match: int = 1
    told: int = 0
    round: int = 0
    transfer: Transfer | None = None
    progress: tuple[int, int, int] = (0, 0, 0)             # when "again" looked last


@attrs.frozen
class Question:
    """A strong read. round: a majority must have answered this round before it may be answered."""

    round: int
    ticket: Ticket
    query: bytes


class Leadership:
    """What a leader knows in its epoch."""

    def __init__(self, replica: Leading) -> None:
        self.replica = replica
        self.began = replica.log.stop                      # the number of the entry that we begin with
        self.peers: dict[Address, Peer] = {}
        self.tickets: dict[int, list[Ticket]] = {}         # entry -> whom to answer when it is applied
        self.numbers: dict[bytes, int] = {}                # request -> its entry, while that is not applied
        self.shown = 0                                     # how often we have told all (Leads)
        self.round = 0
        self.questions: list[Question] = []
        self.learner: Address | None = None                # gets the log, and becomes a replica once it has it

    @property
    def ready(self) -> bool:
        """Whether an entry of our epoch is committed: only then we know what is, and may read and change members."""
        return self.replica.committed > self.began

    def holders(self) -> tuple[Address, ...]:
        """Who has a replica or gets one."""
        found = (*self.replica.configuration.everybody, *(() if self.learner is None else (self.learner,)))
        return tuple(dict.fromkeys(found))

    def keep_peers(self) -> None:
        """The peers that there must be."""
        stop = self.replica.log.stop
        self.peers = {member: self.peers.get(member) or Peer(next=stop) for member in self.holders()
                      if member != self.replica.me}

    # --- sending ----------------------------------------------------------------------------------------------------

    def show_all(self) -> None:
        """Let everybody see that we lead."""
        for member in self.peers:
            self.show(member)

    def show(self, member: Address) -> None:
        """Begin again with what a peer is not known to have."""
        peer = self.peers.get(member)
        if peer is None:
            return
        if peer.transfer is not None:
            peer.transfer.sent = peer.transfer.got
            self.send_state(member, peer)
        else:
            if peer.match > 1:
                peer.next = peer.match
            self.send_entries(member, peer, also_none=True)

    def send_all(self, *, also_none: bool = False) -> None:
        """Send everybody what is new."""
        for member, peer in self.peers.items():
            if peer.transfer is None:
                self.send_entries(member, peer, also_none=also_none)

    def send_entries(self, member: Address, peer: Peer, *, also_none: bool = False) -> None:
        """What the peer lacks, as far as it may be under way at once."""
        replica, options = self.replica, self.replica.host.options
        log = replica.log
        if peer.next < log.first:
            return self.begin_state(member, peer)
        while also_none or (peer.next < log.stop and peer.next - peer.match < options.window_entries):
            also_none = False
            entries = log.entries(peer.next, options.piece_bytes)
            replica.send(member, Append(replica.partition, replica.epoch, self.shown, self.round, peer.next,
                                        log.epoch_of(peer.next - 1), replica.committed, entries))
            peer.next += len(entries)
            peer.told = replica.committed
        replica.arm("again", options.again_ns)
        return None

    def begin_state(self, member: Address, peer: Peer) -> None:
        """The entries that the peer lacks are folded away: it gets the content."""
        replica = self.replica
        stop, log = replica.committed, replica.log
        peer.transfer = Transfer(stop, log.epoch_of(stop - 1), log.configuration_before(stop), replica.once.save())
        replica.host.count("states_sent")
        self.send_state(member, peer)

    def send_state(self, member: Address, peer: Peer) -> None:
        """The next pieces."""
        replica, options, transfer = self.replica, self.replica.host.options, peer.transfer
        assert transfer is not None, "there is a state to be sent"
        total = len(transfer.data)
        while transfer.sent < total and transfer.sent - transfer.got < options.window_pieces * options.piece_bytes:
            piece = transfer.data[transfer.sent:transfer.sent + options.piece_bytes]
            replica.send(member, State(replica.partition, replica.epoch, self.shown, transfer.stop,
                                       transfer.last_epoch, transfer.configuration, transfer.sent, total, piece))
            transfer.sent += len(piece)
        replica.arm("again", options.again_ns)

    # --- answers of peers -------------------------------------------------------------------------------------------

    def stated(self, message: Stated, src: Address) -> None:
        """A peer has so many bytes of its state."""
        peer = self.peers.get(src)
        if peer is not None and peer.transfer is not None and peer.transfer.stop == message.stop:
            peer.transfer.got = max(peer.transfer.got, message.offset)
            self.send_state(src, peer)

    def appended(self, message: Appended, src: Address) -> None:
        """A peer has entries, or wants others."""
        peer = self.peers.get(src)
        if peer is None:
            return
        peer.round = max(peer.round, message.round)
        if message.ok:
            if peer.transfer is not None and message.stop >= peer.transfer.stop:
                peer.transfer = None
            peer.match = max(peer.match, min(message.stop, self.replica.log.stop))
            peer.next = max(peer.next, peer.match)
            self.replica.commit_more()
            self.replica.fed(src)
        elif peer.transfer is None:
            peer.next = max(1, min(peer.next, message.stop))
            if not message.stop:
                return self.begin_state(src, peer)
        if self.replica.is_leader and peer.transfer is None:
            self.send_entries(src, peer, also_none=not message.ok)
        return None

    def tell(self) -> None:
        """Who does not know what is committed is told, if no entries have done that meanwhile."""
        for member, peer in self.peers.items():
            if peer.transfer is None and peer.told < self.replica.committed:
                self.send_entries(member, peer, also_none=True)

    def again(self) -> None:
        """To peers from which nothing came for a while, what they have not acknowledged is sent again."""
        replica = self.replica
        for member, peer in self.peers.items():
            if member not in replica.host.members or not self.owes(peer):
                continue
            progress = peer.match, peer.round, 0 if peer.transfer is None else peer.transfer.got
            if progress == peer.progress:
                self.show(member)
            peer.progress = progress
            replica.arm("again", replica.host.options.again_ns)

    def owes(self, peer: Peer) -> bool:
        """Whether an answer of the peer is due."""
        return peer.transfer is not None or peer.match < self.replica.log.stop or (
            bool(self.questions) and peer.round < self.round)

    # --- reads ------------------------------------------------------------------------------------------------------

    def ask(self, ticket: Ticket, query: bytes) -> None:
        """A strong read: we must still be leader after it was asked, so a majority has to answer a round after it."""
        under_way = bool(self.questions)
        self.questions.append(Question(self.round + 1, ticket, query))
        if not under_way:
            self.begin_round()

    def begin_round(self) -> None:
        self.round += 1
        self.send_all(also_none=True)
        self.answer_reads()

    def answer_reads(self) -> None:
        """Answer the reads whose round a majority has answered."""
        replica = self.replica
        if not self.questions or not self.ready:
            return
        peers = {replica.me: self.round, **{member: peer.round for member, peer in self.peers.items()}}
        confirmed = replica.configuration.reached(lambda member: peers.get(member, 0))
        answered = [question for question in self.questions if question.round <= confirmed]
        self.questions = [question for question in self.questions if question.round > confirmed]
        for question in answered:
            replica.host.answer(question.ticket, replica, Status.OK, replica.once.machine.read(question.query))
        if answered and self.questions:
            self.begin_round()


class Leading(Electing, Following):
    """The part of a replica that leads."""

    def lead(self) -> None:
        self.role, self.leader, self.attempts = Role.LEADER, self.me, 0
        self.cancel_timer("elect")
        self.leadership = Leadership(self)
        self.leadership.keep_peers()
        self.host.count("elections_won")
        self.add(Entry(self.epoch))

    def flush(self) -> None:
        """Send what was appended in this step."""
        if self.leadership is not None:
            self.leadership.send_all()

    def step_down(self) -> None:
        if self.leadership is not None:
            waiting = [*(ticket for tickets in self.leadership.tickets.values() for ticket in tickets)]
            asking = [question.ticket for question in self.leadership.questions]
            self.leadership, self.leader = None, None
            self.cancel_timer("again")
            self.cancel_timer("review")
            self.host.steps_down(self)
            for ticket in waiting:
                self.refuse(ticket, Status.UNKNOWN)
            for ticket in asking:
                self.refuse(ticket)
        self.role = Role.FOLLOWER

    def add(self, entry: Entry) -> int:
        """Append an entry of ours; its number. It is sent with those that follow in the same step."""
        number = self.log.stop
        self.log.append(entry)
        leadership = self.leads()
        if entry.change is not None:
            leadership.keep_peers()
        self.host.stir(self)
        self.commit_more()
        return number

    def commit_more(self) -> None:
        """Commit what a majority has, if it is of our epoch (Raft 5.4.2), and what came before it."""
        leadership, stop = self.leads(), self.log.stop
        peers = leadership.peers
        reached = self.configuration.reached(
            lambda member: stop if member == self.me else peers[member].match if member in peers else 1)
        if reached > self.committed and self.log.epoch_of(reached - 1) == self.epoch:
            self.commit_own(reached)
        if self.leadership is leadership:
            leadership.answer_reads()

    def commit_own(self, stop: int) -> None:
        """Apply, answer, and let the others know."""
        leadership, first = self.leads(), self.committed
        was_ready = leadership.ready
        for number, entry in enumerate(self.log.between(first, stop), first):
            result = self.apply(number, entry)
            self.committed = number + 1
            leadership.numbers.pop(entry.request, None)
            for ticket in leadership.tickets.pop(number, ()):
                self.host.answer(ticket, self, Status.OK, result or b"")
        self.fold()
        self.arm("tell", self.host.options.tell_ns)
        changed = first <= self.log.changed_at < stop
        if self.configuration.old and self.log.changed_at < self.committed:
            self.add(Entry(self.epoch, change=Configuration(self.configuration.members)))
        elif changed and self.me not in self.configuration.members:
            self.retire()
        elif changed or not was_ready:
            self.host.leading(self)

    def retire(self) -> None:
        """We have led ourselves out of the configuration: let the others know, and one of them lead."""
        leadership = self.leads()
        self.host.leading(self)
        leadership.show_all()
        best = next((member for member in self.others() if leadership.peers[member].match == self.log.stop), None)
        if best is not None:
            self.send(best, TakeOver(self.partition, self.epoch))
        self.step_down()

    def fold(self) -> None:
        """Nothing that a state under way is to be followed by."""
        if self.leadership is None or not any(peer.transfer for peer in self.leadership.peers.values()):
            super().fold()

    def write(self, ticket: Ticket, request: bytes, data: bytes) -> None:
        """A client's write; answered when a majority has it."""
        leadership, options = self.leads(), self.host.options
        result = self.once.results.get(request)
        if result is not None:
            return self.host.answer(ticket, self, Status.OK, result)
        number = leadership.numbers.get(request)
        if number is None:
            if self.log.stop - self.committed >= options.max_uncommitted:
                return self.refuse(ticket, Status.BUSY)
            number = leadership.numbers[request] = self.log.stop
            leadership.tickets[number] = [ticket]
            self.add(Entry(self.epoch, request, data))
        else:
            leadership.tickets.setdefault(number, []).append(ticket)
        return None


    # --- what moving adds ---------------------------------------------------------------------------------------------

    def fed(self, member: Address) -> None:
        """A peer has got entries."""
        raise NotImplementedError
