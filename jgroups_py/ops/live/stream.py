"""Pictures as Server-Sent Events. A follower gets the newest picture when it has taken the one before, so that one
picture at most waits for a slow one."""
from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable

from jgroups_py.ops.live.picture import LivePicture
from jgroups_py.runtime.http.messages import HttpAnswer, plain_answer

FOLLOWERS = 16
EVENT_STREAM = "text/event-stream"
HEADERS = (("Cache-Control", "no-store"), ("Content-Security-Policy", "default-src 'none'"))


class PictureStream:
    """take: makes the present picture; period_seconds: how often each follower gets one."""

    def __init__(self, take: Callable[[], Awaitable[LivePicture]], period_seconds: float) -> None:
        self._take = take
        self._period_seconds = period_seconds
        self.followers = 0

    def answer(self) -> HttpAnswer:
        """The answer to GET /v1/live; 503 if there are FOLLOWERS already."""
        if self.followers >= FOLLOWERS:
            return plain_answer(503, f"{FOLLOWERS} clients follow already")
        return HttpAnswer(200, b": pictures\n\n", EVENT_STREAM, HEADERS, self._follow())

    async def _follow(self) -> AsyncGenerator[bytes, None]:
        self.followers += 1
        try:
            while True:
                picture = await self._take()
                text = json.dumps(picture.document(), separators=(",", ":"))
                yield f"event: picture\ndata: {text}\n\n".encode()
                await asyncio.sleep(self._period_seconds)
        finally:
            self.followers -= 1
