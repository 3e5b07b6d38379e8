"""Where an observer of messages hooks into a channel: around some sends, and around each call of the receiver.

It is for what follows a message from its send to its receiver in another process (ops/tracing.py). Without an observer
nothing is called: plain messages take the short way into the queue (send_queue.Intake), and every other send has one
comparison with None. With one, plain messages take the short way too, as many as it lets pass: the queue grants no more
(send_queue.Countdown).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header


class MessageObserver(Protocol):
    """What is told of the messages of an application; those of building blocks pass it by. From any thread."""

    passing: int
    """How many messages go by before `sending` is called for one. The queue subtracts those that took the short way,
    and `asks` the others. Threads may overwrite each other's count, so some more may pass."""
    watching: bool
    """Whether `wants` is to be called for each plain message (to all, without headers, flags, topic, receipt), when the
    observer begins; `BaseChannel.watch` changes it."""
    wants: Callable[[], object]
    """Gives a true value if `asks` is to be called for a message that this thread is about to send, whatever `passing`
    is."""

    def asks(self) -> bool:
        """Whether `sending` is to be called for this send of one message or a batch, which did not take the short way;
        if not, it has been counted."""

    def sending(
        self, dest: Address | None, payloads: Sequence[bytes], wired: tuple[Header, ...],
    ) -> AbstractContextManager[tuple[Header, ...]]:
        """Entered before messages with these headers are queued, and left when `send` returns or raises; it gives the
        headers to send them with.

        wired: the application's headers (AppHeaders, if there are any) and that of the topic, in this order.
        """

    def receiving(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """What is to be called in place of a receiver's method, `receive` or `receive_batch`, with its argument; for
        messages without headers it may be the method itself."""
