"""The bytes of every header are fixed: a change of the wire format must show here."""
from __future__ import annotations

import pytest

from jgroups_py import wire
from jgroups_py.model.batch import Header
from jgroups_py.model.errors import WireError
from tests.wire.collect import collected

CASES = [pytest.param(header, golden, id=f"{type(header).__name__}-{at}")
         for at, (header, golden) in enumerate(collected())]


def encoded(header: Header) -> bytes:
    """The header as it stands in a frame."""
    out = bytearray()
    wire.encode_headers((header,), out)
    return bytes(out)


@pytest.mark.parametrize(("header", "golden"), CASES)
def test_a_header_has_its_golden_bytes(header: Header, golden: str) -> None:
    assert encoded(header).hex() == golden.replace(" ", "")


@pytest.mark.parametrize(("header", "golden"), CASES)
def test_the_golden_bytes_give_the_header(header: Header, golden: str) -> None:
    data = bytes.fromhex(golden)
    assert wire.decode_headers(wire.Reader(data, wire.Interner()), 1) == (header,)


@pytest.mark.parametrize(("header", "golden"), CASES)
def test_a_header_cut_short_is_refused(header: Header, golden: str) -> None:
    data = bytes.fromhex(golden)
    for stop in range(len(data)):
        with pytest.raises(WireError):
            wire.decode_headers(wire.Reader(data[:stop], wire.Interner()), 1)
