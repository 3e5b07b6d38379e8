"""A write with one operation has a short way through its bytes: they are the same ones, and it takes nothing else."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.blocks.dicts.messages import (
    COMPARE,
    MESSAGES,
    PUT,
    DictClaim,
    DictWrite,
    Operation,
    encode,
    one_as_bytes,
    read_one,
    write_head,
)
from jgroups_py.model.errors import WireError
from jgroups_py.wire import Interner

VIEW = bytes(range(24))
HEAD = write_head(VIEW)


def operation(rng: Random) -> Operation:
    return (rng.randrange(256), rng.randbytes(rng.randrange(40)), rng.randbytes(rng.randrange(300)), None,
            rng.choice((0, 1, 1 << 40)))


def read_in_full(data: bytes) -> DictWrite | None:
    """What the general way makes of it, if that is a write of this view with one operation without an argument."""
    try:
        found = MESSAGES.decode(data, Interner())
    except WireError:
        return None
    if not isinstance(found, DictWrite) or found.view != VIEW or len(found.operations) != 1:
        return None
    return found if found.operations[0][3] is None else None


def test_the_bytes_are_those_of_the_general_way():
    rng = Random(1)
    for number in (0, 1, 1 << 61):
        for _ in range(100):
            one = operation(rng)
            data = one_as_bytes(HEAD, number, one)
            assert data == encode(DictWrite(VIEW, number, (one,)))
            assert read_one(HEAD, data) == (number, one)


@pytest.mark.parametrize("other", [
    DictWrite(VIEW, 1, ()), DictWrite(VIEW, 1, ((PUT, b"k", b"v", None, 0), (PUT, b"l", b"w", None, 0))),
    DictWrite(VIEW, 1, ((COMPARE, b"k", b"v", b"w", 0),)), DictWrite(VIEW[1:], 1, ((PUT, b"k", b"v", None, 0),)),
    DictClaim(VIEW, b"", True, 0, ()),
])
def test_anything_else_is_left_to_the_general_way(other):
    assert read_one(HEAD, encode(other)) is None


def test_changed_and_cut_bytes_are_read_as_the_general_way_reads_them():
    rng = Random(2)
    for _ in range(3_000):
        data = bytearray(one_as_bytes(HEAD, rng.randrange(1 << 62), operation(rng)))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 255, rng.randrange(256)))
        changed = bytes(data) if rng.random() < 0.7 else bytes(data[:rng.randrange(len(data))])
        found, full = read_one(HEAD, changed), read_in_full(changed)
        assert found == (None if full is None else (full.number, full.operations[0])), changed.hex()
