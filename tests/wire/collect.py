"""Golden bytes: each room has a module tests/wire/golden_<room>.py with CASES, pairs of a header and its bytes in hex.

Spaces in the hex are free. The bytes are those of `wire.encode_headers`: protocol id u16, kind u8, length u32, body.
"""
from __future__ import annotations

from importlib import import_module
from pathlib import Path

from jgroups_py.model.batch import Header

Case = tuple[Header, str]


def collected() -> list[Case]:
    """All cases of all rooms, in order of the modules' names."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("golden_*.py"))
    return [case for name in names for case in import_module(f"tests.wire.{name}").CASES]
