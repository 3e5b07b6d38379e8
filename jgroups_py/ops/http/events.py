"""The changes at a member as Server-Sent Events, numbered: a client that was cut off asks for what it missed."""
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
TICK_SECONDS = 1.0                          # a tick tells a client, and every proxy on the way, that the member runs
FOLLOWERS = 16


class EventLog:
    """The last KEPT_EVENTS changes, and those who wait for the next ones. Coroutines of one event loop read it."""

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
        """The number from which a client is served that names the last event it has; else only news."""
        return int(last_event_id) + 1 if last_event_id.isdecimal() and len(last_event_id) < 20 else self._next

    async def follow(self, number: int) -> AsyncGenerator[bytes, None]:
        """Events from `number` on, and a tick a second. What is no longer kept is one event `missed`, with its count.

        A number that was never given is of an earlier process: everything that is kept follows.
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
