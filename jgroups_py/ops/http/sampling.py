"""Takes snapshots of a member for its endpoint: on the member's loop, at most once in FRESH_SECONDS for all clients.

A question to the loop costs the member a report of its tables. So a hundred scrapers cost one question, and while a
question is unanswered no second one is put: the last snapshot is shown, with its age.
"""
from __future__ import annotations

import asyncio
import time
from typing import Any

import attrs

from jgroups_py.channel.base import BaseChannel, ChannelState
from jgroups_py.channel.session import Session
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.ports import SiteReporter, ViewSource
from jgroups_py.node.node import Node
from jgroups_py.node.reports import members_report
from jgroups_py.ops.http.snapshot import MemberReport, Snapshot

FRESH_SECONDS = 0.25
ANSWER_SECONDS = 1.0                        # then the last snapshot is shown


def take(session: Session, node: Node) -> MemberReport:
    """On the loop thread: the report."""
    views: ViewSource | None = node.local.find(ViewSource)
    view = None if views is None else views.current_view()
    reporter: SiteReporter | None = node.local.find(SiteReporter)
    stats = session.host.stats(node)
    stats["channel"].update(session.dispatcher.counters)
    return MemberReport(
        uuid=node.me.raw.hex(), view=None if view is None else str(view.id),
        coordinator=view is not None and view.coordinator == node.me, members=members_report(node),
        sites=None if reporter is None else reporter.site_report(), stats=stats, lacks_state=session.lacks_state,
        leaving=session.leaving)


class Snapshots:
    """Snapshots of one channel, for coroutines of one event loop."""

    def __init__(self, channel: BaseChannel) -> None:
        self._channel = channel
        self._last: Snapshot | None = None
        self._last_at = 0.0                                  # monotonic; of _last
        self._asked: asyncio.Task[None] | None = None        # the question that is under way
        self._silent_since: float | None = None              # monotonic; when the first unanswered question was put

    async def get(self) -> Snapshot:
        """A fresh one, or the last one with its age if the member's loop does not answer in ANSWER_SECONDS."""
        channel = self._channel
        try:
            session = channel.connection()
        except ChannelError:
            self._silent_since = None
            return Snapshot(state=channel.state, cluster=None, report=None, at=time.time())
        if self._last is not None and time.monotonic() - self._last_at < FRESH_SECONDS:
            return self._last
        if self._asked is None:
            self._asked = asyncio.create_task(self._ask(session))
        await asyncio.wait([self._asked], timeout=ANSWER_SECONDS)
        now = time.monotonic()
        silent = 0.0 if self._silent_since is None else now - self._silent_since
        if self._last is None:
            return Snapshot(state=channel.state, cluster=session.cluster, report=None, at=time.time(),
                            silent_seconds=silent)
        if not silent:
            return self._last
        return attrs.evolve(self._last, stale_seconds=round(now - self._last_at, 3), silent_seconds=silent)

    async def _ask(self, session: Session) -> None:
        loop, answer = asyncio.get_running_loop(), asyncio.Event()
        found: list[MemberReport | None] = []

        def answered(report: Any) -> None:
            found.append(report)
            loop.call_soon_threadsafe(answer.set)

        if self._silent_since is None:
            self._silent_since = time.monotonic()
        try:
            session.ask(lambda node: take(session, node), answered)
            while not session.ended:
                try:
                    await asyncio.wait_for(answer.wait(), ANSWER_SECONDS)
                    break
                except TimeoutError:
                    continue                                 # still asked; no second question is put
            self._silent_since = None
            if found and found[0] is not None:
                self._last_at = time.monotonic()
                self._last = Snapshot(state=ChannelState.CONNECTED, cluster=session.cluster, report=found[0],
                                      at=time.time())
        finally:
            self._asked = None
