"""Documents are true to the code: each guarantee has its checker, each citation of a rule or law resolves."""
from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jgroups_py.simulator import checkers
from jgroups_py.simulator.checkers import CHECKERS

ROOT = Path(__file__).parents[1]
DESIGN = ROOT / "design"
ROW = re.compile(r"^\| (?P<names>[A-Z]\d+(?:[-,] ?[A-Z]?\d+)*|[FL]) \| .* \| (?P<checkers>[^|]*) \|$", re.MULTILINE)
ELSEWHERE = re.compile(r"[APHKEDOCNLV]\d+")
"""Guarantees that a checker outside of simulator/checkers holds, or a test: of attackers, replicas, blocks, files."""
CITATION = re.compile(r"\b(?P<kind>rule|law)s? (?P<numbers>\d+(?:(?:, | to | and |-)\d+)*)\b", re.IGNORECASE)
CITING = ("jgroups_py", "tests", "design", "examples", "benchmarks")


def rows() -> dict[str, str]:
    """Guarantee -> the checker in its row of design/guarantees.md."""
    found: dict[str, str] = {}
    for row in ROW.finditer((DESIGN / "guarantees.md").read_text()):
        letter = row["names"][0]
        numbers = [int(number) for number in re.findall(r"\d+", row["names"])]
        if "-" in row["names"]:
            numbers = list(range(numbers[0], numbers[-1] + 1))
        for name in [f"{letter}{number}" for number in numbers] or [letter]:
            found[name] = row["checkers"]
    return found


def test_every_checker_has_a_row_among_the_guarantees_and_every_row_of_a_history_its_checker() -> None:
    described = rows()
    assert [name for name in CHECKERS if name not in described] == []
    assert [name for name in described if name not in CHECKERS and not ELSEWHERE.fullmatch(name)] == []


@pytest.mark.parametrize("name", sorted(CHECKERS))
def test_a_guarantee_names_the_function_that_checks_it(name: str) -> None:
    found = re.findall(r"`(\w+)\.(\w+)`", rows()[name])
    modules = [getattr(checkers, module) for module, _ in found if hasattr(checkers, module)]
    named = [getattr(checkers, module).__dict__[function] for module, function in found if hasattr(checkers, module)]
    if not modules:
        assert "`eventual`" in rows()[name]
        return
    assert CHECKERS[name] in named


def numbered(document: str, heading: str) -> list[int]:
    """The numbers of the list under a heading."""
    text = (DESIGN / document).read_text().partition(heading)[2].partition("\n## ")[0]
    return [int(number) for number in re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)]


def citations() -> Iterator[tuple[str, str, int]]:
    """(place, rule or law, number) of everything that is cited."""
    for path in [path for folder in CITING for path in sorted((ROOT / folder).rglob("*"))]:
        if path.suffix not in (".py", ".md", ".txt") or path.name in ("track-record.md", "relay-rules.md"):
            continue
        for at, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for cited in CITATION.finditer(line):
                for number in re.findall(r"\d+", cited["numbers"]):
                    yield f"{path.relative_to(ROOT)}:{at}", cited["kind"].lower(), int(number)


def test_rules_of_relay_and_laws_of_the_core_are_numbered_without_a_gap() -> None:
    assert numbered("relay-rules.md", "## Rules") == list(range(1, 21))
    assert numbered("architecture.md", "## Five laws of the core") == list(range(1, 6))


def test_every_rule_and_law_that_is_cited_exists() -> None:
    known = {"rule": numbered("relay-rules.md", "## Rules"), "law": numbered("architecture.md", "## Five laws")}
    cited = list(citations())
    assert len(cited) > 40
    assert [f"{place}: {kind} {number}" for place, kind, number in cited if number not in known[kind]] == []
