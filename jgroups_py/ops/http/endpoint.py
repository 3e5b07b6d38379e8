"""An HTTP endpoint of a running member, on an event loop and a thread of its own: never on the member's loop.

Slow clients, floods of requests and frequent scrapes cost the member four reports a second at most.
"""
from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from jgroups_py import __version__
from jgroups_py.channel.base import BaseChannel
from jgroups_py.model.errors import ConfigError
from jgroups_py.ops.http.access import HttpAccess, check_place, parse_place
from jgroups_py.ops.http.api import EndpointApi
from jgroups_py.ops.http.events import EventLog
from jgroups_py.ops.http.metrics import MemberFacts
from jgroups_py.ops.http.sampling import Snapshots
from jgroups_py.ops.http.surveys import SharedSurvey
from jgroups_py.runtime.http.messages import HttpAnswer, HttpRequest
from jgroups_py.runtime.http.server import HttpLimits, HttpServer, place_text
from jgroups_py.runtime.http.thread import HttpThread
from jgroups_py.wire.frame import VERSION

LIMITS = HttpLimits(connections=64, head_bytes=8 << 10, body_bytes=0, request_seconds=2.0, idle_seconds=60.0)


class HttpEndpoint:
    """Serves /livez, /readyz, /metrics and /v1/... (api.py has the list) for a channel, connected before or after.

    channel: a JChannel or an AsyncChannel. where: "ADDRESS:PORT", "ADDRESS", "PORT", "unix:PATH"; port 0: a free one,
    see `url` and `port`. The endpoint outlives the channel's connections; `close`, or leaving its context, closes it.
    """

    def __init__(self, channel: BaseChannel, where: str = "", access: HttpAccess | None = None) -> None:
        """Listen.

        Raises:
            ConfigError: the place is wrong or taken, reachable from other hosts without a token, or the token's file is
                not for this user alone; h11 is not installed.
        """
        access = access or HttpAccess()
        self._place = parse_place(where)
        check_place(self._place, access)
        token = access.token()
        self._server = HttpServer(self._answer, self._place, what="HTTP", limits=LIMITS)
        relay = channel.spec.config_of("RELAY")
        facts = MemberFacts(
            member=channel.name, site=None if relay is None else str(relay.site), transport=channel.spec.layers[0].name,
            version=__version__, wire=VERSION, started_at=round(time.time(), 3))
        self._thread = HttpThread(self._server, f"jgroups-http-{channel.name}")
        self._events = EventLog(channel, self._thread.loop)
        self._api = EndpointApi(
            channel, facts, Snapshots(channel).get, SharedSurvey(channel).take, self._events, token=token,
            hosts=access.hosts, is_local=isinstance(self._place, Path))
        try:
            self._thread.start()
        except ConfigError:
            self._events.close()
            raise

    @property
    def port(self) -> int:
        """The TCP port; 0 at a UNIX domain socket."""
        return self._server.port

    @property
    def url(self) -> str:
        """The URL of the endpoint: "http://127.0.0.1:7580", or "unix:/run/a.sock"."""
        if isinstance(self._place, Path):
            return place_text(self._place)
        return f"http://{place_text((self._place[0], self.port))}"

    def close(self) -> None:
        """Stop listening and end all connections; idempotent, from any thread."""
        self._events.close()
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.close()

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        return await self._api.answer(request)
