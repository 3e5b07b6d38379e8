"""GroupFederation on a channel of its own: what a broker's node is told when its group is gone."""
from __future__ import annotations

import asyncio
import json
import select
import socket
from random import Random
from time import monotonic_ns

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import ConnectPacket, ProtocolVersion
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.node.group import GroupFederation
from jgroups_py.blocks.mqtt.node.node import BrokerNode
from jgroups_py.blocks.mqtt.server.config import read_broker_file
from jgroups_py.blocks.mqtt.server.listen import ListenAddress
from jgroups_py.config.load import load
from tests.integration.members import free_ports

PATIENCE_SECONDS = 60


def test_a_channel_that_closes_itself_ends_the_node_and_a_leave_does_not():
    async def body() -> None:
        reasons: list[str] = []
        for is_killed in (True, False):
            core = FederationCore(FederationOptions(name="node1"), Random(1), now_ns=monotonic_ns())
            core.attach(Broker(BrokerOptions(sys_interval_s=0), Random(1), now_ns=monotonic_ns(), federation=core))
            federation = GroupFederation(core, load("tcp", free_ports("tcp")), "g", lambda: None, reasons.append)
            async with asyncio.timeout(PATIENCE_SECONDS), federation:
                assert [each["status"] for each in await federation.members()] == ["STATUS_ALIVE"]
                if is_killed:
                    federation.channel.connection().host.kill("a reason")
                    while not reasons:
                        await asyncio.sleep(0.01)
                else:
                    await federation.leave()
                    assert [each["status"] for each in await federation.members()] == ["STATUS_LEFT"]
        await asyncio.sleep(0.1)
        assert reasons == ["the channel of group 'g' is closed"]
    asyncio.run(body())


def test_clients_are_answered_once_the_group_is_joined(monkeypatch):
    """What is published at a node outside its group would match no filter of another node, and be acknowledged."""
    nodes: list[BrokerNode] = []
    clients: list[socket.socket] = []
    answered: list[bool] = []
    join = GroupFederation.start

    async def observed(federation: GroupFederation) -> None:
        clients.append(socket.create_connection(("127.0.0.1", nodes[0].server.port), PATIENCE_SECONDS))
        clients[0].sendall(encode(ConnectPacket("early", ProtocolVersion.MQTT_3_1_1), ProtocolVersion.MQTT_3_1_1))
        await join(federation)
        await asyncio.sleep(0.2)
        answered.append(bool(select.select(clients, [], [], 0)[0]))

    async def body() -> None:
        properties = [f"{name}={value}" for name, value in free_ports("tcp").items()]
        section = {"node_name": "node1", "stack": "tcp", "cluster": "g", "properties": properties}
        content = json.dumps({"plugin_order": ["federation"], "plugins": {"federation": section}})
        file, _ = read_broker_file(content, "node.yml")
        options = BrokerOptions(node_name="node1", sys_interval_s=0)
        async with asyncio.timeout(PATIENCE_SECONDS):
            nodes.append(BrokerNode(file, options, [ListenAddress("127.0.0.1", 0)]))
            async with nodes[0]:
                assert await asyncio.to_thread(clients[0].recv, 100) == bytes.fromhex("20020000")
    monkeypatch.setattr(GroupFederation, "start", observed)
    asyncio.run(body())
    clients[0].close()
    assert answered == [False]
