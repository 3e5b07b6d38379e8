"""`python -m tests.mutants`: draws mutants of the protocols, judges each by unit tests and by the simulator.

Verdicts are appended to tests/mutants/results.jsonl, which is kept with the sources; those that hold for today's
sources are not judged again, so a run may be stopped and goes on. Ends with the sums; exit 1 if fewer than 95 % were
noticed, if the simulator made fewer than half of the kills, or if a survivor has no reason in equivalent.py.
"""
from __future__ import annotations

import difflib
import subprocess
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

import attrs

from tests.mutants.baseline import Baseline, baseline, package_digest, tests_digest
from tests.mutants.judging import Change, Verdict, by_seeds, by_units
from tests.mutants.mutations import all_mutants, draw
from tests.mutants.named import NAMED, Named
from tests.mutants.results import RESULTS, Record, Results, State, good, summary, table
from tests.mutants.rooms import room_of, sources
from tests.mutants.workshop import ROOT, Workshop

BOTH = ("unit", "sim")


@attrs.frozen
class Given:
    """A mutant made by hand, at the line where it is today."""

    path: str
    line: int
    key: str
    named: Named

    def apply(self, source: str) -> str:
        """As Named."""
        return self.named.apply(source)


def by_hand() -> Iterator[Given]:
    """All mutants made by hand."""
    for named in NAMED:
        line = named.line((ROOT / named.path).read_text(encoding="utf-8"))
        yield Given(named.path, line, named.key, named)


def place(text: str) -> tuple[str, int]:
    """FILE:LINE; FILE below the project, `jgroups_py/` may be left out.

    >>> place("protocols/stable/protocol.py:90")
    ('jgroups_py/protocols/stable/protocol.py', 90)
    """
    path, _, line = text.rpartition(":")
    path = path if path.startswith("jgroups_py/") else f"jgroups_py/{path}"
    if not line.isdigit() or path not in sources(ROOT):
        raise ArgumentTypeError(f"{text!r} is not FILE:LINE of a file that is mutated")
    return path, int(line)


def asked_for(args: Namespace) -> list[Change]:
    """The mutants to judge."""
    if args.eight:
        return list(by_hand())
    if args.only:
        paths = dict.fromkeys(path for path, _ in args.only)
        return [mutant for mutant in all_mutants(ROOT, paths) if (mutant.path, mutant.line) in args.only]
    files = [path for path in sources(ROOT) if not args.room or room_of(path).name in args.room]
    return list(draw(all_mutants(ROOT, files), args.number, args.seed))


def today() -> State:
    """The sources as they are."""
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    dirty = git("status", "--porcelain", "--untracked-files=no", "--", "jgroups_py", "tests/unit")
    return State(git("rev-parse", "--short", "HEAD") + ("+" if dirty else ""), package_digest(), tests_digest())


def difference(before: str, after: str) -> tuple[str, ...]:
    """The lines that differ, with - and + before them."""
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return tuple(line for line in found if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def judge(workshop: Workshop, change: Change, known: Record | None, survey: Baseline, state: State,
          args: Namespace) -> Record:
    """The record of a mutant: what is known of it, and what is missing of it judged now."""
    unit: Verdict | None = known.unit if known is not None else None
    sim: Verdict | None = known.sim if known is not None else None
    if unit is None and "unit" in args.judges:
        unit = by_units(workshop, change, survey)
    if sim is None and "sim" in args.judges:
        sim = by_seeds(workshop, change, survey, args.budget)
    source = workshop.read(change.path)
    return Record(change.key, change.path, change.line, room_of(change.path).name,
                  difference(source, change.apply(source)), state.commit, state.package, state.tests, args.budget,
                  unit, sim)


def judge_all(todo: list[tuple[Change, Record | None]], state: State, args: Namespace) -> Iterator[Record]:
    """Records as they are done, from so many processes at a time."""
    survey = baseline(args.jobs, args.survey, print_line, seeds_too="sim" in args.judges)
    free: SimpleQueue[Workshop] = SimpleQueue()
    workshops = [Workshop() for _ in range(min(args.jobs, len(todo)))]
    for workshop in workshops:
        free.put(workshop)

    def work(change: Change, known: Record | None) -> Record:
        workshop = free.get()
        try:
            return judge(workshop, change, known, survey, state, args)
        finally:
            free.put(workshop)
    # A child ends with the thread that started it, so the threads stay until all is done.
    with ThreadPoolExecutor(len(workshops)) as pool:
        try:
            for future in as_completed([pool.submit(work, change, known) for change, known in todo]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            for workshop in workshops:
                workshop.__exit__(None, None, None)


def arguments() -> ArgumentParser:
    """The options."""
    parser = ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--number", type=int, default=200, help="how many to draw (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--room", action="append", help="draw only from this room; may be repeated")
    parser.add_argument("--only", type=place, action="append", metavar="FILE:LINE", help="all mutants of a line")
    parser.add_argument("--eight", action="store_true", help="those made by hand (named.py)")
    parser.add_argument("--budget", type=float, default=40.0, metavar="S",
                        help="CPU seconds of the simulator for a mutant (default: 40)")
    parser.add_argument("--survey", type=float, default=30.0, metavar="S",
                        help="CPU seconds for the seeds of each profile to choose from (default: 30)")
    parser.add_argument("--judges", choices=BOTH, action="append", help="only this one (default: both)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where verdicts are kept")
    parser.add_argument("--show", action="store_true", help="judge nothing, only show what is known and holds today")
    parser.add_argument("--table", action="store_true", help="also print the survivors for design/mutants.md")
    return parser


def main(words: list[str]) -> int:
    """The command."""
    args = arguments().parse_args(words)
    args.judges = tuple(args.judges or BOTH)
    changes, results, state = asked_for(args), Results(args.results), today()
    known = {change.key: results.of(change, state, args.budget) for change in changes}
    todo = [(change, known[change.key]) for change in changes if not complete(known[change.key], args)]
    print_line(f"{len(changes)} mutants, {len(changes) - len(todo)} of them judged before")
    if todo and not args.show:
        for record in judge_all(todo, state, args):
            results.add(record)
            known[record.key] = record
            print_line(line_of(record))
    found = [record for record in known.values() if record is not None]
    print_line("\n".join(summary(found)))
    if args.table:
        print_line("\n".join(table(found)))
    return 0 if good(found) and len(found) == len(changes) else 1


def complete(record: Record | None, args: Namespace) -> bool:
    """Whether all judges that are asked have spoken."""
    return record is not None and all(getattr(record, judge) is not None for judge in args.judges)


def line_of(record: Record) -> str:
    """A record in a few lines."""
    verdicts = [f"{name}: {verdict.kind} {verdict.by} ({verdict.cpu_s:.0f} s of CPU, {verdict.reaching} reach it"
            + (f", {verdict.seeds} seeds run, {verdict.other} went another way)" if name == "sim" else ")")
            for name, verdict in (("unit", record.unit), ("sim", record.sim)) if verdict is not None]
    change = [f"    {line[0]} {line[1:].strip()}" for line in record.change]
    return "\n".join([f"{record.path}:{record.line}: {record.verdict}", *change, *(f"  {text}" for text in verdicts)])


def print_line(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
