"""How long a suspected node has to refute: long if one member suspects it, shorter as others confirm (Lifeguard).

The least time grows with the logarithm of the group, since a refutation has to reach everybody by gossip. Source:
memberlist's suspicion.go and util.go; Lifeguard, section IV. Deviation: who tells of a suspicion without having probed
itself (push-pull) does not confirm it.
"""
from __future__ import annotations

import math
from typing import Final

import attrs

from jgroups_py.members import Accusation

NOBODY: Final = ""
"""The source of a suspicion that is known by hearsay only."""


def least_ns(mult: int, nodes: int, probe_interval_ns: int) -> int:
    """The shortest time from suspicion to failure in a group of `nodes`.

    >>> least_ns(4, 5, 1_000_000_000), least_ns(4, 100, 1_000_000_000)
    (4000000000, 8000000000)
    """
    return round(mult * max(1.0, math.log10(max(1, nodes))) * probe_interval_ns)


def wanted(mult: int, nodes: int) -> int:
    """How many others must confirm until the time is at its shortest; 0 where too few could (then it is at once)."""
    confirmations = mult - 2
    return confirmations if confirmations >= 1 and nodes - 2 >= confirmations else 0


def wait_ns(confirmed: int, wanted: int, shortest_ns: int, longest_ns: int) -> int:
    """How long after the first accusation a suspect counts as failed, with `confirmed` independent others.

    >>> [wait_ns(c, 3, 2_000_000_000, 30_000_000_000) // 10_000_000 for c in range(5)]
    [3000, 1600, 781, 200, 200]
    """
    assert 0 < shortest_ns <= longest_ns, "the wait shrinks"
    share = 1.0 if wanted == 0 else min(1.0, math.log(confirmed + 1) / math.log(wanted + 1))
    return round(longest_ns - share * (longest_ns - shortest_ns))


@attrs.define
class Suspicion:
    """One case. accusations: the first by whoever began it; since_ns: when we heard of it."""

    since_ns: int
    wanted: int
    shortest_ns: int
    longest_ns: int
    accusations: list[Accusation]

    def confirm(self, accusation: Accusation) -> bool:
        """Whether this is a new voice that still counts."""
        known = [other.by for other in self.accusations]
        if accusation.by == NOBODY or accusation.by in known or self.confirmed() >= self.wanted:
            return False
        self.accusations.append(accusation)
        return True

    def confirmed(self) -> int:
        """How many have confirmed the first accusation; none of them counts twice."""
        return len(self.accusations) - 1

    def deadline_ns(self) -> int:
        """When the suspect counts as failed."""
        return self.since_ns + wait_ns(self.confirmed(), self.wanted, self.shortest_ns, self.longest_ns)
