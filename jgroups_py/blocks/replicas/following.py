"""Following: taking the leader's entries and its state."""
from __future__ import annotations

from jgroups_py.address import Address
from jgroups_py.blocks.replicas.machine import Once
from jgroups_py.blocks.replicas.messages import Append, Appended, Leads, State, Stated
from jgroups_py.blocks.replicas.state import Arriving, ReplicaState, Role

MAX_STATE_BYTES = 1 << 32


class Following(ReplicaState):
    """The part of a replica that follows."""

    def follows(self, epoch: int, src: Address, shown: int) -> bool:
        """Whether `src`, who says that it leads in `epoch`, does as far as we know; then it is our leader.

        What it sent before it told us to drop our data (`shown`) may come late; it would not take it back.
        """
        if epoch < self.epoch or src not in self.host.members:
            return False
        if epoch > self.epoch:
            self.adopt(epoch)
        if self.hollow and shown < self.shown:
            return False
        self.shown = max(self.shown, shown)
        assert not self.is_leader, f"two leaders of partition {self.partition} in epoch {epoch}"
        self.role, self.leader, self.attempts = Role.FOLLOWER, src, 0
        self.cancel_timer("elect")
        return True

    def tell_epoch(self, epoch: int, src: Address, answer: Appended | Stated) -> None:
        """Who led in an earlier epoch leads no more, and learns it from our answer."""
        if epoch < self.epoch:
            self.send(src, answer)

    def append(self, message: Append, src: Address) -> None:
        """The leader's entries."""
        if not self.follows(message.epoch, src, message.shown):
            return self.tell_epoch(message.epoch, src, Appended(self.partition, self.epoch, message.round, False, 0))
        stop = self.fits(message)
        if stop is not None:
            return self.send(src, Appended(self.partition, self.epoch, message.round, False, stop))
        stop = self.take(message)
        self.commit(min(message.committed, stop))
        return self.send(src, Appended(self.partition, self.epoch, message.round, True, stop))

    def fits(self, message: Append) -> int | None:
        """None if the entries follow on ours; else from where we want them (0: we need the state)."""
        if self.hollow:
            return 0
        if message.first > self.log.stop:
            return self.log.stop
        before = message.first - 1
        if before >= self.log.first - 1 and self.log.epoch_of(before) != message.epoch_before:
            return self.committed                          # up to there all logs are alike
        return None

    def take(self, message: Append) -> int:
        """Take over what we lack; up to where our log is the leader's now."""
        log, number = self.log, message.first
        for entry in message.entries:
            if number < log.first:
                number += 1                                # in the state, hence committed
                continue
            if number < log.stop and log.epoch_of(number) != entry.epoch:
                assert number >= self.committed, f"a committed entry of partition {self.partition} is contradicted"
                log.truncate(number)
            if number == log.stop:
                log.append(entry)
            number += 1
        return max(number, log.first)

    def commit(self, stop: int) -> None:
        """Entries below `stop` are committed."""
        for number, entry in enumerate(self.log.between(self.committed, max(stop, self.committed)), self.committed):
            self.apply(number, entry)
        self.committed = max(self.committed, stop)
        self.fold()
        if self.leader not in self.configuration.everybody and self.log.changed_at < self.committed:
            self.leader = None                             # it led itself out, and leads no more
            self.wait_for_leader()

    def fold(self) -> None:
        """Forget entries that are in the content, but for some that others may yet lack."""
        keep = self.host.options.keep_entries
        if self.committed - self.log.first > 2 * keep:
            self.log.fold(self.committed - keep)

    # --- the state --------------------------------------------------------------------------------------------------

    def state(self, message: State, src: Address) -> None:
        """A piece of the leader's state."""
        if not self.follows(message.epoch, src, message.shown):
            return self.tell_epoch(message.epoch, src, Stated(self.partition, self.epoch, message.stop, 0))
        if message.total > MAX_STATE_BYTES:
            return None
        if not self.hollow and message.stop <= self.committed:
            self.arriving = None
            return self.send(src, Appended(self.partition, self.epoch, 0, True, self.committed))
        arriving = self.arriving
        if arriving is None or (arriving.epoch, arriving.stop) != (message.epoch, message.stop):
            arriving = self.arriving = Arriving(message.epoch, message.stop, bytearray())
        if message.offset == len(arriving.data):
            arriving.data += message.data
        if len(arriving.data) < message.total:
            return self.send(src, Stated(self.partition, self.epoch, message.stop, len(arriving.data)))
        self.load(message, bytes(arriving.data))
        return self.send(src, Appended(self.partition, self.epoch, 0, True, message.stop))

    def load(self, message: State, data: bytes) -> None:
        """The state is complete; entries of ours that follow it are kept, since the leader may count on them."""
        log, stop = self.log, message.stop
        if not self.hollow and log.first <= stop <= log.stop and log.epoch_of(stop - 1) == message.last_epoch:
            log.fold(stop)
        else:
            log.begin(stop, message.last_epoch, message.configuration)
        self.once.load(data)
        self.committed, self.hollow, self.arriving = stop, False, None
        self.host.loaded(self, stop)

    def heard_leads(self, message: Leads, src: Address) -> None:
        """Who leads and who holds the partition: if we are none of those, its data may go.

        What stays is how far our log reached: our vote is bound by what we have acknowledged, since an outdated member
        may yet know a configuration that we are in.
        """
        if (message.epoch, message.shown) < (self.epoch, self.shown):
            return                                         # from before the leader began to feed us
        if message.epoch > self.epoch:
            self.adopt(message.epoch)
        self.shown = message.shown
        if self.hollow or self.is_leader or self.me in message.holders:
            return
        last_epoch, stop = self.log.reach
        self.log.begin(stop, last_epoch, self.configuration)
        self.once = Once(self.host.make_machine(self.partition))
        self.hollow, self.arriving = True, None
        self.cancel_timer("elect")
        self.host.dropped(self)
