"""DELAY: delays every message without changing the order of messages.

Source: JGroups DELAY. Deviation: messages wait in a queue; no thread sleeps, so nothing else is delayed.
"""
from __future__ import annotations

from collections import deque
from typing import ClassVar

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.units import duration, flag
from jgroups_py.protocols.faults.gate import FaultLayer
from jgroups_py.stack.protocol import timer


@attrs.frozen
class DelayConfig:
    """The properties of DELAY."""

    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("in_delay_nanos", "out_delay_nanos"), "in_delay and out_delay take units: in_delay=\"300us\"")

    in_ns: int = duration("0", name="in_delay", doc="How long messages coming up wait.")
    out_ns: int = duration("0", name="out_delay", doc="How long messages going down wait.")
    constant_delay: bool = flag(True, doc="false: each waits a random time up to that, but never overtakes another.")


class Delay(FaultLayer):
    """A queue for each direction, with a timer for its first batch."""

    Config = DelayConfig
    config: DelayConfig
    COUNTERS = declare(
        counter("delayed", "Messages held back for a while on purpose."),
    )

    def start(self) -> None:
        super().start()
        self.coming: deque[tuple[int, Batch]] = deque()     # (when it is due, ns; batch)
        self.going: deque[tuple[int, Batch]] = deque()

    def up(self, batch: Batch) -> None:
        if not self.config.in_ns:
            return self.let_up(batch)
        return self.wait("coming", self.coming, batch, self.config.in_ns)

    def down(self, batch: Batch) -> None:
        if not self.config.out_ns:
            return self.pass_down(batch)
        return self.wait("going", self.going, batch, self.config.out_ns)

    def wait(self, name: str, queue: deque[tuple[int, Batch]], batch: Batch, delay_ns: int) -> None:
        """Put `batch` at the end of a queue whose first element has a timer."""
        if not self.config.constant_delay:
            delay_ns = self.rng.randrange(delay_ns + 1)
        due_ns = max(self.now_ns + delay_ns, queue[-1][0] if queue else 0)
        if not queue:
            self.set_timer(name, due_ns - self.now_ns)
        queue.append((due_ns, batch))
        self.count("delayed", batch.count)

    @timer("coming")
    def arrive(self) -> None:
        while self.coming and self.coming[0][0] <= self.now_ns:
            self.let_up(self.coming.popleft()[1])
        if self.coming:
            self.set_timer("coming", self.coming[0][0] - self.now_ns)

    @timer("going")
    def leave(self) -> None:
        while self.going and self.going[0][0] <= self.now_ns:
            self.pass_down(self.going.popleft()[1])
        if self.going:
            self.set_timer("going", self.going[0][0] - self.now_ns)
