"""Makes hostile frames for one wire: from frames that were read there, and from any header that a stack handles."""
from __future__ import annotations

from random import Random
from typing import Any

from jgroups_py import wire
from jgroups_py.model.batch import Batch, Header
from jgroups_py.simulator.attack.frame_writer import DRAW, header_writer, write_frame
from jgroups_py.simulator.attack.value_pool import ValuePool
from jgroups_py.stack.protocol import CONTROL
from jgroups_py.stack.stack import Stack

EDGE_RATIOS = (0.0, 0.02, 0.05, 0.1, 0.3, 1.0)
BATCH_FLAGS = (CONTROL, CONTROL, CONTROL, CONTROL, CONTROL, 0, 0, 0, 1, 4, 16, 64, 0x8000, 0xFFFF)
EXAMPLE_RATIO = 0.75                     # share of frames that are a member's frame with values replaced
FLIP_RATIO = 0.3                         # share of replays with a flipped bit
FROM = wire.SOURCE_END


class Forger:
    """Draws frames. claims_members: frames may claim a member as their source; else only the attacker's addresses."""

    def __init__(self, rng: Random, *, claims_members: bool = True) -> None:
        self.rng = rng
        self.claims_members = claims_members
        self.classes: dict[tuple[str, ...], list[type[Header]]] = {}

    def frame(self, pool: ValuePool, stack: Stack) -> bytes:
        """A frame with the headers of a member's frame, some values replaced, or with any headers and drawn values."""
        rng = self.rng
        pool.edge_ratio = EDGE_RATIOS[int(rng.random() * len(EDGE_RATIOS))]
        classes = self.known(stack)
        cls = classes[int(rng.random() * len(classes))]
        examples = pool.recorded.get(cls)
        headers = bytearray()
        flags = BATCH_FLAGS[int(rng.random() * len(BATCH_FLAGS))]
        wanted: list[tuple[type[Header], Any]]
        if examples and rng.random() < EXAMPLE_RATIO:
            example: Batch = examples[int(rng.random() * len(examples))]
            wanted = [(header.__class__, header) for header in example.headers]
            flags = example.flags if rng.random() < 0.9 else flags
        else:
            wanted = [(cls, DRAW)]
            while rng.random() < 0.3:
                wanted.append((classes[int(rng.random() * len(classes))], DRAW))
        for one, value in wanted:
            header_writer(one)(pool, value, headers)        # type: ignore[arg-type]  # classes hash
        return write_frame(cluster_of(stack), self.source(pool), self.destination(stack, pool), flags, len(wanted),
                           bytes(headers), pool.payloads())

    def source(self, pool: ValuePool) -> bytes:
        """The source address that a frame claims."""
        return pool.address() if self.claims_members else pool.non_member()

    def destination(self, stack: Stack, pool: ValuePool) -> bytes | None:
        """All members, the receiver, or, rarely, another address."""
        draw = self.rng.random()
        return None if draw < 0.5 else stack.me.raw if draw < 0.95 else pool.address()

    def replayed(self, pool: ValuePool) -> bytes:
        """A recorded frame, perhaps with a flipped bit.

        Bits of payloads are flipped only if members may be claimed: no checksum covers payloads, so the result is a
        forged message of the member.
        """
        frame = bytearray(pool.raw[int(self.rng.random() * len(pool.raw))])
        if self.rng.random() < FLIP_RATIO:
            covered = len(frame) if self.claims_members else min(len(frame), 8 + int.from_bytes(frame[8:12], "big"))
            at = self.rng.randrange(8 * covered)
            frame[at // 8] ^= 1 << at % 8
        return bytes(frame)

    def known(self, stack: Stack) -> list[type[Header]]:
        """The header classes that the layers of this stack handle."""
        key = tuple(layer.name for layer in stack.layers)
        found = self.classes.get(key)
        if found is None:
            taken = {cls: None for layer in stack.layers for cls in layer.receivers}
            found = self.classes[key] = [cls for cls in wire.known_headers()
                                         if cls in taken or cls in (wire.AppHeaders, wire.Releases)]
        return found


def cluster_of(stack: Stack) -> bytes:
    """The cluster id in each frame of a stack."""
    cluster: bytes = getattr(stack.transport, "cluster", b"")
    return cluster
