"""Mutants of a source file: which there are, in an order that lasts, and how one is made.

A mutant is known by what it changes (file, function, operator, the text of its line, a running number), not by where
that stands. The draw goes by a digest of this and the seed: a change elsewhere in the file leaves it as it was.
"""
from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from tests.mutants.operators import chosen, turned_elsewhere

OPERATORS = chosen()
NOT_RUN = ("annassign", "tfpdef")         # annotations are not evaluated
IN_ANNOTATION = "->"


@attrs.frozen
class Mutant:
    """One change of one file. line, column: from 1 and 0; key: what it is known by; function: "" at module level."""

    path: str
    line: int
    column: int
    operator: str
    occurrence: int
    function: str
    text: str
    key: str

    def apply(self, source: str) -> str:
        """The source with the change.

        Raises:
            ValueError: the source has no such place.
        """
        changed = mutate_code(source, OPERATORS[self.operator], self.occurrence)
        if changed is None:
            raise ValueError(f"{self.path} has no {self.operator} {self.occurrence}")
        return str(changed)

    def rank(self, seed: int) -> str:
        """Its place in the draw."""
        return hashlib.blake2b(f"{seed}\0{self.key}".encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.operator} {self.occurrence} in {self.function or 'module'}: {self.text}"


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All mutants of a file, in the order of its lines."""
    lines = source.splitlines()
    counts: Counter[str] = Counter()
    alike: Counter[str] = Counter()
    found = []
    for node in ast_nodes(get_ast(source)):
        hidden = excluded(node)
        for name, operator in OPERATORS.items():
            for start, _ in operator.mutation_positions(node):
                occurrence = counts[name]
                counts[name] += 1
                if hidden or (name == "AddNot" and turned_elsewhere(condition_of(node))):
                    continue
                function, text = function_of(node), lines[start[0] - 1].strip()
                same = f"{path}::{function}::{name}::{text}"
                alike[same] += 1
                found.append(Mutant(path, start[0], start[1], name, occurrence, function, text,
                                    f"{same}::{alike[same]}"))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.column, mutant.operator, mutant.occurrence))


def excluded(node: Any) -> bool:
    """Whether it stands in an assertion, in an annotation, or in what only the type checker reads."""
    child, parent = node, node.parent
    if node.type == "assert_stmt":
        return True
    while parent is not None:
        if parent.type == "assert_stmt" or parent.type in NOT_RUN:
            return True
        if parent.type == "funcdef" and IN_ANNOTATION in parent.children:
            at = parent.children.index(IN_ANNOTATION)
            if child is parent.children[at + 1]:
                return True
        if parent.type == "if_stmt" and "TYPE_CHECKING" in parent.children[1].get_code():
            return True
        child, parent = parent, parent.parent
    return False


def condition_of(node: Any) -> Any:
    """What AddNot negates in an `if`, a `while` or a conditional expression."""
    return node.children[2 if node.type == "test" else 1]


def function_of(node: Any) -> str:
    """The class and function around it, dotted; "" at module level."""
    names: list[str] = []
    at = node
    while at is not None:
        if at.type in ("funcdef", "classdef"):
            names.append(at.name.value)
        at = at.parent
    return ".".join(reversed(names))


def all_mutants(root: Path, paths: Iterable[str]) -> Iterator[Mutant]:
    """Those of all files, by their paths below `root`."""
    for path in paths:
        yield from mutants_of(path, (root / path).read_text(encoding="utf-8"))


def draw(mutants: Iterable[Mutant], number: int, seed: int) -> list[Mutant]:
    """So many of them, always the same for a seed; a larger number draws the smaller one's and others."""
    return sorted(mutants, key=lambda mutant: mutant.rank(seed))[:number]
