"""Brokers on loopback, joined by a group over TCP or by two groups with RELAY: real sockets, real time."""
from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
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
from jgroups_py.system.free_ports import free_range
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


async def broker(
    stack: AsyncExitStack, name: str, properties: dict[str, object], kind: str = "tcp", **options: object,
) -> Broker:
    core = FederationCore(FederationOptions(name=name), Random(name), now_ns=monotonic_ns(),
                          wall_offset_ns=time_ns() - monotonic_ns())
    server = MqttServer(BrokerOptions(node_name=name, sys_interval_s=0, **options), [ListenAddress("127.0.0.1", 0)],
                        federation=core)
    core.attach(server.broker)
    channel = await stack.enter_async_context(AsyncChannel(kind, name, properties))
    link = ChannelLink(channel, core, server.settle)
    stack.callback(link.close)
    await channel.connect(f"brokers-{kind}")
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


def filters_of(broker: Broker, peer: str) -> Container[str]:
    """What a broker knows of a peer's filters; nothing before the first ones have come."""
    known = broker.core.interest_of_peers.peers.get(peer)
    return () if known is None else known.filters


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
        await until(lambda: "topicA" in filters_of(one, "node2"))
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
        await until(lambda: "t" in filters_of(one, "node2"))
        publisher.write(PublishPacket("t", b"again", 1, packet_id=1))
        assert (await subscriber.get(PublishPacket)).payload == b"again"
    run(body)


async def two_sites(stack: AsyncExitStack) -> list[Broker]:
    """nyc1, nyc2, sfo1, sfo2, each of which knows what the other site wants."""
    first = free_range(4)
    bridge = {"bind_addr": "127.0.0.1", "bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]",
              "bridge_port_range": 3}
    found = []
    for kind in ("nyc", "sfo"):
        ports = free_ports("udp")
        for number in (1, 2):
            found.append(await broker(stack, f"{kind}{number}", {**bridge, **ports}, kind))
    await until(lambda: all(len(each.core.peers) == 1 and [site.incarnation for site in each.core.sites.others.values()]
                            and all(site.incarnation for site in each.core.sites.others.values()) for each in found))
    return found


def test_two_sites_act_as_one_and_puback_says_that_the_own_site_has_it():
    async def body(stack: AsyncExitStack) -> None:
        nyc1, nyc2, sfo1, sfo2 = await two_sites(stack)
        publisher = await stack.enter_async_context(Client(nyc2.port))
        await publisher.connect("pub")
        subscribers = []
        for each in (nyc1, sfo1, sfo2):
            client = await stack.enter_async_context(Client(each.port))
            await client.connect(f"sub at {each.name}")
            await client.subscribe("t", 1)
            subscribers.append(client)
        await until(lambda: "t" in nyc2.core.sites.others["SFO"].filters
                    and "t" in filters_of(nyc2, "nyc1"))
        for number in range(200):
            publisher.write(PublishPacket("t", b"%d" % number, 1, packet_id=number + 1))
            publisher.write(PublishPacket("nobody", b"x", 1, packet_id=number + 1_001))
        for _ in range(400):
            answer = await publisher.get(PubAckPacket)
            assert answer.reason in (ReasonCode.SUCCESS, ReasonCode.NO_MATCHING_SUBSCRIBERS)
        for client in subscribers:
            got = []
            while len(got) < 200:
                message = await client.get(PublishPacket)
                client.write(PubAckPacket(message.packet_id))
                got.append(message.payload)
            assert got == [b"%d" % number for number in range(200)]
        assert nyc2.core.counters["site_messages_sent"] == 200, "nothing of what nobody wants"
        assert sfo1.core.counters["site_messages_received"] == sfo2.core.counters["site_messages_received"] == 200
        assert nyc1.core.counters["site_messages_received"] == 0
        publisher.write(PublishPacket("kept", b"value", 1, retain=True, packet_id=9))
        await publisher.get(PubAckPacket)
        await until(lambda: len(sfo2.server.broker.router.retained) == 1)
    run(body)
