"""Hostile frames for one wire: made of frames that were overheard there, and of any header that a stack takes."""
from __future__ import annotations

from random import Random
from typing import Any

from jgroups_py import wire
from jgroups_py.batch import Batch, Header
from jgroups_py.protocol import CONTROL
from jgroups_py.sim.attack.ink import Ink
from jgroups_py.sim.attack.pen import DRAW, header_pen, write_frame
from jgroups_py.stack import Stack

EDGE_RATIOS = (0.0, 0.02, 0.05, 0.1, 0.3, 1.0)
RUN_FLAGS = (CONTROL, CONTROL, CONTROL, CONTROL, CONTROL, 0, 0, 0, 1, 4, 16, 64, 0x8000, 0xFFFF)
EXAMPLE_RATIO = 0.75                     # of frames that begin as one that a member sent
FLIP_RATIO = 0.3                         # of replays with a flipped bit
FROM = wire.SOURCE_END


class Forger:
    """Draws frames. claims_members: sources are members' addresses too, else only the attacker's own."""

    def __init__(self, rng: Random, *, claims_members: bool = True) -> None:
        self.rng = rng
        self.claims_members = claims_members
        self.classes: dict[tuple[str, ...], list[type[Header]]] = {}

    def frame(self, ink: Ink, stack: Stack) -> bytes:
        """A frame of headers that members send together, or of any headers, with values replaced."""
        rng = self.rng
        ink.edge_ratio = EDGE_RATIOS[int(rng.random() * len(EDGE_RATIOS))]
        classes = self.known(stack)
        cls = classes[int(rng.random() * len(classes))]
        examples = ink.recorded.get(cls)
        headers = bytearray()
        flags = RUN_FLAGS[int(rng.random() * len(RUN_FLAGS))]
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
            header_pen(one)(ink, value, headers)        # type: ignore[arg-type]  # classes hash
        return write_frame(cluster_of(stack), self.source(ink), self.destination(stack, ink), flags, len(wanted),
                           bytes(headers), ink.payloads())

    def source(self, ink: Ink) -> bytes:
        """Who a frame says that it is from."""
        return ink.address() if self.claims_members else ink.stranger()

    def destination(self, stack: Stack, ink: Ink) -> bytes | None:
        """All, the receiver, now and then another."""
        draw = self.rng.random()
        return None if draw < 0.5 else stack.me.raw if draw < 0.95 else ink.address()

    def replayed(self, ink: Ink) -> bytes:
        """A frame of a member once more, perhaps with a flipped bit; in a payload, which no checksum covers, only where
        members' addresses are claimed: that makes a message of the member."""
        frame = bytearray(ink.raw[int(self.rng.random() * len(ink.raw))])
        if self.rng.random() < FLIP_RATIO:
            covered = len(frame) if self.claims_members else min(len(frame), 8 + int.from_bytes(frame[8:12], "big"))
            at = self.rng.randrange(8 * covered)
            frame[at // 8] ^= 1 << at % 8
        return bytes(frame)

    def known(self, stack: Stack) -> list[type[Header]]:
        """The headers that this stack's layers take."""
        key = tuple(layer.name for layer in stack.layers)
        found = self.classes.get(key)
        if found is None:
            taken = {cls: None for layer in stack.layers for cls in layer.receivers}
            found = self.classes[key] = [cls for cls in wire.known_headers()
                                         if cls in taken or cls is wire.AppHeaders]
        return found


def cluster_of(stack: Stack) -> bytes:
    """The cluster id that stands in each of its frames."""
    cluster: bytes = getattr(stack.transport, "cluster", b"")
    return cluster
