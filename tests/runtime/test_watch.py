"""Followers of a node's events, which wait for them in a thread of their own."""
from __future__ import annotations

from jgroups_py.ops.watch import MOST_WAITING, WatchFollower


def test_a_follower_that_takes_nothing_gets_the_number_of_events_that_it_missed():
    follower = WatchFollower()
    for number in range(MOST_WAITING + 5):
        follower.put({"event": "joined", "name": str(number)})
    taken = [follower.take(0.01) for _ in range(MOST_WAITING + 1)]
    assert taken[0] == {"event": "joined", "name": "0"}
    assert taken[-1] == {"event": "missed", "count": 5}
    assert follower.take(0.01) is None
