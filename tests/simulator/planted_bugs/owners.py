"""Safeguards of owners (blocks/owners, and the sets of partitions of blocks/coordination), shown by their profile."""
from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from jgroups_py.blocks.coordination import owned_sets
from jgroups_py.blocks.coordination.assignment import Participant, assign
from jgroups_py.blocks.coordination.grants import HeldGrant
from jgroups_py.blocks.coordination.messages import CoordinationMessage, PartitionGranted, PartitionRevoked
from jgroups_py.blocks.coordination.owned_sets import OwnedSets, StoredOwners
from jgroups_py.blocks.coordination.owning import OwnedSet, SessionOwning
from jgroups_py.blocks.owners import AsyncOwners, OwnerGrant
from jgroups_py.testing.simulation import owners
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

give, news, own, stop = OwnedSets._give, SessionOwning.news, AsyncOwners._own, AsyncOwners._stop


def give_at_once(self: OwnedSets, name: str, stored: StoredOwners, partitions: Iterable[int], store: int) -> None:
    """The one that is to have a partition gets it while another one has it."""
    for partition in partitions:
        if partition in stored.owners and stored.owners[partition][1] != stored.targets.get(partition):
            fence, session = stored.owners.pop(partition)
            if session in self._sessions:
                self._tell(session, self._next(), PartitionRevoked(fence))
    give(self, name, stored, partitions, store)


def given_back(self: OwnedSets, name: str, fence: int, store: int) -> None:
    """What goes with that: it may have another owner by then."""
    stored = self.sets.get(name)
    for partition, (other, _) in () if stored is None else list(stored.owners.items()):
        if other == fence:
            del stored.owners[partition]
            give(self, name, stored, [partition], store)


def back_at_once(self: AsyncOwners, grant: OwnerGrant, *, back: bool) -> None:
    """A partition is given back before `lost` has been called."""
    if back:
        self._give_back(grant._held)
    stop(self, grant, back=False)


def each_time(self: SessionOwning, place: int, heard: int, item: CoordinationMessage, now_ns: int) -> None:
    """News is taken as often as it comes."""
    self._known = {}
    news(self, place, 0, item, now_ns)


def keep(self: SessionOwning, item: PartitionGranted, now_ns: int) -> None:
    """What is granted while the set is being left is kept, and nobody knows of it."""
    port, found = self._port, self.sets.get(item.name)
    grant = port.grants[item.fence] = HeldGrant(item.fence, port.lease)
    if found is not None and not found.leaving:
        self._owned[item.fence] = found, item.partition
        found.gained(item.partition, grant)


def afresh(name: str, partitions: int, members: Mapping[int, Participant], before: Mapping[int, int]) -> dict[int, int]:
    """Whoever had what does not count."""
    return assign(name, partitions, members, {})


async def at_once(self: AsyncOwners, partition: int, tenure: Any, before: asyncio.Task[None] | None) -> None:
    """The body of a partition begins while that of the time before is being ended."""
    await own(self, partition, tenure, None)


def left_at_once(self: SessionOwning, left: OwnedSet, now_ns: int) -> None:
    """A set is left by the member only: the store is not told."""
    if self.sets.get(left.name) is left:
        self._left(left, None)


def guard(name: str, left: str, owner: Any, method: str, without: Any, breaks: str, *more: Patch) -> Safeguard:
    """A safeguard of one function or more."""
    return Safeguard(name, "owners", left, (Patch(owner, method, without), *more), owners.PROFILE, breaks)


OWNERS_SAFEGUARDS = (
    guard("what is owned is asked back", "the next one gets it at once", OwnedSets, "_give", give_at_once, "A1",
          Patch(OwnedSets, "given_back", given_back)),
    guard("a partition goes when lost has returned", "it goes when it is asked back", AsyncOwners, "_stop",
          back_at_once, "A3"),
    guard("news of partitions is taken once", "it is taken as often as it comes", SessionOwning, "news", each_time,
          "A6"),
    guard("what nobody has is given back", "it is kept", SessionOwning, "_granted", keep, "A5"),
    guard("an assignment keeps what it can", "it begins afresh", owned_sets, "assign", afresh, "A4"),
    guard("one body of a partition at a time", "the next begins at once", AsyncOwners, "_own", at_once, "A6"),
    guard("the store hears who leaves a set", "it is not told", SessionOwning, "leave", left_at_once, "A5"),
)
