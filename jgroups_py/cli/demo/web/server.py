"""Serves the live page of the demo on loopback, and takes orders from it.

Whoever has the token may give orders; it is in the part of the address that no browser sends on its own. A page of
another origin cannot send it, and a name that resolves to this host (DNS rebinding) is refused.
"""
from __future__ import annotations

import json
import secrets
import time
from typing import Any, Self

import attrs

from jgroups_py.cli.demo.report import sentence
from jgroups_py.cli.demo.web.director import LiveDirector
from jgroups_py.cli.demo.web.pictures import DemoPictures, result_rows
from jgroups_py.cli.showing import show
from jgroups_py.ops.http.access import DEFAULT_HOST, is_authorized, is_for_this_host
from jgroups_py.ops.live.page import STREAM_PATH, page
from jgroups_py.ops.live.picture import LivePicture
from jgroups_py.ops.live.stream import PictureStream
from jgroups_py.runtime.http.messages import HttpAnswer, HttpRequest, plain_answer
from jgroups_py.runtime.http.server import HttpLimits, HttpServer
from jgroups_py.runtime.http.thread import HttpThread

ORDERS_PATH = "/v1/orders"
PERIOD_S = 0.1
LIMITS = HttpLimits(connections=64, head_bytes=8 << 10, body_bytes=4 << 10, request_seconds=2.0)


class WebView:
    """The display of the demo on a page; `director` is set before the run."""

    director: LiveDirector

    def __init__(self, port: int) -> None:
        self._token = secrets.token_urlsafe(16)
        self._pictures = DemoPictures()
        self._picture = LivePicture(title="jgroups demo", note="the members are starting")
        self._shown_s = 0.0
        self._stream = PictureStream(self._take, PERIOD_S)
        self._server = HttpServer(self.answer, (DEFAULT_HOST, port), what="jgroups demo --web", limits=LIMITS)
        self._thread = HttpThread(self._server, "jgroups-demo-http")

    def __enter__(self) -> Self:
        """Listen. Raises ConfigError: the port is taken, or h11 is not installed."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.close()

    @property
    def url(self) -> str:
        """The page's address, with the token."""
        return f"http://{DEFAULT_HOST}:{self._server.port}/#{self._token}"

    # --- from the director ------------------------------------------------------------------------------------------

    def show_line(self, text: str) -> None:
        """Print a line, and add it to the page."""
        show(text)
        self._pictures.add_line(text)

    def show(self, director: LiveDirector) -> None:
        """Make a new picture, at most one in PERIOD_S."""
        if time.monotonic() - self._shown_s >= PERIOD_S:
            self._shown_s = time.monotonic()
            self._picture = self._pictures.take(director)

    def show_result(self, verdict: dict[str, Any]) -> None:
        """Show the figures at the end."""
        self._picture = attrs.evolve(
            self._pictures.take(self.director), ok=bool(verdict["ok"]), verdict=sentence(verdict),
            result=result_rows(verdict), lost=verdict["totals"]["lost"], twice=verdict["totals"]["duplicated"])

    # --- from browsers, on the server's thread ----------------------------------------------------------------------

    async def _take(self) -> LivePicture:
        return self._picture

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer a request."""
        path = request.target.partition("?")[0]
        if not is_for_this_host(request.headers, ()):
            return plain_answer(421, "the demo answers on loopback only")
        if path == "/" and request.method in ("GET", "HEAD"):
            return page()
        if not is_authorized(request.headers, self._token.encode()):
            return plain_answer(401, "the token is in the address that the demo has printed")
        if path == STREAM_PATH and request.method == "GET":
            return self._stream.answer()
        if path == ORDERS_PATH and request.method == "POST":
            return self._ordered(request)
        return plain_answer(405 if path in ("/", STREAM_PATH, ORDERS_PATH) else 404, "not here")

    def _ordered(self, request: HttpRequest) -> HttpAnswer:
        origin = request.headers.get("origin")
        if origin not in (None, f"http://{request.headers.get('host', '')}"):
            return plain_answer(403, "orders are taken from the demo's own page only")
        try:
            wanted = json.loads(request.body)
            verb, site = wanted["order"], wanted["site"]
        except (ValueError, TypeError, KeyError):
            return plain_answer(400, 'an order is {"order": ..., "site": ...}')
        offer = next((each for each in self._picture.orders if (each.order, each.site) == (verb, site)), None)
        if offer is None:
            return plain_answer(400, "there is no such order")
        if offer.refusal:
            return plain_answer(409, offer.refusal)
        if not self.director.order(offer.order, offer.site):
            return plain_answer(503, "too many orders wait")
        return plain_answer(202, "ordered")
