"""Operators: what a running member knows of members and other sites, and orders about those.

SiteControl is for the program itself; ControlSocket opens a member to `jgroups members`, `jgroups events` and, with
RELAY, `jgroups site` on the same host:

    with jg.JChannel("nyc.xml") as ch, ControlSocket(ch, "/run/user/1000/nyc-a.sock"):
        ch.connect("chat")
        ...

The socket is a UNIX domain socket that only its user can open (mode 0600, and the system is asked who is calling).
Nothing listens unless a program opens one, and nothing is ever reachable over the network. One JSON object a line is
a question, one an answer: {"command": "members" | "status"}, or {"command": "offline" | "online" | "drain", "site":
"SFO", "timeout": 30, "hold": false}; the answer has "ok", and "error" or what was asked for. After {"command":
"events"} a line follows for each change, until the caller hangs up.
"""
from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jgroups_py.block import Block
from jgroups_py.errors import ChannelError, ConfigError, SiteOrderError
from jgroups_py.events import SiteCommand
from jgroups_py.node import Node
from jgroups_py.outputs import Output, SiteCommandDone
from jgroups_py.ports import SiteReporter
from jgroups_py.session import BaseChannel
from jgroups_py.units import seconds
from jgroups_py.watching import ChannelWatch, Feed, Watched, ask_node

log = logging.getLogger("jgroups_py")

QUESTIONS = ("members", "events", "status")
ORDERS = ("offline", "online", "drain")
FOLLOWING = "following"                     # the event that answers the command "events"
NO_SITES = "the member's stack has no RELAY, so it knows of no other sites"
DRAIN_SECONDS = 30.0                        # how long a drain waits unless it is told otherwise
LONGEST_SECONDS = 86_400.0
PATIENCE_SECONDS = 10.0                     # how much longer than its timeout an order may take to be answered
QUESTION_BYTES = 64 << 10
IDLE_SECONDS = 300.0                        # a caller that says nothing for so long is hung up on
CALLERS = 8                                 # at once
PATH_BYTES = 100                            # what every system allows for a UNIX domain socket, rounded down
HANG_UP_SECONDS = 1.0                       # how often we look whether a follower is still there


class SiteControl(Block):
    """Questions and orders about other sites, for one channel (JChannel or AsyncChannel). Any thread may call."""

    def __init__(self, channel: BaseChannel) -> None:
        if channel.spec.config_of("RELAY") is None:
            raise ConfigError(NO_SITES)
        self._channel = channel
        self._numbers = itertools.count(1)
        self._answers: dict[int, str | None] = {}            # order -> None until its answer is here
        self._changed = threading.Condition()
        channel.attach(self)

    @property
    def member(self) -> str:
        """The channel's member and cluster, for the log."""
        return f"{self._channel.name}@{self._channel.cluster or '-'}"

    def status(self) -> dict[str, Any]:
        """What this member knows of the other sites: what `jgroups site status --json` prints.

        Raises:
            NotConnectedError: the channel is in no group.
        """
        report: dict[str, Any] = ask_node(self._channel, _report)
        return report

    def offline(self, site: str) -> None:
        """Hold nothing for the site any more, until `online`: what it has not acknowledged is lost for it.

        Raises:
            NotConnectedError: the channel is in no group.
            SiteOrderError: the site is not known, no coordinator answered, or an order that this member did not know of
                was carried out meanwhile, and wants something else.
        """
        self.order("offline", site)

    def online(self, site: str) -> None:
        """The site may return, from the current numbers on, or with all that was held by order; raises as `offline`."""
        self.order("online", site)

    def drain(self, site: str, timeout: float = DRAIN_SECONDS, *, hold: bool = False) -> None:
        """Wait until the site has all that is held for it now, send it nothing more, take it OFFLINE.

        hold: do not take it OFFLINE but go on holding; `online` sends what came meanwhile, so nothing is lost. A site
        without a relay on the bridge is not waited for.

        Raises as `offline`; SiteOrderError also if the site did not take all in `timeout` seconds: then nothing has
        changed and nothing is lost.
        """
        self.order("hold" if hold else "drain", site, timeout)

    def order(self, verb: str, site: str, timeout: float = 0.0) -> None:
        """One of ORDERS, or "hold"; see the methods above."""
        number = next(self._numbers)
        with self._changed:
            self._answers[number] = None
        try:
            event = SiteCommand(number, verb, site, seconds(timeout))
            ask_node(self._channel, lambda node, now_ns: node.inject(event, now_ns))
            with self._changed:
                self._changed.wait_for(lambda: self._answers[number] is not None, timeout + PATIENCE_SECONDS)
                error = self._answers[number]
        finally:
            del self._answers[number]
        if error is None:
            raise SiteOrderError("this member did not answer in time")
        if error:
            raise SiteOrderError(error)

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """On the loop thread: answers to orders."""
        done = [output for output in outputs if isinstance(output, SiteCommandDone)]
        if not done:
            return outputs
        with self._changed:
            for output in done:
                if output.number in self._answers:
                    self._answers[output.number] = output.error
            self._changed.notify_all()
        return [output for output in outputs if not isinstance(output, SiteCommandDone)]


def _report(node: Node, now_ns: int) -> dict[str, Any]:
    reporter: SiteReporter = node.local.find(SiteReporter)
    return reporter.site_report()


class ControlSocket:
    """A UNIX domain socket at `path`, through which `jgroups members`, `events` and `site` talk to a member.

    member: a channel, which may be connected before or after; or a Membership. The socket appears with its permissions
    already set, and takes the place of one that a dead process left behind.
    """

    def __init__(self, member: BaseChannel | Watched, path: str | os.PathLike[str]) -> None:
        """Open it.

        Raises:
            ConfigError: there cannot be a socket at `path`.
        """
        self.path = Path(path)
        self._callers = threading.BoundedSemaphore(CALLERS)
        self._socket = _listening(self.path)
        channel = member if isinstance(member, BaseChannel) else None
        view = channel.view if channel is not None else None
        self._watched = ChannelWatch(member) if isinstance(member, BaseChannel) else member
        self._feed = Feed(self._watched, () if view is None else view.members)
        has_sites = channel is not None and channel.spec.config_of("RELAY") is not None
        self._sites = SiteControl(channel) if channel is not None and has_sites else None
        self._closed = False
        threading.Thread(target=self._accept, name=f"jgroups-control-{member.name}", daemon=True).start()

    def close(self) -> None:
        """Listen no more; the file goes."""
        if not self._closed:
            self._closed = True
            self._feed.close()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)      # wakes the thread that waits in accept
            self._socket.close()
            with contextlib.suppress(OSError):
                self.path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return                                       # closed
            if not _may_speak(caller) or not self._callers.acquire(blocking=False):
                caller.close()
                continue
            threading.Thread(target=self._serve, args=(caller,), name="jgroups-control-call", daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        try:
            caller.settimeout(IDLE_SECONDS)
            with caller, caller.makefile("rb") as questions, contextlib.suppress(OSError):
                while line := questions.readline(QUESTION_BYTES):
                    answer = self._answer(line)
                    if answer.get("event") == FOLLOWING:
                        return self._tell_all(caller, answer)
                    _say(caller, answer)
        finally:
            self._callers.release()

    def _tell_all(self, caller: socket.socket, first: dict[str, Any]) -> None:
        """Send all that changes after `first`, until the caller hangs up or we are closed."""
        follower = self._feed.follow()
        try:
            _say(caller, first)
            while not self._closed:
                facts = follower.take(HANG_UP_SECONDS)
                if facts is not None:
                    _say(caller, facts)
                elif _has_hung_up(caller):
                    return
        finally:
            self._feed.end(follower)

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            command, site, timeout, hold = _parsed(line)
            if command in ("members", "events"):
                report = self._watched.report()
                return {"ok": True, **report} if command == "members" else \
                    {"ok": True, "event": FOLLOWING, "member": report["member"], "cluster": report["cluster"]}
            if self._sites is None:
                return {"ok": False, "error": NO_SITES}
            if command == "status":
                return {"ok": True, **self._sites.status()}
            log.warning("%s: an operator orders: %s %s%s", self._sites.member, command, site, " --hold" if hold else "")
            self._sites.order("hold" if hold else command, site, timeout if command == "drain" else 0.0)
        except (ValueError, ChannelError) as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True}


def _parsed(line: bytes) -> tuple[str, str, float, bool]:
    """(command, site, timeout, hold) of a question."""
    try:
        question = json.loads(line)
    except ValueError:
        raise ValueError("a question is one JSON object on a line") from None
    if not isinstance(question, dict):
        raise ValueError("a question is one JSON object on a line")
    command, site, timeout = question.get("command"), question.get("site", ""), question.get("timeout", DRAIN_SECONDS)
    if command not in QUESTIONS and command not in ORDERS:
        raise ValueError(f"there is no command {command!r}; there are {', '.join((*QUESTIONS, *ORDERS))}")
    if not isinstance(site, str) or (command in ORDERS and not site):
        raise ValueError(f"{command} needs a site")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout <= LONGEST_SECONDS:
        raise ValueError(f"a timeout is a number of seconds, {LONGEST_SECONDS:g} at most")
    hold = question.get("hold", False)
    if not isinstance(hold, bool) or (hold and command != "drain"):
        raise ValueError("hold is true or false, and true with drain only")
    return command, site, float(timeout), hold


def _may_speak(caller: socket.socket) -> bool:
    """Whether the process at the other end runs as our user, or as root (where the system can tell)."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] in (os.getuid(), 0)


def _say(caller: socket.socket, facts: dict[str, Any]) -> None:
    """One line."""
    caller.sendall(json.dumps(facts).encode() + b"\n")


def _has_hung_up(caller: socket.socket) -> bool:
    """Whether the other end is closed; it says nothing more in any case."""
    caller.setblocking(False)                                # with a timeout, Python waits before it asks the system
    try:
        return caller.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    finally:
        caller.settimeout(IDLE_SECONDS)


def _listening(path: Path) -> socket.socket:
    """A listening socket that stands at `path` with mode 0600 from its first moment on."""
    _make_way(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Bound in a folder that nobody else can enter, then moved: there is no moment at which others could connect.
        with tempfile.TemporaryDirectory(prefix=".jg", dir=path.parent) as folder:
            fresh = Path(folder) / "s"
            listener.bind(str(fresh))
            fresh.chmod(stat.S_IRUSR | stat.S_IWUSR)
            listener.listen(CALLERS)
            fresh.rename(path)
    except OSError as error:
        listener.close()
        raise ConfigError(f"no control socket at {path}: {error}") from None
    return listener


def _make_way(path: Path) -> None:
    """Whether `path` is free, or has a socket whose process is dead."""
    if len(os.fsencode(path)) > PATH_BYTES:
        raise ConfigError(f"no control socket at {path}: a socket's path has {PATH_BYTES} bytes at most")
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"no control socket at {path}: there is something else")
    except OSError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return
    raise ConfigError(f"no control socket at {path}: another member listens there")


def ask(path: str | os.PathLike[str], question: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Put a question to the member that listens at `path`; its answer.

    Raises:
        ChannelError: nobody listens there, or the member did not answer in `timeout` seconds.
    """
    with contextlib.closing(_answers(path, question, timeout)) as answers:
        return next(answers)


def follow(path: str | os.PathLike[str]) -> Generator[dict[str, Any], None, None]:
    """What changes at the member that listens at `path`, for as long as it runs; the first says that it is followed.

    Raises:
        ChannelError: nobody listens there, it did not answer, or it is in no group.
    """
    with contextlib.closing(_answers(path, {"command": "events"}, PATIENCE_SECONDS, forever=True)) as answers:
        first = next(answers)
        if not first["ok"]:
            raise ChannelError(first["error"])
        yield first
        yield from answers


def _answers(
    path: str | os.PathLike[str], question: dict[str, Any], timeout: float, forever: bool = False,
) -> Generator[dict[str, Any], None, None]:
    """The answer, and with `forever` all that comes after it, until the member hangs up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(timeout)
        try:
            caller.connect(str(path))
            caller.sendall(json.dumps(question).encode() + b"\n")
            lines = caller.makefile("rb")
            line = lines.readline()
        except TimeoutError:
            raise ChannelError(f"the member at {path} did not answer within {timeout:g} s") from None
        except OSError as error:
            raise ChannelError(f"no member listens at {path}: {error.strerror or error}") from None
        if not line:
            raise ChannelError(f"the member at {path} hung up: it is another user's, or it has too many callers")
        yield json.loads(line)
        if forever:
            caller.settimeout(None)
            with contextlib.suppress(ConnectionError):
                for line in lines:
                    yield json.loads(line)
