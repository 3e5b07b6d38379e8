"""Processes outside the view whose frames a protocol has received, and when to report one. Pure."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.units import NS_PER_S

MAX_NON_MEMBERS = 1000


class NonMembers:
    """Each non-member is reported at most once in `interval_ns`. The memory is bounded: when full, it starts empty."""

    __slots__ = ("interval_ns", "reported")

    def __init__(self, interval_ns: int = NS_PER_S) -> None:
        self.interval_ns = interval_ns
        self.reported: dict[Address, int] = {}                # non-member -> when it was reported last, ns

    def is_due(self, member: Address, now_ns: int) -> bool:
        """Whether to report `member` now; if so, that is noted."""
        if now_ns - self.reported.get(member, -self.interval_ns) < self.interval_ns:
            return False
        if len(self.reported) >= MAX_NON_MEMBERS:
            self.reported.clear()
        self.reported[member] = now_ns
        return True

    def forget(self) -> None:
        """Report all of them anew."""
        self.reported.clear()
