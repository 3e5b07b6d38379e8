"""DUPLICATE: passes batches on more than once. Source: JGroups DUPL."""
from __future__ import annotations

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.units import count, flag, ratio
from jgroups_py.stack.protocol import Protocol


@attrs.frozen
class DuplicateConfig:
    """The properties of DUPLICATE."""

    incoming_copies: int = count(1, doc="How many copies of a batch going up are passed on.")
    outgoing_copies: int = count(1, doc="How many copies of a batch going down are passed on.")
    copy_ratio: float = ratio(1.0, doc="Share of the batches that are copied.")
    copy_unicast_msgs: bool = flag(True, doc="Whether unicasts are copied.")
    copy_multicast_msgs: bool = flag(True, doc="Whether multicasts are copied.")


class Duplicate(Protocol):
    """Copies a random share of the batches, in both directions."""

    Config = DuplicateConfig
    config: DuplicateConfig
    COUNTERS = declare(
        counter("copies", "Copies of messages passed on."),
    )

    def up(self, batch: Batch) -> None:
        for _ in range(1 + self.copies(batch, self.config.incoming_copies)):
            self.pass_up(batch)

    def down(self, batch: Batch) -> None:
        for _ in range(1 + self.copies(batch, self.config.outgoing_copies)):
            self.pass_down(batch)

    def copies(self, batch: Batch, number: int) -> int:
        """How many copies of this batch are passed on: `number` or none."""
        config = self.config
        copied = config.copy_multicast_msgs if batch.dest is None else config.copy_unicast_msgs
        if not copied or not number or self.rng.random() >= config.copy_ratio:
            return 0
        self.count("copies", number * batch.count)
        return number
