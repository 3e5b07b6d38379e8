"""Room for what cannot be delivered yet, shared by all senders of a view. Pure.

Behind a hole a window keeps what came, and the sum of that over all senders has a limit. What is furthest ahead of the
sender that takes most is dropped first: it is a hole again and asked for later, while what comes first is worth more,
since only it lets anything be delivered. So a sender, or whoever forges its frames, never takes the room of another
that needs less. What lies below a sender's first hole stays: a flush may have told others that it is here.
"""
from __future__ import annotations

from collections.abc import Collection

from jgroups_py.windows.receive import RUN_BYTES, ReceiveWindow


def make_room(
    windows: Collection[ReceiveWindow], mine: ReceiveWindow, first: int, nbytes: int, most: int,
) -> tuple[bool, int]:
    """Make room for a run of `nbytes` in `mine`, whose first number is `first`, so that all weigh `most` at most.

    Whether it fits, and how many messages were dropped for it.
    """
    weight = nbytes + RUN_BYTES
    excess = sum([window.ahead_weight for window in windows]) + weight - most
    dropped = 0
    while excess > 0:
        # The new run counts as its sender's, or a sender could take all room in one run.
        greediest = max(windows, key=lambda window: window.ahead_weight + (weight if window is mine else 0))
        run = greediest.drop_last(first if greediest is mine else 0)
        if run is None:
            return False, dropped
        excess -= run.nbytes + RUN_BYTES
        dropped += run.count
    return True, dropped


def has_share(window: ReceiveWindow, all_weigh: int, number: int, nbytes: int, most: int) -> bool:
    """Whether `window`, one of `number` that weigh `all_weigh` together, may keep a run of `nbytes` more.

    It may while all of them keep `most` at most, and its equal part of that in any case, so that none keeps out
    another: they keep twice `most` at the very most.
    """
    weight = nbytes + RUN_BYTES
    return all_weigh + weight <= most or window.ahead_weight + weight <= most // number
