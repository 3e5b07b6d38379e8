"""SHUFFLE: collects messages and passes them on in random order.

Source: JGroups SHUFFLE. Deviation: batches are cut in two at a random place, and the pieces are shuffled.
"""
from __future__ import annotations

from collections.abc import Callable

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.model.units import count, duration, flag
from jgroups_py.protocols.faults.fault_layer import FaultLayer
from jgroups_py.stack.protocol import timer


@attrs.frozen
class ShuffleConfig:
    """The properties of SHUFFLE."""

    up: bool = flag(True, doc="Whether messages going up are shuffled.")
    down: bool = flag(False, doc="Whether messages going down are shuffled.")
    max_size: int = count(10, least=1, doc="How many pieces are collected before they are passed on.")
    max_time_ns: int = duration("50ms", name="max_time", doc="How long the first of them waits at most.")


class Shuffle(FaultLayer):
    """Collects pieces for each direction, and passes them on in random order."""

    Config = ShuffleConfig
    config: ShuffleConfig

    def start(self) -> None:
        super().start()
        self.going_up: list[Batch] = []
        self.going_down: list[Batch] = []

    def up(self, batch: Batch) -> None:
        if not self.config.up:
            return self.let_up(batch)
        self.collect("up", self.going_up, batch)
        return self.pass_shuffled_up() if len(self.going_up) >= self.config.max_size else None

    def down(self, batch: Batch) -> None:
        if not self.config.down:
            return self.pass_down(batch)
        self.collect("down", self.going_down, batch)
        return self.pass_shuffled_down() if len(self.going_down) >= self.config.max_size else None

    def collect(self, name: str, pieces: list[Batch], batch: Batch) -> None:
        """Cut a batch and keep the pieces; the timer `name` limits how long."""
        if not pieces:
            self.set_timer(name, self.config.max_time_ns)
        at = self.rng.randrange(batch.count)
        pieces += [batch.cut(0, at), batch.cut(at, batch.count)] if at else [batch]

    @timer("up")
    def pass_shuffled_up(self) -> None:
        self.going_up = self.shuffled("up", self.going_up, self.let_up)

    @timer("down")
    def pass_shuffled_down(self) -> None:
        self.going_down = self.shuffled("down", self.going_down, self.pass_down)

    def shuffled(self, name: str, pieces: list[Batch], pass_on: Callable[[Batch], None]) -> list[Batch]:
        """Pass the pieces on in random order by `pass_on`; returns the new, empty list."""
        self.cancel_timer(name)
        self.rng.shuffle(pieces)
        for piece in pieces:
            pass_on(piece)
        return []
