"""The requests that an endpoint answers. GET and HEAD only: there are no orders over HTTP.

    /livez        200, or 503: the channel closed by itself, or its loop ran no round for 30 s. It does not depend on
                  other members: a probe must not restart a healthy member for a problem of its group
    /readyz       200, or 503 with what fails: in the group and not leaving, loop answers, no state on its way to it;
                  ?members=3 and ?sites=SFO,LON add conditions
    /metrics      Prometheus (metrics.py)
    /v1/member    this member: state, view, queues
    /v1/members   as `jgroups members --json`
    /v1/sites     as `jgroups site status --json`; 404 without RELAY
    /v1/stats     all counters, as `ch.stats()`; names may change between versions
    /v1/cluster   a survey: all members of the group and of the sites that are UP, with those that do not answer
    /v1/config    the stack as it runs, each property as in a stack file, secrets masked; versions of what it runs on
    /v1/events    Server-Sent Events: changes as `jgroups events --json`, and `tick` each second (events.py)
    /v1/live      Server-Sent Events: what the live page shows, twice a second (pictures.py)
    /v1           this list
    /             the live page. It contains no facts, so it needs no token, and prompts for one
"""
from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qs

from jgroups_py.channel.base import BaseChannel, ChannelState
from jgroups_py.model.errors import ChannelError
from jgroups_py.ops.http.access import is_authorized, is_for_this_host
from jgroups_py.ops.http.events import FOLLOWERS, EventLog
from jgroups_py.ops.http.metrics import MemberFacts, member_metrics, render
from jgroups_py.ops.http.pictures import PERIOD_SECONDS, MemberPictures
from jgroups_py.ops.http.snapshot import DEAD_SECONDS, Snapshot
from jgroups_py.ops.live.page import STREAM_PATH, page
from jgroups_py.ops.live.stream import PictureStream
from jgroups_py.ops.own_reports import config_report
from jgroups_py.ops.reports import Facts
from jgroups_py.runtime.http.messages import JSON, METRICS, TEXT, HttpAnswer, HttpRequest, plain_answer

API_VERSION = 1                             # of the JSON documents, their field "v"; fields may be added within one
MEMBER_DIGITS = 6
OPEN_PATHS = ("/livez", "/readyz", "/")     # answered without a token: kubelet and a browser's address line have none
INDEX = (__doc__ or "").partition("\n\n")[2].encode()
HEADERS = (("Cache-Control", "no-store"), ("Content-Security-Policy", "default-src 'none'"))

Query = Mapping[str, str]


class EndpointApi:
    """See the module. snapshot: returns the present one; survey: runs one, raises ChannelError in no group. is_local:
    the endpoint is a UNIX domain socket, so Host is not checked."""

    def __init__(
        self, channel: BaseChannel, facts: MemberFacts, snapshot: Callable[[], Awaitable[Snapshot]],
        survey: Callable[[], Awaitable[Facts]], events: EventLog, *, token: bytes | None, hosts: tuple[str, ...],
        is_local: bool,
    ) -> None:
        self._channel = channel
        self._facts = facts
        self._snapshot = snapshot
        self._events = events
        self._token = token
        self._hosts = hosts
        self._is_local = is_local
        self._survey = survey
        self._pictures = PictureStream(MemberPictures(facts, snapshot, events).take, PERIOD_SECONDS)
        self._reports: dict[str, Callable[[Snapshot], HttpAnswer]] = {
            "/metrics": self._metrics, "/v1/member": self._member, "/v1/members": self._members,
            "/v1/sites": self._sites, "/v1/stats": self._stats,
        }
        self._made: dict[str, tuple[Snapshot, HttpAnswer]] = {}      # path -> the last report, and what it was made of
        self._routes: dict[str, Callable[[Query, HttpRequest], Awaitable[HttpAnswer]]] = {
            "/livez": self._live, "/readyz": self._ready, "/v1/cluster": self._cluster, "/v1/config": self._config,
            "/v1/events": self._follow, "/v1": self._index, STREAM_PATH: self._live_pictures, "/": self._page,
        }

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer a request."""
        path, _, text = request.target.partition("?")
        if not self._is_local and not is_for_this_host(request.headers, self._hosts):
            return plain_answer(421, "this endpoint does not answer under that Host; --http-host adds one")
        if path not in OPEN_PATHS and not is_authorized(request.headers, self._token):
            return HttpAnswer(401, b"a token is needed\n", TEXT, (("WWW-Authenticate", "Bearer"),))
        route = self._routes.get(path)
        if route is None and path not in self._reports:
            return plain_answer(404, "Not Found")
        if request.method not in ("GET", "HEAD"):
            return HttpAnswer(405, b"GET or HEAD\n", TEXT, (("Allow", "GET, HEAD"),))
        if route is None:
            return await self._report(path)
        return await route({name: values[-1] for name, values in parse_qs(text).items()}, request)

    # --- health -----------------------------------------------------------------------------------------------------

    async def _live(self, query: Query, request: HttpRequest) -> HttpAnswer:
        reason = self._channel.closed_because
        silent = 0.0 if reason else (await self._snapshot()).silent_seconds
        if silent >= DEAD_SECONDS:
            reason = f"the loop ran no round for {silent:.0f} s"
        facts: Facts = {"live": not reason}
        if reason and is_authorized(request.headers, self._token):
            facts["reason"] = reason
        return _json(facts, 503 if reason else 200)

    async def _ready(self, query: Query, request: HttpRequest) -> HttpAnswer:
        try:
            least_members, sites = _conditions(query)
        except ValueError as error:
            return plain_answer(400, str(error))
        snapshot = await self._snapshot()
        report = snapshot.report
        checks = {"connected": snapshot.state == ChannelState.CONNECTED and report is not None and not report.leaving,
                  "loop": not snapshot.silent_seconds}
        if report is not None and report.lacks_state:
            checks["state"] = False
        known = {} if report is None or report.sites is None else report.sites["sites"]
        if least_members:
            checks["members"] = report is not None and len(report.members["members"]) >= least_members
        for site in sites:
            checks[f"site {site}"] = known.get(site, {}).get("status") == "UP"
        ready = all(checks.values())
        facts: Facts = {"ready": ready}
        if is_authorized(request.headers, self._token):
            facts["checks"] = checks
        return _json(facts, 200 if ready else 503)

    # --- reports ----------------------------------------------------------------------------------------------------

    async def _report(self, path: str) -> HttpAnswer:
        """A report, made once for each snapshot: making it holds the interpreter's lock, for which messages wait."""
        snapshot = await self._snapshot()
        last = self._made.get(path)
        if last is not None and last[0] is snapshot:
            return last[1]
        answer = self._reports[path](snapshot)
        self._made[path] = snapshot, answer
        return answer

    def _metrics(self, snapshot: Snapshot) -> HttpAnswer:
        common = {"cluster": snapshot.cluster or "", "member": self._facts.member}
        return HttpAnswer(200, render(member_metrics(self._facts, snapshot), common), METRICS, HEADERS)

    def _member(self, snapshot: Snapshot) -> HttpAnswer:
        report, facts = snapshot.report, self._facts
        return self._document(snapshot, {
            "member": facts.member, "cluster": snapshot.cluster, "site": facts.site, "version": facts.version,
            "wire": facts.wire, "pid": os.getpid(), "started": facts.started_at, "state": snapshot.state,
            **({} if report is None else {
                "uuid": report.uuid, "view": report.view, "coordinator": report.coordinator,
                "relay": None if report.sites is None else report.sites["is_relay"],
                "queues": {name: number for name, number in report.stats["channel"].items() if name.endswith("_bytes")},
            })})

    def _members(self, snapshot: Snapshot) -> HttpAnswer:
        return self._document(snapshot, None if snapshot.report is None else snapshot.report.members)

    def _sites(self, snapshot: Snapshot) -> HttpAnswer:
        if self._channel.site is None:
            return plain_answer(404, "the member's stack has no RELAY, so it knows of no other sites")
        return self._document(snapshot, None if snapshot.report is None else snapshot.report.sites)

    async def _cluster(self, query: Query, request: HttpRequest) -> HttpAnswer:
        try:
            return _json(await self._survey())
        except ChannelError as error:
            return _json({"v": API_VERSION, "error": str(error)}, 503)

    def _stats(self, snapshot: Snapshot) -> HttpAnswer:
        return self._document(snapshot, None if snapshot.report is None else {"stats": snapshot.report.stats})

    async def _config(self, query: Query, request: HttpRequest) -> HttpAnswer:
        return _json({"v": API_VERSION, **config_report(self._channel.spec)})

    def _document(self, snapshot: Snapshot, facts: Facts | None) -> HttpAnswer:
        """A report with its time; 503 while the member is in no group."""
        head = {"v": API_VERSION, "at": round(snapshot.at, 3), "stale_seconds": snapshot.stale_seconds}
        if facts is None:
            return _json({**head, "error": "the member is in no group", "state": snapshot.state}, 503)
        return _json({**head, **facts})

    # --- others -----------------------------------------------------------------------------------------------------

    async def _follow(self, query: Query, request: HttpRequest) -> HttpAnswer:
        if self._events.followers >= FOLLOWERS:
            return plain_answer(503, f"{FOLLOWERS} clients follow the events already")
        first = self._events.first_for(request.headers.get("last-event-id", ""))
        return HttpAnswer(200, b": events\n\n", "text/event-stream", HEADERS, self._events.follow(first))

    async def _live_pictures(self, query: Query, request: HttpRequest) -> HttpAnswer:
        return self._pictures.answer()

    async def _page(self, query: Query, request: HttpRequest) -> HttpAnswer:
        return page()

    async def _index(self, query: Query, request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, INDEX, TEXT, HEADERS)


def _conditions(query: Query) -> tuple[int, list[str]]:
    """What else a member needs to be ready: the least number of members, and sites that are UP. Raises ValueError."""
    unknown = sorted(query.keys() - {"members", "sites"})
    if unknown:
        raise ValueError(f"/readyz knows ?members=N and ?sites=A,B, not {', '.join(unknown)}")
    members = query.get("members", "0")
    if not members.isdecimal() or len(members) > MEMBER_DIGITS:
        raise ValueError("members is a number of members, as in /readyz?members=3")
    return int(members), [site for site in query.get("sites", "").split(",") if site]


def _json(facts: Facts, status: int = 200) -> HttpAnswer:
    return HttpAnswer(status, json.dumps(facts, separators=(",", ":"), default=str).encode() + b"\n", JSON, HEADERS)
