"""Founding: hosts that create the store by themselves, once they are all there.

Without disks a member cannot distinguish "never created" from "created, and lost" (design/replicas.md). What it can see
is its view. So the first of the founders creates the store when all founders are in one view, no host of that view has
a store, and that has been so for `settle`. Two halves of a split group never both have all founders. What remains: a
store whose hosts, all but the founders, are in another part of the network while all founders have restarted.
"""
from __future__ import annotations

from collections.abc import Callable

import attrs

BIRTH_BYTES = 8
RANDOM_BYTES = 8


@attrs.frozen
class Founding:
    """names: logical names of the founders, the first of which creates the store. new_name: of a store that is created
    now, see `store_name`."""

    names: tuple[str, ...]
    partitions: int
    replicas: int
    new_name: Callable[[], bytes]

    def __attrs_post_init__(self) -> None:
        if not self.names or not all(isinstance(name, str) and name for name in self.names):
            raise ValueError(f"founders are logical names of members, not {self.names!r}")
        if len(dict.fromkeys(self.names)) < len(self.names):
            raise ValueError(f"a founder is named twice: {', '.join(self.names)}")


def store_name(wall_ns: int, random: bytes) -> bytes:
    """The name of a store: its birth number, and RANDOM_BYTES random bytes.

    The birth number is the wall clock, so that a store that is created anew after a loss has a higher one, as long as
    the clocks of its founders are right to within the time between.
    """
    assert len(random) == RANDOM_BYTES, "a store's id has one length"
    return wall_ns.to_bytes(BIRTH_BYTES, "big") + random


def birth_of(name: bytes) -> int:
    """The birth number of a store."""
    return int.from_bytes(name[:BIRTH_BYTES], "big")
