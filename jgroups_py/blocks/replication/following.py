"""Following: accepting the leader's entries and its state."""
from __future__ import annotations

from collections.abc import Callable

import attrs

from jgroups_py.blocks.replication.electing import Electing
from jgroups_py.blocks.replication.messages import Append, Appended, ContentPiece, ContentStored, Leads
from jgroups_py.blocks.replication.ports import PartitionPort
from jgroups_py.blocks.replication.state import ReplicaState
from jgroups_py.blocks.replication.term import Term
from jgroups_py.model.address import Address

MAX_STATE_BYTES = 1 << 32


@attrs.define(eq=False)
class Arriving:
    """A state that is arriving, in pieces."""

    epoch: int
    stop: int
    data: bytearray


class Following:
    """The part of a replica that follows. adopt: enters a higher epoch."""

    def __init__(
        self, port: PartitionPort, term: Term, state: ReplicaState, electing: Electing, adopt: Callable[[int], None],
    ) -> None:
        self.port = port
        self.term = term
        self.state = state
        self.electing = electing
        self.adopt = adopt
        self.arriving: Arriving | None = None

    def follows(self, epoch: int, src: Address, announced: int) -> bool:
        """Whether `src`, which claims to lead in `epoch`, is not stale; if so, it is this replica's leader.

        A message that was sent before the Leads that made this replica drop its data (`announced`) may arrive late: the
        leader does not count this replica as a holder any more.
        """
        if epoch < self.term.epoch or src not in self.port.members:
            return False
        if epoch > self.term.epoch:
            self.adopt(epoch)
        if self.state.hollow and announced < self.term.announced:
            return False
        assert not self.term.is_leader, f"two leaders of partition {self.port.partition} in epoch {epoch}"
        self.term.follow(src, announced, self.port.now_ns)
        self.electing.leader_known()
        return True

    def report_epoch(self, epoch: int, src: Address, answer: Appended | ContentStored) -> None:
        """Answer a stale leader, of an earlier epoch: the epoch in the answer makes it step down."""
        if epoch < self.term.epoch:
            self.port.send(src, answer)

    def append(self, message: Append, src: Address) -> None:
        """The leader's entries."""
        partition, term = self.port.partition, self.term
        if not self.follows(message.epoch, src, message.shown):
            return self.report_epoch(message.epoch, src, Appended(partition, term.epoch, message.round, False, 0))
        stop = self.fits(message)
        if stop is not None:
            return self.port.send(src, Appended(partition, term.epoch, message.round, False, stop))
        stop = self.state.accept(message)
        self.commit(min(message.committed, stop))
        return self.port.send(src, Appended(partition, term.epoch, message.round, True, stop))

    def fits(self, message: Append) -> int | None:
        """None if the entries continue this log; else the number from which this replica needs them (0: the state)."""
        log = self.state.log
        if self.state.hollow:
            return 0
        if message.first > log.stop:
            return log.stop
        before = message.first - 1
        if before >= log.first - 1 and log.epoch_of(before) != message.epoch_before:
            return self.state.committed                    # up to there all logs are equal
        return None

    def commit(self, stop: int) -> None:
        """Entries below `stop` are committed."""
        state = self.state
        while state.committed < stop:
            state.commit_next()
        state.take_notices()                               # the leader sends them
        state.fold()
        if self.term.leader not in state.configuration.all_members and not state.is_changing:
            self.term.lose_leader()                        # it removed itself from the configuration
            self.electing.wait_for_leader()

    # --- the state --------------------------------------------------------------------------------------------------

    def take_piece(self, message: ContentPiece, src: Address) -> None:
        """A piece of the leader's state."""
        partition, epoch, state = self.port.partition, message.epoch, self.state
        if not self.follows(epoch, src, message.shown):
            return self.report_epoch(epoch, src, ContentStored(partition, self.term.epoch, message.stop, 0))
        if message.total > MAX_STATE_BYTES:
            return None
        if not state.hollow and message.stop <= state.committed:
            self.arriving = None
            return self.port.send(src, Appended(partition, self.term.epoch, 0, True, state.committed))
        arriving = self.arriving
        if arriving is None or (arriving.epoch, arriving.stop) != (epoch, message.stop):
            arriving = self.arriving = Arriving(epoch, message.stop, bytearray())
        if message.offset == len(arriving.data):
            arriving.data += message.data
        if len(arriving.data) < message.total:
            return self.port.send(src, ContentStored(partition, self.term.epoch, message.stop, len(arriving.data)))
        self.arriving = None
        state.load(message, bytes(arriving.data))
        return self.port.send(src, Appended(partition, self.term.epoch, 0, True, message.stop))

    def on_leads(self, message: Leads) -> None:
        """A leader announces the holders of the partition: if this replica is none of them, it drops its data."""
        if (message.epoch, message.shown) < (self.term.epoch, self.term.announced):
            return                                         # sent before the leader began to send the log here
        if message.epoch > self.term.epoch:
            self.adopt(message.epoch)
        self.term.note_announced(message.shown)
        if self.state.hollow or self.term.is_leader or self.port.me in message.holders:
            return
        self.state.drop()
        self.arriving = None
        self.port.cancel_timer("elect")
