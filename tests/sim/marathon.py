"""`python -m tests.sim.marathon`: 100,000 seeds over all profiles, in pieces, so that it may be stopped and go on.

Each piece that is done is a line of JSON in the progress file, tests/sim/marathon.jsonl, which is kept with the
sources. Pieces of other sources than today's do not count: the line has a digest of what a seed of its profile may run.
Ends with a table by profile, faults by kind, states reached; exit 1 if a seed failed. `--progress FILE` with a new file
runs them all.
"""
from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import attrs

from jgroups_py.children import workers
from jgroups_py.cli.sim import Sum
from jgroups_py.sim.runner import run_seed, seldom_collecting
from jgroups_py.sim.sources import digest_of_sources

SHARES = {"group": 500, "relay": 120, "relay-crash": 40, "relay-storm": 30, "split-brain": 30, "limits": 20,
          "scale": 10, "site-crash": 10, "operators": 10, "replicas": 200, "flow": 5, "interleavings": 10, "swim": 5,
          "swim-group": 5, "topics": 5}
"""How the seeds are spread over the profiles, in thousandths: some four hours of a core."""
PIECE = 50
PROGRESS = Path(__file__).with_suffix(".jsonl")
ROW = "{:<12} {:>7} {:>7} {:>11} {:>10} {:>9} {:>12}"
SECONDS_AN_HOUR = 3600


@attrs.frozen
class Piece:
    """Seeds of one profile, half-open."""

    profile: str
    first: int
    stop: int


def pieces(seeds: int) -> Iterator[Piece]:
    """All work, the profiles by turns, so that a part of it is spread as the whole is."""
    left = {profile: seeds * share // sum(SHARES.values()) for profile, share in SHARES.items()}
    done = dict.fromkeys(left, 0)
    while any(left.values()):
        for profile in [profile for profile in left if left[profile]]:
            step = min(left[profile], max(1, PIECE * SHARES[profile] // 100))
            yield Piece(profile, done[profile], done[profile] + step)
            done[profile] += step
            left[profile] -= step


def work_off(piece: Piece) -> dict[str, Any]:
    """Run a piece; its line in the progress file."""
    total, failed = Sum(), []
    for seed in range(piece.first, piece.stop):
        outcome = run_seed(piece.profile, seed)
        total.add(outcome)
        if outcome.violations:
            failed.append(f"{outcome.command}: {outcome.violations[0]}")
    return {**attrs.asdict(piece), "sum": attrs.asdict(total), "failed": failed}


class Progress:
    """What is done, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digests = {profile: digest_of_sources(profile) for profile in SHARES}
        self.lines: dict[str, list[dict[str, Any]]] = {profile: [] for profile in SHARES}
        texts = path.read_text().splitlines() if path.exists() else []
        for line in [json.loads(text) for text in texts if text.endswith("}")]:   # a torn last line does not count
            if line["digest"] == self.digests.get(line["profile"]):
                self._keep(line)

    def add(self, line: dict[str, Any]) -> None:
        """A piece is done."""
        line = {**line, "digest": self.digests[line["profile"]]}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._keep(line)

    def has(self, piece: Piece) -> bool:
        """Whether all seeds of a piece are done."""
        at = piece.first
        for line in self.lines[piece.profile]:
            if line["first"] <= at < line["stop"]:
                at = line["stop"]
        return at >= piece.stop

    def tidy(self) -> None:
        """Write neighbours as one line, and nothing of other sources."""
        new = self.path.with_suffix(".new")
        new.write_text("".join(json.dumps(line) + "\n" for lines in self.lines.values() for line in joined(lines)))
        new.replace(self.path)

    def _keep(self, line: dict[str, Any]) -> None:
        lines = self.lines[line["profile"]]
        if all(line["stop"] <= other["first"] or line["first"] >= other["stop"] for other in lines):
            lines.append(line)
            lines.sort(key=itemgetter("first"))


def joined(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of pieces in order: those that follow on each other as one."""
    last: dict[str, Any] | None = None
    for line in lines:
        if last is not None and last["stop"] == line["first"]:
            total = sum_of(last)
            total.join(sum_of(line))
            last = {**last, "stop": line["stop"], "sum": attrs.asdict(total), "failed": last["failed"] + line["failed"]}
        else:
            if last is not None:
                yield last
            last = line
    if last is not None:
        yield last


def sum_of(line: dict[str, Any]) -> Sum:
    """What the seeds of a line add up to."""
    counted = {name: Counter(line["sum"][name]) for name in ("by_kind", "reached")}
    return Sum(**{**line["sum"], **counted})


def add_up(lines: Iterable[dict[str, Any]]) -> dict[str, Sum]:
    """Profile -> what its pieces add up to; "all" -> what all do."""
    sums: dict[str, Sum] = {}
    whole = Sum()
    for line in lines:
        sums.setdefault(line["profile"], Sum()).join(sum_of(line))
        whole.join(sum_of(line))
    return {**sums, "all": whole}


def table(sums: dict[str, Sum]) -> Iterator[str]:
    """The closing lines."""
    yield ROW.format("profile", "seeds", "failed", "violations", "sim hours", "faults", "core hours")
    for profile, total in sums.items():
        yield ROW.format(profile, total.seeds, total.failed, total.violations, f"{total.sim_s / SECONDS_AN_HOUR:.1f}",
                         total.faults, f"{total.cpu_s / SECONDS_AN_HOUR:.2f}")
    yield sums["all"].kinds()
    yield sums["all"].states()


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=100_000, help="in all (default: 100000)")
    parser.add_argument("--profiles", default=",".join(SHARES), metavar="NAME,NAME",
                        help="only the pieces of these profiles (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--progress", type=Path, default=PROGRESS, metavar="FILE",
                        help="where to write down what is done (default: marathon.jsonl beside this module)")
    parser.add_argument("--show", action="store_true", help="run nothing, only show what is done at these sources")
    args = parser.parse_args(words)
    profiles = args.profiles.split(",")
    unknown = [profile for profile in profiles if profile not in SHARES]
    if unknown:
        parser.error(f"no profile {', '.join(unknown)}; known: {', '.join(SHARES)}")
    progress = Progress(args.progress)
    wanted = [piece for piece in pieces(args.seeds) if piece.profile in profiles]
    todo = [piece for piece in wanted if not progress.has(piece)]
    seeds = sum(piece.stop - piece.first for piece in wanted)
    say(f"{seeds - sum(piece.stop - piece.first for piece in todo)} of {seeds} seeds are done")
    if not args.show:
        with seldom_collecting(), workers(args.jobs) as pool:
            for line in pool.imap_unordered(work_off, todo):
                progress.add(line)
                say(f"{line['profile']} {line['first']}:{line['stop']}")
                for text in line["failed"]:
                    say(f"  {text}")
        progress.tidy()
    sums = add_up(line for profile in profiles for line in progress.lines[profile])
    say("\n".join(table(sums)))
    return 1 if sums["all"].failed else 0


def say(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
