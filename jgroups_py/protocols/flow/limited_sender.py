"""The sending half that MFC, UFC and FLOW share: bytes passed down are counted, those above a limit wait in a queue.

The sender counts the payload bytes that it passes down (`position`). A batch that would exceed the limit is cut there,
and the rest is queued. At fixed distances, and whenever it has to stop, the sender puts a mark with its position into
the stream. A receiver that passes up a mark has passed up everything before it, and answers. How the answers become a
limit is for the subclass: by credits (protocol.py) or by strategies (flow.py).
"""
from __future__ import annotations

from typing import Any, ClassVar

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, NO_RELAY, Batch
from jgroups_py.model.counters import counter, declare, figure
from jgroups_py.protocols.flow.send_state import SendState, messages_within
from jgroups_py.stack.protocol import Protocol
from jgroups_py.windows.path import PathWindow

IN_STREAM = NO_FC | NO_RELAY            # flags of a mark: reliable, so that it stays in order with the messages


class LimitedSender(Protocol):
    """See the module. A subclass chooses the SendState of a batch and computes its limit."""

    Mark: ClassVar[type[Any]]                # a header, made with a position
    COUNTERS = declare(
        counter("blocked", "How often sending was held back because a receiver was behind."),
        counter("marks_sent", "Marks set in the stream of messages, for receivers to answer."),
        figure("queued_bytes", "Payload bytes that wait for credit."),
    )

    def start(self) -> None:
        super().start()
        self.queued_bytes = 0                # of all streams
        self.mark_every: int = self.config.mark_every_bytes

    def new_state(self) -> SendState:
        """The state of a stream that begins."""
        return SendState(PathWindow(self.config.window_bytes, self.config.most_window_bytes))

    def pending_bytes(self) -> int:
        return self.queued_bytes

    def stats(self) -> dict[str, float]:
        return {**self.counters, "queued_bytes": self.queued_bytes}

    def send_limited(self, state: SendState, dest: Address | None, batch: Batch) -> None:
        """Pass `batch` down as far as the limit allows, queue the rest."""
        if state.limit is None:
            return self.pass_down(batch)
        nbytes = batch.nbytes
        if state.queue or state.position + nbytes > state.limit:
            # Behind a queue even a batch within the limit waits: it must not overtake.
            state.queue.append(batch)
            state.queued_bytes += nbytes
            self.queued_bytes += nbytes
            return self.send_queued(state, dest)
        state.position += nbytes
        self.pass_down(batch)
        if state.position - state.marked >= self.mark_every:
            self.send_mark(state, dest)
        return None

    def send_mark(self, state: SendState, dest: Address | None) -> None:
        """Put a mark with the position into the stream."""
        state.marked = state.position
        if self.has_receivers(state):
            self.count("marks_sent")
            self.send(self.Mark(state.position), dest, flags=IN_STREAM)

    def has_receivers(self, state: SendState) -> bool:
        """Whether any member would answer a mark."""
        return bool(state.granted)

    def send_queued(self, state: SendState, dest: Address | None) -> None:
        """Pass down what is queued as far as the limit allows; then on_blocked if something is left, else on_free."""
        queue = state.queue
        while queue:
            piece = self.within_limit(state, queue[0])
            if piece is None:
                return self.on_blocked(state, dest)
            rest = queue.popleft()
            if len(piece) < len(rest):
                queue.appendleft(rest.cut(len(piece), len(rest)))
            nbytes = piece.nbytes
            state.queued_bytes -= nbytes
            self.queued_bytes -= nbytes
            state.position += nbytes
            self.pass_down(piece)
            if state.position - state.marked >= self.mark_every:
                self.send_mark(state, dest)
        return self.on_free(dest)

    def within_limit(self, state: SendState, batch: Batch) -> Batch | None:
        """The first messages of `batch` that may be sent now; None: not even one."""
        if state.limit is None:
            return batch
        room = state.limit - state.position
        number = messages_within(batch, room)
        if number == 0 and room >= state.window.nbytes:
            # Everything before it is granted, and the message alone exceeds the window: it would wait for ever.
            number = 1
        if number == 0 and batch.payloads:
            return None
        return batch.cut(0, number) if number else batch

    def on_blocked(self, state: SendState, dest: Address | None) -> None:
        """Called when batches stay in the queue, because the limit is reached."""
        raise NotImplementedError

    def on_free(self, dest: Address | None) -> None:
        """Called when the queue is empty."""
        raise NotImplementedError
