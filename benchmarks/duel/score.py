"""What the incidents of one contender add up to, and the table. Pure."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import attrs

SITES = ("sending", "receiving")


@attrs.frozen
class Incident:
    """One kill: messages that the receiver lost, got twice, got late; the gap; how long until the new view, seconds."""

    lost: int
    doubled: int
    disordered: int
    gap_s: float
    view_s: float

    def __str__(self) -> str:
        return (f"lost {self.lost}, twice {self.doubled}, out of order {self.disordered}, gap {self.gap_s:.3f} s, "
                f"view after {self.view_s:.3f} s")


@attrs.define
class Score:
    """All incidents of one contender, by the site whose relay was killed."""

    incidents: dict[str, list[Incident]] = attrs.Factory(lambda: {site: [] for site in SITES})
    stalls: list[str] = attrs.Factory(list)

    def add(self, site: str, incident: Incident) -> None:
        """One more."""
        self.incidents[site].append(incident)

    def stalled(self, site: str, why: str) -> None:
        """A trial did not come to its end."""
        self.stalls.append(f"{site}: {why}")

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, doubled or out of order, and everything came to its end."""
        return not self.stalls and not any(
            incident.lost or incident.doubled or incident.disordered
            for incidents in self.incidents.values() for incident in incidents)


def markdown(scores: Mapping[str, Score]) -> str:
    """A row for each figure of each kill, a column for each contender.

    >>> score = Score()
    >>> score.add("sending", Incident(3, 0, 0, 1.5, 1.25))
    >>> score.add("sending", Incident(4, 0, 0, 2.5, 1.25))
    >>> print(markdown({"X": score}).splitlines()[2])
    | relay of the sending site killed: lost, in all | 7 |
    >>> print(markdown({"X": score}).splitlines()[5])
    | relay of the sending site killed: gap, s, p50 / max | 2.00 / 2.50 |
    """
    lines = ["| | " + " | ".join(scores) + " |", "|---" * (len(scores) + 1) + "|"]
    for site in SITES:
        lists = [score.incidents[site] for score in scores.values()]
        for what, cells in _rows(lists):
            lines.append(f"| relay of the {site} site killed: {what} | " + " | ".join(cells) + " |")
    lines.append("| incidents / did not come to an end | " + " | ".join(
        f"{sum(map(len, score.incidents.values()))} / {len(score.stalls)}" for score in scores.values()) + " |")
    return "\n".join([*lines, *(f"* {label}: {stall}" for label, score in scores.items() for stall in score.stalls)])


def _rows(lists: Sequence[Sequence[Incident]]) -> list[tuple[str, list[str]]]:
    found = [(what, [f"{sum(getattr(incident, field) for incident in incidents):,}" if incidents else "-"
                     for incidents in lists])
             for what, field in (("lost, in all", "lost"), ("twice", "doubled"), ("out of order", "disordered"))]
    return found + [(what, [_spread([getattr(incident, field) for incident in incidents]) for incidents in lists])
                    for what, field in (("gap, s, p50 / max", "gap_s"), ("new view after s, p50 / max", "view_s"))]


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} / {max(values):.2f}" if values else "-"
