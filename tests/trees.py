"""Syntax trees for the checks of the house, parsed when a check wants them and freed after the checks of a file.

All of them take seconds to parse, which every process that only collects tests would spend too, and are a million
objects, through which each full garbage collection of every later test would go.
"""
from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest


@cache
def parsed(text: str) -> ast.Module:
    """The syntax tree of a source."""
    return ast.parse(text)


@pytest.fixture(scope="module", autouse=True)
def freed() -> Iterator[None]:
    """For a test module that imports this fixture: no trees are kept after it."""
    yield
    parsed.cache_clear()
