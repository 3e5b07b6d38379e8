"""GroupFederation on a channel of its own: what a broker's node is told when its group is gone."""
from __future__ import annotations

import asyncio
from random import Random
from time import monotonic_ns

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.node.group import GroupFederation
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
