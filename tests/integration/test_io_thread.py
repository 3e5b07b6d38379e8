"""Callbacks that send, ask and wait, on the packaged stacks."""
from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

import jgroups_py as jg
from jgroups_py.blocks.rpc import Rpc
from tests.integration.members import free_ports
from tests.runtime.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]
STACKS = ("udp", "tcp")


@pytest.mark.parametrize("stack", STACKS)
def test_a_callback_may_send_more_than_credits_and_queue_allow(stack):
    properties, received, sent = free_ports(stack), [0], threading.Event()

    def flood(message: jg.Message) -> None:
        for _ in range(400):
            a.send(b.address, bytes(50_000))
        sent.set()

    def count(message: jg.Message) -> None:
        received[0] += len(message.payload)

    with jg.JChannel(stack, "A", properties, flood) as a, jg.JChannel(stack, "B", properties, count) as b:
        a.connect("io")
        b.connect("io")
        b.send(a.address, b"go")
        assert sent.wait(30)
        eventually(lambda: received[0] == 400 * 50_000)


@pytest.mark.parametrize("stack", STACKS)
def test_two_channels_of_one_process_send_each_other_requests_inside_callbacks(stack):
    properties, answers, rounds = free_ports(stack), dict[str, list[bytes]](), 50

    def asking(mine: str, other: int) -> None:
        def receive(message: jg.Message) -> None:
            if message.payload == mine.encode():
                answers.setdefault(mine, []).append(rpcs[mine].request(channels[other].address, b"?", timeout=120))
        channels[1 - other].receiver = receive

    with ExitStack() as opened:
        channels = [opened.enter_context(jg.JChannel(stack, name, properties)) for name in "AB"]
        rpcs = {channel.name: Rpc(channel, lambda request: request.payload) for channel in channels}
        asking("A", 1)
        asking("B", 0)
        for channel in channels:
            channel.connect("io")
        for _ in range(rounds):                              # in turn: a callback that waits for an answer gives none
            for name in "AB":
                before = len(answers.get(name, []))
                channels[0].send(None, name.encode())
                eventually(lambda name=name, before=before: len(answers.get(name, [])) > before)
    assert answers == {"A": [b"?"] * rounds, "B": [b"?"] * rounds}


@pytest.mark.parametrize("stack", STACKS)
def test_a_thread_that_asks_again_and_again_keeps_no_callback_waiting(stack):
    """It borrows the loop for its answers; what comes for the receiver meanwhile is the channel's thread's."""
    properties, threads, got = free_ports(stack), dict[int, None](), list[int]()

    def receive(message: jg.Message) -> None:
        threads[threading.get_ident()] = None
        got.append(int.from_bytes(message.payload, "big"))

    with jg.JChannel(stack, "A", properties, receive) as a, jg.JChannel(stack, "B", properties) as b:
        asking, answering = Rpc(a), Rpc(b, lambda request: request.payload)
        a.connect("io")
        b.connect("io")
        eventually(lambda: len(a.view.members) == 2)
        for number in range(300):
            assert asking.request(b.address, number.to_bytes(2, "big"), timeout=120) == number.to_bytes(2, "big")
            if number % 3 == 0:
                b.send(a.address, number.to_bytes(2, "big"))
        eventually(lambda: len(got) == 100)
        assert answering.stats["waiting"] == 0
    assert got == list(range(0, 300, 3))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_a_callback_that_sleeps_keeps_its_member_in_the_group():
    properties, slept = free_ports("udp"), threading.Event()
    layers = [("UDP", {"bind_addr": "127.0.0.1", "mcast_port": properties["mcast_port"]}), "PING",
              ("FD_ALL", {"timeout": "2s", "interval": "200ms"}), "VERIFY_SUSPECT", "NAKACK", "UNICAST", "STABLE",
              "GMS", "MFC", "UFC", "FRAG"]
    views: list[int] = []

    class Sleepy(jg.Receiver):
        def receive(self, message: jg.Message) -> None:
            threading.Event().wait(5.0)                      # more than twice what a silent member is given
            slept.set()

    class Watching(jg.Receiver):
        def view_accepted(self, view: jg.View) -> None:
            views.append(len(view.members))

    with jg.JChannel(layers, "A", receiver=Watching()) as a, jg.JChannel(layers, "B", receiver=Sleepy()) as b:
        a.connect("io")
        b.connect("io")
        a.send(b.address, b"sleep")
        assert slept.wait(120)
        assert views == [1, 2]
