"""FLOW on real sockets: a channel without enough receivers, and one whose receiver is too slow."""
from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

import jgroups_py as jg
from jgroups_py.model.errors import ReceiversMissingError
from tests.integration.members import free_ports
from tests.runtime.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]
MESSAGE = bytes(60_000)


class Listener(jg.Receiver):
    """Keeps the reported changes; keeps each message until `open` is set."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.got = 0
        self.skipped = 0
        self.connected: list[bool] = []

    def receive(self, message: jg.Message) -> None:
        self.open.wait(20)
        self.got += 1

    def messages_skipped(self, gap: object) -> None:
        self.skipped += gap.messages                          # type: ignore[attr-defined]

    def group_connected(self, connected: bool) -> None:
        self.connected.append(connected)


def test_send_raises_without_enough_receivers_and_works_once_they_are_there() -> None:
    properties = {**free_ports("flow"), "fc": "min,g:/1", "when_disconnected": "raise"}
    with ExitStack() as channels:
        a, b = (channels.enter_context(jg.JChannel("flow", name, properties, Listener())) for name in "AB")
        a.connect("flow")
        eventually(lambda: a.receiver.connected == [False])
        with pytest.raises(ReceiversMissingError, match="0 of at least 1"):
            a.send(None, b"no receiver is there")
        a.send(a.address, b"unicasts are not concerned")
        b.connect("flow")
        eventually(lambda: a.receiver.connected == [False, True])
        a.send(None, b"now")
        eventually(lambda: b.receiver.got == 1)


def test_with_max_a_blocked_receiver_stops_no_sender_and_its_loss_is_reported_to_it() -> None:
    properties = {**free_ports("flow"), "fc": "max", "window": "256K"}
    with ExitStack() as channels:
        a, b, c = (channels.enter_context(jg.JChannel("flow", name, properties, Listener())) for name in "ABC")
        a.discard_own_messages = True
        for channel in (a, b, c):
            channel.connect("flow")
        c.receiver.open.clear()
        for _ in range(400):                                  # 24 MB: far beyond what one can be behind
            a.send(None, MESSAGE, timeout=120)
        eventually(lambda: b.receiver.got == 400)
        assert c.receiver.got == 0
        c.receiver.open.set()
        eventually(lambda: c.receiver.got + c.receiver.skipped == 400)
        assert c.receiver.skipped > 100
