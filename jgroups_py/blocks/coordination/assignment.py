"""Which member of a set is to own which partition: balanced by weight, with the fewest moves.

Every member has its share of the partitions, by weight, rounded down or up. What a member has above that goes to
members that have less: of an overloaded member those partitions go that the placement (blocks/placement) prefers most
at one with room, and a partition that is free goes where the placement prefers it among those with room. So a member
that comes takes its share and causes no other move, and one that comes back under its label takes much of what it had;
what a member had that goes is spread, and nothing else moves. The same inputs have the same result in every process.
"""
from __future__ import annotations

from collections.abc import Mapping

import attrs

from jgroups_py.blocks.placement import Candidate, Placement

MAX_PARTITIONS = 4096                      # of a set
MAX_WEIGHT = 1_000_000


@attrs.frozen
class Participant:
    """A member of a set. label: what the placement draws for; members with one label draw for different ones."""

    weight: int
    label: str


def quotas(partitions: int, members: Mapping[int, Participant], loads: Mapping[int, int]) -> dict[int, int]:
    """Member -> how many partitions it is to have: its share, rounded up for as many as it takes: first for those that
    have more than their share rounded down, then for those that lose most by rounding."""
    total = sum(member.weight for member in members.values())
    found, rest = {}, {}
    for session, member in members.items():
        found[session], rest[session] = divmod(partitions * member.weight, total)
    order = sorted((session for session in members if rest[session]),
                   key=lambda session: (loads.get(session, 0) <= found[session], -rest[session], session))
    for session in order[:partitions - sum(found.values())]:
        found[session] += 1
    return found


def assign(
    name: str, partitions: int, members: Mapping[int, Participant], before: Mapping[int, int],
) -> dict[int, int]:
    """Partition -> the session of the member that is to own it. before: the same, until now."""
    if not members:
        return {}
    targets = {partition: session for partition, session in before.items() if session in members}
    held: dict[int, list[int]] = {session: [] for session in members}
    for partition in sorted(targets):
        held[targets[partition]].append(partition)
    wanted = quotas(partitions, members, {session: len(some) for session, some in held.items()})
    draws = Draws(name, members)
    takers = [session for session, some in held.items() if len(some) < wanted[session]]
    for session, some in held.items():
        over = len(some) - wanted[session]
        if over > 0:
            some.sort(key=lambda partition: (
                min(draws.cost(partition, taker) for taker in takers) / draws.cost(partition, session), partition))
            for partition in some[:over]:
                del targets[partition]
            del some[:over]
    room = {session: wanted[session] - len(some) for session, some in held.items()}
    for partition in range(partitions):
        if partition not in targets:
            best = min((session for session in members if room[session]),
                       key=lambda session: (draws.cost(partition, session), session))
            targets[partition] = best
            room[best] -= 1
    return targets


class Draws:
    """The costs of partitions at members; see Placement.costs."""

    def __init__(self, name: str, members: Mapping[int, Participant]) -> None:
        self._name = name
        self._costs: dict[int, list[float]] = {}           # partition -> costs in the order of candidates
        ids: dict[str, int] = {}
        for session, member in sorted(members.items()):
            label = member.label
            while label in ids:
                label += f"/{session}"
            ids[label] = session
        self._placement = Placement([Candidate(label, members[session].weight) for label, session in ids.items()])
        self._at = {ids[candidate.id]: at for at, candidate in enumerate(self._placement.candidates)}

    def cost(self, partition: int, session: int) -> float:
        """Of a partition at the member with this session."""
        costs = self._costs.get(partition)
        if costs is None:
            costs = self._costs[partition] = self._placement.costs(f"{self._name}/{partition}")
        return costs[self._at[session]]
