"""Where an observer of messages hooks into a channel: around each send, and around each call of the receiver.

It is for what follows a message from its send to its receiver in another process (ops/tracing.py). Without an observer
nothing is called: plain messages take the short way into the queue (send_queue.Intake), and every other send has one
comparison with None. With one, `wants` is asked for each plain message.
"""
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header


class MessageObserver(Protocol):
    """What is told of the messages of an application; those of building blocks pass it by. From any thread."""

    def wants(self) -> bool:
        """Whether `sending` is to be called for a plain message (to all, without headers, flags, topic, receipt) that
        is about to be sent. For all others it is called unasked."""

    def sending(
        self, dest: Address | None, messages: int, nbytes: int, wired: tuple[Header, ...],
    ) -> AbstractContextManager[tuple[Header, ...]]:
        """Entered before messages with these headers are queued, and left when `send` returns or raises; it gives the
        headers to send them with.

        wired: the application's headers (AppHeaders, if there are any) and that of the topic, in this order. nbytes: of
        all payloads.
        """

    def receiving(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """What is to be called in place of a receiver's method, `receive` or `receive_batch`, with its argument; for
        messages without headers it may be the method itself."""
