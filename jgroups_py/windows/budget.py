"""Room for what cannot be delivered yet, shared by all senders of a view. Pure.

A window keeps what arrived behind a hole, and the sum over all senders is bounded. What is furthest ahead of the sender
that takes most is dropped first: it becomes a hole again and is requested later, while the messages next in order are
worth most, since nothing can be delivered before them (max-min fairness over the senders). So a sender, or an attacker
that forges its frames, never takes the room of another that needs less. What lies below a sender's first hole is never
dropped: a flush may have reported it as held here.
"""
from __future__ import annotations

from collections.abc import Collection

from jgroups_py.windows.receive import BATCH_BYTES, ReceiveWindow


def make_room(
    windows: Collection[ReceiveWindow], window: ReceiveWindow, first: int, nbytes: int, most: int,
) -> tuple[bool, int]:
    """Make room for a batch of `nbytes` in `window`, whose first number is `first`, so that all weigh `most` at most.

    Returns whether it fits, and how many messages were dropped for it.
    """
    weight = nbytes + BATCH_BYTES
    excess = sum([one.ahead_weight for one in windows]) + weight - most
    dropped = 0
    while excess > 0:
        # The new batch counts as its sender's, or a sender could take all room in one batch.
        largest = max(windows, key=lambda one: one.ahead_weight + (weight if one is window else 0))
        batch = largest.drop_last(first if largest is window else 0)
        if batch is None:
            return False, dropped
        excess -= batch.nbytes + BATCH_BYTES
        dropped += batch.count
    return True, dropped


def has_share(window: ReceiveWindow, all_weigh: int, number: int, nbytes: int, most: int) -> bool:
    """Whether `window`, one of `number` that weigh `all_weigh` together, may keep a batch of `nbytes` more.

    It may while all of them together stay within `most`, and up to its equal part of that in any case, so that none
    displaces another. The sum is bounded by twice `most`.
    """
    weight = nbytes + BATCH_BYTES
    return all_weigh + weight <= most or window.ahead_weight + weight <= most // number
