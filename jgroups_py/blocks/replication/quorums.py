"""Configurations: the members of which a majority decides for a partition."""
from __future__ import annotations

from collections.abc import Callable, Container

import attrs

from jgroups_py.model.address import Address
from jgroups_py.wire.codec import MEMBERS, Codec, Reader


@attrs.frozen
class Configuration:
    """The replicas of a partition. old: during a change (joint consensus) the replicas before it, of which a majority
    is needed as well.

    A member is one incarnation: after a restart it has lost its log, and counts as another member.
    """

    members: tuple[Address, ...]
    old: tuple[Address, ...] = ()

    @property
    def all_members(self) -> tuple[Address, ...]:
        """The new and the old replicas."""
        return tuple(dict.fromkeys((*self.members, *self.old)))

    def has_quorum(self, present: Container[Address]) -> bool:
        """Whether `present` has a majority of the members, and during a change of the old ones, too."""
        return _majority(self.members, present) and (not self.old or _majority(self.old, present))

    def reached(self, progress: Callable[[Address], int]) -> int:
        """The highest number that a quorum has reached."""
        least = _median(self.members, progress)
        return min(least, _median(self.old, progress)) if self.old else least

    def between(self, members: tuple[Address, ...]) -> Configuration:
        """The joint configuration on the way to other members."""
        assert not self.old, "one change at a time"
        return Configuration(members, self.members)


def _majority(members: tuple[Address, ...], present: Container[Address]) -> bool:
    return 2 * sum(member in present for member in members) > len(members)


def _median(members: tuple[Address, ...], progress: Callable[[Address], int]) -> int:
    """The number that more than half of the members have reached."""
    return sorted(map(progress, members), reverse=True)[len(members) // 2] if members else 0


def _write(config: Configuration, out: bytearray) -> None:
    MEMBERS.write(config.members, out)
    MEMBERS.write(config.old, out)


def _read(reader: Reader) -> Configuration:
    return Configuration(MEMBERS.read(reader), MEMBERS.read(reader))


CONFIGURATION = Codec(_write, _read, 8)
