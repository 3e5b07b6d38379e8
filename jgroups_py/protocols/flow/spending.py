"""What all flow control of a sender has in common: an account, a limit, and a queue behind it.

The sender counts the payload bytes that it passes down (`position`). What exceeds the account's limit is cut off and
queued. Every so often, and whenever it has to stop, it says in the stream itself how far it is: a mark, which a
receiver passes up when it has passed up everything before it, and answers. How answers become a limit is the
subclass's: credits (protocol.py) or strategies (flow.py).
"""
from __future__ import annotations

from typing import Any, ClassVar

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_FC, NO_RELAY, Batch
from jgroups_py.model.counters import counter, declare, figure
from jgroups_py.protocols.flow.account import Account, fitting
from jgroups_py.stack.protocol import Protocol

IN_STREAM = NO_FC | NO_RELAY            # flags of a mark: reliable, in order with the messages


class Spending(Protocol):
    """The sending half; see the module. A subclass says which account a batch belongs to."""

    Mark: ClassVar[type[Any]]                # a header, made with a position
    COUNTERS = declare(
        counter("blocked", "How often sending was held back because a receiver was behind."),
        counter("marks_sent", "Marks set in the stream of messages, for receivers to answer."),
        figure("queued_bytes", "Payload bytes that wait for credit."),
    )

    def start(self) -> None:
        super().start()
        self.queued_bytes = 0
        self.mark_every: int = self.config.mark_every_bytes

    def pending_bytes(self) -> int:
        return self.queued_bytes

    def stats(self) -> dict[str, float]:
        return {**self.counters, "queued_bytes": self.queued_bytes}

    def spend(self, account: Account, dest: Address | None, batch: Batch) -> None:
        """Pass `batch` down as far as the limit allows, queue the rest."""
        if account.limit is None:
            return self.pass_down(batch)
        nbytes = batch.nbytes
        if account.queue or account.position + nbytes > account.limit:
            account.queue.append(batch)
            account.queued_bytes += nbytes
            self.queued_bytes += nbytes
            return self.flush(account, dest)
        account.position += nbytes
        self.pass_down(batch)
        if account.position - account.marked >= self.mark_every:
            self.mark(account, dest)
        return None

    def mark(self, account: Account, dest: Address | None) -> None:
        """Say in the stream how far it is."""
        account.marked = account.position
        if self.anybody(account):
            self.count("marks_sent")
            self.send(self.Mark(account.position), dest, flags=IN_STREAM)

    def anybody(self, account: Account) -> bool:
        """Whether somebody would answer."""
        return bool(account.granted)

    def flush(self, account: Account, dest: Address | None) -> None:
        """Pass down what is queued as far as the limit allows; if there is more, see to it that the limit rises."""
        queue = account.queue
        while queue:
            piece = self.affordable(account, queue[0])
            if piece is None:
                return self.block(account, dest)
            rest = queue.popleft()
            if len(piece) < len(rest):
                queue.appendleft(rest.cut(len(piece), len(rest)))
            nbytes = piece.nbytes
            account.queued_bytes -= nbytes
            self.queued_bytes -= nbytes
            account.position += nbytes
            self.pass_down(piece)
            if account.position - account.marked >= self.mark_every:
                self.mark(account, dest)
        return self.unblock(dest)

    def affordable(self, account: Account, batch: Batch) -> Batch | None:
        """As much of `batch` as may be sent now, None if nothing."""
        if account.limit is None:
            return batch
        room = account.limit - account.position
        number = fitting(batch, room)
        if number == 0 and room >= self.config.window_bytes:
            number = 1                               # larger than all that may be on its way, and nothing is
        if number == 0 and batch.payloads:
            return None
        return batch.cut(0, number) if number else batch

    def block(self, account: Account, dest: Address | None) -> None:
        """Something waits behind the limit."""
        raise NotImplementedError

    def unblock(self, dest: Address | None) -> None:
        """Nothing waits any more."""
        raise NotImplementedError
