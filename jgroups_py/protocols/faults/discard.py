"""DISCARD: loses each message coming up with probability `up`, going down with probability `down`.

Source: JGroups DISCARD. Deviation: `src` limits the loss coming up to messages of certain members.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import declare, drop
from jgroups_py.model.units import count, flag, parsed, ratio
from jgroups_py.protocols.faults.gate import FaultLayer, names_of


@attrs.frozen
class DiscardConfig:
    """The properties of DISCARD."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("excludeItself", "exclude_itself"), "own multicasts loop back above this layer"),
        **dict.fromkeys(("use_gui", "gui"), "there is no window"),
    }

    up_ratio: float = ratio(0.0, name="up", doc="Share of the messages coming up that is lost.")
    down_ratio: float = ratio(0.0, name="down", doc="Share of the messages going down that is lost.")
    src: tuple[str, ...] = parsed(
        (), parse=lambda value: names_of(value) if isinstance(value, str) else tuple(value), unit="names",
        doc="Only messages of these members (logical names, comma between them) are lost coming up; empty: of all.")
    discard_all: bool = flag(False, doc="Whether everything is lost, both ways: the member is cut off.")
    drop_down_unicasts: int = count(0, doc="How many unicast batches going down are lost, from the first one on.")
    drop_down_multicasts: int = count(0, doc="How many multicast batches going down are lost, from the first one on.")


class Discard(FaultLayer):
    """Loses messages at random. A test may change `up_ratio` and `down_ratio` while the member runs."""

    Config = DiscardConfig
    config: DiscardConfig
    COUNTERS = declare(
        drop("discarded", "Messages lost on purpose."),
    )

    def start(self) -> None:
        super().start()
        self.up_ratio = 1.0 if self.config.discard_all else self.config.up_ratio
        self.down_ratio = 1.0 if self.config.discard_all else self.config.down_ratio
        self.unicasts_to_drop = self.config.drop_down_unicasts
        self.multicasts_to_drop = self.config.drop_down_multicasts

    def up(self, batch: Batch) -> None:
        if self.config.src and batch.src.name not in self.config.src:
            return self.let_up(batch)
        for piece in self.survivors(batch, self.up_ratio):
            self.let_up(piece)
        return None

    def down(self, batch: Batch) -> None:
        if self.is_to_drop(batch):
            return self.drop("discarded", batch, "lost on purpose, going down")
        for piece in self.survivors(batch, self.down_ratio):
            self.pass_down(piece)
        return None

    def is_to_drop(self, batch: Batch) -> bool:
        """Whether this is one of the first batches going down, which are to be lost."""
        if batch.dest is None and self.multicasts_to_drop:
            self.multicasts_to_drop -= 1
            return True
        if batch.dest is not None and self.unicasts_to_drop:
            self.unicasts_to_drop -= 1
            return True
        return False

    def survivors(self, batch: Batch, ratio: float) -> Iterable[Batch]:
        """The pieces of `batch` that are not lost; a control message is kept or lost whole."""
        if not ratio:
            return (batch,)
        keep = [index for index in range(batch.count) if self.rng.random() >= ratio]      # each message by itself
        if len(keep) < batch.count:
            self.drop("discarded", batch, "lost on purpose", number=batch.count - len(keep))
        return batch.pieces(keep)
