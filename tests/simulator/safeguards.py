"""`python -m tests.simulator.safeguards`: removes each safeguard in turn and looks for the first seed that shows it.

Prints a row as each is done (with --jobs in any order), then a verdict; exit 1 if some removal is not found within the
limit. The whole table takes some minutes; `--only TEXT` takes those with the text in their name or rule.
"""
from __future__ import annotations

import sys
import time
from argparse import ArgumentParser

import attrs

from jgroups_py.system.child_processes import workers
from tests.simulator.planted_bugs import SAFEGUARDS, Safeguard

LIMIT = 2000
WIDTHS = "{:<46} {:<9} {:<12} {:<9} {:>6} {:>8}"


@attrs.frozen
class Finding:
    """What came of one removal. seed None: not found. breaks: what else was broken as well."""

    safeguard: str
    rule: str
    profile: str
    breaks: str
    seed: int | None
    seconds: float

    def __str__(self) -> str:
        seed = "NONE" if self.seed is None else str(self.seed)
        return WIDTHS.format(self.safeguard, self.rule, self.profile, self.breaks, seed, f"{self.seconds:.1f}")


def look(work: tuple[int, int]) -> Finding:
    """Remove the safeguard at an index and run so many seeds at most."""
    index, limit = work
    safeguard = SAFEGUARDS[index]
    began_s = time.process_time()
    found = safeguard.first_found(range(limit))
    return Finding(safeguard.name, safeguard.rule, safeguard.profile, safeguard.breaks,
                   None if found is None else found.seed, time.process_time() - began_s)


def chosen(text: str) -> list[int]:
    """Indexes of the safeguards with `text` in their name or rule."""
    def matches(safeguard: Safeguard) -> bool:
        return text.lower() in f"{safeguard.name} {safeguard.rule}".lower()
    return [index for index, safeguard in enumerate(SAFEGUARDS) if matches(safeguard)]


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--limit", type=int, default=LIMIT, help=f"seeds to try for each (default: {LIMIT})")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use (default: 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="those with this text in their name or rule")
    args = parser.parse_args(words)
    print_line(WIDTHS.format("without", "of", "profile", "breaks", "seed", "seconds"))
    work = [(index, args.limit) for index in chosen(args.only)]
    missed = 0
    with workers(args.jobs) as pool:
        for finding in pool.imap_unordered(look, work):
            print_line(str(finding))
            missed += finding.seed is None
    print_line(f"{len(work)} safeguards removed, {len(work) - missed} removals found within {args.limit} seeds")
    return 1 if missed or not work else 0


def print_line(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
