"""DISCARD: drops each message going up with probability `up`, and each going down with probability `down`.

Source: JGroups DISCARD. Deviation: `src` limits the drops on the way up to messages of certain members.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import declare, drop
from jgroups_py.model.units import count, flag, parsed, ratio
from jgroups_py.protocols.faults.fault_layer import FaultLayer, names_of


@attrs.frozen
class DiscardConfig:
    """The properties of DISCARD."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("excludeItself", "exclude_itself"), "own multicasts loop back above this layer"),
        **dict.fromkeys(("use_gui", "gui"), "there is no graphical interface"),
    }

    up_ratio: float = ratio(0.0, name="up", doc="Share of the messages going up that is dropped.")
    down_ratio: float = ratio(0.0, name="down", doc="Share of the messages going down that is dropped.")
    src: tuple[str, ...] = parsed(
        (), parse=lambda value: names_of(value) if isinstance(value, str) else tuple(value), unit="names",
        doc="Only messages of these members (logical names, comma between them) are dropped on the way up; empty: of "
        "all.")
    discard_all: bool = flag(False, doc="Whether everything is dropped, in both directions.")
    drop_down_unicasts: int = count(0, doc="How many of the first unicast batches going down are dropped.")
    drop_down_multicasts: int = count(0, doc="How many of the first multicast batches going down are dropped.")


class Discard(FaultLayer):
    """Drops messages at random. A test may change `up_ratio` and `down_ratio` while the member runs."""

    Config = DiscardConfig
    config: DiscardConfig
    COUNTERS = declare(
        drop("discarded", "Messages dropped on purpose."),
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
            return self.drop("discarded", batch, "dropped on purpose, going down")
        for piece in self.survivors(batch, self.down_ratio):
            self.pass_down(piece)
        return None

    def is_to_drop(self, batch: Batch) -> bool:
        """Whether this is one of the first batches going down that are to be dropped (drop_down_...)."""
        if batch.dest is None and self.multicasts_to_drop:
            self.multicasts_to_drop -= 1
            return True
        if batch.dest is not None and self.unicasts_to_drop:
            self.unicasts_to_drop -= 1
            return True
        return False

    def survivors(self, batch: Batch, ratio: float) -> Iterable[Batch]:
        """The pieces of `batch` that are not dropped; a control message, without payload, is one piece."""
        if not ratio:
            return (batch,)
        keep = [index for index in range(batch.count) if self.rng.random() >= ratio]      # each message by itself
        if len(keep) < batch.count:
            self.drop("discarded", batch, "dropped on purpose", number=batch.count - len(keep))
        return batch.pieces(keep)
