"""No error of a socket, a resolver or the system about a destination ends or stalls a loop; it is counted by name."""
from __future__ import annotations

import errno
import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, process_time, sleep
from typing import Any

import pytest
import zmq

import jgroups_py as jg
from jgroups_py.model.counters import table
from jgroups_py.model.events import LinkDown, LinkUp, StreamClosed
from jgroups_py.model.name_resolution import parse_resolvers
from jgroups_py.model.outputs import LOCAL, OpenLink, OpenStream
from jgroups_py.model.text import is_ipv4
from jgroups_py.model.units import millis, seconds
from jgroups_py.runtime.sockets import destinations as places
from jgroups_py.runtime.sockets import links
from jgroups_py.runtime.sockets import listener as accepting
from jgroups_py.runtime.sockets.destinations import NAMES_KEPT, UNSENDABLE, Places, error_name
from jgroups_py.runtime.sockets.listener import share_of_descriptors
from jgroups_py.runtime.sockets.tcp import parse_hello
from jgroups_py.system.drops import LoggedCounters
from tests.runtime.helpers import eventually
from tests.runtime.test_links import B, two
from tests.runtime.test_sockets import bench
from tests.runtime.test_streams import two as streams

pytestmark = pytest.mark.real
__all__ = ["bench", "streams", "two"]

NO_TARGETS = [
    ("\0", 7), ("xn--\u0130\u2603", 7), ("a" * 70 + ".example", 7), ("no such host;", 7), ("", 7), ("127.0.0.1", 0),
    ("127.0.0.1", 70_000), ("::1", 7), ("255.255.255.255", 7), ("127.0.0.1", -1),
]


# --- targets --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("to", NO_TARGETS, ids=repr)
def test_a_target_that_is_none_is_a_datagram_lost_and_counted(bench, to):
    a, b = bench.udp(ip_mcast=False), bench.udp(ip_mcast=False)
    bench.send(a, to, b"lost")
    assert sum(number for name, number in a.sockets.counters.items() if name.endswith("_dropped")) == 1
    bench.send(a, b.sockets.physical, b"found")
    eventually(lambda: b.frames)
    assert b.datas() == [b"found"]


@pytest.mark.parametrize("to", NO_TARGETS, ids=repr)
def test_a_target_that_is_none_is_a_frame_lost_and_counted_over_tcp(bench, to):
    a, b = bench.tcp(), bench.tcp()
    bench.send(a, to, b"lost")
    bench.send(a, b.sockets.physical, b"found")
    eventually(lambda: b.frames)
    assert b.datas() == [b"found"]
    dropped = {name for name in a.sockets.counters if name.endswith("_dropped")}
    assert dropped or to[0] in ("255.255.255.255", "::1")    # ZeroMQ tries to connect there, for ever


@pytest.mark.parametrize("to", NO_TARGETS, ids=repr)
def test_a_target_that_is_none_is_a_link_that_is_down(two, to):
    two.run(lambda: two.a.open(OpenLink(LOCAL, 7, to, seconds(2))))
    eventually(lambda: two.events_a)
    assert isinstance(two.events_a[0], LinkDown)


@pytest.mark.parametrize("to", NO_TARGETS, ids=repr)
def test_a_target_that_is_none_is_a_stream_that_is_closed(streams, to):
    streams.run(lambda: streams.a.open(OpenStream(LOCAL, 1, to)))
    eventually(lambda: streams.events_a)
    (closed,) = streams.events_a
    assert isinstance(closed, StreamClosed)
    assert closed.error


class Failing:
    """A socket whose every call raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def sendmsg(self, *_: object) -> None:
        raise self.error

    send = get = sendmsg


ERRORS = [OSError(errno.ENETUNREACH, "unreachable"), OSError("without a number"), ValueError("v"), TypeError("t"),
          UnicodeError("u"), OverflowError("o"), struct.error("s"), zmq.ZMQError(errno.EINVAL)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_socket_raises_is_counted_by_name_and_noted_once(bench, error, monkeypatch):
    for made in (bench.udp(ip_mcast=False), bench.tcp()):
        target = bench.udp(ip_mcast=False).sockets.physical
        if hasattr(made.sockets, "_unicast"):
            real, made.sockets._unicast = made.sockets._unicast, Failing(error)
            for _ in range(2):
                bench.send(made, target, b"lost")
            made.sockets._unicast = real
        else:
            monkeypatch.setattr(made.sockets, "_dealer", lambda to: Failing(error).send())
            for _ in range(2):
                bench.send(made, target, b"lost")
        assert made.sockets.counters == {f"send_{error_name(error)}_dropped": 2}
        assert len([text for level, text in made.notes if level == "warning"]) == 1


def test_a_bug_of_this_package_is_not_among_what_sockets_raise():
    for kind in (AssertionError, KeyError, AttributeError, IndexError, NameError):
        assert not issubclass(kind, UNSENDABLE)


def test_a_bug_in_the_core_still_closes_the_channel_with_the_reason(monkeypatch):
    channel = jg.JChannel("udp", name="A", properties={"UDP.mcast_port": 45999, "UDP.ip_ttl": 0})
    channel.connect("floor-bug")

    def broken(*_: object) -> None:
        raise AssertionError("a digest is above what was sent")
    session = channel._session
    monkeypatch.setattr(session.host.node, "send", broken)
    channel.send(None, b"x")
    eventually(lambda: channel.state.name == "CLOSED")
    with pytest.raises(jg.ChannelClosedError, match="AssertionError: a digest is above"):
        channel.send(None, b"y")
    channel.close()


# --- names of hosts -------------------------------------------------------------------------------------------------

class Slow:
    """getaddrinfo of a name server that answers only when the test lets it."""

    def __init__(self) -> None:
        self.real = socket.getaddrinfo
        self.go_on = threading.Event()
        self.asked: list[str] = []
        self.threads: list[str] = []

    def __call__(self, host: str, *_: Any, **__: Any) -> Any:
        if is_ipv4(host):                                    # bind_addr
            return self.real(host, *_, **__)
        self.asked.append(host)
        self.threads.append(threading.current_thread().name)
        assert self.go_on.wait(5)
        return [(socket.AF_INET, socket.SOCK_DGRAM, 0, "", ("127.0.0.1", 0))]


@pytest.fixture
def slow(monkeypatch) -> Iterator[Slow]:
    made = Slow()
    monkeypatch.setattr("jgroups_py.runtime.name_resolution.resolvers.socket.getaddrinfo", made)
    yield made
    made.go_on.set()


@pytest.mark.parametrize("kind", ["udp", "tcp"])
def test_a_name_is_resolved_while_the_loop_goes_on_and_then_used(bench, slow, kind):
    open_one: Callable[..., object] = getattr(bench, kind)
    a, b = (open_one(**({"ip_mcast": False} if kind == "udp" else {})) for _ in range(2))
    named = ("b.example", b.sockets.physical[1])
    bench.send(a, named, b"too early")                       # returns although no server answers
    assert a.sockets.counters["name_unresolved_dropped"] == 1
    bench.send(a, b.sockets.physical, b"meanwhile")
    eventually(lambda: b.frames)
    slow.go_on.set()

    def arrived() -> bool:
        bench.send(a, named, b"by name")
        return b"by name" in b.datas()
    eventually(arrived)
    assert slow.asked == ["b.example"]
    assert slow.threads == ["jgroups-resolver"]


def test_names_from_non_members_take_bounded_room_and_bounded_questions(slow):
    counters = LoggedCounters(table(Places.COUNTERS))
    found = Places(counters)
    for number in range(10 * NAMES_KEPT):
        assert found.of((f"h{number}.example", 7)) is None
    assert len(found._names) == NAMES_KEPT
    assert len(found._resolving_names) <= NAMES_KEPT
    assert counters == {"name_unresolved_dropped": 10 * NAMES_KEPT}


def test_a_name_is_resolved_again_after_a_while_and_kept_while_no_resolver_answers():
    now_ns, counters = [0], LoggedCounters(table(Places.COUNTERS))
    found = Places(counters, parse_resolvers("static:b=10.0.0.7"), lambda: now_ns[0])
    to = ("b", 7800)
    eventually(lambda: found.of(to) == ("10.0.0.7", 7800))
    found._chain = parse_resolvers("static:c=10.0.0.8")      # it moved, and no other resolver has it
    now_ns[0] = places.FOUND_NS + 1
    assert found.of(to) == ("10.0.0.7", 7800)
    eventually(lambda: not found.looks_for(to))
    assert found.of(to) == ("10.0.0.7", 7800)


@pytest.mark.parametrize("hello", ["JP1aaaa\0:7", "JP1aaaano such host;:7", "JP1aaaa127.0.0.1:0", "JP1aaaaa b:7"])
def test_a_connection_whose_hello_has_no_valid_place_is_refused(hello):
    assert parse_hello(hello.encode()) is None


def test_peers_beyond_the_limit_make_room_and_those_in_use_stay(bench):
    a, b = bench.tcp(), bench.tcp()
    a.sockets._most_peers = 16
    bench.send(a, b.sockets.physical, b"first")
    for number in range(64):
        bench.send(a, ("127.0.0.1", 20_000 + number), b"to a closed port")
        bench.send(a, b.sockets.physical, b"in use")
    eventually(lambda: len(b.frames) == 65)
    assert len(a.sockets._peers) <= 16
    assert a.sockets.counters["peers_evicted"] >= 48
    assert b.sockets.physical in a.sockets._peers


# --- listeners ------------------------------------------------------------------------------------------------------

def test_a_listener_takes_a_quarter_of_the_descriptors(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    assert share_of_descriptors(1024) == 64
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert share_of_descriptors(1024) == 1024


def test_a_link_that_does_not_knock_is_closed_after_a_while(two, monkeypatch):
    monkeypatch.setattr(links, "SILENT_NS", millis(100))
    where = two.listen()
    two.open(where)
    with socket.create_connection(where) as silent:
        silent.settimeout(5)
        assert silent.recv(64) == B
        assert silent.recv(64) == b""
    assert two.b.counters == {"silent_links_closed": 1}
    assert two.events_a == [LinkUp(7, B)]                      # a connection with a valid hello stays


def test_silent_links_make_room_for_those_that_knock(two):
    two.b._most_accepted = 8
    where = two.listen()
    crowd = [socket.create_connection(where) for _ in range(40)]
    two.open(where)
    eventually(lambda: two.events_a)
    assert two.events_a == [LinkUp(7, B)]
    more = [socket.create_connection(where) for _ in range(40)]
    eventually(lambda: two.b.counters.get("silent_links_closed", 0) >= 73 - 1)
    assert len(two.b._accepted) <= 8
    assert two.events_a == [LinkUp(7, B)]                      # and it is not closed for the next ones
    for sock in (*crowd, *more):
        sock.close()


def test_when_all_links_have_knocked_the_next_one_is_refused(two):
    two.b._most_accepted = 8
    where = two.listen()
    crowd = [socket.create_connection(where) for _ in range(8)]
    for sock in crowd:
        sock.send(links.KNOCK)
    eventually(lambda: len(two.b._accepted) == 8)
    with socket.create_connection(where) as last:
        last.settimeout(5)
        assert last.recv(64) == b""
    assert two.b.counters == {"links_refused": 1}
    for sock in crowd:
        sock.close()


@contextmanager
def descriptors(number: int) -> Iterator[None]:
    """At most `number` more descriptors than are open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as probe:
        resource.setrlimit(resource.RLIMIT_NOFILE, (probe.fileno() + number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_descriptors_a_listener_rests_and_goes_on_afterwards(two):
    where = two.listen()
    with descriptors(1), socket.socket() as waiting:
        waiting.connect(where)
        eventually(lambda: two.b.counters.get("accept_EMFILE"))
        began, cpu = monotonic(), process_time()
        sleep(0.5)
        spent, took = process_time() - cpu, monotonic() - began
        assert two.b.counters["accept_EMFILE"] <= 2 + took / (accepting.REST_NS / 1e9)
        assert spent < 0.5 * took
    with socket.create_connection(where) as later:
        later.settimeout(5)
        assert later.recv(64) == B


def test_a_link_that_gets_no_descriptor_is_down(two):
    where = two.listen()
    with descriptors(0):
        two.open(where)
        eventually(lambda: two.events_a)
    assert two.events_a == [LinkDown(7, refused=False)]
    assert two.a.counters == {"connect_EMFILE": 1}


