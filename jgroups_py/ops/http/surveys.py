"""Surveys for coroutines: one thread waits for the answers, for all clients that ask meanwhile."""
from __future__ import annotations

import asyncio

from jgroups_py.channel.base import BaseChannel
from jgroups_py.ops.reports import Facts
from jgroups_py.ops.survey import Survey


class SharedSurvey:
    """The survey of a channel, for coroutines of one event loop."""

    def __init__(self, channel: BaseChannel) -> None:
        self._survey = Survey.of(channel)
        self._under_way: asyncio.Task[Facts] | None = None

    async def take(self) -> Facts:
        """As Survey.take."""
        if self._under_way is None:
            self._under_way = asyncio.create_task(asyncio.to_thread(self._survey.take))
            self._under_way.add_done_callback(self._ended)
        return await asyncio.shield(self._under_way)

    def _ended(self, task: asyncio.Task[Facts]) -> None:
        self._under_way = None
