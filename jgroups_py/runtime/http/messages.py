"""A request and its answer, as values. server.py moves them over connections."""
from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import attrs

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"             # the text format of Prometheus


@attrs.frozen
class HttpRequest:
    """target: path and query, as sent. headers: by lower-case name; of several with one name the last. peer: the
    client's address, "" over a UNIX domain socket."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    peer: str = ""


@attrs.frozen
class HttpAnswer:
    """stream: what follows `body`, piece by piece, until it ends or the client closes; without Content-Length."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None


def plain_answer(status: int, text: str) -> HttpAnswer:
    """A line of text, for errors of HTTP."""
    return HttpAnswer(status, f"{text}\n".encode(), TEXT)
