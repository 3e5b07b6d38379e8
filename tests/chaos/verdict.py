"""What came of a run: the checkers' verdict, what the processes did, a few figures."""
from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs

from jgroups_py.model.address import ProxyUUID
from jgroups_py.model.units import NS_PER_S
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import Violation, check

SHOWN_LINES = 60
SHOWN_VIOLATIONS = 20


@attrs.frozen(eq=False)
class Verdict:
    """What came of a run."""

    history: h.History
    violations: list[Violation]
    failures: list[str]                  # of processes: ended unexpectedly, or complained
    sent: int
    delivered: int
    lost: list[h.Lost]                   # declared, of messages of the other site
    missed: list[h.Lost]                 # declared, of messages of the member's own site: it was excluded
    unreachable: int
    silence_s: dict[str, float]          # site -> the longest time in which it received nothing from the other site
    seconds: float

    @property
    def ok(self) -> bool:
        """Nothing found."""
        return not self.violations and not self.failures

    def figures(self) -> dict[str, int]:
        """What may be added up over runs."""
        return {"sent": self.sent, "delivered": self.delivered, "unreachable": self.unreachable,
                "declared_lost": numbers(self.lost), "missed_while_excluded": numbers(self.missed),
                "violations": len(self.violations), "failures": len(self.failures)}

    def __str__(self) -> str:
        found = [*self.failures, *map(str, self.violations[:SHOWN_VIOLATIONS])]
        return (f"{self.sent} sent, {self.delivered} delivered, {numbers(self.lost)} declared lost, "
                f"{numbers(self.missed)} missed while excluded, {self.unreachable} unreachable; longest silence across "
                + ", ".join(f"{site} {silence:.1f} s" for site, silence in self.silence_s.items())
                + f"; {len(self.violations)} violations, {len(self.failures)} failures, {self.seconds:.0f} s"
                + "".join(f"\n  {text}" for text in found))


Noted = Callable[[Verdict], Verdict]
"""What the fixture `noted` gives: keeps the figures of a run, for the sum over all runs of a session."""


def numbers(losses: Iterable[h.Lost]) -> int:
    """How many messages they are."""
    return sum(loss.stop - loss.first for loss in losses)


def judge(history: h.History, failures: list[str], seconds: float) -> Verdict:
    """Ask all checkers, count."""
    entries = history.entries
    losses = [entry for entry in entries if isinstance(entry, h.Lost)]
    return Verdict(
        history, check(history), failures, sum(len(e.payloads) for e in entries if isinstance(e, h.MessageSent)),
        sum(len(e.payloads) for e in entries if isinstance(e, h.MessageDelivered)),
        [loss for loss in losses if loss.site != history.sites[loss.member]],
        [loss for loss in losses if loss.site == history.sites[loss.member]],
        sum(isinstance(e, h.Unreached) for e in entries),
        longest_silence(history), seconds)


def longest_silence(history: h.History) -> dict[str, float]:
    """For each site the longest time in seconds between two deliveries from the other site to any of its members."""
    before: dict[str, int] = {}
    longest = dict.fromkeys(sorted(set(history.sites.values())), 0.0)
    for entry in history.entries:
        if isinstance(entry, h.MessageDelivered) and isinstance(entry.src, ProxyUUID):
            site = history.sites[entry.member]
            silence_s = (entry.at_ns - before.get(site, entry.at_ns)) / NS_PER_S
            longest[site] = max(longest[site], silence_s)
            before[site] = entry.at_ns
    return longest


def show(verdict: Verdict, out: Path) -> str:
    """For the message of a failed test: the verdict, and the end of the history."""
    lines = list(verdict.history.lines())[-SHOWN_LINES:]
    return f"{verdict}\n  histories: {shlex.quote(str(out))}\n" + "\n".join(lines)
