"""The base of the fault layers that keep messages back or drop them."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.ports import LastFrames
from jgroups_py.stack.protocol import Protocol

MAX_SOURCES = 10_000             # bounds the memory that forged sources can take


class FaultLayer(Protocol, LastFrames):
    """A layer that lets only some messages through, and so replaces the transport as LastFrames (see the package)."""

    def start(self) -> None:
        self.last_frames: dict[Address, int] = {}          # member -> when its last batch was let through, ns

    def last_frame_ns(self, member: Address) -> int | None:
        return self.last_frames.get(member)

    def let_up(self, batch: Batch) -> None:
        """Pass a batch up, and record when: it is the last frame of its source for the layers above."""
        if len(self.last_frames) >= MAX_SOURCES and batch.src not in self.last_frames:
            self.last_frames.clear()
        self.last_frames[batch.src] = self.now_ns
        self.pass_up(batch)


def names_of(text: str) -> tuple[str, ...]:
    """The names in "A, B"."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
