"""Checks between two hosts, one of which listens: whether TCP, the transport's port, datagrams of each size and
multicasts pass in both directions, and how far the clocks are apart.

Questions and answers go over a connection of TCP, a JSON object a line. The listener sends datagrams only to the other
end of that connection, and not more than came from there.
"""
from __future__ import annotations

import contextlib
import json
import secrets
import socket
import time
from collections.abc import Iterator
from typing import Any

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.name_resolution import is_address
from jgroups_py.model.text import place
from jgroups_py.ops.doctor.finding import BAD, OK, WARN, Diagnosis
from jgroups_py.ops.doctor.host import bound_host, local_address
from jgroups_py.runtime.sockets.interfaces import host_address, interface_number
from jgroups_py.runtime.sockets.ip import SocketAddress, family, socket_address, split_scope, version
from jgroups_py.runtime.sockets.multicast import join, send_from

PORT = 7599
CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 10.0
HEAR_SECONDS = 1.0
TRIES = 3
LINE_BYTES = 4096
SIZES = (500, 1400, 8900, 60_000)           # bytes of datagrams; Ethernet's 1500 and 9000 are between them
WORST_CLOCK_SECONDS = 1.0
TOKEN_CHARACTERS = 32
DATAGRAM_BYTES = 65_507


class ExaminationSockets:
    """A host's sockets for the examination: datagrams, and the stack's multicast group."""

    def __init__(self, spec: StackSpec) -> None:
        self.transport: Any = spec.layers[0].config
        self.host = bound_host(self.transport)
        self.interface = interface_number(self.host)
        self.is_tcp = spec.layers[0].name == "TCP"
        self.datagrams = socket.socket(family(self.host), socket.SOCK_DGRAM)
        self.datagrams.bind(local_address(self.host, 0))
        self.opened: list[socket.socket] = []                # the transport's port, where no member has it
        self.group: socket.socket | None = None
        if getattr(self.transport, "ip_mcast", False):
            group = self.transport.mcast_addr
            self.group = socket.socket(family(group), socket.SOCK_DGRAM)
            self.group.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.group.bind(self.address_of(group, self.transport.mcast_port))
            join(self.group, group, self.host, self.interface)
            send_from(self.datagrams, self.host, self.interface, self.transport.ip_ttl)

    def address_of(self, host: str, port: int) -> SocketAddress:
        """Another host's address as a socket takes it."""
        return socket_address(host, port, self.interface)

    def server(self, port: int) -> socket.socket:
        """A listener of TCP."""
        return socket.create_server(local_address(self.host, port), family=family(self.host))

    def connection(self, peer: str, port: int) -> socket.socket:
        """A connection to a host by address or name; a link-local address is on the link of this host's own."""
        address = split_scope(peer)[0] if is_address(peer) else host_address(peer, version(self.host))
        if address is None:
            raise OSError(f"{peer} has no address of IPv{version(self.host)}, which bind_addr has")
        made = socket.socket(family(address), socket.SOCK_STREAM)
        try:
            made.settimeout(CONNECT_SECONDS)
            if family(address) == family(self.host):
                made.bind(local_address(self.host, 0))
            made.connect(self.address_of(address, port))
        except OSError:
            made.close()
            raise
        return made

    def close(self) -> None:
        """Close them."""
        for each in (self.datagrams, *self.opened, *([] if self.group is None else [self.group])):
            each.close()

    def multicast(self, token: str) -> None:
        """Send a token to the group, several times. Errors are ignored: the other host then misses it."""
        for _ in range(TRIES):
            with contextlib.suppress(OSError):
                self.datagrams.sendto(token.encode(), self.address_of(self.transport.mcast_addr,
                                                                      self.transport.mcast_port))

    def hears(self, token: str) -> bool:
        """Whether a token comes from the group in HEAR_SECONDS."""
        return self.group is not None and _hears(self.group, token.encode())


def _hears(sock: socket.socket, wanted: bytes) -> bool:
    until = time.monotonic() + HEAR_SECONDS
    while (left := until - time.monotonic()) > 0:
        sock.settimeout(left)
        try:
            if sock.recv(DATAGRAM_BYTES).startswith(wanted):
                return True
        except OSError:
            continue                                         # nothing yet; or an error that a datagram before caused
    return False


class DoctorLine:
    """A connection with questions and answers, a JSON object a line."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(ANSWER_SECONDS)
        self.peer = str(connection.getpeername()[0])
        self._connection = connection
        self._lines = connection.makefile("rb")

    def say(self, **facts: Any) -> None:
        """Send."""
        self._connection.sendall(json.dumps(facts).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next line; {} at the end.

        Raises:
            ChannelError: it is no JSON object.
        """
        line = self._lines.readline(LINE_BYTES)
        try:
            found = json.loads(line) if line else {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ChannelError(f"{self.peer} does not speak the doctor's language")
        return found

    def ask(self, **facts: Any) -> dict[str, Any]:
        """Send a question and return the answer. Raises ChannelError: there is none."""
        try:
            self.say(**facts)
            return self.hear()
        except OSError as error:
            raise ChannelError(f"{self.peer} does not answer: {error.strerror or error}") from None


# --- the host that listens --------------------------------------------------------------------------------------------

def listen(spec: StackSpec, port: int, seconds: float) -> str:
    """Answer one doctor on another host; returns its address.

    Raises:
        ChannelError: none came in `seconds`. OSError: the port is taken.
    """
    sockets = ExaminationSockets(spec)
    with contextlib.closing(sockets), sockets.server(port) as listener:
        listener.settimeout(seconds)
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            raise ChannelError(f"no doctor came in {seconds:g} s") from None
        with connection:
            line = DoctorLine(connection)
            with contextlib.suppress(OSError):
                while question := line.hear():
                    line.say(**_answer(question, sockets, line.peer))
            return line.peer


def _answer(question: dict[str, Any], sockets: ExaminationSockets, peer: str) -> dict[str, Any]:
    match question:
        case {"ask": "clock"}:
            return {"clock": time.time()}
        case {"ask": "datagrams"}:
            return {"port": sockets.datagrams.getsockname()[1]}
        case {"ask": "datagram", "token": str(token), "port": int(port), "bytes": int(nbytes)} if _fits(token):
            heard = _hears(sockets.datagrams, token.encode())
            with contextlib.suppress(OSError, OverflowError):
                if heard and nbytes <= DATAGRAM_BYTES:
                    sockets.datagrams.sendto(token.encode().ljust(nbytes), sockets.address_of(peer, port))
            return {"heard": heard}
        case {"ask": "hear", "token": str(token)} if _fits(token):
            return {"heard": sockets.hears(token)}
        case {"ask": "multicast", "token": str(token)} if _fits(token) and sockets.group is not None:
            sockets.multicast(token)
            return {"sent": True}
        case {"ask": "port"}:
            return {"port": _transport_port(sockets)}
    return {"error": "unknown question"}


def _fits(token: str) -> bool:
    return len(token) == TOKEN_CHARACTERS


def _transport_port(sockets: ExaminationSockets) -> int:
    """The transport's port of TCP, opened unless a member has it; 0: it has none."""
    port = sockets.transport.bind_port if sockets.is_tcp else 0
    if port:
        with contextlib.suppress(OSError):
            sockets.opened.append(sockets.server(port))
    return int(port)


# --- the host that asks -----------------------------------------------------------------------------------------------

def examined(spec: StackSpec, peer: str, port: int) -> Iterator[Diagnosis]:
    """All findings between this host and one where `listen` runs."""
    sockets = ExaminationSockets(spec)
    with contextlib.closing(sockets):
        try:
            connection = sockets.connection(peer, port)
        except ConnectionRefusedError:
            yield Diagnosis(BAD, "peer", f"nothing listens at {place(peer, port)}",
                          "there: jgroups doctor STACK --listen")
            return
        except OSError as error:
            yield Diagnosis(BAD, "peer", f"no connection of TCP to {place(peer, port)}: {error.strerror or error}",
                          "is bind_addr right at both, is the host up, and does its firewall pass TCP?")
            return
        with connection:
            line = DoctorLine(connection)
            try:
                yield Diagnosis(OK, "peer", f"TCP to {place(peer, port)} passes")
                yield _clock(line)
                yield from _transport(line, sockets, peer)
                yield _datagrams(line, sockets)
                if sockets.group is not None:
                    yield from _multicasts(line, sockets)
            except ChannelError as error:
                yield Diagnosis(BAD, "peer", str(error))


def _clock(line: DoctorLine) -> Diagnosis:
    """How far the clocks are apart: the peer's time, less the middle of this host's times around the question."""
    best = (float("inf"), 0.0)
    for _ in range(TRIES):
        began = time.time()
        clock = _number(line.ask(ask="clock"), "clock")
        ended = time.time()
        best = min(best, (ended - began, clock - (began + ended) / 2))
    took, offset = best
    if abs(offset) > WORST_CLOCK_SECONDS:
        return Diagnosis(WARN, "clock", f"its clock is {offset:+.1f} s beside this one", "run a time service (chrony) "
                         "at both: entries that expire, and times in logs and records, are wrong by that")
    return Diagnosis(OK, "clock", f"its clock is {offset * 1000:+.1f} ms beside this one; there and back takes "
                   f"{took * 1000:.2f} ms")


def _number(answer: dict[str, Any], name: str) -> float:
    found = answer.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ChannelError("the doctor there gave no proper answer; is it of another version?")
    return found


def _transport(line: DoctorLine, sockets: ExaminationSockets, peer: str) -> Iterator[Diagnosis]:
    port = int(_number(line.ask(ask="port"), "port"))
    if not port:
        return
    try:
        sockets.connection(peer, port).close()
        yield Diagnosis(OK, "transport", f"TCP to the transport's port {place(peer, port)} passes")
    except OSError as error:
        yield Diagnosis(BAD, "transport", f"no connection of TCP to the transport's port {place(peer, port)}: "
                      f"{error.strerror or error}", "open it, and those of port_range above it, in the firewall")


def _datagrams(line: DoctorLine, sockets: ExaminationSockets) -> Diagnosis:
    """Datagrams of growing sizes, there and back, by IP fragments where they are needed."""
    where, passed = sockets.address_of(line.peer, int(_number(line.ask(ask="datagrams"), "port"))), 0
    for nbytes in SIZES:
        token = secrets.token_hex(TOKEN_CHARACTERS // 2)
        for _ in range(TRIES):
            with contextlib.suppress(OSError):
                sockets.datagrams.sendto(token.encode().ljust(nbytes), where)
        port = sockets.datagrams.getsockname()[1]
        there = line.ask(ask="datagram", token=token, port=port, bytes=nbytes).get("heard")
        if not there or not _hears(sockets.datagrams, token.encode()):
            break
        passed = nbytes
    if sockets.is_tcp:
        return Diagnosis(OK, "datagrams", f"up to {passed:,} bytes pass; TCP needs none")
    needed = min(sockets.transport.max_bundle_bytes, SIZES[-1])
    if not passed:
        return Diagnosis(BAD, "datagrams", "no datagram passes there and back", "do both firewalls pass UDP?")
    if passed < needed:
        larger = SIZES[SIZES.index(passed) + 1]
        return Diagnosis(BAD, "datagrams", f"{passed:,} bytes pass, {larger:,} do not; the largest frame has "
                       f"{sockets.transport.max_bundle_bytes:,}", f"max_bundle_size={passed}, and FRAG's "
                       "frag_size below it; or let IP fragments pass")
    return Diagnosis(OK, "datagrams", f"up to {passed:,} bytes pass")


def _multicasts(line: DoctorLine, sockets: ExaminationSockets) -> Iterator[Diagnosis]:
    group = place(sockets.transport.mcast_addr, sockets.transport.mcast_port)
    token = secrets.token_hex(TOKEN_CHARACTERS // 2)
    line.say(ask="hear", token=token)
    time.sleep(HEAR_SECONDS / 4)                             # it listens by now
    sockets.multicast(token)
    there = bool(line.hear().get("heard"))
    token = secrets.token_hex(TOKEN_CHARACTERS // 2)
    line.ask(ask="multicast", token=token)
    back = sockets.hears(token)
    remedy = ("ip_ttl=1 or more" if not sockets.transport.ip_ttl else "do switches pass IP multicasts (IGMP snooping "
              "without a querier does not), and firewalls UDP? Or use TCP with initial_hosts")
    for passes, way in ((there, "there"), (back, "back")):
        yield Diagnosis(OK, "multicast", f"{group} passes {way}") if passes else \
            Diagnosis(BAD, "multicast", f"no multicast to {group} passes {way}", remedy)
