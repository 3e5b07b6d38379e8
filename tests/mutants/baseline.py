"""What tests and seeds execute and cost without any mutant: a mutant is judged by those that execute its line.

Everything here is deterministic, so work that does not come to a line goes the same way with and without a mutant
there. The survey takes some minutes and is kept, outside the repository, for as long as the sources are the same.
"""
from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import attrs

from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.simulator.sources import code_of
from tests.mutants import lines
from tests.mutants.recording import RECORD
from tests.mutants.rooms import NEVER, ROOMS, Room, profiles_for, sources
from tests.mutants.workshop import ROOT, Workshop

KEPT = ROOT / ".mutants"
SURVEY_LIMIT_S = 900.0
JUDGES = ("tests/unit", "tests/scenarios", "tests/wire")
PrintLine = Callable[[str], None]


def digest_of(*folders: str, root: Path = ROOT) -> str:
    """Changes with the code of every file below the folders; not with comments and docstrings."""
    found = hashlib.blake2b(digest_size=8)
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*")):
        inside = path.relative_to(root)
        if path.suffix in (".py", ".txt", ".xml", ".yaml") and "mutants" not in inside.parts:
            text = path.read_text()
            found.update(f"{inside.as_posix()}\0{code_of(text) if path.suffix == '.py' else text}".encode())
    return found.hexdigest()


def package_digest() -> str:
    """Of what is mutated and simulated."""
    return digest_of("jgroups_py", "stacks")


def tests_digest() -> str:
    """Of the tests that judge."""
    return digest_of(*JUDGES)


@attrs.frozen
class Baseline:
    """tests: of the unit tests, cheapest first; seeds: profile -> its seeds; none of them fails by itself."""

    tests: tuple[dict[str, Any], ...]
    seeds: dict[str, tuple[dict[str, Any], ...]]

    def tests_at(self, room: Room, path: str, line: int | None) -> list[dict[str, Any]]:
        """The tests of a room that execute a statement; None: of no function, so of all that import the file."""
        return [test for test in self.tests if room.has_test(test["test"]) and comes_to(test, path, line)]

    def seeds_at(self, room: Room, path: str, line: int | None) -> list[dict[str, Any]]:
        """Seeds that execute a statement, the room's profiles by turns, then the others by turns."""
        fitting = {profile: [seed for seed in self.seeds.get(profile, ()) if comes_to(seed, path, line)]
                   for profile in profiles_for(room, list(self.seeds))}
        first = [seeds for profile, seeds in fitting.items() if profile in room.profiles]
        others = [seeds for profile, seeds in fitting.items() if profile not in room.profiles]
        return [*by_turns(first), *by_turns(others)]


def comes_to(work: dict[str, Any], path: str, line: int | None) -> bool:
    """Whether a test or a seed executes a statement of a file, or the file at all."""
    return path in work["lines"] and (line is None or lines.has_line(work["lines"][path], line))


def by_turns(rows: Iterable[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """One of each, again and again."""
    return (item for item in chain.from_iterable(zip_longest(*rows)) if item is not None)


def simulated() -> list[str]:
    """The profiles that have a group."""
    return [name for name in PROFILES if name not in NEVER]


def baseline(jobs: int, seconds: float, print_line: PrintLine, *, seeds_too: bool = True) -> Baseline:
    """The survey of today's sources, as it is kept or made now; `seconds` of CPU time for each profile."""
    package, tests = package_digest(), tests_digest()
    with marked_workshop() as workshop, ThreadPoolExecutor(jobs) as pool:
        asked = {profile: pool.submit(kept, f"{profile}-{package}-{seconds:g}",
                                      lambda profile=profile: survey_seeds(workshop, profile, seconds), print_line)
                 for profile in (simulated() if seeds_too else ())}
        unit = pool.submit(kept, f"unit-{package}-{tests}", lambda: survey_tests(workshop), print_line).result()
        seeds = {profile: future.result() for profile, future in asked.items()}
    for seed in chain.from_iterable(seeds.values()):
        if seed["failed"]:
            print_line(f"judges nothing, for it fails by itself: jgroups sim --profile {seed['profile']} --seed "
                f"{seed['seed']}: {seed['failed'][0]}")
    return Baseline(tuple(sorted(unit, key=lambda test: (test["cpu_s"], test["test"]))),
                    {profile: tuple(seed for seed in found if not seed["failed"]) for profile, found in seeds.items()})


def kept(name: str, make: Callable[[], list[dict[str, Any]]], print_line: PrintLine) -> list[dict[str, Any]]:
    """A part of the survey, from its file if there is one."""
    path = KEPT / f"{name}.jsonl"
    if not path.exists():
        print_line(f"survey: {name}")
        found = make()
        KEPT.mkdir(exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text("".join(json.dumps(item) + "\n" for item in found), encoding="utf-8")
        new.replace(path)
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def marked_workshop() -> Workshop:
    """A workshop whose sources record what they execute."""
    workshop = Workshop()
    for path in sources(workshop.root):
        workshop.put(path, lines.marked(path, workshop.read(path)))
    return workshop


def survey_seeds(workshop: Workshop, profile: str, seconds: float) -> list[dict[str, Any]]:
    """Seeds of a profile from 0 on."""
    ended = workshop.run(["-m", "tests.mutants.seeds", "survey", profile, str(seconds)], cpu_s=seconds + SURVEY_LIMIT_S)
    if ended.code:
        raise RuntimeError(f"the survey of {profile} failed:\n{ended.output}")
    return [json.loads(text) for text in ended.output.splitlines() if text.startswith("{")]


def survey_tests(workshop: Workshop) -> list[dict[str, Any]]:
    """All tests of all rooms."""
    where = dict.fromkeys(path for room in ROOMS for path in room.test_files(workshop.root))
    record = workshop.root / RECORD
    words = ["-m", "pytest", "-p", "tests.mutants.recording", "-o", "addopts=-q --strict-markers",
             "-p", "no:cacheprovider", "--doctest-modules", "-m", "not real", *where]
    ended = workshop.run(words, cpu_s=SURVEY_LIMIT_S)
    if ended.code not in (0, 1) or not record.exists():
        raise RuntimeError(f"the survey of the tests failed:\n{ended.output}")
    return [json.loads(text) for text in record.read_text(encoding="utf-8").splitlines()]
