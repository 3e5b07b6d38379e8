"""Shared by the verbs that ask a running broker: the REST API of `--api`, and tables."""
from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from jgroups_py.cli.showing import show
from jgroups_py.model.errors import ConfigError

DEFAULT_API, VARIABLE = "127.0.0.1:8083", "JGROUPS_MQTT_API"
SECONDS = 10.0
MAX_ANSWER_BYTES = 64 << 20
HOW = "a broker has it where its file says `api: {http: [{address: HOST:PORT}]}`"
PAGE = 1_000


def add_api_arguments(parser: ArgumentParser) -> None:
    """--api and --json."""
    parser.add_argument("--api", metavar="URL", default=os.environ.get(VARIABLE, DEFAULT_API),
                        help=f"REST of the broker: HOST:PORT, http://... or https://... (default: ${VARIABLE}, else "
                        f"{DEFAULT_API})")
    parser.add_argument("--json", action="store_true", help="the answer as JSON")


def ask(api: str, path: str, key: str, missing: str = "", **query: object) -> dict[str, Any]:
    """What the broker answers to a GET: an object with `key`. missing: what it means that there is no such thing.

    Raises:
        ConfigError: `api` is no address, nothing answers there, it is no broker, or it refuses; says which.
    """
    url = f"{base_url(api)}{path}{'?' if query else ''}{urlencode(query)}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=SECONDS) as answer:
            found = json.loads(answer.read(MAX_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            why = missing if missing and error.code == 404 else _refusal(error, path)
            raise ConfigError(f"{api}: {why}") from None
    except urllib.error.URLError as error:
        why = str(getattr(error.reason, "strerror", None) or error.reason)
        raise ConfigError(f"{api}: no REST of a broker there: {why}; {HOW}") from None
    except TimeoutError:
        raise ConfigError(f"{api}: no answer within {SECONDS:g} s") from None
    except (OSError, HTTPException, ValueError) as error:
        raise ConfigError(f"{api}: no REST of a broker there: {error or type(error).__name__}; {HOW}") from None
    if not isinstance(found, dict) or key not in found:
        raise ConfigError(f"{api}: no REST of a broker there: {path} has no {key!r}")
    return found


def base_url(api: str) -> str:
    """The URL of an API, without a / at its end.

    >>> base_url("127.0.0.1:8083"), base_url("https://[::1]:443/")
    ('http://127.0.0.1:8083', 'https://[::1]:443')

    Raises:
        ConfigError: it is none.
    """
    url = api if "://" in api else f"http://{api}"
    try:
        found = urlsplit(url)
        is_right = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        is_right = False
    if not is_right or not url.isascii() or " " in url:
        raise ConfigError(f"--api {api!r} is no address; write HOST:PORT, http://HOST:PORT or https://HOST:PORT")
    return url.rstrip("/")


def _refusal(error: urllib.error.HTTPError, path: str) -> str:
    try:
        return str(json.loads(error.read(MAX_ANSWER_BYTES))["message"])
    except (ValueError, KeyError, TypeError, OSError):
        if error.code == 404 and path.startswith("/v1/federation/"):
            return "this broker has no other nodes: its file has no plugins.federation, or not in plugin_order"
        return f"{path}: {error.code} {error.reason}"


def all_pages(api: str, path: str, key: str) -> list[Any]:
    """All items of an answer in pages."""
    found: list[Any] = []
    while True:
        part = ask(api, path, key, page=len(found) // PAGE + 1, page_size=PAGE)[key]
        found += part
        if len(part) < PAGE:
            return found


def segment(text: str) -> str:
    """A text as a part of a path."""
    return quote(text, safe="")


def finish(args: Namespace, answer: Any, lines: Iterable[str]) -> int:
    """Print the answer as JSON, or the lines."""
    if args.json:
        print(json.dumps(answer, indent=2))
    else:
        show(*lines)
    return 0


def as_table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> list[str]:
    """Lines of a table; columns in `right` are set to the right.

    >>> as_table(("name", "queued"), [("node1", 5), ("n", 1234)], right=("queued",))
    ['name   queued', 'node1       5', 'n        1234']
    """
    cells = [tuple(head), *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    return ["  ".join(cell.rjust(width) if name in right else cell.ljust(width)
                      for name, cell, width in zip(head, row, widths, strict=True)).rstrip() for row in cells]


def one_line(facts: Mapping[str, object]) -> str:
    """key=value, ...; "-" if there is none."""
    return ",".join(f"{key}={value}" for key, value in sorted(facts.items())) or "-"
