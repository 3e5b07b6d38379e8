"""OwnedSets: the part of the machine that has the sets of partitions, each partition of which belongs to one session.

The members of a set are the sessions that take part in it. Whenever they change, `assign` says which partition each is
to own. A partition that belongs to another one is asked back: its owner gets an outcome, and keeps it until it has
released it, or its session has ended; then the one that is to have it by that time owns it, with a new number.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import attrs

from jgroups_py.blocks.coordination.assignment import MAX_PARTITIONS, MAX_WEIGHT, Participant, assign
from jgroups_py.blocks.coordination.messages import (
    OWNERS,
    Carried,
    CommandRefused,
    CoordinationMessage,
    JoinOwners,
    LeaveOwners,
    OwnersTable,
    PartitionGranted,
    PartitionRevoked,
)
from jgroups_py.model.address import Address
from jgroups_py.wire.codec import TEXT, U32, U64, Reader, record, sequence
from jgroups_py.wire.codec import mapping as map_of

MAX_NAME = 1024                            # characters of a name, or of a label


@attrs.define(eq=False)
class StoredOwners:
    """A set. members: session -> how it takes part. owners: partition -> (fence, session). targets: partition ->
    session that is to own it. revoked: fences that were asked back."""

    partitions: int
    members: dict[int, Participant] = attrs.Factory(dict)
    owners: dict[int, tuple[int, int]] = attrs.Factory(dict)
    targets: dict[int, int] = attrs.Factory(dict)
    revoked: dict[int, None] = attrs.Factory(dict)


class OwnersWatcher:
    """Called by each copy of the machine with what happens; for checkers. store: the birth number of the store."""

    def owned(self, store: int, name: str, partition: int, fence: int, session: int) -> None:
        """A session owns a partition of a set."""

    def assigned(self, store: int, name: str, before: Mapping[int, int], owners: StoredOwners) -> None:
        """The members have changed, and with them what each is to own. before: partition -> session, until now."""


class OwningSession(Protocol):
    """What is needed of a session."""

    grants: dict[int, tuple[int, str]]

    @property
    def owner(self) -> Address:
        """Its member."""


class OwnedSets:
    """See the module. sessions: of the machine. next_number: gives a number; tell: an outcome for a session."""

    def __init__(
        self, sessions: Mapping[int, Any], next_number: Callable[[], int],
        tell: Callable[[int, int, CoordinationMessage], None], watcher: OwnersWatcher,
    ) -> None:
        self.sets: dict[str, StoredOwners] = {}
        self._sessions: Mapping[int, OwningSession] = sessions
        self._next = next_number
        self._tell = tell
        self._watcher = watcher

    def join(self, command: JoinOwners, store: int) -> CoordinationMessage:
        """A session takes part."""
        name, weight = command.name, command.weight
        if not 0 < len(name) <= MAX_NAME or not 0 < len(command.label) <= MAX_NAME:
            return CommandRefused(f"the name of a set, and the label of a member, have 1 to {MAX_NAME} characters")
        if not 0 < command.partitions <= MAX_PARTITIONS or not 0 < weight <= MAX_WEIGHT:
            return CommandRefused(f"a set has 1 to {MAX_PARTITIONS} partitions, a member a weight of 1 to {MAX_WEIGHT}")
        owners = self.sets.get(name)
        if owners is None:
            owners = self.sets[name] = StoredOwners(command.partitions)
        if owners.partitions != command.partitions:
            return CommandRefused(f"the set {name!r} is in use with {owners.partitions} partitions, not "
                                  f"{command.partitions}")
        owners.members[command.session] = Participant(weight, command.label)
        self._assign(name, owners, store)
        return Carried(True)

    def leave(self, command: LeaveOwners, store: int) -> CoordinationMessage:
        """A session takes part no more."""
        owners = self.sets.get(command.name)
        if owners is None or owners.members.pop(command.session, None) is None:
            return Carried(False)
        self._assign(command.name, owners, store)
        return Carried(True)

    def session_ended(self, session: int, store: int) -> None:
        """Before what it owns is given on: others are to own it."""
        for name in [name for name, owners in self.sets.items() if session in owners.members]:
            owners = self.sets[name]
            del owners.members[session]
            self._assign(name, owners, store)

    def given_back(self, name: str, fence: int, store: int) -> None:
        """An owner has released a partition, or its session has ended: it goes to the one that is to own it."""
        owners = self.sets[name]
        partition = next(partition for partition, owner in owners.owners.items() if owner[0] == fence)
        del owners.owners[partition]
        owners.revoked.pop(fence, None)
        self._give(name, owners, [partition], store)
        self._forget(name, owners)

    def table(self, name: str) -> OwnersTable:
        """The owners of a set."""
        owners = self.sets.get(name)
        if owners is None:
            return OwnersTable(0, 0, ())
        return OwnersTable(owners.partitions, len(owners.members), tuple([
            (partition, self._sessions[session].owner, fence)
            for partition, (fence, session) in sorted(owners.owners.items())]))

    def _assign(self, name: str, owners: StoredOwners, store: int) -> None:
        before = owners.targets
        owners.targets = assign(name, owners.partitions, owners.members, before)
        self._watcher.assigned(store, name, before, owners)
        self._give(name, owners, range(owners.partitions), store)
        for partition, (fence, session) in owners.owners.items():
            moves = owners.targets.get(partition) != session
            if moves and fence not in owners.revoked and session in self._sessions:
                owners.revoked[fence] = None
                self._tell(session, self._next(), PartitionRevoked(fence))
        self._forget(name, owners)

    def _give(self, name: str, owners: StoredOwners, partitions: Iterable[int], store: int) -> None:
        """Partitions that have no owner go to those that are to own them."""
        for partition in partitions:
            session = owners.targets.get(partition)
            if session is None or partition in owners.owners:
                continue
            fence = self._next()
            owners.owners[partition] = fence, session
            self._sessions[session].grants[fence] = OWNERS, name
            self._watcher.owned(store, name, partition, fence, session)
            self._tell(session, fence, PartitionGranted(name, partition, fence))

    def _forget(self, name: str, owners: StoredOwners) -> None:
        if not owners.members and not owners.owners:
            del self.sets[name]

    # --- the whole content --------------------------------------------------------------------------------------------

    def save(self, out: bytearray) -> None:
        """Append all sets."""
        _SETS.write(tuple([
            (name, one.partitions,
             tuple([(session, member.weight, member.label) for session, member in one.members.items()]),
             tuple([(partition, *owner) for partition, owner in one.owners.items()]), one.targets, tuple(one.revoked))
            for name, one in self.sets.items()]), out)

    def load(self, reader: Reader) -> None:
        """Replace all sets by the result of a `save`."""
        self.sets = {
            name: StoredOwners(
                partitions, {session: Participant(weight, label) for session, weight, label in members},
                {partition: (fence, session) for partition, fence, session in owners}, dict(targets),
                dict.fromkeys(revoked))
            for name, partitions, members, owners, targets, revoked in _SETS.read(reader)}


_SETS = sequence(record(TEXT, U32, sequence(record(U64, U32, TEXT)), sequence(record(U32, U64, U64)), map_of(U32, U64),
                        sequence(U64)))
