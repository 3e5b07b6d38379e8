"""A digest of the sources that a seed runs, kept with each result: results of other sources do not count.

Only code counts. A comment, a docstring and an empty line change no run, so they change no digest.
"""
from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from functools import cache
from pathlib import Path

from jgroups_py.simulator.profiles import PROFILES

NEVER_SIMULATED = frozenset({"__main__", "aio", "cli", "ops", "pipeline", "spi"})
"""Rooms and doors of the package that no seed imports."""
OF_APPLICATIONS = frozenset({"blocks", "channel", "runtime", "testing"})
"""Rooms that only seeds of profiles with an application import: channels and what is built on them."""


def digest_of_sources(profile: str) -> str:
    """A hex digest of the code of all source files of the package that a seed of the profile may run."""
    apart = NEVER_SIMULATED | (frozenset() if PROFILES[profile].application else OF_APPLICATIONS)
    found = hashlib.blake2b(digest_size=8)
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if inside.parts[0].removesuffix(".py") not in apart:
            found.update(str(inside).encode() + code_of(path.read_text()).encode())
    return found.hexdigest()


@cache
def code_of(source: str) -> str:
    """A Python source without comments, docstrings and empty lines; equal on all versions of Python.

    A text that stands alone as a statement counts as a docstring wherever it stands: it does nothing. Empty lines
    within other texts are lost too.
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int() as last):
                lines[first - 1:last] = [""] * (last - first + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())
