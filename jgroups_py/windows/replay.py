"""ReplayWindow: which counters of a sender's frames were accepted, so that none is accepted twice. Bounded.

The window has the latest SIZE counters up to the highest one accepted; below it everything counts as accepted. Source:
RFC 4303 appendix A2 (IPsec's anti-replay window), as one integer of SIZE bits.
"""
from __future__ import annotations

from typing import Final

SIZE: Final = 4096
ALL: Final = (1 << SIZE) - 1


class ReplayWindow:
    """floor: counters below it were accepted, or never will be.

    >>> window = ReplayWindow(10)
    >>> [window.accept(counter) for counter in (9, 12, 11, 12, 12 + SIZE, 12, 13)]
    [False, True, True, False, True, False, True]
    """

    __slots__ = ("_bits", "top")

    def __init__(self, floor: int = 0) -> None:
        self.top = floor - 1                 # the highest counter accepted
        self._bits = ALL                     # bit i: top - i was accepted

    def accepts(self, counter: int) -> bool:
        """Whether the counter was not accepted yet, and is not too old to know."""
        behind = self.top - counter
        return behind < 0 or (behind < SIZE and not self._bits >> behind & 1)

    def accept(self, counter: int) -> bool:
        """Accept the counter, once; False: it was accepted, or is too old to know."""
        behind = self.top - counter
        if behind == -1 and self._bits is ALL:               # the next one, and none is missing: the usual case
            self.top = counter
            return True
        if behind < 0:
            self._bits = (self._bits << -behind | 1) & ALL if -behind < SIZE else 1
            self.top = counter
            return True
        if behind >= SIZE or self._bits >> behind & 1:
            return False
        bits = self._bits | 1 << behind
        self._bits = ALL if bits == ALL else bits
        return True

    def reopen(self, counter: int) -> None:
        """Accept this counter once more, if it is inside the window."""
        behind = self.top - counter
        if 0 <= behind < SIZE:
            self._bits &= ~(1 << behind)
