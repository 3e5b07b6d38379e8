"""`python -m tests.simulator.marathon`: seeds of every profile, in pieces, so that it may be stopped and go on.

`--sites N` (40,000; `tox -e sim-100k`: 100,000) are seeds whose world has two or more sites, over all profiles that
make such worlds, each with a twentieth, or an equal part, at least; beside them group and replicas have `--others`
seeds each, and the profiles that are left a tenth of that. A profile that is new in the registry has its share at
once.

Each piece that is done is a line of JSON in the progress file, tests/simulator/marathon.jsonl, which is kept with the
sources. Pieces of other sources than today's do not count: the line has a digest of what a seed of its profile may run.
Ends with a table by profile, with how many of its seeds had two or more sites, faults by kind, states reached; exit 1
if a seed failed. `--progress FILE` with a new file runs them all.
"""
from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import attrs

from jgroups_py.cli.sim import Sum
from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.simulator.runner import rare_collections, run_seed
from jgroups_py.simulator.sources import digest_of_sources
from jgroups_py.system.child_processes import workers

SITES, OTHERS = 40_000, 5_000
LEAST_SHARE = 20                         # a profile with sites has this part of their seeds, or more
LARGE_SHARE = 10                         # of `--others`, what a profile without sites has that is not in LARGE
LARGE = ("group", "replicas")
WEIGHTS = {"relay": 6, "relay-crash": 2, "relay-storm": 2, "split-brain": 2, "topics": 2}
"""How what is left above the least is spread over the profiles with sites; 1 where a profile is not listed."""
ROUNDS = 60                              # the profiles take turns, with so many pieces each
LOOKED_AT = 10                           # plans, to find whether a profile has sites
PROGRESS = Path(__file__).with_suffix(".jsonl")
ROW = "{:<13} {:>7} {:>10} {:>7} {:>11} {:>10} {:>9} {:>12}"
SECONDS_AN_HOUR = 3600


@attrs.frozen
class Piece:
    """Seeds of one profile, half-open."""

    profile: str
    first: int
    stop: int


def has_sites(profile: str, seed: int) -> bool:
    """Whether the world of a seed has two or more sites."""
    return len(PROFILES[profile](seed).plan.sites) >= 2


def shares(sites: int = SITES, others: int = OTHERS) -> dict[str, int]:
    """Profile -> its seeds. sites: how many of those with two or more sites, over all profiles that have them.

    Most plans of a profile have sites, or none has; a seed without is none of `sites`, so the table counts them.
    """
    with_sites = [name for name in PROFILES
                  if 2 * sum(has_sites(name, seed) for seed in range(LOOKED_AT)) > LOOKED_AT]
    least = min(sites // LEAST_SHARE, sites // len(with_sites))
    weights = {name: WEIGHTS.get(name, 1) for name in with_sites}
    more = sites - least * len(with_sites)
    found = {name: least + more * weight // sum(weights.values()) for name, weight in weights.items()}
    found[with_sites[0]] += sites - sum(found.values())
    return {name: found[name] if name in found else others if name in LARGE else others // LARGE_SHARE
            for name in PROFILES}


SHARES = shares()


def pieces(wanted: Mapping[str, int]) -> Iterator[Piece]:
    """All work, the profiles by turns, so that a part of it is spread as the whole is."""
    left, done = dict(wanted), dict.fromkeys(wanted, 0)
    while any(left.values()):
        for profile in [profile for profile in left if left[profile]]:
            step = min(left[profile], -(-wanted[profile] // ROUNDS))
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
    with_sites = sum(has_sites(piece.profile, seed) for seed in range(piece.first, piece.stop))
    return {**attrs.asdict(piece), "with_sites": with_sites, "sum": attrs.asdict(total), "failed": failed}


class Progress:
    """What is done, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digests = {profile: digest_of_sources(profile) for profile in PROFILES}
        self.lines: dict[str, list[dict[str, Any]]] = {profile: [] for profile in PROFILES}
        texts = path.read_text().splitlines() if path.exists() else []
        for line in [json.loads(text) for text in texts if text.endswith("}")]:   # a torn last line does not count
            if line["digest"] == self.digests.get(line["profile"]) and "with_sites" in line:
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
            last = {**last, "stop": line["stop"], "sum": attrs.asdict(total), "failed": last["failed"] + line["failed"],
                    "with_sites": last["with_sites"] + line["with_sites"]}
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


def table(sums: Mapping[str, Sum], with_sites: Mapping[str, int]) -> Iterator[str]:
    """The closing lines. with_sites: profile -> how many of its seeds had two or more sites."""
    yield ROW.format("profile", "seeds", "with sites", "failed", "violations", "sim hours", "faults", "core hours")
    for profile, total in sums.items():
        sites = sum(with_sites.values()) if profile == "all" else with_sites.get(profile, 0)
        yield ROW.format(profile, total.seeds, sites, total.failed, total.violations,
                         f"{total.sim_s / SECONDS_AN_HOUR:.1f}", total.faults, f"{total.cpu_s / SECONDS_AN_HOUR:.2f}")
    yield sums["all"].kinds()
    yield sums["all"].states()


def sources(digests: Mapping[str, str]) -> str:
    """At which state of the sources the seeds ran: a digest, and which profiles run more than the core."""
    core = digests[next(iter(digests))]
    others = {digest: [name for name in digests if digests[name] == digest] for digest in digests.values()}
    return "sources " + ", ".join(digest if digest == core else f"{digest} ({', '.join(names)})"
                                  for digest, names in others.items())


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sites", type=int, default=SITES, metavar="SEEDS",
                        help="with two or more sites, over all profiles (default: %(default)s)")
    parser.add_argument("--others", type=int, default=OTHERS, metavar="SEEDS",
                        help="of group and of replicas each (default: %(default)s)")
    parser.add_argument("--profiles", default=",".join(PROFILES), metavar="NAME,NAME",
                        help="only the pieces of these profiles (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--progress", type=Path, default=PROGRESS, metavar="FILE",
                        help="where to write down what is done (default: marathon.jsonl beside this module)")
    parser.add_argument("--show", action="store_true", help="run nothing, only show what is done at these sources")
    args = parser.parse_args(words)
    profiles = args.profiles.split(",")
    unknown = [profile for profile in profiles if profile not in PROFILES]
    if unknown:
        parser.error(f"no profile {', '.join(unknown)}; known: {', '.join(PROFILES)}")
    progress = Progress(args.progress)
    wanted = [piece for piece in pieces(shares(args.sites, args.others)) if piece.profile in profiles]
    todo = [piece for piece in wanted if not progress.has(piece)]
    seeds = sum(piece.stop - piece.first for piece in wanted)
    print_line(f"{seeds - sum(piece.stop - piece.first for piece in todo)} of {seeds} seeds are done")
    if not args.show:
        with rare_collections(), workers(args.jobs) as pool:
            for line in pool.imap_unordered(work_off, todo):
                progress.add(line)
                print_line(f"{line['profile']} {line['first']}:{line['stop']}")
                for text in line["failed"]:
                    print_line(f"  {text}")
        progress.tidy()
    lines = [line for profile in profiles for line in progress.lines[profile]]
    sums, with_sites = add_up(lines), Counter[str]()
    for line in lines:
        with_sites[line["profile"]] += line["with_sites"]
    print_line("\n".join([*table(sums, with_sites), sources(progress.digests)]))
    return 1 if sums["all"].failed else 0


def print_line(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
