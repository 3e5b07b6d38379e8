"""Byte streams of a transport, on the loopback interface."""
from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from jgroups_py.model.events import Event, StreamClosed, StreamData, StreamOpened
from jgroups_py.model.outputs import LOCAL, CloseStream, OpenStream, WriteStream
from jgroups_py.runtime.sockets.stack_sockets import both_kinds
from jgroups_py.runtime.sockets.streams import MAX_ACCEPTED, StreamSockets
from jgroups_py.runtime.sockets.udp import UdpSockets, bound_in_range
from jgroups_py.stack.datagrams import BothKinds
from tests.runtime.helpers import OnLoop, eventually

pytestmark = pytest.mark.real
LARGE = bytes(range(256)) * 20_000                         # far more than the buffers of two sockets


class Two(OnLoop):
    """A opens streams to B."""

    def __init__(self) -> None:
        super().__init__()
        self.events_a: list[Event] = []
        self.events_b: list[Event] = []
        listeners = [bound_in_range(socket.SOCK_STREAM, "127.0.0.1", 0, 0) for _ in range(2)]
        self.place = listeners[1].getsockname()
        self.a = self.run(lambda: StreamSockets(self.loop, listeners[0], self.events_a.append))
        self.b = self.run(lambda: StreamSockets(self.loop, listeners[1], self.events_b.append))

    def ask(self, data: bytes, number: int = 1) -> None:
        self.run(lambda: self.a.open(OpenStream(LOCAL, number, self.place)))
        self.run(lambda: self.a.write(WriteStream(LOCAL, number, data)))

    def close(self) -> None:
        self.run(self.a.close)
        self.run(self.b.close)
        super().close()


def bytes_in(events: list[Event]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, StreamData))


@pytest.fixture
def two() -> Iterator[Two]:
    made = Two()
    yield made
    made.close()
    assert made.host.errors == []


def test_what_is_written_arrives_and_so_does_the_answer_on_the_same_stream(two):
    two.ask(b"question")
    eventually(lambda: bytes_in(two.events_b) == b"question")
    opened = two.events_b[0]
    assert isinstance(opened, StreamOpened)
    assert opened.stream < 0
    two.run(lambda: two.b.write(WriteStream(LOCAL, opened.stream, b"answer")))
    two.run(lambda: two.b.close_stream(CloseStream(LOCAL, opened.stream)))
    eventually(lambda: two.events_a == [StreamData(1, b"answer"), StreamClosed(1)])


def test_a_stream_is_closed_once_all_that_was_written_is_sent(two):
    two.ask(LARGE)
    two.run(lambda: two.a.close_stream(CloseStream(LOCAL, 1)))
    eventually(lambda: len(bytes_in(two.events_b)) == len(LARGE))
    assert bytes_in(two.events_b) == LARGE
    eventually(lambda: two.events_b[-1] == StreamClosed(-1))
    assert two.events_a == []


def test_a_stream_that_is_closed_at_once_sends_no_more(two):
    def write_and_close() -> None:                         # in one step, so that the loop has sent nothing meanwhile
        two.a.write(WriteStream(LOCAL, 1, LARGE))
        two.a.close_stream(CloseStream(LOCAL, 1, at_once=True))

    two.ask(b"first")
    eventually(lambda: bytes_in(two.events_b) == b"first")
    two.run(write_and_close)
    eventually(lambda: isinstance(two.events_b[-1], StreamClosed))
    assert bytes_in(two.events_b) == b"first"


def test_a_stream_to_a_port_without_a_listener_is_refused(two):
    two.run(two.b.close)
    two.ask(b"hello?")
    eventually(lambda: two.events_a == [StreamClosed(1, "Connection refused")])
    two.b = two.run(lambda: StreamSockets(two.loop, bound_in_range(socket.SOCK_STREAM, "127.0.0.1", 0, 0), print))


def test_a_place_that_is_none_is_reported_like_a_refusal(two):
    two.run(lambda: two.a.open(OpenStream(LOCAL, 1, ("127.0.0.1", 70_000))))
    eventually(lambda: two.events_a == [StreamClosed(1, "Cannot assign requested address")])


def test_only_so_many_streams_of_others_are_taken(two):
    callers = [socket.create_connection(two.place) for _ in range(MAX_ACCEPTED + 2)]
    eventually(lambda: two.b.counters.get("streams_refused") == 2)
    assert sum(isinstance(event, StreamOpened) for event in two.events_b) == MAX_ACCEPTED
    for caller in callers:
        caller.close()


def opened(on_loop: OnLoop, config: BothKinds) -> tuple[socket.socket, UdpSockets]:
    return on_loop.run(lambda: both_kinds(
        config, lambda udp: UdpSockets(on_loop.loop, udp, b"m" * 16, print, lambda level, text: None)))


def test_datagrams_and_streams_share_a_port_that_is_free_for_both(two):
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taken.bind(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    with pytest.raises(OSError, match="no port is free for datagrams and streams"):
        opened(two, BothKinds(bind_port=port))
    listener, datagrams = opened(two, BothKinds(bind_port=port, port_range=20))
    assert listener.getsockname() == datagrams.physical
    assert datagrams.physical[1] != port
    listener.close()
    two.run(datagrams.close)
    taken.close()
