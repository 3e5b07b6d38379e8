"""The page itself, and the header that lets a browser run nothing in it but its own script."""
from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from jgroups_py.runtime.http.messages import HttpAnswer

HTML = "text/html; charset=utf-8"
STREAM_PATH = "/v1/live"                    # the page asks for pictures here, below its own address


@cache
def page() -> HttpAnswer:
    """The page, for GET /. It has no facts; it asks for them at STREAM_PATH, with a token if one is asked for."""
    body = files(__package__).joinpath("live.html").read_bytes()
    return HttpAnswer(200, body, HTML, (
        ("Cache-Control", "no-store"), ("Content-Security-Policy", policy(body.decode())),
        ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Opener-Policy", "same-origin")))


def policy(html: str) -> str:
    """The Content-Security-Policy of a page with one script and one style, which are named by their hashes."""
    script, style = (_hash(html, element) for element in ("script", "style"))
    return (f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


def _hash(html: str, element: str) -> str:
    (text,) = re.findall(f"<{element}>(.*?)</{element}>", html, re.DOTALL)
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
