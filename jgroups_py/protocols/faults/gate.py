"""The base of the fault layers that keep messages back, and what else they share."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.ports import LastFrames
from jgroups_py.stack.protocol import Protocol

MAX_SOURCES = 10_000


class FaultLayer(Protocol, LastFrames):
    """A layer that lets some messages through, and answers for the transport when a member was last heard."""

    def start(self) -> None:
        self.last_frames: dict[Address, int] = {}          # member -> when its last message was let through, ns

    def last_frame_ns(self, member: Address) -> int | None:
        return self.last_frames.get(member)

    def let_up(self, batch: Batch) -> None:
        """Pass a batch up, as a sign of life of its source."""
        if len(self.last_frames) >= MAX_SOURCES and batch.src not in self.last_frames:
            self.last_frames.clear()
        self.last_frames[batch.src] = self.now_ns
        self.pass_up(batch)


def names_of(text: str) -> tuple[str, ...]:
    """The names in "A, B"."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
