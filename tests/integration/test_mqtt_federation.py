"""Two brokers on loopback, joined by a group over TCP: real sockets, real time."""
from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from random import Random
from time import monotonic_ns, time_ns

import attrs

from jgroups_py.aio import AsyncChannel
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.codec.packets import PubAckPacket, PublishPacket, ReasonCode
from jgroups_py.blocks.mqtt.federation.channel_link import ChannelLink
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.server.listen import ListenAddress
from jgroups_py.blocks.mqtt.server.server import MqttServer
from tests.integration.members import free_ports
from tests.runtime.mqtt.kit import Client

PATIENCE_SECONDS = 60


@attrs.define
class Broker:
    """A server, its federation and its channel."""

    name: str
    core: FederationCore
    server: MqttServer
    channel: AsyncChannel

    @property
    def port(self) -> int:
        return self.server.port


async def broker(stack: AsyncExitStack, name: str, properties: dict[str, object], **options: object) -> Broker:
    core = FederationCore(FederationOptions(name=name), Random(name), now_ns=monotonic_ns(),
                          wall_offset_ns=time_ns() - monotonic_ns())
    server = MqttServer(BrokerOptions(node_name=name, sys_interval_s=0, **options), [ListenAddress("127.0.0.1", 0)],
                        federation=core)
    core.attach(server.broker)
    channel = await stack.enter_async_context(AsyncChannel("tcp", name, properties))
    link = ChannelLink(channel, core, server.settle)
    stack.callback(link.close)
    await channel.connect("brokers")
    await stack.enter_async_context(server)
    return Broker(name, core, server, channel)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


async def pair(stack: AsyncExitStack) -> tuple[Broker, Broker]:
    properties = {"bind_addr": "127.0.0.1", **free_ports("tcp")}
    one = await broker(stack, "node1", properties)
    two = await broker(stack, "node2", properties)
    await until(lambda: all(len(each.core.peers) == 1 for each in (one, two)))
    return one, two


def run(body: Callable[[AsyncExitStack], object]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), AsyncExitStack() as stack:
            await body(stack)                            # type: ignore[misc]
    asyncio.run(whole())


def test_the_quick_start_and_ten_thousand_messages():
    async def body(stack: AsyncExitStack) -> None:
        one, two = await pair(stack)
        subscriber = await stack.enter_async_context(Client(two.port))
        publisher = await stack.enter_async_context(Client(one.port))
        await subscriber.connect("sub")
        await publisher.connect("pub")
        await subscriber.subscribe("topicA", 1)
        await until(lambda: "topicA" in one.core.interest_of_peers.peers["node2"].filters)
        publisher.write(PublishPacket("topicA", b"123", 1, packet_id=1))
        assert (await publisher.get(PubAckPacket)).reason is ReasonCode.SUCCESS
        assert (await subscriber.get(PublishPacket)).payload == b"123"
        assert two.core.counters["messages_received"] == 1, "PUBACK came after the peer had it"
        publisher.write(*[PublishPacket("nobody", b"x") for _ in range(1_000)])
        got: list[bytes] = []
        for number in range(10_000):
            if number % 500 == 0:
                publisher.write(*[PublishPacket("topicA", b"%d" % each) for each in range(number, number + 500)])
            got.append((await subscriber.get(PublishPacket)).payload)
        assert got == [b"%d" % number for number in range(10_000)]
        assert one.core.counters["messages_sent"] == 10_001
    run(body)


def test_a_retained_message_and_a_will_reach_the_other_node():
    async def body(stack: AsyncExitStack) -> None:
        one, two = await pair(stack)
        publisher = await stack.enter_async_context(Client(one.port))
        await publisher.connect("pub")
        publisher.write(PublishPacket("kept", b"value", 1, retain=True, packet_id=1))
        await publisher.get(PubAckPacket)
        await until(lambda: len(two.server.broker.router.retained) == 1)
        late = await stack.enter_async_context(Client(two.port))
        await late.connect("late")
        await late.subscribe("#")
        message = await late.get(PublishPacket)
        assert (message.payload, message.retain) == (b"value", True)
    run(body)


def test_a_node_that_ends_and_comes_back_is_a_peer_again():
    async def body(stack: AsyncExitStack) -> None:
        properties = {"bind_addr": "127.0.0.1", **free_ports("tcp")}
        one = await broker(stack, "node1", properties)
        async with AsyncExitStack() as first:
            await broker(first, "node2", properties)
            await until(lambda: "node2" in one.core.peers and one.core.peers["node2"].is_up)
        await until(lambda: not one.core.peers["node2"].is_up)
        two = await broker(stack, "node2", properties)
        await until(lambda: one.core.peers["node2"].is_up)
        subscriber = await stack.enter_async_context(Client(two.port))
        publisher = await stack.enter_async_context(Client(one.port))
        await subscriber.connect("sub")
        await publisher.connect("pub")
        await subscriber.subscribe("t", 1)
        await until(lambda: "t" in one.core.interest_of_peers.peers["node2"].filters)
        publisher.write(PublishPacket("t", b"again", 1, packet_id=1))
        assert (await subscriber.get(PublishPacket)).payload == b"again"
    run(body)
