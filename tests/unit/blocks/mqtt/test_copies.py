"""Sessions with copies at other nodes: their node is killed, and the client finds its session elsewhere."""
from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.blocks.mqtt.codec.packets import (
    PubAckPacket,
    SubAckPacket,
    SubscribePacket,
    Subscription,
)
from tests.unit.blocks.mqtt.federation_world import FederationWorld
from tests.unit.blocks.mqtt.test_handover import Roaming, numbered, roaming


def world(names: str = "ABC", copies: int = 1, **options: Any) -> FederationWorld:
    return FederationWorld(names, session_copies=copies, **options)


def subscribed(world: FederationWorld, name: str, filter: str = "a/+", qos: int = 1) -> Roaming:
    """A client at a node, whose subscription is acknowledged."""
    client = roaming(world, name, "me")
    client.send(SubscribePacket(1, (Subscription(filter, qos),)))
    world.run(0.2)
    assert client.answer(SubAckPacket).reasons[0] == qos
    return client


def publish(world: FederationWorld, name: str, count: int, first: int = 0, qos: int = 1) -> None:
    """Publish at a node; all is acknowledged."""
    publisher = world.client(name, f"publisher {first}")
    for number in range(first, first + count):
        publisher.publish("a/b", b"%d" % number, qos)
    world.run(0.3)
    assert sum(isinstance(each, PubAckPacket) for each in publisher.packets) == count or qos != 1


@pytest.mark.parametrize(("names", "copies"), [("AB", 1), ("ABC", 1), ("ABC", 2), ("ABCDE", 2)])
def test_a_client_finds_its_session_at_any_node_when_its_own_was_killed(names, copies):
    for home in names[1:]:
        w = world(names, copies)
        client = subscribed(w, "A")
        client.disconnect()
        publish(w, names[-1], 10)
        w.crash("A")
        connack = client.go(w, home, wait=3)
        assert connack is not None
        assert connack.session_present
        assert client.payloads() == numbered(0, 10)
