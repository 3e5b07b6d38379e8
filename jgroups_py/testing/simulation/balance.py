"""What an assignment of partitions to members has to fulfil, computed apart from the code that makes it."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from jgroups_py.blocks.coordination.assignment import Participant


def unbalanced(partitions: int, members: Mapping[int, Participant], targets: Mapping[int, int]) -> str:
    """What is wrong with an assignment: each member has its share by weight, rounded down or up."""
    if not members:
        return "" if not targets else f"{targets} belong to no member"
    if sorted(targets) != list(range(partitions)):
        return f"{targets} are not all partitions"
    total = sum(member.weight for member in members.values())
    loads = Counter(targets.values())
    for session, member in members.items():
        down, rest = divmod(partitions * member.weight, total)
        if not down <= loads[session] <= down + bool(rest):
            return f"{session} is to have {loads[session]} of {partitions}, its share is {down} and {rest}/{total}"
    return ""


def least_moves(partitions: int, members: Mapping[int, Participant], before: Iterable[int]) -> int:
    """How many partitions any balanced assignment takes from members that remain. Each has at most its share rounded
    down, or one more; as many have one more as there are partitions above all shares rounded down."""
    total = sum(member.weight for member in members.values())
    loads = Counter(before)
    over, extra, rounded = 0, partitions, 0
    for session, member in members.items():
        down, rest = divmod(partitions * member.weight, total)
        extra -= down
        over += max(0, loads[session] - down)
        rounded += bool(rest) and loads[session] > down
    return over - min(extra, rounded)
