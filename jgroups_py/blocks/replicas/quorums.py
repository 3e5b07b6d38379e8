"""Configurations: whose majority decides for a partition."""
from __future__ import annotations

from collections.abc import Callable, Container

import attrs

from jgroups_py.address import Address
from jgroups_py.codec import MEMBERS, Codec, Reader


@attrs.frozen
class Configuration:
    """The replicas of a partition. old: while they change, those before, whose majority is needed as well.

    A member is one incarnation: who restarts has lost what it knew, and counts as somebody new.
    """

    members: tuple[Address, ...]
    old: tuple[Address, ...] = ()

    @property
    def everybody(self) -> tuple[Address, ...]:
        """The new and the old ones."""
        return tuple(dict.fromkeys((*self.members, *self.old)))

    def has_quorum(self, who: Container[Address]) -> bool:
        """Whether `who` has a majority of the members, and of the old ones while there are any."""
        return _majority(self.members, who) and (not self.old or _majority(self.old, who))

    def reached(self, progress: Callable[[Address], int]) -> int:
        """The highest number that a quorum has reached."""
        least = _median(self.members, progress)
        return min(least, _median(self.old, progress)) if self.old else least

    def between(self, members: tuple[Address, ...]) -> Configuration:
        """The joint configuration on the way to other members."""
        assert not self.old, "one change at a time"
        return Configuration(members, self.members)


def _majority(members: tuple[Address, ...], who: Container[Address]) -> bool:
    return 2 * sum(member in who for member in members) > len(members)


def _median(members: tuple[Address, ...], progress: Callable[[Address], int]) -> int:
    """What more than half of them have reached."""
    return sorted(map(progress, members), reverse=True)[len(members) // 2] if members else 0


def _write(config: Configuration, out: bytearray) -> None:
    MEMBERS.write(config.members, out)
    MEMBERS.write(config.old, out)


def _read(reader: Reader) -> Configuration:
    return Configuration(MEMBERS.read(reader), MEMBERS.read(reader))


CONFIGURATION = Codec(_write, _read, 8)
