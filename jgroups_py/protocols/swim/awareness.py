"""Lifeguard's local health: how reliable this member's own probes are, judged by the outcome of recent ones.

A member that is overloaded or badly connected misses answers and suspects healthy nodes. So it keeps a score: 0 is
healthy; each failed probe, each missing nack and each accusation that it has to refute adds one; each successful probe
takes one off. Its own probes may take (score + 1) times as long. Source: Dadgar, Phillips, Currey, "Lifeguard: Local
Health Awareness for More Accurate Failure Detection" (2018), section III; memberlist's awareness.go.
"""
from __future__ import annotations


class Awareness:
    """A score from 0 (healthy) to `most`."""

    def __init__(self, most: int) -> None:
        assert most >= 0, "0 means that the score never moves"
        self.most = most
        self.score = 0

    def change(self, by: int) -> None:
        """Add `by`, which is negative after a success; the score stays in its range."""
        self.score = max(0, min(self.most, self.score + by))

    def scaled(self, duration_ns: int) -> int:
        """How long a probe may take now, if `duration_ns` is its time in good health."""
        return duration_ns * (self.score + 1)


def after_failed_probe(expected_nacks: int, nacks: int) -> int:
    """By how much a failed probe changes the score.

    A helper that gets no answer either sends a nack: then the probed node or its path is at fault. A member that gets
    neither ack nor nack has lost its own path, so each missing nack counts. Without helpers there is no such evidence,
    and the failure counts as one.
    """
    if not expected_nacks:
        return 1
    return max(0, expected_nacks - nacks)
