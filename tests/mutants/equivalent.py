"""Mutants that nobody can notice, by their keys, each with the reason; design/mutants.md shows them."""
from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
