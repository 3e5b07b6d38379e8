"""The control socket of a running member: requests for reports about members and sites, and orders about sites.

SiteControl is for the program itself; ControlSocket opens a member to `jgroups members`, `jgroups events` and, with
RELAY, `jgroups site` on the same host:

    with jg.JChannel("nyc.xml") as ch, ControlSocket(ch, "/run/user/1000/nyc-a.sock"):
        ch.connect("chat")
        ...

The socket is a UNIX domain socket with mode 0600, and the peer's credentials are checked: only the member's own user
and root may use it. Nothing listens unless a program opens one, and nothing is reachable over the network. A request
is one JSON object on a line: {"command": "members" | "status" | "keys" | "survey" |
"services" | "stats" | "config" | "renew-key"}, or {"command": "offline" |
"online" | "drain", "site": "SFO", "timeout": 30, "hold": false}. The answer is one JSON object on a line, with "ok",
and "error" or the report.
After {"command": "events"} a line follows for each change, until the client closes the connection.
"""
from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from jgroups_py.channel.base import BaseChannel
from jgroups_py.model.errors import ChannelError, ConfigError, SiteOrderError
from jgroups_py.model.events import SiteCommand
from jgroups_py.model.outputs import SiteCommandDone
from jgroups_py.model.ports import KeyReporter, SiteReporter
from jgroups_py.model.units import seconds
from jgroups_py.node.node import Node
from jgroups_py.ops.key_control import KeyControl
from jgroups_py.ops.orders import NodeOrders
from jgroups_py.ops.own_reports import config_report, stats_report
from jgroups_py.ops.survey import Survey
from jgroups_py.ops.watch import ChannelWatch, Feed, WatchedMember, ask_node
from jgroups_py.system.unix_sockets import listening_socket

log = logging.getLogger("jgroups_py")

REPORTS = ("members", "events", "status", "keys", "survey", "services", "stats", "config")
RENEW_KEY = "renew-key"                     # the order of a new key of the view
ORDERS = ("offline", "online", "drain")
FOLLOWING = "following"                     # the event that answers the command "events"
NO_KEYS = "the member's stack has no ENCRYPT"
NO_SURVEY = "SWIM alone has no channel to ask other members through"
NO_STATS = "SWIM alone has no channel whose counters could be reported"
NO_SERVICES = "the member has no typed services (Services, AsyncServices)"
NO_SITES = "the member's stack has no RELAY, so it knows of no other sites"
DRAIN_SECONDS = 30.0                        # default timeout of a drain
LONGEST_SECONDS = 86_400.0
ANSWER_SLACK_SECONDS = 10.0                 # an order may take this much longer than its timeout to be answered
REQUEST_BYTES = 64 << 10
ANSWER_BYTES = 8 << 20
FIRST_SECONDS = 30.0                        # after which a connection without a first request is closed
IDLE_SECONDS = 300.0                        # the same between two requests
CLIENTS = 8                                 # connections at once
CLIENTS_OF_PROCESS = 4                      # of one process, so that none uses up all connections
POLL_SECONDS = 1.0                          # period of checking whether the client of a subscription is still there


class SiteControl(NodeOrders):
    """Reports and orders about other sites, for one channel (JChannel or AsyncChannel). Any thread may call."""

    done = SiteCommandDone
    refused = SiteOrderError

    def __init__(self, channel: BaseChannel) -> None:
        if channel.spec.config_of("RELAY") is None:
            raise ConfigError(NO_SITES)
        super().__init__(channel)

    @property
    def member(self) -> str:
        """The channel's member and cluster, for the log."""
        return f"{self._channel.name}@{self._channel.cluster or '-'}"

    def status(self) -> dict[str, Any]:
        """The other sites as known to this member, as `jgroups site status --json` prints them.

        Raises:
            NotConnectedError: the channel is in no group.
        """
        report: dict[str, Any] = ask_node(self._channel, _report)
        return report

    def offline(self, site: str) -> None:
        """Stop holding messages for the site, until `online`: what it has not acknowledged is declared lost for it.

        Raises:
            NotConnectedError: the channel is in no group.
            SiteOrderError: the site is not known, no coordinator answered, or a conflicting order that this member had
                not seen was carried out first.
        """
        self.order("offline", site)

    def online(self, site: str) -> None:
        """Let the site return, from the current numbers on, or, after `drain(hold=True)`, with all that was held.

        Raises as `offline`.
        """
        self.order("online", site)

    def drain(self, site: str, timeout: float = DRAIN_SECONDS, *, hold: bool = False) -> None:
        """Wait until the site has acknowledged all that is held for it now, stop sending to it, take it OFFLINE.

        hold: do not take it OFFLINE but go on holding; `online` sends what was held meanwhile, so nothing is lost. It
        does not wait for a site without a relay on the bridge.

        Raises as `offline`; SiteOrderError also if the site did not acknowledge all within `timeout` seconds: then
        nothing has changed and nothing is lost.
        """
        self.order("hold" if hold else "drain", site, timeout)

    def order(self, verb: str, site: str, timeout: float = 0.0) -> None:
        """One of ORDERS, or "hold"; see the methods above."""
        self.give(lambda number: SiteCommand(number, verb, site, seconds(timeout)), timeout + ANSWER_SLACK_SECONDS)


def _report(node: Node, now_ns: int) -> dict[str, Any]:
    reporter: SiteReporter = node.local.find(SiteReporter)
    return reporter.site_report()


class ControlSocket:
    """A UNIX domain socket at `path`, through which `jgroups members`, `events` and `site` control a member.

    member: a channel, which may be connected before or after; or a Membership. The socket appears with its permissions
    already set, and replaces one that an ended process left.
    """

    def __init__(self, member: BaseChannel | WatchedMember, path: str | os.PathLike[str]) -> None:
        """Listen at `path`.

        Raises:
            ConfigError: there cannot be a socket at `path`.
        """
        self.path = Path(path)
        self._clients = Clients()
        self._socket = listening_socket(self.path, "control socket", CLIENTS)
        channel = self._channel = member if isinstance(member, BaseChannel) else None
        view = channel.view if channel is not None else None
        self._watched = ChannelWatch(member) if isinstance(member, BaseChannel) else member
        self._feed = Feed(self._watched, () if view is None else view.members)
        has_sites = channel is not None and channel.spec.config_of("RELAY") is not None
        self._survey = None if channel is None else Survey.of(channel)
        self._sites = SiteControl(channel) if channel is not None and has_sites else None
        has_keys = channel is not None and channel.spec.config_of("ENCRYPT") is not None
        self._view_keys = KeyControl(channel) if channel is not None and has_keys else None
        self._closed = False
        threading.Thread(target=self._accept, name=f"jgroups-control-{member.name}", daemon=True).start()

    def close(self) -> None:
        """Stop listening and remove the socket file; idempotent."""
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
                client, _ = self._socket.accept()
            except OSError:
                return                                       # closed
            caller = _caller_of(client)
            if not caller.may_ask or not self._clients.enter(caller.pid):
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client, caller), name="jgroups-control-call",
                             daemon=True).start()

    def _serve(self, client: socket.socket, caller: Caller) -> None:
        try:
            client.settimeout(FIRST_SECONDS)
            with client, client.makefile("rb") as requests, contextlib.suppress(OSError):
                while line := requests.readline(REQUEST_BYTES):
                    client.settimeout(IDLE_SECONDS)
                    answer = self._answer(line, caller)
                    if answer.get("event") == FOLLOWING:
                        return self._send_events(client, answer)
                    _send_line(client, answer)
        finally:
            self._clients.leave(caller.pid)

    def _send_events(self, client: socket.socket, first: dict[str, Any]) -> None:
        """Send `first`, then each change, until the client closes the connection or this socket is closed."""
        follower = self._feed.follow()
        try:
            _send_line(client, first)
            while not self._closed:
                facts = follower.take(POLL_SECONDS)
                if facts is not None:
                    _send_line(client, facts)
                elif _is_closed(client):
                    return
        finally:
            self._feed.end(follower)

    def _answer(self, line: bytes, caller: Caller) -> dict[str, Any]:
        try:
            command, site, timeout, hold, bridge = _parsed(line)
            if command in ("members", "events"):
                report = self._watched.report()
                return {"ok": True, **report} if command == "members" else \
                    {"ok": True, "event": FOLLOWING, "member": report["member"], "cluster": report["cluster"]}
            if command == "keys":
                return self._keys()
            if command == RENEW_KEY:
                return self._renew_key(caller, bridge)
            if command == "survey":
                if self._survey is None:
                    return {"ok": False, "error": NO_SURVEY}
                return {"ok": True, **self._survey.take()}
            if command == "services":
                return self._services()
            if command == "config":
                return {"ok": True, **config_report(self._watched.spec)}
            if command == "stats":
                return {"ok": False, "error": NO_STATS} if self._channel is None else \
                    {"ok": True, **stats_report(self._channel)}
            if self._sites is None:
                return {"ok": False, "error": NO_SITES}
            if command == "status":
                return {"ok": True, **self._sites.status()}
            log.warning("%s: operator's order: %s %s%s (%s)", self._sites.member, command, site,
                        " --hold" if hold else "", caller)
            self._sites.order("hold" if hold else command, site, timeout if command == "drain" else 0.0)
        except (ValueError, ChannelError) as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True}

    def _services(self) -> dict[str, Any]:
        """The typed services of the group."""
        for block in () if self._channel is None else self._channel.blocks:
            found = block.service_report()
            if found is not None:
                report = self._watched.report()
                return {"ok": True, "member": report["member"], "cluster": report["cluster"], "services": found}
        return {"ok": False, "error": NO_SERVICES}

    def _renew_key(self, caller: Caller, bridge: bool) -> dict[str, Any]:
        """A new key of the view, by order of an operator."""
        if self._view_keys is None or self._channel is None:
            return {"ok": False, "error": NO_KEYS}
        log.warning("%s@%s: operator's order: a new key of the %sview (%s)", self._channel.name,
                    self._channel.cluster or "-", "bridge's " if bridge else "", caller)
        self._view_keys.renew(bridge=bridge)
        return {"ok": True}

    def _keys(self) -> dict[str, Any]:
        """The ids and states of the group's keys, for each stack with ENCRYPT; not the keys themselves."""
        stacks = ask_node(self._channel, _key_reports) if self._channel is not None else []
        return {"ok": True, "stacks": stacks} if stacks else {"ok": False, "error": NO_KEYS}


def _key_reports(node: Node, now_ns: int) -> list[dict[str, Any]]:
    stacks = [("local", node.local), *([] if node.bridge is None else [("bridge", node.bridge)])]
    found = [(name, stack.find(KeyReporter)) for name, stack in stacks]
    return [{"stack": name, **reporter.key_report()} for name, reporter in found if reporter is not None]


def _parsed(line: bytes) -> tuple[str, str, float, bool, bool]:
    """(command, site, timeout, hold, bridge) of a request."""
    try:
        request = json.loads(line)
    except ValueError:
        raise ValueError("a request is one JSON object on a line") from None
    if not isinstance(request, dict):
        raise ValueError("a request is one JSON object on a line")
    command, site, timeout = request.get("command"), request.get("site", ""), request.get("timeout", DRAIN_SECONDS)
    if command not in (*REPORTS, RENEW_KEY, *ORDERS):
        raise ValueError(f"there is no command {command!r}; there are {', '.join((*REPORTS, RENEW_KEY, *ORDERS))}")
    if not isinstance(site, str) or (command in ORDERS and not site):
        raise ValueError(f"{command} needs a site")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout <= LONGEST_SECONDS:
        raise ValueError(f"a timeout is a number of seconds, {LONGEST_SECONDS:g} at most")
    hold = request.get("hold", False)
    if not isinstance(hold, bool) or (hold and command != "drain"):
        raise ValueError("hold is true or false, and true with drain only")
    bridge = request.get("bridge", False)
    if not isinstance(bridge, bool) or (bridge and command != RENEW_KEY):
        raise ValueError(f"bridge is true or false, and true with {RENEW_KEY} only")
    return command, site, float(timeout), hold, bridge


@attrs.frozen
class Caller:
    """The process at the other end. pid: 0 where the system does not report it (no SO_PEERCRED); then only the mode of
    the socket file restricts access."""

    pid: int = 0
    uid: int = 0

    @property
    def may_ask(self) -> bool:
        """Whether it runs as this process's user, or as root."""
        return not self.pid or self.uid in (os.getuid(), 0)

    def __str__(self) -> str:
        return f"process {self.pid} (user {self.uid})" if self.pid else "a process of this user"


def _caller_of(client: socket.socket) -> Caller:
    if not hasattr(socket, "SO_PEERCRED"):
        return Caller()
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return Caller(pid, uid)


class Clients:
    """Counts the open connections, in all and by process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: Counter[int] = Counter()

    def enter(self, pid: int) -> bool:
        """Count one more of a process; False: there are too many."""
        with self._lock:
            if self._of.total() >= CLIENTS or (pid and self._of[pid] >= CLIENTS_OF_PROCESS):
                return False
            self._of[pid] += 1
            return True

    def leave(self, pid: int) -> None:
        """Count one less."""
        with self._lock:
            self._of[pid] -= 1
            if not self._of[pid]:
                del self._of[pid]


def _send_line(client: socket.socket, facts: dict[str, Any]) -> None:
    client.sendall(json.dumps(facts).encode() + b"\n")


def _is_closed(client: socket.socket) -> bool:
    """Whether the other end closed the connection. A client of events sends nothing more, so readable means closed."""
    client.setblocking(False)                                # with a timeout, Python waits before it asks the system
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    finally:
        client.settimeout(IDLE_SECONDS)


def ask(path: str | os.PathLike[str], request: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Send a request to the member that listens at `path`; return its answer.

    Raises:
        ChannelError: no member listens there, or it did not answer in `timeout` seconds.
    """
    with contextlib.closing(_answers(path, request, timeout)) as answers:
        return next(answers)


def follow(path: str | os.PathLike[str]) -> Generator[dict[str, Any], None, None]:
    """The events of the member that listens at `path`, for as long as it runs; the first one is `following`.

    Raises:
        ChannelError: no member listens there, it did not answer, or it is in no group.
    """
    with contextlib.closing(_answers(path, {"command": "events"}, ANSWER_SLACK_SECONDS, forever=True)) as answers:
        first = next(answers)
        if not first["ok"]:
            raise ChannelError(first["error"])
        yield first
        yield from answers


def _answers(
    path: str | os.PathLike[str], request: dict[str, Any], timeout: float, forever: bool = False,
) -> Generator[dict[str, Any], None, None]:
    """The answer, and with `forever` each line after it, until the member closes the connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(timeout)
        try:
            client.connect(str(path))
            client.sendall(json.dumps(request).encode() + b"\n")
            lines = client.makefile("rb")
            line = lines.readline(ANSWER_BYTES)
        except TimeoutError:
            raise ChannelError(f"the member at {path} did not answer within {timeout:g} s") from None
        except OSError as error:
            raise ChannelError(f"no member listens at {path}: {error.strerror or error}") from None
        if not line:
            raise ChannelError(f"the member at {path} closed the connection: it runs as another user, or has "
                               f"{CLIENTS} connections already")
        yield _parsed_answer(line, path)
        if forever:
            client.settimeout(None)
            with contextlib.suppress(ConnectionError):
                for line in lines:
                    yield json.loads(line)


def _parsed_answer(line: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    """A first answer, of what may be no member."""
    with contextlib.suppress(ValueError, RecursionError):
        answer = json.loads(line)
        if isinstance(answer, dict) and isinstance(answer.get("ok"), bool):
            return answer
    raise ChannelError(f"what listens at {path} is no member: it answers with something else")
