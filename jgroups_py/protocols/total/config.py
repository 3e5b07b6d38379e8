"""The properties of TOTAL."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.model.units import choice, size

FORWARDING = "messages are not forwarded: their senders multicast them, and the coordinator only tells the order"

AGREED, SAFE = "agreed", "safe"


@attrs.frozen
class TotalConfig:
    """What a place in the order means, and how much is kept without one."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("delivery_table_max_size", "threshold", "flush_forward_table", "bcast_timeout"), FORWARDING),
    }

    order: str = choice(
        AGREED, allowed=(AGREED, SAFE), doc="agreed: a message is delivered when its place is known. safe: when all "
        "members have it and know its place, so that members which are parted then cannot contradict each other; it "
        "costs another round trip, and the slowest member delays all. All members must have the same.")
    max_unplaced_bytes: int = size(
        "8M", least="64K", name="max_unplaced_size", doc="Payload bytes kept without a place, or in a safe order kept "
        "back, above which this member grants no credit, and of its own above which its sends wait. Keep it above "
        "MFC's max_credits. Higher lets a slow coordinator fill more memory, lower makes senders wait for it sooner.")
