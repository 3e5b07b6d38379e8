"""DELAY: delays every message without changing the order of messages.

Source: JGroups DELAY. Deviation: messages wait in a queue with a timer; no thread sleeps, so nothing else is delayed.
"""
from __future__ import annotations

from collections import deque
from typing import ClassVar

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.units import duration, flag
from jgroups_py.protocols.faults.fault_layer import FaultLayer
from jgroups_py.stack.protocol import timer


@attrs.frozen
class DelayConfig:
    """The properties of DELAY."""

    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("in_delay_nanos", "out_delay_nanos"), "in_delay and out_delay take units: in_delay=\"300us\"")

    in_ns: int = duration("0", name="in_delay", doc="How long messages going up wait.")
    out_ns: int = duration("0", name="out_delay", doc="How long messages going down wait.")
    constant_delay: bool = flag(True, doc="false: each waits a random time up to the delay, but overtakes no other.")


class Delay(FaultLayer):
    """A queue for each direction, with a timer for its first batch."""

    Config = DelayConfig
    config: DelayConfig
    COUNTERS = declare(
        counter("delayed", "Messages delayed on purpose."),
    )

    def start(self) -> None:
        super().start()
        self.going_up: deque[tuple[int, Batch]] = deque()     # (when it is due, ns; batch)
        self.going_down: deque[tuple[int, Batch]] = deque()

    def up(self, batch: Batch) -> None:
        if not self.config.in_ns:
            return self.let_up(batch)
        return self.wait("up", self.going_up, batch, self.config.in_ns)

    def down(self, batch: Batch) -> None:
        if not self.config.out_ns:
            return self.pass_down(batch)
        return self.wait("down", self.going_down, batch, self.config.out_ns)

    def wait(self, name: str, queue: deque[tuple[int, Batch]], batch: Batch, delay_ns: int) -> None:
        """Append `batch` to a queue; the timer `name` is set for its first element."""
        if not self.config.constant_delay:
            delay_ns = self.rng.randrange(delay_ns + 1)
        due_ns = max(self.now_ns + delay_ns, queue[-1][0] if queue else 0)      # not before those ahead of it
        if not queue:
            self.set_timer(name, due_ns - self.now_ns)
        queue.append((due_ns, batch))
        self.count("delayed", batch.count)

    @timer("up")
    def pass_due_up(self) -> None:
        queue = self.going_up
        while queue and queue[0][0] <= self.now_ns:
            self.let_up(queue.popleft()[1])
        if queue:
            self.set_timer("up", queue[0][0] - self.now_ns)

    @timer("down")
    def pass_due_down(self) -> None:
        queue = self.going_down
        while queue and queue[0][0] <= self.now_ns:
            self.pass_down(queue.popleft()[1])
        if queue:
            self.set_timer("down", queue[0][0] - self.now_ns)
