"""The changes at a member as numbered Server-Sent Events: a client that was cut off can request the ones it missed."""
from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable

from jgroups_py.channel.base import BaseChannel
from jgroups_py.model.outputs import Output
from jgroups_py.ops.reports import Changes, Facts
from jgroups_py.ops.watch import ChannelWatch

KEPT_EVENTS = 1000
TICK_SECONDS = 1.0                          # between ticks, which keep the connection alive at clients and proxies
FOLLOWERS = 16


class EventLog:
    """The last KEPT_EVENTS changes, for followers, which are coroutines of one event loop."""

    def __init__(self, channel: BaseChannel, loop: asyncio.AbstractEventLoop) -> None:
        view = channel.view
        self._changes = Changes(True, () if view is None else view.members)
        self._loop = loop
        self._kept: deque[tuple[int, Facts]] = deque(maxlen=KEPT_EVENTS)
        self._next = 1                                       # number of the next event
        self._news = asyncio.Event()                         # replaced by a new one when it is set
        self.followers = 0
        self.close: Callable[[], None] = ChannelWatch(channel).watch(self._put)

    def _put(self, output: Output) -> None:
        """On the member's loop."""
        at = round(time.time(), 3)
        for facts in self._changes.of(output):
            try:
                self._loop.call_soon_threadsafe(self._add, {"at": at, **facts})
            except RuntimeError:
                return                                       # the endpoint is being closed

    def _add(self, facts: Facts) -> None:
        self._kept.append((self._next, facts))
        self._next += 1
        self._news.set()
        self._news = asyncio.Event()

    def newest(self, most: int) -> list[tuple[int, Facts]]:
        """The last `most` events that are kept, with their numbers, in order."""
        return list(self._kept)[-most:]

    def first_for(self, last_event_id: str) -> int:
        """The number of the first event for a client. last_event_id: of the last one that it has, "": none."""
        return int(last_event_id) + 1 if last_event_id.isdecimal() and len(last_event_id) < 20 else self._next

    async def follow(self, number: int) -> AsyncGenerator[bytes, None]:
        """Events from `number` on, and a tick a second. Events that are no longer kept become one event `missed`, with
        their count.

        A number above all others is of an earlier process: then all kept events follow.
        """
        if number > self._next:
            number = 1
        self.followers += 1
        try:
            while True:
                first = self._next - len(self._kept)
                if number < first:
                    yield event_bytes("missed", {"count": first - number}, first - 1)
                    number = first
                for at, facts in list(self._kept)[max(0, number - first):]:
                    yield event_bytes(str(facts["event"]), facts, at)
                    number = at + 1
                if number == self._next and not await self._news_within(TICK_SECONDS):
                    yield event_bytes("tick", {"at": round(time.time(), 3)})
        finally:
            self.followers -= 1

    async def _news_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return False
        return True


def event_bytes(event: str, facts: Facts, number: int | None = None) -> bytes:
    r"""An event as it is sent.

    >>> event_bytes("site", {"site": "SFO"}, 7)
    b'id: 7\nevent: site\ndata: {"site":"SFO"}\n\n'
    """
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {event}\ndata: {json.dumps(facts, separators=(',', ':'))}\n\n".encode()
