"""The properties of MFC and UFC."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import duration, parse_ratio, parsed, show_size, size


@attrs.frozen
class FlowConfig:
    """How many bytes may be under way to a receiver, and when credit is renewed."""

    ignored: ClassVar[dict[str, str]] = {
        "max_queue_size": "the channel bounds what is queued",
        "max_block_times": "a message is never sent without credit, however large",
        "ignore_synchronous_response": "replies are flow-controlled like all messages",
    }

    max_credits_bytes: int = size(
        "4M", least="64K", name="max_credits", doc="Payload bytes that may be under way to a receiver. Higher keeps "
        "fast networks busy; lower bounds memory: each member may have to keep so much per sender.")
    min_threshold_ratio: float = parsed(
        0.4, parse=parse_ratio, unit="0..1", name="min_threshold", doc="Credit is renewed when less than this part of "
        "max_credits is left. Higher renews sooner and costs more small messages.")
    min_credits_bytes: int = size(
        0, name="min_credits", doc="The same in bytes; if given, it is used in place of min_threshold.")
    max_block_time_ns: int = duration(
        "500ms", least="1ms", name="max_block_time", doc="A sender that is blocked for so long without a grant "
        "requests credit of its receivers. Lower recovers sooner from a lost grant.")

    max_window_bytes: int = size(
        0, name="max_window", doc="Over a long path more than max_credits may be under way: twice what its "
        "bandwidth times its round trip comes to, as it is measured, up to this. Higher fills longer and faster paths, "
        "and each receiver may have to keep so much per sender. 0: max_credits, whatever the path.")

    def __attrs_post_init__(self) -> None:
        if not 0 < self.low_water_bytes < self.max_credits_bytes:
            raise ConfigError("min_credits (or min_threshold) must be above 0 and below max_credits "
                              f"({self.max_credits_bytes}); it comes to {self.low_water_bytes}")
        if 0 < self.max_window_bytes < self.max_credits_bytes:
            raise ConfigError(f"max_window {show_size(self.max_window_bytes)} is below max_credits "
                              f"{show_size(self.max_credits_bytes)}, the least window; write 0 for a constant one")

    @property
    def low_water_bytes(self) -> int:
        """Credit left below which it should be renewed."""
        return self.min_credits_bytes or int(self.max_credits_bytes * self.min_threshold_ratio)

    @property
    def window_bytes(self) -> int:
        """Payload bytes that may be under way to a receiver, at least."""
        return self.max_credits_bytes

    @property
    def most_window_bytes(self) -> int:
        """And at most, where the path is long."""
        return self.max_window_bytes or self.max_credits_bytes

    @property
    def mark_every_bytes(self) -> int:
        """Payload bytes from one mark to the next: half of what is sent above the low-water mark, so that a grant
        arrives while its sender is still sending."""
        return max(1, (self.max_credits_bytes - self.low_water_bytes) // 2)
