"""Verdicts on mutants: a file with a line of JSON for each judgement, what they add up to, and the table of survivors.

A kill holds as long as the package is the same. That a unit test did not notice holds as long as the tests are too, so
survivors are judged by them again after tests were added; the verdicts of the simulator are kept.
"""
from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.judging import Change, Verdict

RESULTS = Path(__file__).with_name("results.jsonl")
WANTED, WANTED_OF_SIMULATOR = 0.95, 0.5
ROW = "{:<16} {:>8} {:>8} {:>10} {:>10} {:>6} {:>9}"


@attrs.frozen
class State:
    """What sources a judgement is about. commit: with a + if files differ from it."""

    commit: str
    package: str
    tests: str


@attrs.frozen
class Record:
    """The verdicts on one mutant. budget_s: what the simulator was given; change: the lines that differ."""

    key: str
    path: str
    line: int
    room: str
    change: tuple[str, ...]
    commit: str
    package: str
    tests: str
    budget_s: float
    unit: Verdict | None = None
    sim: Verdict | None = None

    @property
    def killed(self) -> bool:
        """By either judge."""
        return any(verdict is not None and verdict.killed for verdict in (self.unit, self.sim))

    @property
    def verdict(self) -> str:
        """The judges that noticed it: unit, sim, both, none."""
        unit, sim = (verdict is not None and verdict.killed for verdict in (self.unit, self.sim))
        return "both" if unit and sim else "unit" if unit else "sim" if sim else "none"

    def still(self, state: State, budget_s: float) -> Record:
        """Of today's sources only the verdicts that hold."""
        same = self.package == state.package
        unit = self.unit if same and self.unit and (self.unit.killed or self.tests == state.tests) else None
        enough = self.sim is not None and (self.sim.kind != "survived" or self.budget_s >= budget_s)
        return attrs.evolve(self, unit=unit, sim=self.sim if same and enough else None)


class Results:
    """The records of a file; a later line replaces earlier ones of the same mutant."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            if text.endswith("}"):                       # a torn last line does not count
                record = read(json.loads(text))
                self.records[record.key] = record

    def add(self, record: Record) -> None:
        """Keep a judgement."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(attrs.asdict(record)) + "\n")
        self.records[record.key] = record

    def of(self, change: Change, state: State, budget_s: float) -> Record | None:
        """What is known of a mutant and holds today."""
        known = self.records.get(change.key)
        held = known.still(state, budget_s) if known is not None else None
        return held if held is not None and (held.unit or held.sim) else None


def read(line: dict[str, Any]) -> Record:
    """A record from its line."""
    verdicts = {name: Verdict(**line[name]) if line[name] is not None else None for name in ("unit", "sim")}
    return Record(**{**line, **verdicts, "change": tuple(line["change"])})


def summary(records: Iterable[Record]) -> Iterator[str]:
    """What the records add up to."""
    found = list(records)
    yield ROW.format("room", "mutants", "killed", "unit only", "sim only", "both", "survived")
    for room in [*dict.fromkeys(sorted(record.room for record in found)), "all"]:
        of_room = [record for record in found if room in (record.room, "all")]
        counts = Counter(record.verdict for record in of_room)
        killed = sum(record.killed for record in of_room)
        yield ROW.format(room, len(of_room), f"{killed}", counts["unit"], counts["sim"], counts["both"],
                         counts["none"])
    killed, by_sim = kills(found)
    equivalent = sum(not record.killed and record.key in EQUIVALENT for record in found)
    yield f"{killed} of {len(found)} killed ({share(killed, len(found))}); survivors known as equivalent: {equivalent}"
    yield f"kills that the simulator makes without any unit test: {by_sim} of {killed} ({share(by_sim, killed)})"
    cpu_s = sum(verdict.cpu_s for record in found for verdict in (record.unit, record.sim) if verdict is not None)
    yield f"{cpu_s / 60:.0f} minutes of CPU time"


def kills(records: Iterable[Record]) -> tuple[int, int]:
    """(how many are killed, how many of them by the simulator, with or without unit tests)."""
    found = [record for record in records if record.killed]
    return len(found), sum(record.verdict in ("sim", "both") for record in found)


def share(part: int, whole: int) -> str:
    """In hundredths."""
    return f"{100 * part / whole:.0f} %" if whole else "none"


def good(records: Iterable[Record]) -> bool:
    """Whether enough was noticed, by the simulator too, and each survivor is explained."""
    found = list(records)
    killed, by_sim = kills(found)
    return bool(found) and killed >= WANTED * len(found) and by_sim >= WANTED_OF_SIMULATOR * killed and \
        all(record.killed or record.key in EQUIVALENT for record in found)


def table(records: Iterable[Record]) -> Iterator[str]:
    """The survivors, for design/mutants.md."""
    yield "| mutant | change | why it lives |"
    yield "|---|---|---|"
    for record in sorted(records, key=lambda record: (record.path, record.line)):
        if not record.killed:
            change = "<br>".join(f"`{line.strip()}`".replace("|", "\\|") for line in record.change)
            place = f"{record.path.removeprefix('jgroups_py/')} {record.key.split('::')[1]}"
            yield f"| {place} | {change} | {EQUIVALENT.get(record.key, 'NOT EXPLAINED')} |"
