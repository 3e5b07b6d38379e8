"""How fast the counters of successive pictures grow."""
from __future__ import annotations


class Growth:
    """How fast counters grow: by name, a second, between the last two snapshots."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self.at = 0.0                                        # of the newest snapshot
        self.rates: dict[str, float] = {}
        self.grew_at: dict[str, float] = {}                  # name -> when it was seen to grow last

    def take(self, at: float, counts: dict[str, float]) -> None:
        """The counts of a snapshot; one that was taken already changes nothing."""
        if at <= self.at:
            return
        passed = at - self.at
        self.rates = {name: max(0.0, count - self._before[name]) / passed
                      for name, count in counts.items() if name in self._before}
        for name, count in counts.items():
            if count != self._before.get(name):
                self.grew_at[name] = at
        self._before, self.at = counts, at
