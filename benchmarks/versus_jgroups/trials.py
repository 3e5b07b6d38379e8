"""What is measured, one trial at a time, the same for every contender. A trial that stalls is ended and reported."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import attrs

from benchmarks.versus_jgroups.children import Child, Crew, Stalled
from benchmarks.versus_jgroups.contenders import SITES, Contender, Grounds
from benchmarks.versus_jgroups.table import Figures, Row

START_TIMEOUT_S = 40.0
REPORT_TIMEOUT_S = 5.0
MAX_CLOCK_DIFFERENCE_NS = 10**9
MEMBERS = 3


@attrs.frozen
class Plan:
    """How much of everything; `messages`: size -> how many in all, in one trial."""

    messages: dict[int, int] = attrs.field(factory=lambda: {100: 1_000_000, 1000: 400_000, 10_000: 80_000})
    repetitions: int = 5
    warmup_s: float = 15.0
    timeout_s: float = 60.0
    requesters: int = 25
    request_s: float = 4.0
    relay_messages: int = 60_000
    failover_s: float = 20.0
    kill_after_s: float = 4.0
    sender_threads: int = 1
    ways: tuple[str, ...] = ("one", "batch")             # of sending and receiving: one by one, in batches


QUICK = Plan(messages={100: 60_000, 1000: 30_000, 10_000: 5_000}, repetitions=1, warmup_s=0.5, timeout_s=20.0,
             request_s=1.0, relay_messages=3_000, failover_s=8.0, kill_after_s=2.0)


class Groups:
    """Starts groups of one contender and counts trials."""

    def __init__(self, contender: Contender, grounds: Grounds, plan: Plan, figures: Figures) -> None:
        self.contender = contender
        self.plan = plan
        self._grounds = grounds
        self._figures = figures
        self._trial = 0

    def trial(self) -> int:
        """A new trial's number, eight bits."""
        self._trial = self._trial % 255 + 1
        return self._trial

    def add(self, row: Row, value: float | None) -> None:
        """A figure."""
        self._figures.add(row, self.contender.label, value)

    def remark(self, text: str) -> None:
        """Something that was wrong."""
        self._figures.remark(self.contender.label, text)

    @contextmanager
    def group(self, relay: bool = False) -> Iterator[list[Child]]:
        """Members in one view, MEMBERS of each site in turn; the first of each site is its coordinator."""
        ground = self._grounds.take()
        with Crew(ground.folder) as crew:
            children: list[Child] = []
            for at, site in enumerate(SITES if relay else SITES[:1]):
                for name in "ABCDEF"[at * MEMBERS:(at + 1) * MEMBERS]:
                    child = crew.start(name, self.contender.member(ground, name, site, relay))
                    ready = child.wait("ready", monotonic() + START_TIMEOUT_S)
                    assert abs(ready["ns"] - monotonic() * 1e9) < MAX_CLOCK_DIFFERENCE_NS, "one clock for all members"
                    children.append(child)
            if not relay:
                deadline = monotonic() + START_TIMEOUT_S
                for child in children:
                    if child.members != MEMBERS:
                        child.wait("view", deadline, members=MEMBERS)
            yield children


def guarded(groups: Groups, rows: Sequence[Row], what: str, trial: Callable[[], None]) -> bool:
    """Run a trial; False if it stalled, which is then in the rows and in the remarks."""
    try:
        trial()
    except Stalled as stalled:
        groups.remark(f"{what} stalled: {stalled}")
        for row in rows:
            groups.add(row, None)
        return False
    return True


def ask(child: Child, command: str, answer: str) -> dict[str, Any]:
    """Say something that is answered at once."""
    child.say(*command.split())
    return child.wait(answer, monotonic() + REPORT_TIMEOUT_S)


def counting(
    children: Sequence[Child], trial: int, streams: int, each: int, gaps: bool = False, singly: bool = False,
) -> None:
    """Have all of them count; singly: messages that they receive one by one."""
    for child in children:
        ask(child, f"count {trial} {streams} {each} {int(gaps)} {int(singly)}", "counting")


def faults(groups: Groups, what: str, children: Sequence[Child]) -> None:
    """Look for messages that came twice or late."""
    for child in children:
        tally = ask(child, "tally", "tally")
        if tally["duplicates"] or tally["out_of_order"] or tally["strays"]:
            groups.remark(f"{what}: {child.name} got {tally['duplicates']} duplicates, {tally['out_of_order']} out of "
                          f"order, {tally['strays']} of other trials")


def arrived(child: Child, trial: int, deadline: float, count: int) -> int:
    """When it had everything."""
    try:
        return int(child.wait("counted", deadline, trial=trial)["done_ns"])
    except Stalled as stalled:
        distinct = ask(child, "tally", "tally")["distinct"] if child.running else "?"
        raise Stalled(f"{child.name} had {distinct} of {count}; {stalled}") from None
