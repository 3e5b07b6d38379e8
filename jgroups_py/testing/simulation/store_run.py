"""One seed of a block on coordination's store: what all members share, and the resource that they write to."""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

import attrs

from jgroups_py.blocks.coordination import Fence, StaleFenceError
from jgroups_py.blocks.coordination.machine import GrantWatcher
from jgroups_py.blocks.replication.options import Options
from jgroups_py.model.units import millis
from jgroups_py.testing.simulation.ledger import Broken

CLOCK_DRIFT = 0.02                         # rates of clocks are within 1 +- this; two differ by less than lease.DRIFT
DELAYS_MS = (1, 1, 1, 50, 500, 3000)       # of writes to the resource
TTLS = (0.5, 1.0, 3.0)


class Resource:
    """Something outside of the group: a number for each name, read and written by holders. fenced: it checks fences."""

    def __init__(self, fenced: bool = True) -> None:
        self.fenced = fenced
        self.values: dict[str, int] = {}
        self.written: dict[str, int] = {}                  # name -> how many writes were admitted
        self._fences: dict[str, Fence] = {}

    def admit(self, name: str, fence: int) -> None:
        """Whether the holder may go on.

        Raises:
            StaleFenceError: another one came after it.
        """
        if self.fenced:
            self._fences.setdefault(name, Fence()).admit(fence)

    def read(self, name: str, fence: int) -> int:
        """The number."""
        self.admit(name, fence)
        return self.values.get(name, 0)

    def write(self, name: str, fence: int, value: int) -> None:
        """Set the number."""
        self.admit(name, fence)
        self.values[name] = value
        self.written[name] = self.written.get(name, 0) + 1


@attrs.define(eq=False)
class WriteUnderWay:
    """A write that was sent to the resource: it arrives, whatever has become of its sender."""

    run: StoreRun
    name: str
    fence: int
    value: int
    arrived: bool = False

    def arrive(self) -> None:
        """It is carried out, or refused."""
        self.arrived = True
        try:
            self.run.resource.write(self.name, self.fence, self.value)
            self.run.counts["writes"] += 1
        except StaleFenceError:
            self.run.counts["writes refused by a fence"] += 1


class Living(Protocol):
    """A member of a run."""

    def alive(self) -> bool:
        """Whether its code still runs, also if it is paused."""


M = TypeVar("M", bound=Living)


class StoreRun(GrantWatcher):
    """What all members share, and the first violation that the checkers found. rng: draws it."""

    def __init__(self, rng: Random, fenced: bool) -> None:
        self.ttl = rng.choice(TTLS)
        self.options = Options(elect_ns=millis(rng.choice((20, 50, 200))), elect_step_ns=millis(rng.choice((50, 150))),
                               keep_entries=rng.choice((3, 30, 1000)), settle_ns=millis(300), piece_bytes=1024)
        self.expire = rng.choice(("sure", "sure", "lease"))
        self.resource = Resource(fenced)
        self.counts: Counter[str] = Counter()
        self.broken: Broken | None = None

    def fails(self, guarantee: str, text: str) -> None:
        """A violation; `always` raises it, as exceptions inside rounds would only close a channel."""
        if self.broken is None:
            self.broken = Broken(guarantee, text)

    def always(self, members: Sequence[Living]) -> None:
        """What was found since the last call."""
        if self.broken is not None:
            raise self.broken


def living(members: Sequence[M]) -> list[M]:
    """The members whose code still runs, also those that are paused."""
    return [member for member in members if member.alive()]
