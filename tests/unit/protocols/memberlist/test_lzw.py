"""LZW: byte for byte what Go's compress/lzw writes, and any bytes give data or a WireError."""
from __future__ import annotations

from hashlib import sha256
from random import Random

import pytest

from jgroups_py.model.errors import WireError
from jgroups_py.protocols.swim.memberlist.lzw import compressed, decompressed

LIMIT = 1 << 20
# Written by `lzw.NewWriter(out, lzw.LSB, 8)` of Go 1.26.
BY_GO = {
    b"": "000302",
    b"a": "00c30404",
    b"aaaaaaa": "00c3081c182620",
    b"hello hello hello hello": "00d19461c3e60d0881040d222c787060c180",
}


@pytest.mark.parametrize(("data", "written"), BY_GO.items())
def test_go_writes_the_same(data, written):
    assert compressed(data).hex() == written
    assert decompressed(bytes.fromhex(written), LIMIT) == data


def test_go_writes_the_same_where_the_table_of_codes_starts_again():
    data = bytes(number * number % 251 for number in range(9000))
    written = compressed(data)
    assert sha256(written).hexdigest() == "50ae91d5f31ea62876b8df823fa3663d347d65ca9b5cc5ca71bba83b822944be"
    assert decompressed(written, LIMIT) == data


@pytest.mark.parametrize("letters", [b"a", b"ab", bytes(range(256))])
def test_compressed_data_decodes_to_what_was_encoded(letters):
    random = Random(len(letters))
    for length in (1, 255, 3837, 3838, 3839, 3840, 20000):       # around the clear code, which 3838 codes come before
        data = bytes(random.choices(letters, k=length))
        assert decompressed(compressed(data), length) == data


def test_any_bytes_give_data_or_an_error():
    random = Random(7)
    good = compressed(bytes(random.choices(b"abcd", k=600)))
    outcomes = {"data": 0, "error": 0}
    for _ in range(1500):
        data = bytearray(good if random.random() < 0.7 else random.randbytes(random.randrange(40)))
        for _ in range(random.randrange(1, 4)):
            if data:
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        if random.random() < 0.2:
            del data[random.randrange(len(data) + 1):]
        try:
            assert len(decompressed(bytes(data), 5000)) <= 5000
            outcomes["data"] += 1
        except WireError:
            outcomes["error"] += 1
    assert min(outcomes.values()) > 10, outcomes


def test_a_few_bytes_that_decode_to_very_many_are_refused():
    bomb = compressed(bytes(1 << 20))
    assert len(bomb) < 2200
    with pytest.raises(WireError, match="more than 65535 bytes"):
        decompressed(bomb, 65535)


def test_data_that_ends_before_its_end_code_is_refused():
    with pytest.raises(WireError, match="ends early"):
        decompressed(compressed(b"hello hello")[:-2], LIMIT)


def test_a_code_that_is_not_in_the_table_is_refused():
    with pytest.raises(WireError, match="not in the table"):
        decompressed(bytes.fromhex("0007fe"), LIMIT)
