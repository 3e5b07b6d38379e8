"""Counters by name: what each protocol did, and what it dropped, as plain numbers."""
from __future__ import annotations


class Counters(dict[str, int]):
    """Name -> how often. A name exists from its first count on."""

    __slots__ = ()

    def add(self, name: str, number: int = 1) -> None:
        """Count `name` `number` times."""
        self[name] = self.get(name, 0) + number
