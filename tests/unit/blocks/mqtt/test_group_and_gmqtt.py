"""Nodes in a group and in gmqtt's federation at once, among models of gmqttd: each message comes once."""
from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.broker.publication import SECOND
from jgroups_py.blocks.mqtt.codec.packets import PubAckPacket, PublishPacket
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.node.both import GroupAndGmqtt
from tests.unit.blocks.mqtt.clients import Client
from tests.unit.blocks.mqtt.gmqttd_model import LATENCY_NS, Model, Network, Ours

TICK_NS = SECOND // 4


class Joint(Ours):
    """A broker of ours in both. Clients take it for their bench."""

    def __init__(self, network: Network, name: str, **options: object) -> None:
        super().__init__(network, name, seed=len(network.nodes))
        rng = Random(name)
        self.core = FederationCore(FederationOptions(name=name), rng, now_ns=network.now_ns)
        self.both = GroupAndGmqtt(self.core, self.link)
        self.broker = Broker(
            BrokerOptions(**{"sys_interval_s": 0, "node_name": name, **options}), rng,  # type: ignore[arg-type]
            now_ns=network.now_ns, federation=self.both, retained=self.retained)
        self.both.attach(self.broker)
        self.clients: dict[int, Client] = {}
        self.numbers = 0
        self.group: dict[str, Joint] = {}
        self.tick()

    @property
    def now_ns(self) -> int:
        return self.network.now_ns

    def tick(self) -> None:
        self.core.tick(self.now_ns)
        self.broker.tick(self.now_ns)
        self.network.later(TICK_NS, self.tick)

    def joined(self, name: str) -> None:
        if not isinstance(self.network.nodes[name], Joint):    # as grpc.py, by the tag
            super().joined(name)

    def view(self, nodes: list[Joint]) -> None:
        """The group is these."""
        self.group = {node.name: node for node in nodes if node is not self}
        self.core.peers_changed(dict.fromkeys(self.group, 1), self.now_ns)

    def carry_out(self) -> None:
        super().carry_out()
        for each in self.core.drain(self.now_ns):
            for node in self.group.values() if each.name is None else [self.group[each.name]]:
                self.network.later(LATENCY_NS, lambda node=node, data=each.data: node.core.receive(  # type: ignore[misc]
                    self.name, data, node.now_ns))
        self.settle()

    def settle(self) -> None:
        while outputs := self.broker.drain():
            for output in outputs:
                if output.connection in self.clients:
                    self.clients[output.connection].take(output)

    def client(self, client_id: str) -> Client:
        made = Client(self, client_id, Client.DEFAULT)   # type: ignore[arg-type]
        made.connect()
        return made


def federation(models: int = 2, nodes: int = 2, **options: object) -> tuple[Network, list[Joint], list[Model]]:
    """Nodes of ours, in a group, and gmqttds; all greeted."""
    network = Network()
    ours = [Joint(network, f"ours{number}", **options) for number in range(1, nodes + 1)]
    theirs = [Model(network, f"node{number}") for number in range(1, models + 1)]
    for node in ours:
        node.view(ours)
    for name in network.nodes:
        network.up(name)
    network.run(3)
    return network, ours, theirs


def payloads(client: Client) -> list[bytes]:
    return [each.payload for each in client.messages]


def test_each_node_of_either_kind_gets_a_message_once():
    network, ours, theirs = federation()
    clients = [node.client(f"c{node.name}") for node in ours]
    for client in clients:
        client.subscribe("a/#", 1)
    for model in theirs:
        model.subscribe("a/#")
    network.run(1)
    publisher = ours[0].client("p")
    publisher.publish("a/b", b"ours", 1)
    theirs[0].publish("a/b", b"theirs")
    network.run(2)
    assert [sorted(payloads(client)) for client in clients] == [[b"ours", b"theirs"]] * 2
    assert [sorted(model.got) for model in theirs] == [[("a/b", b"ours"), ("a/b", b"theirs")]] * 2
    assert [list(node.link.peers) for node in ours] == [["node1", "node2"]] * 2, "no link of gmqtt among ours"


def test_an_acknowledgement_waits_for_both():
    network, ours, theirs = federation(models=1)
    subscriber = ours[1].client("s")
    subscriber.subscribe("a", 1)
    theirs[0].subscribe("a")
    network.run(1)
    publisher = ours[0].client("p")
    for topic, count in (("a", 1), ("nothing", 2)):
        publisher.publish(topic, b"x", 1)
        if topic == "a":
            assert not [each for each in publisher.packets if isinstance(each, PubAckPacket)]
        network.run(1)
        assert len([each for each in publisher.packets if isinstance(each, PubAckPacket)]) == count
    ours[0].view([ours[0]])                              # the other node is away: the gmqttd alone is waited for
    publisher.publish("a", b"y", 1)
    network.run(1)
    assert len([each for each in publisher.packets if isinstance(each, PubAckPacket)]) == 3
    # In one read: each of them waits for both.
    ours[0].view(ours)
    network.run(1)
    ours[0].broker.received(publisher.number, [PublishPacket("a", b"z", 1, packet_id=at) for at in range(100, 120)],
                            ours[0].now_ns)
    network.run(1)
    assert [each.packet_id for each in publisher.packets if isinstance(each, PubAckPacket)][3:] == [*range(100, 120)]
    assert not ours[0].both._of_core
    assert not ours[0].both._of_link


@pytest.mark.parametrize("publisher", [0, 1])
def test_a_shared_subscription_over_both_gets_each_message_once(publisher):
    network, ours, theirs = federation()
    members = [node.client(f"m{node.name}") for node in ours]
    for client in members:
        client.subscribe("$share/g/a", 1)
    for model in theirs:
        model.subscribe("$share/g/a")
    network.run(1)
    client = ours[publisher].client("p")
    for number in range(400):
        client.publish("a", b"%d" % number, 1)
        network.run(0.01)
    network.run(2)
    got = [*(payload for each in members for payload in payloads(each)), *(p for model in theirs for _, p in model.got)]
    assert Counter(got) == Counter(b"%d" % number for number in range(400))
    assert [len(payloads(each)) for each in members] + [len(model.got) for model in theirs] == [100] * 4


def test_a_shared_subscription_of_the_group_alone_is_not_gmqtts():
    network, ours, theirs = federation(models=1)
    member = ours[1].client("m")
    member.subscribe("$share/g/a", 1)
    theirs[0].subscribe("a")
    network.run(1)
    ours[0].client("p").publish("a", b"x", 1)
    network.run(1)
    assert (payloads(member), theirs[0].got) == ([b"x"], [("a", b"x")])


def test_retained_messages_of_either_kind_are_everywhere_and_cleared_everywhere():
    network, ours, theirs = federation()
    publisher = ours[0].client("p")
    publisher.publish("ours", b"1", 1, retain=True)
    theirs[0].publish("theirs", b"2", retained=True)
    network.run(2)
    for node in ours:
        late = node.client(f"late{node.name}")
        late.subscribe("#", 1)
        assert sorted(payloads(late)) == [b"1", b"2"]
    assert sorted(theirs[1].retained) == ["ours", "theirs"]
    ours[1].client("q").publish("theirs", b"", 1, retain=True)
    theirs[1].publish("ours", b"", retained=True)
    network.run(5)
    for node in ours:
        late = node.client(f"later{node.name}")
        late.subscribe("#", 1)
        assert payloads(late) == []


def test_a_gmqttd_that_joins_later_gets_retained_messages_from_one_node():
    network, ours, (one,) = federation(models=1)
    watching = one
    watching.subscribe("kept")
    network.run(1)
    ours[1].client("p").publish("kept", b"1", 1, retain=True)
    network.run(1)
    new = Model(network, "new")
    new.subscribe("kept")
    network.up("new")
    network.run(2)
    assert new.got.count(("kept", b"1")) == 1 + 1, "of ours once, and of the other gmqttd, which has it too"
    assert [node.both.is_first() for node in ours] == [True, False]


def test_a_node_of_the_group_that_ends_leaves_the_retained_messages_to_the_next():
    network, ours, _ = federation(models=0)
    ours[0].client("p").publish("kept", b"1", 1, retain=True)
    network.run(2)
    ours[1].view([ours[1]])
    network.down("ours1")
    del network.nodes["ours1"]
    new = Model(network, "new")
    new.subscribe("kept")
    network.up("new")
    network.run(2)
    assert new.got == [("kept", b"1")]
