"""Lifeguard's local health: how far we trust our own probes, from what happened to the latest ones.

A member that is overloaded or badly connected misses answers and blames others. So it counts: 0 is healthy, each
failed probe, each nack that did not come and each accusation that it has to refute adds one, each good probe takes one
off. Its own probes get (score + 1) times as long. Source: Dadgar, Phillips, Currey, "Lifeguard: Local Health Awareness
for More Accurate Failure Detection" (2018), section III; memberlist's awareness.go.
"""
from __future__ import annotations


class Awareness:
    """A score from 0 to `most`."""

    def __init__(self, most: int) -> None:
        assert most >= 0, "0 means that the score never moves"
        self.most = most
        self.score = 0

    def change(self, by: int) -> None:
        """Count something good (negative) or bad; the score stays in its range."""
        self.score = max(0, min(self.most, self.score + by))

    def scaled(self, duration_ns: int) -> int:
        """How long a probe may take that takes `duration_ns` in good health."""
        return duration_ns * (self.score + 1)


def after_failed_probe(expected_nacks: int, nacks: int) -> int:
    """By how much a failed probe changes the score.

    Helpers that are asked say nack when they get no answer either: then the path to the target is bad, not ours. Who
    hears neither has lost its own path. Without helpers nobody vouches for us, so the failure counts.
    """
    if not expected_nacks:
        return 1
    return max(0, expected_nacks - nacks)
