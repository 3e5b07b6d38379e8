"""ch.messages() and ch.events(): what a channel delivers, for a loop of the application's instead of callbacks.

What a stream keeps is bounded. A JChannel's keeps up to KEPT_BYTES of messages (at least one batch) and up to
KEPT_EVENTS other events; then the channel's callback waits for the loop, as it waits for a slow receiver: what arrives
meanwhile counts as backlog, above 2 MB the member grants no credits, and so a loop that does not keep up slows the
senders of its group. Nothing is dropped. A loop that was left goes on where it stopped by the next call of the same
method. It ends after all that came before the end of the connection.
"""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from jgroups_py.channel.message import Message, MessageBatch
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.outputs import (
    GlobalViewInstalled,
    MessagesLost,
    MessagesSkipped,
    Output,
    SiteStatusChanged,
    Unreachable,
    ViewInstalled,
)
from jgroups_py.model.view import GlobalView, View
from jgroups_py.runtime.send_queue import MESSAGE_COST

GroupEvent = Message | View | GlobalView | SiteStatusChanged | MessagesLost | MessagesSkipped | Unreachable
"""What `events()` yields. A MergeView is a View; SiteStatusChanged has `site` and `status`, Unreachable `dest`."""
KEPT_BYTES = 256 << 10                      # of messages in a stream before its channel waits for the loop
KEPT_EVENTS = 1000                          # the same for other events


def event_of(output: Output) -> GroupEvent | None:
    """The event that `events()` yields for an output other than messages; None: none."""
    if isinstance(output, ViewInstalled | GlobalViewInstalled):
        return output.view
    if isinstance(output, SiteStatusChanged | MessagesLost | MessagesSkipped | Unreachable):
        return output
    return None


class DeliveryStream:
    """What a JChannel delivers, on its way to a loop: the channel's thread puts, another one takes.

    events: it has more than messages.
    """

    def __init__(self, events: bool) -> None:
        self.events = events
        self._changed = threading.Condition()
        self._items: deque[Any] = deque()
        self._kept_bytes = self._kept_events = 0
        self._waits = True                                   # a put waits for room
        self._over = False                                   # the connection has ended
        self._first_view: View | None = None

    # --- the channel puts -------------------------------------------------------------------------------------------

    def calls(self) -> dict[str, Callable[..., object]]:
        """The callbacks by which a stream gets what it has."""
        calls: dict[str, Callable[..., object]] = {"receive_batch": self._batch}
        if self.events:
            calls |= {"view_accepted": self._view, "global_view_accepted": self._put, "site_status": self._site,
                      "messages_lost": self._put, "messages_skipped": self._put, "unreachable": self._unreachable}
        return calls

    def begin(self, start: Callable[[], None], present: Callable[[], View | None]) -> None:
        """Start; with events, the view as it is then comes before all else. No view is missed or comes twice."""
        with self._changed:
            start()                                          # what is delivered from now on waits for the lock
            self._first_view = present() if self.events else None
            if self._first_view is not None:
                self._kept_events += 1
                self._items.append(self._first_view)

    def begins_connection(self) -> None:
        """The channel connects (again)."""
        with self._changed:
            self._waits, self._over = True, False

    def _view(self, view: View) -> None:
        if self._first_view is None or view.id != self._first_view.id:
            self._put(view)

    def _site(self, site: str, status: str) -> None:
        self._put(SiteStatusChanged(site, status))

    def _unreachable(self, dest: Address) -> None:
        self._put(Unreachable(dest))

    def _put(self, event: GroupEvent) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._kept_events < KEPT_EVENTS or not self._waits)
            self._kept_events += 1
            self._items.append(event)
            self._changed.notify_all()

    def _batch(self, batch: MessageBatch) -> None:
        messages = list(batch)
        with self._changed:
            self._changed.wait_for(lambda: self._kept_bytes < KEPT_BYTES or not self._waits)
            self._kept_bytes += sum(map(_cost, messages))
            self._items.extend(messages)
            self._changed.notify_all()

    def release(self) -> None:
        """The connection is about to end: what still comes, no more than the backlog, waits for no loop."""
        with self._changed:
            self._waits = False
            self._changed.notify_all()

    def finish(self) -> None:
        """The connection has ended: nothing more is put."""
        with self._changed:
            self._waits, self._over = False, True
            self._changed.notify_all()

    # --- the application takes --------------------------------------------------------------------------------------

    def iterate(self, timeout: float | None, inside: Callable[[], bool]) -> Iterator[Any]:
        """What was put, until the connection has ended, or nothing has come for `timeout` seconds (None: for ever).

        inside: whether this is the thread that puts.
        """
        while True:
            with self._changed:
                if not self._items and not self._over and inside():
                    raise ChannelError("inside a callback of this channel nothing arrives, and this would wait for it")
                self._changed.wait_for(lambda: self._items or self._over, timeout)
                if not self._items:
                    return
                item = self._items.popleft()
                if isinstance(item, Message):
                    self._kept_bytes -= _cost(item)
                else:
                    self._kept_events -= 1
                self._changed.notify_all()
            yield item


def _cost(message: Message) -> int:
    return len(message.payload) + MESSAGE_COST
