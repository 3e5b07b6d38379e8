"""A running member as commands ask it: at its control socket, or at its HTTP endpoint; all answers by one deadline."""
from __future__ import annotations

import contextlib
import json
import socket
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from time import monotonic
from typing import Any, Protocol
from urllib.parse import urlsplit

from jgroups_py.cli.control_client import VARIABLE, add_control_argument
from jgroups_py.model.errors import ChannelError, ConfigError
from jgroups_py.ops.control import ask

Facts = dict[str, Any]
ANSWER_BYTES = 8 << 20
EVENT_BYTES = 1 << 20
WHY_BYTES = 200                             # of a refusal in plain text
LEAST_SECONDS = 0.05
PATHS = {"config": "/v1/config", "survey": "/v1/cluster", "members": "/v1/members", "stats": "/v1/stats",
         "status": "/v1/sites"}
"""Command of the control socket -> the path that answers the same over HTTP."""
WHICH_MEMBER = f"no member is named: give --control PATH or --http URL, or set {VARIABLE} in the environment"


def add_member_arguments(parser: ArgumentParser) -> None:
    """Add --control PATH, --http URL and --http-token-file FILE."""
    add_control_argument(parser)
    parser.add_argument("--http", metavar="URL", help="ask the member's HTTP endpoint instead: http://HOST:PORT, "
                        "https://HOST:PORT or unix:PATH")
    parser.add_argument("--http-token-file", metavar="FILE", type=Path, help="with the token of the endpoint")


def chosen_member(args: Namespace) -> RunningMember:
    """The member that the arguments name.

    Raises:
        ConfigError: the URL is none, or the token's file cannot be read.
    """
    return HttpMember(args.http, args.http_token_file) if args.http else ControlledMember(args.control)


class RunningMember(Protocol):
    """One of the two below."""

    where: str

    def ask(self, command: str, until: float) -> Facts:
        """The answer to one of PATHS, or {"error": why there is none}. until: a time of monotonic().

        Raises:
            ChannelError: nothing answers there.
        """

    def last_events(self, until: float) -> list[Facts] | None:
        """The changes that the member keeps; None: it keeps none."""


class ControlledMember:
    """A member with a control socket at `path`."""

    def __init__(self, path: str) -> None:
        self.where = f"control socket {path}"
        self._path = path

    def ask(self, command: str, until: float) -> Facts:
        """See RunningMember."""
        answer = ask(self._path, {"command": command}, max(LEAST_SECONDS, round(until - monotonic(), 1)))
        is_ok = answer.pop("ok", False)
        return answer if is_ok else {"error": str(answer.get("error", "no reason was given"))}

    def last_events(self, until: float) -> list[Facts] | None:
        """See RunningMember."""
        return None


class HttpMember:
    """A member with an HTTP endpoint: http://HOST:PORT, https://HOST:PORT or unix:PATH."""

    def __init__(self, url: str, token_file: Path | None) -> None:
        """Read the token.

        Raises:
            ConfigError: the URL is none, or the token's file cannot be read.
        """
        self._unix = url.removeprefix("unix:") if url.startswith("unix:") else ""
        try:
            self._parts = urlsplit(url if "://" in url or self._unix else f"http://{url}")
            is_right = bool(self._unix) or (self._parts.scheme in ("http", "https") and bool(self._parts.hostname)
                                            and self._parts.port != 0 and self._parts.username is None)
        except ValueError:
            is_right = False
        if not is_right:
            raise ConfigError("--http: no address of an endpoint; write http://HOST:PORT, https://HOST:PORT or "
                              "unix:PATH, a token with --http-token-file")
        self.where = url if self._unix else f"{self._parts.scheme}://{self._parts.netloc}"
        self._headers = {"Host": "localhost"} if self._unix else {}
        if token_file is not None:
            try:
                self._headers["Authorization"] = f"Bearer {token_file.read_text('ascii').strip()}"
            except (OSError, UnicodeError) as error:
                why = getattr(error, "strerror", None) or "it is not ASCII"
                raise ConfigError(f"--http-token-file {token_file}: {why}") from None

    def ask(self, command: str, until: float) -> Facts:
        """See RunningMember."""
        with self._answer(PATHS[command], {}, until) as answer:
            text = b"".join(self._chunks(answer, until))
        if answer.status == 401:
            raise ChannelError(f"the endpoint at {self.where} asks for another token; give --http-token-file FILE")
        try:
            found = json.loads(text[:ANSWER_BYTES])
        except (ValueError, RecursionError):
            why = text[:WHY_BYTES].decode("utf-8", "replace").strip()
            found = {"error": f"{PATHS[command]} answered {answer.status}: {why}"}
        if answer.status == 200 and not isinstance(found, dict):
            raise ChannelError(f"what answers at {self.where} is no endpoint of a member")
        return found if isinstance(found, dict) else {"error": f"{PATHS[command]} answered {answer.status}"}

    def last_events(self, until: float) -> list[Facts] | None:
        """See RunningMember. The stream's first tick comes after all that are kept."""
        text = b""
        with contextlib.suppress(ChannelError), self._answer("/v1/events", {"Last-Event-ID": "0"}, until) as answer:
            for chunk in self._chunks(answer, until):
                text += chunk
                if answer.status != 200 or b"event: tick\n" in text or len(text) > EVENT_BYTES:
                    break
        events = []
        for line in text.split(b"\n"):
            if line.startswith(b"data: "):
                with contextlib.suppress(ValueError, RecursionError):   # the last line may be half a one
                    facts = json.loads(line.removeprefix(b"data: "))
                    events += [facts] if isinstance(facts, dict) and len(facts) > 1 else []
        return events

    @contextlib.contextmanager
    def _answer(self, path: str, headers: dict[str, str], until: float) -> Iterator[HTTPResponse]:
        seconds = max(LEAST_SECONDS, until - monotonic())
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        connection = kind(self._parts.hostname or "localhost", self._parts.port, timeout=seconds)
        try:
            if self._unix:
                connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.sock.settimeout(seconds)
                connection.sock.connect(self._unix)
            connection.request("GET", path, headers={**self._headers, **headers, "Connection": "close"})
            with connection.getresponse() as answer:
                yield answer
        except TimeoutError:
            raise ChannelError(f"the member at {self.where} did not answer in time") from None
        except (OSError, HTTPException) as error:
            why = getattr(error, "strerror", None) or error or type(error).__name__
            raise ChannelError(f"no endpoint of a member answers at {self.where}: {why}") from None
        finally:
            connection.close()

    @staticmethod
    def _chunks(answer: HTTPResponse, until: float) -> Iterator[bytes]:
        got = 0
        while chunk := answer.read1(64 << 10):
            yield chunk
            got += len(chunk)
            if got > ANSWER_BYTES or monotonic() > until:
                return
