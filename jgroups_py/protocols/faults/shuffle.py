"""SHUFFLE: collects messages and passes them on in random order.

Source: JGroups SHUFFLE. Deviation: batches are shuffled, each cut in two at a random place.
"""
from __future__ import annotations

from collections.abc import Callable

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.model.units import count, duration, flag
from jgroups_py.protocols.faults.gate import FaultLayer
from jgroups_py.stack.protocol import timer


@attrs.frozen
class ShuffleConfig:
    """The properties of SHUFFLE."""

    up: bool = flag(True, doc="Whether messages coming up are shuffled.")
    down: bool = flag(False, doc="Whether messages going down are shuffled.")
    max_size: int = count(10, least=1, doc="How many pieces are collected before they are passed on.")
    max_time_ns: int = duration("50ms", name="max_time", doc="How long the first of them waits at most.")


class Shuffle(FaultLayer):
    """Collects pieces for each direction, and passes them on in random order."""

    Config = ShuffleConfig
    config: ShuffleConfig

    def start(self) -> None:
        super().start()
        self.coming: list[Batch] = []
        self.going: list[Batch] = []

    def up(self, batch: Batch) -> None:
        if not self.config.up:
            return self.let_up(batch)
        self.collect("coming", self.coming, batch)
        return self.arrive() if len(self.coming) >= self.config.max_size else None

    def down(self, batch: Batch) -> None:
        if not self.config.down:
            return self.pass_down(batch)
        self.collect("going", self.going, batch)
        return self.leave() if len(self.going) >= self.config.max_size else None

    def collect(self, name: str, pieces: list[Batch], batch: Batch) -> None:
        if not pieces:
            self.set_timer(name, self.config.max_time_ns)
        at = self.rng.randrange(batch.count)
        pieces += [batch.cut(0, at), batch.cut(at, batch.count)] if at else [batch]

    @timer("coming")
    def arrive(self) -> None:
        self.coming = self.shuffled("coming", self.coming, self.let_up)

    @timer("going")
    def leave(self) -> None:
        self.going = self.shuffled("going", self.going, self.pass_down)

    def shuffled(self, name: str, pieces: list[Batch], go_on: Callable[[Batch], None]) -> list[Batch]:
        """Pass the pieces on in random order by `go_on`; the new, empty list."""
        self.cancel_timer(name)
        self.rng.shuffle(pieces)
        for piece in pieces:
            go_on(piece)
        return []
