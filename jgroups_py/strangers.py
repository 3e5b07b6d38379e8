"""Whom a protocol heard that does not belong to its group, and when that is news to speak of. Pure."""
from __future__ import annotations

from jgroups_py.address import Address
from jgroups_py.units import NS_PER_S

MAX_STRANGERS = 1000


class Strangers:
    """Each stranger is news once in `interval_ns`. A bounded memory: when it is full, it begins anew."""

    __slots__ = ("interval_ns", "told")

    def __init__(self, interval_ns: int = NS_PER_S) -> None:
        self.interval_ns = interval_ns
        self.told: dict[Address, int] = {}                    # stranger -> when it was news last

    def is_news(self, stranger: Address, now_ns: int) -> bool:
        """Whether to speak of `stranger` now."""
        if now_ns - self.told.get(stranger, -self.interval_ns) < self.interval_ns:
            return False
        if len(self.told) >= MAX_STRANGERS:
            self.told.clear()
        self.told[stranger] = now_ns
        return True

    def forget(self) -> None:
        """All are news again."""
        self.told.clear()
