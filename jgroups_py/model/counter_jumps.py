"""How far a counter that a peer sends may be ahead of the one known here. Pure.

Counters of views, rounds of ballots and numbers of messages grow by ones. One that is far ahead is an
error or an attack, and would stay for ever: a counter only grows, and crosses to other groups by merges. Whatever is
accepted, there is always room for the steps that this member adds itself: the codec takes numbers below 2^62.
"""
from __future__ import annotations

from typing import Final

MAX_JUMP: Final = 1 << 32              # more than a group counts in its life, and 2^29 such jumps to the top
TOP: Final = 1 << 61                   # above it there are only small steps: 2^51 of them until the codec's bound
MAX_STEP: Final = 1 << 10


def plausible(value: int, known: int, *, anew: bool = False) -> bool:
    """Whether `value` may follow `known`. anew: nothing is known yet, so any value below the top may be valid.

    >>> plausible(7, 5), plausible(1 << 40, 5), plausible(1 << 40, 0, anew=True), plausible((1 << 62) - 1, 0, anew=True)
    (True, False, True, False)
    """
    if value > TOP:
        return value - known <= MAX_STEP
    return anew or value - known <= MAX_JUMP
