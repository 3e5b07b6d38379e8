"""From the loop to the application: outputs in order, and how many bytes the application has not handled yet.

The loop puts once a step, one consumer takes. The backlog is the difference of two counters, what was put and what was
handled; each has one writer, so neither side takes a lock. The backlog drives flow control: above HIGH_BYTES the node
grants no credits, below LOW_BYTES it grants them again. A second backlog, of the parts of a state alone, limits the
pace of a state. Credits must not: messages that are delivered while a state arrives stay in the backlog until it is
set, so no credits would be granted and the state would never arrive.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic

from jgroups_py.model.outputs import Deliver, Output, StatePart
from jgroups_py.runtime.send_queue import MESSAGE_COST

HIGH_BYTES = 2 << 20
LOW_BYTES = HIGH_BYTES // 2


def cost_of(output: Output) -> int:
    """How many bytes an output counts in the backlog."""
    if output.__class__ is Deliver:
        batch = output.batch
        return batch.nbytes + MESSAGE_COST * len(batch.payloads)
    if output.__class__ is StatePart:
        return len(output.data)
    return 0


class Inbox:
    """Outputs on their way to the application.

    caught_up: called by the consumer, once, when a backlog was above HIGH_BYTES and fell below LOW_BYTES.
    """

    def __init__(self) -> None:
        self.caught_up: Callable[[], None] = lambda: None
        self.busy = False                                    # written by the loop only
        self.state_busy = False                              # the same, for the parts of a state
        self.early: Callable[[Sequence[Output]], Sequence[Output]] | None = None    # for building blocks, before `put`
        self.notify: Callable[[], None] | None = None        # called after each put, for consumers that cannot wait
        self.wait: Callable[[Callable[[], bool], float | None], None] | None = None
        """Called by the consumer before it blocks: it may run rounds until a condition holds or a timeout is over."""
        self._queue: SimpleQueue[Sequence[Output]] = SimpleQueue()
        self.empty = self._queue.empty                       # whether there is nothing to take
        self._put_bytes = 0                                  # written by the loop only
        self._handled_bytes = 0                              # written by the consumer only
        self._put_state_bytes = 0                            # written by the loop only
        self._handled_state_bytes = 0                        # written by the consumer only

    @property
    def backlog_bytes(self) -> int:
        """What was put and is not handled."""
        return self._put_bytes - self._handled_bytes

    @property
    def state_backlog_bytes(self) -> int:
        """What was put of a state and is not read."""
        return self._put_state_bytes - self._handled_state_bytes

    def put(self, outputs: Sequence[Output]) -> None:
        """From the loop: outputs in order."""
        if self.early is not None:
            outputs = self.early(outputs)
            if not outputs:
                return
        self._put_bytes += sum(map(cost_of, outputs))
        self._put_state_bytes += sum([len(output.data) for output in outputs if isinstance(output, StatePart)])
        self._queue.put(outputs)
        if self.notify is not None:
            self.notify()

    def take(self, timeout: float | None) -> Sequence[Output]:
        """The next outputs; empty if none came within `timeout` seconds (None: wait for ever, 0: do not wait)."""
        queue = self._queue
        if timeout == 0:
            return () if queue.empty() else queue.get()
        until = None if timeout is None else monotonic() + timeout
        if self.wait is not None:
            self.wait(lambda: not queue.empty(), timeout)
        try:
            return queue.get(True, None if until is None else max(0.0, until - monotonic()))
        except Empty:
            return ()

    def wake_consumer(self) -> None:
        """Wake a consumer that waits; `take` then returns nothing. From any thread."""
        self._queue.put(())

    def handled(self, nbytes: int) -> None:
        """From the consumer: the application is done with outputs of this cost."""
        self._handled_bytes += nbytes
        if self.busy and self.backlog_bytes <= LOW_BYTES:
            self.caught_up()

    def state_read(self, nbytes: int) -> None:
        """From the consumer: the application has read so much of a state."""
        self._handled_state_bytes += nbytes
        if self.state_busy and self.state_backlog_bytes <= LOW_BYTES:
            self.caught_up()
        self.handled(nbytes)
