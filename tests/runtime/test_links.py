"""FD_SOCK's connections, on the loopback interface."""
from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from jgroups_py.model.events import Event, LinkDown, LinkUp, Listening
from jgroups_py.model.outputs import LOCAL, Listen, OpenLink
from jgroups_py.model.units import millis, seconds
from jgroups_py.runtime.sockets.links import Links
from tests.runtime.helpers import OnLoop, eventually

pytestmark = pytest.mark.real
A, B = b"a" * 16, b"b" * 16
TCP_REPAIR = 19                             # Linux: a socket in this mode closes without a word to the other end


class Two(OnLoop):
    """A opens links to B's listener."""

    def __init__(self) -> None:
        super().__init__()
        self.events_a: list[Event] = []
        self.events_b: list[Event] = []
        self.a = Links(self.loop, A, self.events_a.append)
        self.b = Links(self.loop, B, self.events_b.append)

    def listen(self) -> tuple[str, int]:
        self.run(lambda: self.b.listen(Listen(LOCAL, "127.0.0.1", 0, 0)))
        listening = self.events_b[-1]
        assert isinstance(listening, Listening)
        return listening.physical

    def open(self, to: tuple[str, int], number: int = 7, timeout_ns: int = seconds(5)) -> None:
        self.run(lambda: self.a.open(OpenLink(LOCAL, number, to, timeout_ns)))

    def close(self) -> None:
        self.run(lambda: self.a.close(True))
        self.run(lambda: self.b.close(True))
        super().close()


@pytest.fixture
def two() -> Iterator[Two]:
    made = Two()
    yield made
    made.close()
    assert made.host.errors == []


def test_a_link_names_the_member_at_the_other_end(two):
    two.open(two.listen())
    eventually(lambda: two.events_a)
    assert two.events_a == [LinkUp(7, B)]


def test_a_link_to_a_port_without_a_listener_is_refused(two):
    where = two.listen()
    two.run(lambda: two.b.close(True))
    two.open(where)
    eventually(lambda: two.events_a)
    assert two.events_a == [LinkDown(7, refused=True)]


def test_a_broken_link_is_reported_as_not_graceful(two):
    two.open(two.listen())
    eventually(lambda: two.events_a)
    two.run(lambda: two.b.close(graceful=False))
    eventually(lambda: len(two.events_a) == 2)
    assert two.events_a[1] == LinkDown(7, refused=False, graceful=False)


def test_goodbye_makes_the_end_of_a_link_graceful(two):
    two.open(two.listen())
    eventually(lambda: two.events_a)
    two.run(lambda: two.b.close(graceful=True))
    eventually(lambda: len(two.events_a) == 2)
    assert two.events_a[1] == LinkDown(7, refused=False, graceful=True)


def test_a_listener_that_never_greets_is_down_after_the_timeout(two):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        two.open(mute.getsockname(), timeout_ns=millis(30))
        eventually(lambda: two.events_a)
    assert two.events_a == [LinkDown(7, refused=False)]


def test_a_listener_that_goes_without_a_word_while_the_link_is_made_is_found_out_before_the_timeout(two):
    """Linux leaves a few connections so that are made while their listener's process is killed."""
    with socket.create_server(("127.0.0.1", 0)) as dying:

        def open_and_vanish() -> None:
            two.a.open(OpenLink(LOCAL, 7, dying.getsockname(), seconds(600)))
            end, _ = dying.accept()
            with end:
                try:
                    end.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
                except PermissionError:
                    pytest.fail("only root may take a socket away without a word to its other end: run this as root")

        two.run(open_and_vanish)
        eventually(lambda: two.events_a)
    assert two.events_a == [LinkDown(7, refused=False)]


def test_a_request_for_a_link_that_is_dropped_without_a_word_is_made_again(two):
    """As Linux drops those that come while a queue is full, and a few while their listener's process is killed. It
    would ask again itself after a second; the timeout is below that."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as queued:
        queued.connect(full.getsockname())                   # one more than the backlog fits the queue
        two.open(full.getsockname(), timeout_ns=millis(900))
        first, _ = full.accept()
        second, _ = full.accept()
        with first, second:
            second.sendall(B)
            eventually(lambda: two.events_a)
    assert two.events_a[0] == LinkUp(7, B)


def test_a_link_that_its_own_side_closes_reports_nothing(two):
    two.open(two.listen())
    eventually(lambda: two.events_a)
    two.run(lambda: two.a.close_link(7))
    two.run(lambda: two.b.close(True))
    two.run(lambda: None)
    assert two.events_a == [LinkUp(7, B)]


def test_bytes_over_a_link_are_counted_and_ignored(two):
    with socket.create_connection(two.listen()) as outside:
        outside.sendall(bytes(range(256)) * 1000)
        eventually(lambda: two.b.counters.get("stray_bytes_dropped", 0) == 256_000)
        assert outside.recv(64) == B


def test_links_between_members_carry_no_stray_bytes(two):
    two.open(two.listen())
    eventually(lambda: two.events_a)
    two.run(lambda: None)
    assert not two.a.counters
    assert not two.b.counters


def test_an_address_that_is_none_is_a_link_that_is_down(two):
    two.open(("no.such.host.invalid", 70_000))
    eventually(lambda: two.events_a)
    assert two.events_a == [LinkDown(7, refused=False)]
