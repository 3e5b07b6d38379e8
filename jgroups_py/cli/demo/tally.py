"""Counts of the messages that a receiver of the demo got from one origin: lost, duplicated, out of order."""
from __future__ import annotations

import attrs


@attrs.define
class DemoTally:
    """Messages of one origin, numbered from 0. `first`: the first number seen (a late joiner starts in the middle)."""

    first: int | None = None
    next: int = 0
    received: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    holes: dict[int, None] = attrs.Factory(dict)        # numbers skipped and not seen since

    def add(self, number: int) -> bool:
        """Count one message; returns whether it is the next in order (or the first)."""
        if self.first is None:
            self.first = self.next = number
        if number == self.next:
            self.next += 1
            self.received += 1
            return True
        if number > self.next:
            self.holes.update(dict.fromkeys(range(self.next, number)))
            self.next = number + 1
            self.received += 1
        elif number in self.holes:
            del self.holes[number]
            self.out_of_order += 1
            self.received += 1
        else:
            self.duplicated += 1
        return False

    def lost(self, expected: int) -> int:
        """How many numbers below `expected` are missing, from the first one received on."""
        return max(0, expected - (self.first or 0)) - self.received

    def as_dict(self) -> dict[str, int | None]:
        """For JSON."""
        return {"first": self.first, "next": self.next, "received": self.received, "duplicated": self.duplicated,
                "out_of_order": self.out_of_order}

    @classmethod
    def of(cls, figures: dict[str, int]) -> DemoTally:
        """The inverse of `as_dict`; holes are not restored."""
        return cls(figures["first"], figures["next"], figures["received"], figures["duplicated"],
                   figures["out_of_order"])


@attrs.define
class DeliveryPauses:
    """The longest pauses between two deliveries, with when they began (seconds of the wall clock)."""

    least_s: float = 0.05
    last_s: float | None = None
    pauses: list[tuple[float, float]] = attrs.Factory(list)

    def delivered(self, now_s: float) -> None:
        """Count a delivery at `now_s`."""
        if self.last_s is not None and now_s - self.last_s >= self.least_s:
            self.pauses.append((self.last_s, now_s - self.last_s))
        self.last_s = now_s
