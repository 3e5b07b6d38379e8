"""The deadlines of a block on a simulated channel: its pure core computes them, the channel has the clock."""
from __future__ import annotations

from collections.abc import Callable

from jgroups_py.model.units import NS_PER_S
from jgroups_py.testing.simulation.channel import SimulatedChannel


class Alarm:
    """Calls `ring` when the core is due. now_ns: the core's clock. It also rings at times that were replaced by earlier
    ones."""

    def __init__(self, channel: SimulatedChannel, now_ns: Callable[[], int], ring: Callable[[], None]) -> None:
        self._channel = channel
        self._now_ns = now_ns
        self._ring = ring
        self._due_ns: int | None = None                  # the earliest time that is set

    def set(self, due_ns: int | None) -> None:
        """Ring at a time, unless an earlier one is set; None: the core has no deadline."""
        if due_ns is not None and (self._due_ns is None or due_ns < self._due_ns):
            self._due_ns = due_ns
            self._channel.later(max(0.0, (due_ns - self._now_ns()) / NS_PER_S), self._wake, due_ns)

    def _wake(self, due_ns: int) -> None:
        if self._due_ns == due_ns:
            self._due_ns = None
        self._ring()
