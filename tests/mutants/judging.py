"""Judges a mutant: by the unit tests of its room, and apart from them by seeds of the simulator. Both always judge, so
that what the profiles notice is known without regard to what the unit tests do."""
from __future__ import annotations

import json
import re
from typing import Any, Protocol

import attrs

from tests.mutants.baseline import Baseline
from tests.mutants.lines import statement_at
from tests.mutants.rooms import room_of
from tests.mutants.workshop import Ended, Workshop

SLOWER, START_S = 3, 20.0
"""The limit of a run: so many times the CPU time that its tests took, and some for imports."""
CLOSING = ("killed", "timeout")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?$", re.MULTILINE)
SHOWN = 200
PASSED, FOUND_NO_TESTS = 0, 5


class Change(Protocol):
    """What can be judged: mutations.Mutant, and named.Named through `Given`."""

    @property
    def path(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def line(self) -> int: ...
    def apply(self, source: str) -> str: ...


@attrs.frozen
class Verdict:
    """kind: killed; timeout (killed by a limit of time); survived; unreached (nothing that judges executes the line).

    by: the test or the command that shows it; what: how; seeds, other: how many seeds were run, how many went another
    way than without the mutant; reaching: how many tests or seeds of the survey execute the line.
    """

    kind: str
    by: str = ""
    what: str = ""
    cpu_s: float = 0.0
    reaching: int = 0
    seeds: int = 0
    other: int = 0

    @property
    def killed(self) -> bool:
        """Whether it was noticed."""
        return self.kind in CLOSING


def statement(change: Change, source: str) -> int | None:
    """The line by which the survey identifies the place; None where it is of no function, but runs on import."""
    line, inside = statement_at(source, change.line)
    return line if inside else None


def by_units(workshop: Workshop, change: Change, baseline: Baseline) -> Verdict:
    """The verdict of the unit tests that execute the line, up to the first that fails."""
    source = workshop.read(change.path)
    tests = baseline.tests_at(room_of(change.path), change.path, statement(change, source))
    if not tests:
        return Verdict("unreached")
    names = workshop.root / "tests-to-run"
    names.write_text("".join(test["test"] + "\n" for test in tests), encoding="utf-8")
    usual_s = sum(test["cpu_s"] for test in tests)
    with workshop.changed(change.path, change.apply(source)):
        ended = workshop.run(
            ["-m", "pytest", "-x", "-o", "addopts=-q --strict-markers", "--doctest-modules", "-p", "no:cacheprovider",
             "-p", "tests.mutants.patience", f"@{names.name}"], cpu_s=usual_s * SLOWER + START_S)
    return unit_verdict(ended, len(tests))


def unit_verdict(ended: Ended, reaching: int) -> Verdict:
    """The verdict of a run of pytest."""
    cpu_s = round(ended.cpu_s, 2)
    if ended.over:
        return Verdict("timeout", "the tests of its room", f"over the limit: {ended.over}", cpu_s, reaching)
    if ended.code == PASSED:
        return Verdict("survived", cpu_s=cpu_s, reaching=reaching)
    if ended.code == FOUND_NO_TESTS:
        raise RuntimeError(f"pytest ran none of the tests of the survey:\n{ended.output}")
    first = FAILED.search(ended.output)
    by, what = (first[1], first[2] or "") if first else ("", ended.output[-SHOWN:])
    return Verdict("timeout" if "Overrun" in what else "killed", by, what[:SHOWN], cpu_s, reaching)


def by_seeds(workshop: Workshop, change: Change, baseline: Baseline, budget_s: float) -> Verdict:
    """The verdict of the seeds that execute the line, within so many CPU seconds."""
    source = workshop.read(change.path)
    seeds = baseline.seeds_at(room_of(change.path), change.path, statement(change, source))
    if not seeds:
        return Verdict("unreached")
    asked = json.dumps([{name: seed[name] for name in ("profile", "seed", "cpu_s", "digest")} for seed in seeds])
    with workshop.changed(change.path, change.apply(source)):
        ended = workshop.run(["-m", "tests.mutants.seeds", "judge", str(budget_s)],
                             cpu_s=budget_s * 2 + START_S, given=asked)
    return seed_verdict(ended, len(seeds))


def seed_verdict(ended: Ended, reaching: int) -> Verdict:
    """The verdict of a run of seeds."""
    cpu_s = round(ended.cpu_s, 2)
    if ended.over:
        return Verdict("timeout", "seeds", f"over the limit: {ended.over}", cpu_s, reaching)
    last = ended.output.rstrip().rpartition("\n")[2]
    if ended.code or not last.startswith("{"):
        return Verdict("killed", "seeds", last[-SHOWN:], cpu_s, reaching)       # it does not even start
    verdict: dict[str, Any] = json.loads(last)
    return Verdict(verdict["kind"], verdict["by"], verdict["what"], cpu_s, reaching, verdict["seeds"], verdict["other"])
