"""DUPLICATE: passes runs on more than once. Source: JGroups DUPL."""
from __future__ import annotations

import attrs

from jgroups_py.batch import Batch
from jgroups_py.protocol import Protocol
from jgroups_py.units import count, flag, ratio


@attrs.frozen
class DuplicateConfig:
    """See the fields."""

    incoming_copies: int = count(1, doc="How many more times a run coming up is passed on.")
    outgoing_copies: int = count(1, doc="How many more times a run going down is passed on.")
    copy_ratio: float = ratio(1.0, doc="Share of the runs that are copied.")
    copy_unicast_msgs: bool = flag(True, doc="Whether unicasts are copied.")
    copy_multicast_msgs: bool = flag(True, doc="Whether multicasts are copied.")


class Duplicate(Protocol):
    """See the module."""

    Config = DuplicateConfig
    config: DuplicateConfig

    def up(self, batch: Batch) -> None:
        for _ in range(1 + self.copies(batch, self.config.incoming_copies)):
            self.pass_up(batch)

    def down(self, batch: Batch) -> None:
        for _ in range(1 + self.copies(batch, self.config.outgoing_copies)):
            self.pass_down(batch)

    def copies(self, batch: Batch, wanted: int) -> int:
        """How many copies this run gets."""
        config = self.config
        copied = config.copy_multicast_msgs if batch.dest is None else config.copy_unicast_msgs
        if not copied or not wanted or self.rng.random() >= config.copy_ratio:
            return 0
        self.count("copies", wanted * batch.count)
        return wanted
