"""The attacker's frames are those of members as long as no value is replaced, and have every header."""
from __future__ import annotations

import contextlib
from random import Random

import pytest

from jgroups_py import wire
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.errors import WireError
from jgroups_py.protocols import KNOWN
from jgroups_py.simulator.attack.frame_writer import DRAW, header_writer, write_frame
from jgroups_py.simulator.attack.value_pool import EDGES, ValuePool
from tests.wire.collect import Case, collected

CASES = [case for case in collected() if case[0].__class__.__module__.startswith("jgroups_py.")]


class Unchanged(ValuePool):
    """Nothing is replaced, no count is wrong."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.edge_ratio = 0.0
        self.random = lambda: 0.9


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__class__.__qualname__)
def test_a_header_that_is_left_as_it_is_has_its_golden_bytes(case: Case) -> None:
    header, golden = case
    out = bytearray()
    header_writer(header.__class__)(Unchanged(), header, out)
    assert bytes(out) == bytes.fromhex(golden)


def test_every_header_can_be_drawn_and_most_of_what_is_drawn_is_refused_or_read() -> None:
    for known in KNOWN.values():
        known.load()
    pool = ValuePool(Random(2))
    read = 0
    headers = [cls for cls in wire.known_headers() if cls.__module__.startswith("jgroups_py.")]
    for cls in headers:
        for _ in range(20):
            out = bytearray()
            header_writer(cls)(pool, DRAW, out)
            with contextlib.suppress(WireError):
                read += wire.decode_headers(wire.Reader(bytes(out), wire.Interner()), 1)[0].__class__ is cls
    assert read > 5 * len(headers)


def test_a_frame_is_read_as_a_frame() -> None:
    header: Header = CASES[0][0]
    out = bytearray()
    header_writer(header.__class__)(Unchanged(), header, out)
    for dest in (None, b"d" * 16):
        frame = write_frame(b"cluster!", b"s" * 16, dest, 4, 1, bytes(out), (b"one", b"", b"three"))
        batch = wire.decode_frame(frame, b"cluster!", wire.Interner())
        assert isinstance(batch, Batch)
        assert batch.headers == (header,)
        assert batch.payloads == (b"one", b"", b"three")
        assert batch.src.raw == b"s" * 16
        assert (batch.dest is None) == (dest is None)
        assert batch.flags == 4


def test_numbers_from_the_edge_are_drawn() -> None:
    pool = ValuePool(Random(3))
    drawn = {pool.number(64) for _ in range(2000)}
    assert drawn >= set(EDGES)
    assert {pool.number(32) for _ in range(2000)} >= {0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1}
