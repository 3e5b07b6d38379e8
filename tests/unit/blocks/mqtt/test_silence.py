"""A peer that is silent is not waited for: what PUBACK means then, when that begins, and when it ends."""
from __future__ import annotations

import pytest

from jgroups_py.blocks.mqtt.broker.options import WhenFull
from jgroups_py.blocks.mqtt.codec.packets import PubAckPacket
from tests.unit.blocks.mqtt.clients import SECOND, Client
from tests.unit.blocks.mqtt.federation_world import MS, FederationWorld

MOST_MS = 3
"""A frame between two nodes of a FederationWorld takes no longer."""


def world_with(names: str = "AB", **options) -> FederationWorld:
    """Nodes, of which a pause is not detected: B has a subscriber, and A has heard of it lately."""
    world = FederationWorld(names, broker={"receive_maximum": 60_000}, **options)
    world.detect_ns = 100 * SECOND
    for number in range(20):
        world.client("B", f"sub {number}").subscribe("t", qos=1)
        warm = world.client("A", f"warm {number}")
        warm.publish("t", b"warm", qos=1)
        world.run(0.02)
        assert warm.has(PubAckPacket)
    assert not world.sent("A", "silences")
    return world


def number_of_acks(client: Client) -> int:
    """Of its messages of QoS 1."""
    return sum(isinstance(each, PubAckPacket) for each in client.packets)


def seconds_to_ack(world: FederationWorld, client: Client, most_s: float = 4.0) -> float:
    """How long a message of QoS 1 waits for its PUBACK now."""
    before, began_ns = number_of_acks(client), world.now_ns
    client.publish("t", b"x", qos=1)
    while number_of_acks(client) == before:
        world.run(0.001)
        assert world.now_ns - began_ns < most_s * SECOND, "no PUBACK"
    return (world.now_ns - began_ns) / SECOND


def test_a_publisher_waits_for_a_stopped_peer_until_that_is_seen_to_be_silent_and_then_no_more():
    """Q11. Nothing is lost by it: all comes when the peer goes on."""
    world = world_with()
    subscriber = world.client("B", "subscriber")
    subscriber.subscribe("t", qos=1)
    world.run(0.1)
    publisher = world.client("A", "pub")
    world.pause("B")
    first_s = seconds_to_ack(world, publisher)
    assert 0.05 <= first_s < 0.1, "silent_s is 50 ms"
    assert [seconds_to_ack(world, publisher) for _ in range(200)] == [0.0] * 200
    peer = world.nodes["A"].federation.report(world.now_ns)[0]
    assert peer["state"].startswith("silent")
    assert peer["unawaited"] == world.sent("A", "unawaited_messages") == 201, "each is counted"
    world.resume("B")
    world.run(1)
    assert subscriber.payloads() == [b"x"] * 201
    assert world.sent("A", "silences") == 1


def test_a_peer_that_goes_on_is_waited_for_again():
    """Q1."""
    world = world_with()
    publisher = world.client("A", "pub")
    world.pause("B")
    seconds_to_ack(world, publisher)
    world.resume("B")
    world.run(0.1)
    assert seconds_to_ack(world, publisher) > 0
    assert world.sent("A", "unawaited_messages") == 1


def test_other_peers_are_waited_for_while_one_is_silent():
    """Q1."""
    world = world_with("ABC")
    world.client("C", "sub").subscribe("t", qos=1)
    world.run(0.1)
    publisher = world.client("A", "pub")
    world.pause("B")
    seconds_to_ack(world, publisher)
    publisher.publish("t", b"later", qos=1)
    assert b"later" not in world.nodes["C"].taken
    while b"later" not in world.nodes["C"].taken:
        assert number_of_acks(publisher) == 1
        world.run(0.0001)
    world.run(2 * MOST_MS / 1000)
    assert number_of_acks(publisher) == 2


def test_a_peer_that_answers_slowly_is_waited_for():
    """Q1: its acknowledgement waits for something, but it answers when it is asked."""
    world = world_with()
    core = world.nodes["B"].federation
    held = core.peers["A"].hold_ack(1)                   # as for copies of sessions
    publisher = world.client("A", "pub")
    publisher.publish("t", b"x", qos=1)
    world.run(2.0)
    assert not publisher.has(PubAckPacket)
    assert not world.sent("A", "silences")
    core.held_acks.free(core.peers["A"], held)
    world.nodes["B"].settle()
    world.run(0.1)
    assert publisher.has(PubAckPacket)
    assert not world.sent("A", "unawaited_messages")


def test_a_broker_that_stood_still_itself_takes_nobody_for_silent():
    """Q1: what peers have sent meanwhile is read after the look at the clock."""
    world = world_with()
    publisher = world.client("A", "pub")
    publisher.publish("t", b"x", qos=1)
    world.pause("A")
    world.run(3.0)
    world.nodes["A"].paused = False
    for _ in range(3):
        world.nodes["A"].run_due()                       # time first, however often
        world.now_ns += 40 * MS
    assert not world.sent("A", "silences")
    world.resume("A")
    world.run(0.1)
    assert publisher.has(PubAckPacket)
    assert not world.sent("A", "unawaited_messages")


def test_an_idle_peer_is_not_silent():
    world = world_with()
    world.run(30)
    assert not world.sent("A", "silences")
    world.pause("B")
    world.client("A", "pub").publish("elsewhere", b"x", qos=1)
    world.run(0.3)
    assert not world.sent("A", "unawaited_messages"), "nothing was for it"


def test_a_peer_that_usually_takes_long_is_given_longer():
    """As RFC 6298 has it: the usual time and four times its deviation, twice."""
    world = world_with()
    peer = world.nodes["A"].federation.peers["B"]
    for _ in range(50):
        peer.silent_since_ns = world.now_ns
        world.now_ns += 100 * MS
        peer.heard(world.now_ns, 25 * MS)
    assert 100 * MS <= peer.patience_ns < 120 * MS
    publisher = world.client("A", "pub")
    world.pause("B")
    assert 0.2 <= seconds_to_ack(world, publisher) < 0.25


def test_a_peer_that_comes_and_answers_nothing_is_given_a_second():
    world = FederationWorld("AB")
    world.detect_ns = 100 * SECOND
    world.client("B", "sub").subscribe("t")
    world.run(0.1)
    world.nodes["A"].federation.peers_changed({}, world.now_ns)
    world.nodes["A"].federation.peers_changed({"A": "A#1", "B": "B#1"}, world.now_ns)
    world.pause("B")
    world.nodes["A"].settle()
    assert 1.0 <= seconds_to_ack(world, world.client("A", "pub")) < 1.1


def test_room_in_a_queue_is_waited_for_though_the_peer_is_silent():
    """Q11: `block` bounds the queue."""
    world = world_with(queue_bytes=2_000, when_full=WhenFull.BLOCK)
    publisher = world.client("A", "pub")
    world.pause("B")
    seconds_to_ack(world, publisher)
    while world.nodes["A"].federation.peers["B"].size <= 2_000:
        publisher.publish("t", bytes(100), qos=1)
    answered = number_of_acks(publisher)
    world.run(0.5)
    assert number_of_acks(publisher) == answered
    world.resume("B")
    world.run(1)
    assert number_of_acks(publisher) == answered + 1


@pytest.mark.parametrize("silent_s", [0.2, 60.0])
def test_the_operator_says_how_long(silent_s):
    world = world_with(silent_s=silent_s)
    publisher = world.client("A", "pub")
    world.pause("B")
    publisher.publish("t", b"x", qos=1)
    world.run(0.19)
    assert not publisher.has(PubAckPacket)
    world.run(0.2)
    assert publisher.has(PubAckPacket) is (silent_s < 1)
