"""What the fault layers share: a gate notes whom it let through, and answers for the transport whom we heard."""
from __future__ import annotations

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.ports import Hearing
from jgroups_py.protocol import Protocol

MAX_HEARD = 10_000


class Gate(Protocol, Hearing):
    """A layer that lets some messages through."""

    def start(self) -> None:
        self.heard: dict[Address, int] = {}                # member -> when something of it got through, ns

    def heard_ns(self, member: Address) -> int | None:
        return self.heard.get(member)

    def let_up(self, batch: Batch) -> None:
        """Pass a batch up."""
        if len(self.heard) >= MAX_HEARD and batch.src not in self.heard:
            self.heard.clear()
        self.heard[batch.src] = self.now_ns
        self.pass_up(batch)


def names_of(text: str) -> tuple[str, ...]:
    """The names in "A, B"."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
