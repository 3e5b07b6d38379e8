"""A member that finds no others is told why."""
from __future__ import annotations

import socket
import threading

import pytest

import jgroups_py as jg
from jgroups_py.channel import session
from jgroups_py.model.units import millis, seconds
from jgroups_py.runtime.name_resolution import resolvers
from jgroups_py.system.free_ports import free_range

pytestmark = pytest.mark.real


class Reasons(jg.Receiver):
    def __init__(self) -> None:
        self.got: list[str] = []
        self.news, self.left, self.received = threading.Event(), threading.Event(), threading.Event()
        self.members = 0

    def view_accepted(self, view: jg.View) -> None:
        if len(view) < self.members:
            self.left.set()
        self.members = len(view)

    def receive(self, message: jg.Message) -> None:
        self.received.set()

    def alone(self, reason: str) -> None:
        self.got.append(reason)
        self.news.set()


@pytest.fixture
def properties(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setattr(session, "ALONE_NS", millis(300))
    return {"mcast_port": free_range()}


def test_a_founder_that_stays_alone_is_told_once_and_the_log_has_a_warning(
    properties: dict[str, object], caplog: pytest.LogCaptureFixture,
):
    receiver = Reasons()
    with jg.JChannel("udp", "A", properties, receiver) as channel:
        channel.connect("chat")
        assert receiver.news.wait(30)
    assert len(receiver.got) == 1
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [f"A@chat: no other member has been found: {receiver.got[0]}"]
    assert receiver.got[0].startswith("bind_addr is 127.0.0.1, so only members on this host can find it")


def test_a_founder_that_knows_no_address_for_a_name_is_told_which(
    properties: dict[str, object], monkeypatch: pytest.MonkeyPatch,
):
    def unknown(*_: object) -> None:
        raise socket.gaierror("unknown")
    monkeypatch.setattr(resolvers.socket, "getaddrinfo", unknown)
    receiver = Reasons()
    with jg.JChannel("tcp", "A", {"bind_port": 0, "initial_hosts": "chat-b[7800]"}, receiver) as channel:
        channel.connect("chat")
        assert receiver.news.wait(30)
    assert receiver.got[0].startswith("no address is known for chat-b (initial_hosts): check what the name server")


def test_a_member_that_is_left_alone_later_is_not_told(
    properties: dict[str, object], monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(session, "ALONE_NS", seconds(3600))  # the question is asked below, once both have been there
    receiver = Reasons()
    with jg.JChannel("udp", "A", properties, receiver) as channel:
        channel.connect("chat")
        with jg.JChannel("udp", "B", properties) as other:
            other.connect("chat")
        assert receiver.left.wait(30)
        connection = channel.connection()
        connection.call(connection._check_alone)
        channel.send(None, b"behind it")
        assert receiver.received.wait(30)
    assert receiver.got == [], "it had found another one; why that left is told by the view"
