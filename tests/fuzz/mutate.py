"""Mutated inputs: bits, bytes, numbers at the edge, pieces cut out, doubled, moved, or taken from another input."""
from __future__ import annotations

from collections.abc import Sequence
from random import Random

from jgroups_py.simulator.attack.value_pool import EDGES, TEXTS

MOST_BYTES = 70_000
BYTES = (0, 1, 0x7F, 0x80, 0x90, 0xA0, 0xC0, 0xC1, 0xCF, 0xD9, 0xDC, 0xDD, 0xDE, 0xDF, 0xFE, 0xFF)
WIDTHS = (1, 2, 4, 8)
REPEATS = (2, 3, 10, 100, 3000)
STEPS = (1, 1, 1, 1, 2, 2, 3, 5, 10)


def mutated(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds after some changes."""
    data = bytearray(seeds[int(rng.random() * len(seeds))])
    for _ in range(STEPS[int(rng.random() * len(STEPS))]):
        change = CHANGES[int(rng.random() * len(CHANGES))]
        data = change(rng, data, seeds)
    return bytes(data[:MOST_BYTES])


def _at(rng: Random, data: bytearray) -> int:
    return int(rng.random() * (len(data) + 1))


def _piece(rng: Random, data: bytes | bytearray) -> bytes | bytearray:
    start = int(rng.random() * (len(data) + 1))
    return data[start:start + 1 + int(rng.random() * rng.choice((4, 16, 64, 4096)))]


def _flip(rng: Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    if data:
        data[int(rng.random() * len(data))] ^= 1 << int(rng.random() * 8)
    return data


def _set_byte(rng: Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    if data:
        data[int(rng.random() * len(data))] = BYTES[int(rng.random() * len(BYTES))]
    return data


def _set_number(rng: Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    width, at = rng.choice(WIDTHS), _at(rng, data)
    value = rng.choice(EDGES) & ((1 << 8 * width) - 1)
    data[at:at + width] = value.to_bytes(width, rng.choice(("big", "little")))
    return data


def _cut_out(rng: Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    at = _at(rng, data)
    del data[at:at + len(_piece(rng, data))]
    return data


def _truncate(rng: Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    return data[:_at(rng, data)]


def _repeat(rng: Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    at, piece = _at(rng, data), _piece(rng, data)
    data[at:at] = (piece * rng.choice(REPEATS))[:MOST_BYTES]
    return data


def _splice(rng: Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    at = _at(rng, data)
    data[at:at] = _piece(rng, seeds[int(rng.random() * len(seeds))])
    return data


def _random(rng: Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    at = _at(rng, data)
    data[at:at] = rng.randbytes(1 + int(rng.random() * 20))
    return data


def _text(rng: Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    at = _at(rng, data)
    data[at:at] = rng.choice(TEXTS).encode()
    return data


CHANGES = (_flip, _flip, _set_byte, _set_byte, _set_number, _set_number, _cut_out, _truncate, _repeat, _splice, _random,
           _text)
