"""What Owners and AsyncOwners share: arguments, keys, and what this member owns."""
from __future__ import annotations

import logging
from hashlib import blake2b

import attrs

from jgroups_py.blocks.coordination.assignment import MAX_PARTITIONS, MAX_WEIGHT
from jgroups_py.blocks.coordination.base import BaseCoordination, BaseGrant, checked, checked_number
from jgroups_py.blocks.coordination.grants import HeldGrant
from jgroups_py.blocks.coordination.messages import OwnersTable, ReadOwners
from jgroups_py.blocks.coordination.owning import OwnedSet
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError

log = logging.getLogger("jgroups_py")

HASH_BYTES = 8


@attrs.frozen
class Ownership:
    """The owner of a partition, and the number of its grant."""

    owner: Address
    fence: int


@attrs.frozen
class OwnershipTable:
    """The owners of all partitions at one moment. members: how many take part. owners: partition -> owner; those that
    have none, or are on their way to another one whose turn has not come, are missing."""

    partitions: int
    members: int
    owners: dict[int, Ownership]

    @property
    def is_complete(self) -> bool:
        """Whether each partition has an owner."""
        return 0 < self.partitions == len(self.owners)


class OwnerGrant(BaseGrant):
    """A partition that this member owns; see BaseGrant. It is not released by hand: `lost` is called when it has to go,
    and it goes when that returns."""

    partition: int

    def __init__(self, co: BaseCoordination, name: str, partition: int, held: HeldGrant) -> None:
        super().__init__(co._driver, f"partition {partition} of {name!r}", name, held)
        self.partition = partition


class BaseOwners:
    """See Owners."""

    def __init__(
        self, co: BaseCoordination, name: str, partitions: int, weight: int, label: str | None,
    ) -> None:
        self.name = checked(name)
        self.partitions = checked_number("partitions", partitions, 1, MAX_PARTITIONS)
        checked_number("weight", weight, 1, MAX_WEIGHT)
        self._co = co
        self._mine: dict[int, OwnerGrant] = {}               # partition -> grant that the application has been told of
        self._grants: dict[int, OwnerGrant] = {}             # fence -> grant, until the application has let go of it
        self._set = OwnedSet(name, partitions, weight, checked(label if label is not None else co._channel.name),
                             self._gained_in_round, self._revoked_in_round, self._ended_in_round)

    @property
    def mine(self) -> dict[int, OwnerGrant]:
        """Partition -> grant, of what this member owns now and has been told of."""
        return {partition: grant for partition, grant in list(self._mine.items()) if grant.valid}

    def partition_of(self, key: str | bytes) -> int:
        """The partition that a key belongs to: the same at all members and in all versions of Python."""
        if not isinstance(key, str | bytes):
            raise TypeError(f"a key is a text or bytes, not {type(key).__name__}")
        data = key.encode() if isinstance(key, str) else key
        return int.from_bytes(blake2b(data, digest_size=HASH_BYTES).digest(), "big") % self.partitions

    def grant_for(self, key: str | bytes) -> OwnerGrant | None:
        """The grant of the partition of a key, if this member owns it now."""
        grant = self._mine.get(self.partition_of(key))
        return grant if grant is not None and grant.valid else None

    def _table(self, found: OwnersTable) -> OwnershipTable:
        return OwnershipTable(found.partitions, found.members, {
            partition: Ownership(owner, fence) for partition, owner, fence in found.owners})

    def _query(self) -> ReadOwners:
        return ReadOwners(self.name)

    def _owned(self, partition: int, held: HeldGrant) -> OwnerGrant:
        grant = self._grants[held.fence] = OwnerGrant(self._co, self.name, partition, held)
        return grant

    def _give_back(self, held: HeldGrant) -> None:
        try:
            self._co._driver.give_back(self.name, held, lambda *_: None)
        except ChannelError:
            log.debug("a partition of %r was not given back: it ends with the session", self.name)

    def _gained_in_round(self, partition: int, held: HeldGrant) -> None:
        raise NotImplementedError

    def _revoked_in_round(self, partition: int, held: HeldGrant) -> None:
        raise NotImplementedError

    def _ended_in_round(self, error: Exception | None) -> None:
        raise NotImplementedError
