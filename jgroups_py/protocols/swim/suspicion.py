"""How long a suspected node has to refute: long if one member suspects it, shorter as others confirm (Lifeguard).

The least time grows with the logarithm of the group's size, since a refutation has to reach all members by gossip.
Source: memberlist's suspicion.go and util.go; Lifeguard, section IV. Deviation: a suspicion passed on by a member that
did not probe the node itself (push-pull) is hearsay, and confirms nothing.
"""
from __future__ import annotations

import math
from typing import Final

import attrs

from jgroups_py.model.swim_member import Accusation

HEARSAY: Final = ""
"""The source of a suspicion from push-pull: the member that probed the node is not in the exchanged table."""


def least_ns(mult: int, nodes: int, probe_interval_ns: int) -> int:
    """The shortest time from suspicion to failure in a group of `nodes`.

    >>> least_ns(4, 5, 1_000_000_000), least_ns(4, 100, 1_000_000_000)
    (4000000000, 8000000000)
    """
    return round(mult * max(1.0, math.log10(max(1, nodes))) * probe_interval_ns)


def wanted(mult: int, nodes: int) -> int:
    """How many others must confirm until the time is at its shortest; 0 in groups too small to have so many.

    With 0 the time is at its shortest from the beginning.
    """
    confirmations = mult - 2
    return confirmations if confirmations >= 1 and nodes - 2 >= confirmations else 0


def wait_ns(confirmed: int, wanted: int, shortest_ns: int, longest_ns: int) -> int:
    """How long after the first accusation a suspect counts as failed, with `confirmed` independent confirmations.

    >>> [wait_ns(c, 3, 2_000_000_000, 30_000_000_000) // 10_000_000 for c in range(5)]
    [3000, 1600, 781, 200, 200]
    """
    assert 0 < shortest_ns <= longest_ns, "the time to refute shrinks from the longest to the shortest"
    share = 1.0 if wanted == 0 else min(1.0, math.log(confirmed + 1) / math.log(wanted + 1))
    return round(longest_ns - share * (longest_ns - shortest_ns))


@attrs.define
class Suspicion:
    """The suspicion of one node. since_ns: when it began here; accusations: the first, then those that confirm it."""

    since_ns: int
    wanted: int
    shortest_ns: int
    longest_ns: int
    accusations: list[Accusation]

    def confirm(self, accusation: Accusation) -> bool:
        """Add an accusation by a further member; False if it adds nothing.

        It adds nothing as hearsay, from a member that has accused already, or beyond the number that shortens the time.
        """
        accusers = [other.by for other in self.accusations]
        if accusation.by == HEARSAY or accusation.by in accusers or self.confirmed() >= self.wanted:
            return False
        self.accusations.append(accusation)
        return True

    def confirmed(self) -> int:
        """How many members have confirmed the first accusation."""
        return len(self.accusations) - 1

    def deadline_ns(self) -> int:
        """When the suspect counts as failed."""
        return self.since_ns + wait_ns(self.confirmed(), self.wanted, self.shortest_ns, self.longest_ns)
