"""The order in which nodes are probed: round after round over a shuffled list.

Each node is probed once a round, so the time to the first probe of a failed one is bounded (2n - 1 intervals); random
choice has no such bound. A new node goes to a random position, or all members would probe it at the same time. Source:
Das, Gupta, Motivala, "SWIM" (DSN 2002), section 4.3.
"""
from __future__ import annotations

from collections.abc import Callable
from random import Random


class Ring:
    """Names in the order in which they are probed."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.names: list[str] = []
        self.at = 0                                    # the next one to probe

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str) -> None:
        """Insert a new name; before the current position, its turn comes in the next round."""
        place = self.rng.randint(0, len(self.names))
        self.names.insert(place, name)
        if place < self.at:
            self.at += 1                               # or the node just probed would be probed again

    def remove(self, name: str) -> None:
        """Take a name out; nothing happens if it is not there."""
        if name in self.names:
            place = self.names.index(name)
            del self.names[place]
            if place < self.at:
                self.at -= 1                           # or the next node would be left out of this round

    def next(self, wanted: Callable[[str], bool]) -> str | None:
        """The next name that is `wanted`; None if no name is."""
        for _ in range(2 * len(self.names)):           # what is left of this round, and a whole one
            if self.at >= len(self.names):
                self.rng.shuffle(self.names)
                self.at = 0
            name = self.names[self.at]
            self.at += 1
            if wanted(name):
                return name
        return None

    def pick(self, number: int, wanted: Callable[[str], bool]) -> list[str]:
        """Up to `number` different names at random of those that are `wanted`; fewer if the draws find no more."""
        names, found = self.names, dict[str, None]()
        if number >= len(names):
            return [name for name in names if wanted(name)]
        # A few draws more than needed cost less than filtering the list: groups may have thousands of nodes.
        for _ in range(TRIES * number):
            name = names[self.rng.randrange(len(names))]
            if name not in found and wanted(name):
                found[name] = None
                if len(found) == number:
                    break
        return list(found)


TRIES = 8
"""Draws for each wanted name; memberlist takes 3 per member of the group."""
