"""Topics on real channels: threads and asyncio."""
from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

import jgroups_py as jg
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.config.load import load
from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.events import Event
from jgroups_py.protocols import KNOWN
from tests.integration.members import free_ports

pytestmark = pytest.mark.real


PORTS = free_ports("udp")


def stack(topics: str) -> StackSpec:
    """The shipped udp.xml with TOPICS on top, for one group without other sites."""
    spec = load("udp", PORTS)
    return StackSpec((*spec.layers, LayerSpec("TOPICS", KNOWN["TOPICS"].load().Config(interests=topics))), "test")


def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


def test_a_channel_gets_what_it_subscribes_to() -> None:
    got: list[tuple[str | None, bytes]] = []
    with jg.JChannel(stack("*"), "A") as a, jg.JChannel(stack(""), "B") as b:
        b.receiver = lambda message: got.append((message.topic, message.payload))
        b.subscribe("orders")                            # before it connects
        a.connect("topics")
        b.connect("topics")
        a.send(None, b"1", topic="orders")
        a.send(jg.Message(payload=b"2", topic=7, headers={200: b"kept"}))
        a.send(None, b"3")
        until(lambda: len(got) == 2)
        b.unsubscribe("orders")
        b.subscribe(7)
        until(lambda: b.stats()["TOPICS"]["filtered"] == 1)
        a.send(None, b"4", topic="orders")
        a.send_batch(None, [b"5"], topic=7)
        until(lambda: len(got) == 3)
        assert got == [("orders", b"1"), (None, b"3"), ("7", b"5")]
        assert str(b.interest) == "7"
        with pytest.raises(ValueError, match="to one member has no topic"):
            a.send(b.address, b"", topic="orders")
        with pytest.raises(ValueError, match="this channel subscribes to all topics"):
            a.unsubscribe("orders")


class CallOrder:
    """Stands in for a node: which of its methods are called, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def inject(self, event: Event, now_ns: int) -> None:
        self.calls.append(type(event).__name__)

    def receive(self, frames: object, now_ns: int, net: int) -> None:
        self.calls.append("frames")


def test_frames_that_are_read_after_subscribe_meet_the_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another member may send as soon as `subscribe` has returned; the round that reads it may have begun before."""
    with jg.JChannel(stack(""), "A") as channel:
        channel.connect("topics")
        host, node = channel.connection().host, CallOrder()
        with host.loop._step, monkeypatch.context() as patched:          # the round of the I/O thread waits
            patched.setattr(host, "node", node)
            channel.subscribe("orders")
            host._received(0, ())
        assert node.calls == ["Subscribe", "frames"]


def test_topics_without_the_protocol_are_refused() -> None:
    channel = jg.JChannel("udp", properties=PORTS)
    with pytest.raises(jg.ChannelError, match="need the protocol TOPICS"):
        channel.subscribe("orders")


def test_an_async_channel_has_topics_too() -> None:
    async def run() -> list[tuple[str | None, bytes]]:
        async with AsyncChannel(stack("orders"), "C") as channel:
            await channel.connect("topics of asyncio")
            await channel.send(None, b"1", topic="orders")
            await channel.send(None, b"2", topic="prices")
            await channel.send(None, b"3")
            got = []
            async for message in channel:
                got.append((message.topic, message.payload))
                if len(got) == 2:
                    return got
            return got

    assert asyncio.run(run()) == [("orders", b"1"), (None, b"3")]
