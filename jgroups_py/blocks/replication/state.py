"""ReplicaState: what one member holds of one partition, and what it may do with that in the current view.

The consensus is Raft's (Ongaro and Ousterhout 2014): an epoch has one leader at most, because it needs the votes of a
majority and a member votes once in an epoch; an entry is committed once a majority has it; a log that lacks a committed
entry wins no election. Deviations, because there are views and no disks:
- The view is the failure detector: no heartbeats. In each view a leader with a quorum there sends an Append to all, and
  the others stand for election, in order of preference, if it does not.
- A member is an incarnation. Nothing is on disk, so nothing stale can be restored: a restarted member is a new one.
- Entry 1, the first configuration, is given from outside (Create), in no leader's epoch.
"""
from __future__ import annotations

from collections.abc import Sequence

from jgroups_py.blocks.replication.log import Log, ReplicatedEntry
from jgroups_py.blocks.replication.machine import IdempotentMachine
from jgroups_py.blocks.replication.messages import Append, ContentPiece
from jgroups_py.blocks.replication.ports import PartitionPort
from jgroups_py.blocks.replication.quorums import Configuration
from jgroups_py.model.address import Address


class ReplicaState:
    """hollow: the replica has dropped its data, and has kept only how far its log reached.

    The leader and the follower of a replica change it by its methods; at any time one of the two is active.
    """

    def __init__(self, port: PartitionPort) -> None:
        self.port = port
        self.log = Log()
        self.committed = 1                                 # entries below are committed and in the content
        self.content = IdempotentMachine(port.new_machine())
        self.hollow = False

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def configuration(self) -> Configuration:
        """The latest known one."""
        return self.log.configuration

    @property
    def is_changing(self) -> bool:
        """Whether the latest configuration is not known to be committed."""
        return self.log.changed_at >= self.committed

    def has_quorum(self) -> bool:
        """Whether this view has a majority of the replicas."""
        return self.configuration.has_quorum(self.port.members)

    @property
    def is_needed(self) -> bool:
        """Whether this member is in the configuration, or was until a change that is not known to be committed:
        replicas that have only the earlier configuration need its vote, and it may be the only one that has the
        change."""
        if self.hollow:
            return False
        return self.port.me in self.configuration.all_members or (
            self.is_changing and self.port.me in self.log.configuration_before(self.log.changed_at).all_members)

    def may_lead(self) -> bool:
        """Whether this replica may stand for election in this view."""
        return self.is_needed and self.has_quorum()

    def present(self) -> list[Address]:
        """The replicas in this view, the preferred leader first."""
        members = self.port.members
        return [member for member in self.port.preference(self.configuration.all_members) if member in members]

    def others(self) -> list[Address]:
        """The other replicas in this view."""
        return [member for member in self.present() if member != self.port.me]

    # --- changes ------------------------------------------------------------------------------------------------------

    def append(self, entry: ReplicatedEntry) -> int:
        """Append an entry of a leader, or the first configuration. Returns its number."""
        number = self.log.stop
        self.log.append(entry)
        return number

    def accept(self, message: Append) -> int:
        """Replace entries that differ from the leader's, and append new ones. Returns up to where both logs are equal
        now."""
        log, number = self.log, message.first
        for entry in message.entries:
            if number < log.first:
                number += 1                                # in the content, hence committed
                continue
            if number < log.stop and log.epoch_of(number) != entry.epoch:
                assert number >= self.committed, f"a committed entry of partition {message.partition} would be replaced"
                log.truncate(number)
            if number == log.stop:
                log.append(entry)
            number += 1
        return max(number, log.first)

    def commit_next(self) -> tuple[int, ReplicatedEntry, bytes | None]:
        """Carry out the next entry, which is committed. Returns its number, the entry, and its result if it is a
        write."""
        number = self.committed
        entry = self.log.between(number, number + 1)[0]
        result = self.content.apply(entry.request, entry.data) if entry.request else None
        self.port.applied(number, entry)
        self.committed = number + 1
        return number, entry, result

    def take_notices(self) -> Sequence[tuple[Address, bytes]]:
        """What members are to be told of the entries since the last call; only a leader sends it."""
        return self.content.machine.take_notices()

    def fold(self) -> None:
        """Drop entries that are in the content, but for some that other replicas may still lack."""
        keep = self.port.options.keep_entries
        if self.committed - self.log.first > 2 * keep:
            self.log.fold(self.committed - keep)

    def load(self, message: ContentPiece, data: bytes) -> None:
        """Replace the content by a transferred one. Entries behind it are kept: this replica has acknowledged them, and
        the leader counts them towards a majority."""
        log, stop = self.log, message.stop
        if not self.hollow and log.first <= stop <= log.stop and log.epoch_of(stop - 1) == message.last_epoch:
            log.fold(stop)
        else:
            log.begin(stop, message.last_epoch, message.configuration)
        self.content.load(data)
        self.committed, self.hollow = stop, False
        self.port.loaded(stop)

    def drop(self) -> None:
        """Free the data. How far the log reached is kept: it still bounds this replica's votes, since a member that
        missed the change may count it in its configuration."""
        last_epoch, stop = self.log.reach
        self.log.begin(stop, last_epoch, self.configuration)
        self.content = IdempotentMachine(self.port.new_machine())
        self.hollow = True
        self.port.count("replicas_dropped")
