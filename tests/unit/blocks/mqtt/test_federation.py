"""Brokers that act as one: the faults of gmqtt's federation (X1 to X11 of design/mqtt.md) and the rules of ours, one at
a time."""
from __future__ import annotations

from collections import Counter

import pytest

from jgroups_py.blocks.mqtt.broker.options import WhenFull
from jgroups_py.blocks.mqtt.codec.packets import PubAckPacket, PublishPacket, Will
from tests.unit.blocks.mqtt.clients import SECOND, V3, V5
from tests.unit.blocks.mqtt.federation_world import FederationWorld
from tests.unit.blocks.mqtt.filters import FILTERS


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("version", [V3, V5])
def test_the_quick_start(version):
    world = FederationWorld("AB")
    subscriber = world.client("B", "sub", version=version)
    subscriber.subscribe("topicA")
    world.run(0.1)
    world.client("A", "pub", version=version).publish("topicA", b"123")
    world.run(0.1)
    assert subscriber.payloads() == [b"123"]


def test_filters_between_nodes():
    world = FederationWorld("AB")
    publisher = world.client("A", "pub")
    for number, (filter, topic, matches) in enumerate(FILTERS):
        subscriber = world.client("B", f"sub{number}")
        subscriber.subscribe(filter)
        world.run(0.05)
        publisher.publish(topic, b"x", qos=1)
        world.run(0.05)
        assert subscriber.payloads() == ([b"x"] if matches else []), filter
        subscriber.disconnect()


def test_nothing_goes_to_a_node_that_wants_nothing():
    world = FederationWorld("ABC")
    world.client("B", "one").subscribe("t/#")
    world.client("B", "two").subscribe("t/#")
    world.client("C", "three").subscribe("other")
    world.run(0.1)
    assert world.sent("B", "interest_sent") == 1, "the second subscriber of a filter is no news"
    publisher = world.client("A", "pub")
    for number in range(1_000):
        publisher.publish("t/x", b"%d" % number, qos=number % 3)
    world.run(1)
    assert world.sent("A") == 1_000
    assert world.nodes["B"].federation.counters["messages_received"] == 1_000
    assert world.nodes["C"].federation.counters["messages_received"] == 0


def test_the_last_subscriber_ends_the_interest():
    world = FederationWorld("AB")
    one, two = world.client("B", "one"), world.client("B", "two")
    one.subscribe("t")
    two.subscribe("t")
    world.run(0.1)
    one.unsubscribe("t")
    world.run(0.1)
    assert world.sent("B", "interest_sent") == 1
    two.disconnect()
    world.run(0.1)
    assert world.sent("B", "interest_sent") == 2
    world.client("A", "pub").publish("t", qos=1)
    world.run(0.1)
    assert world.sent("A") == 0


def test_a_joiner_gets_the_whole_tree():
    world = FederationWorld("AB")
    subscriber = world.client("A", "sub")
    for number in range(50):
        subscriber.subscribe(f"t/{number}/+")
    world.start("C")
    world.run(1)
    world.check_trees()
    world.client("C", "pub").publish("t/7/x", b"here", qos=1)
    world.run(0.1)
    assert subscriber.payloads() == [b"here"]


def test_a_publisher_waits_for_the_peers():
    world = FederationWorld("AB")
    world.client("B", "sub").subscribe("t")
    world.run(0.1)
    publisher = world.client("A", "pub")
    publisher.publish("t", qos=1)
    assert not publisher.has(PubAckPacket)
    world.run(0.1)
    assert publisher.answer(PubAckPacket)
    publisher.publish("elsewhere", qos=1)
    assert publisher.answer(PubAckPacket), "nobody else wants it"


def test_what_a_client_publishes_in_a_row_waits_together_and_what_others_publish_does_not():
    """One token for what goes to the same peers, until frames are sent; a slow peer delays nobody else's messages."""
    world = FederationWorld("ABC", silent_s=5.0)
    world.client("B", "slow").subscribe("b")
    world.client("C", "fast").subscribe("c")
    world.run(0.1)
    one, two = world.client("A", "one"), world.client("A", "two")
    world.pause("B")
    node = world.nodes["A"]
    core, given = node.federation, []
    publish = core.publish
    core.publish = lambda *arguments: given.append(publish(*arguments)) or given[-1]
    for client, topics in ((one, "bbb"), (two, "ccbc"), (one, "b")):
        node.broker.received(client.number, [PublishPacket(topic, b"", 1, packet_id=at + 1 + 10 * len(given))
                                             for at, topic in enumerate(topics)], node.now_ns)
    tokens = [each.token for each in given]
    assert tokens[0] == tokens[1] == tokens[2] != tokens[3] == tokens[4]
    assert len({tokens[0], tokens[3], tokens[5], tokens[6], tokens[7]}) == 5
    node.settle()
    one.publish("b", qos=1)
    assert given[-1].token not in tokens, "frames were sent meanwhile"
    world.run(0.1)
    assert not one.has(PubAckPacket)
    assert [two.answer(PubAckPacket).packet_id for _ in range(2)] == [31, 32]
    assert not two.has(PubAckPacket), "it waits behind the one for B"
    world.resume("B")
    world.run(1)
    assert len([each for each in one.packets if isinstance(each, PubAckPacket)]) == 5
    assert not core._tokens


def test_a_publisher_waits_no_longer_than_the_timeout_for_a_paused_peer():
    """Q11."""
    world = FederationWorld("AB", broker={"ack_timeout_s": 0.3}, silent_s=5.0)
    world.client("B", "sub").subscribe("t")
    world.run(0.1)
    publisher = world.client("A", "pub")
    world.pause("B")
    publisher.publish("t", qos=1)
    world.run(0.25)
    assert not publisher.has(PubAckPacket)
    world.run(0.1)
    assert publisher.answer(PubAckPacket)
    world.run(1)                                         # B is excluded now
    publisher.publish("t", qos=1)
    assert publisher.answer(PubAckPacket), "nothing waits for a peer that is away"


def test_x1_a_paused_peer_loses_nothing():
    world = FederationWorld("AB", broker={"receive_maximum": 10_000})
    subscriber = world.client("B", "sub")
    subscriber.subscribe("t", qos=1)
    world.run(0.1)
    publisher = world.client("A", "pub")
    world.pause("B")
    for number in range(3_000):
        publisher.publish("t", b"%d" % number, qos=1)
        if number % 300 == 0:
            world.run(0.1)
    world.run(8)
    world.resume("B")
    world.run(3)
    assert subscriber.payloads() == numbered(3_000)
    assert len([each for each in publisher.packets if isinstance(each, PubAckPacket)]) == 3_000


def test_x2_a_restarted_peer_gets_what_its_subscriber_comes_back_for():
    world = FederationWorld("AB", broker={"receive_maximum": 10_000})
    session = {"clean_start": False, "session_expiry_interval": 1_000}
    subscriber = world.client("B", "sub", **session)
    subscriber.subscribe("t", qos=1)
    world.run(0.1)
    publisher = world.client("A", "pub")
    got: list[bytes] = []

    def publish(first: int, stop: int) -> None:
        for number in range(first, stop):
            publisher.publish("t", b"%d" % number, qos=1)
            world.run(0.003)
    publish(0, 500)
    world.run(0.5)
    got += subscriber.payloads()
    world.crash("B")
    publish(500, 1_000)
    world.start("B")
    publish(1_000, 1_500)
    world.at("B", subscriber, **session)
    subscriber.subscribe("t", qos=1)
    publish(1_500, 2_000)
    world.run(3)
    assert got + subscriber.payloads() == numbered(2_000)
    assert world.sent("A", "unparked") > 0


def test_what_is_kept_for_a_restarted_peer_comes_in_order_though_a_shared_subscription_is_set_first():
    """The second message is for the group too, whose member is back before the plain filter is known."""
    world = FederationWorld("AB")
    world.client("B", "sub").subscribe("t", qos=1)
    world.client("B", "member").subscribe("$share/g/t", qos=1)
    here, publisher = world.client("A", "here"), world.client("A", "pub")
    here.subscribe("$share/g/t", qos=1)
    world.run(0.2)
    world.crash("B")
    world.run(1)
    publisher.publish("t", b"first", qos=1)
    assert here.payloads() == [b"first"]
    here.unsubscribe("$share/g/t")
    publisher.publish("t", b"second", qos=1)
    world.start("B")
    world.run(1)
    member, subscriber = world.client("B", "member"), world.client("B", "sub")
    member.subscribe("$share/g/t", qos=1)
    subscriber.subscribe("t", qos=1)
    world.run(1)
    assert member.payloads() == [b"second"]
    assert subscriber.payloads() == [b"first", b"second"]
    node = world.nodes["A"]
    node.ledgers_add_up()
    assert not node.federation.peers["B"].parked


@pytest.mark.parametrize("also_plain", [False, True])
def test_what_is_kept_for_a_restarted_peer_goes_to_a_member_elsewhere_that_comes(also_plain):
    """The other member was in another part of the group when the peer restarted."""
    world = FederationWorld("ABC")
    world.client("B", "member").subscribe("$share/g/t", qos=1)
    if also_plain:
        world.client("B", "sub").subscribe("t", qos=1)
    elsewhere, publisher = world.client("C", "elsewhere"), world.client("A", "pub")
    elsewhere.subscribe("$share/g/t", qos=1)
    world.run(0.2)
    world.split("AB", "C")
    world.run(1)
    world.crash("B")
    publisher.publish("t", b"for the group", qos=1)
    world.start("B")
    world.run(1)
    node = world.nodes["A"]
    assert node.federation.peers["B"].parked
    world.heal()
    world.run(3)
    assert elsewhere.payloads() == [b"for the group"]
    assert bool(node.federation.peers["B"].parked) is also_plain
    node.ledgers_add_up()
    subscriber, member = world.client("B", "sub"), world.client("B", "member")
    subscriber.subscribe("t", qos=1)
    member.subscribe("$share/g/t", qos=1)
    world.run(1)
    assert subscriber.payloads() == [b"for the group"] * also_plain
    assert not member.payloads(), "it came once in the group"
    assert not elsewhere.payloads()


def test_what_nobody_comes_back_for_is_dropped_and_counted():
    world = FederationWorld("AB", keep_peer_s=5.0)
    world.client("B", "sub").subscribe("t")
    world.run(0.1)
    publisher = world.client("A", "pub")
    world.crash("B")
    world.run(1)
    publisher.publish("t", qos=1)
    world.start("B")
    world.run(2)
    publisher.publish("t", qos=1)
    world.run(10)
    report, = world.nodes["A"].federation.report(world.now_ns)
    assert report["dropped"] == {"unclaimed": 2}
    assert world.sent("A", "dropped_unclaimed") == 2
    publisher.publish("t", qos=1)
    assert world.nodes["A"].federation.report(world.now_ns)[0]["accepted"] == report["accepted"]


def test_a_peer_that_is_gone_for_good_is_forgotten():
    world = FederationWorld("AB", keep_peer_s=5.0)
    world.client("B", "sub").subscribe("t")
    world.run(0.1)
    world.pause("B")
    world.run(2)
    world.client("A", "pub").publish("t", qos=1)
    world.run(10)
    assert not world.nodes["A"].federation.peers
    assert world.sent("A", "dropped_peer_gone") == 1
    world.resume("B")
    world.run(3)
    world.check_trees()


@pytest.mark.parametrize("seed", range(10))
def test_x3_twenty_cuts_lose_and_double_nothing(seed):
    world = FederationWorld("AB", seed, loss=0.02, broker={"receive_maximum": 60_000, "ack_timeout_s": 60})
    subscriber = world.client("B", "sub")
    subscriber.subscribe("t", qos=2)
    world.run(3)
    publisher = world.client("A", "pub")
    for number in range(1_000):
        publisher.publish("t", b"%d" % number, qos=2)
        if number % 50 == 0:
            world.split("A", "B")
            world.run(world.rng.choice((0.1, 0.7, 1.5)))
            world.heal()
        world.run(0.002)
    world.run(30)
    assert subscriber.payloads() == numbered(1_000)


def test_x4_binary_properties_arrive_unchanged():
    world = FederationWorld("AB")
    subscriber = world.client("B", "sub")
    subscriber.subscribe("t")
    world.run(0.1)
    publisher = world.client("A", "pub")
    publisher.publish("t", qos=1, correlation_data=b"\xff\xfe\x80", content_type="x", response_topic="r/s",
                      payload_format_indicator=1, user_properties=(("k", "v"), ("k", "w")), message_expiry_interval=60)
    publisher.publish("t", b"after", qos=1)
    world.run(0.1)
    first, second = subscriber.messages
    assert first.properties.correlation_data == b"\xff\xfe\x80"
    assert first.properties.user_properties == (("k", "v"), ("k", "w"))
    assert (first.properties.content_type, first.properties.response_topic) == ("x", "r/s")
    assert first.properties.payload_format_indicator == 1
    assert first.properties.message_expiry_interval in (59, 60)
    assert second.payload == b"after"


def test_a_message_that_expires_while_it_waits_for_a_peer():
    world = FederationWorld("AB")
    subscriber = world.client("B", "sub")
    subscriber.subscribe("t")
    world.run(0.1)
    world.pause("B")
    world.run(1)
    publisher = world.client("A", "pub")
    publisher.publish("t", b"short", qos=1, message_expiry_interval=2)
    publisher.publish("t", b"long", qos=1, message_expiry_interval=60)
    world.run(10)
    world.resume("B")
    world.run(2)
    message, = subscriber.messages
    assert message.payload == b"long"
    assert message.properties.message_expiry_interval in (48, 49, 50)
    assert world.sent("A", "dropped_expired") == 1


def members(world: FederationWorld, group: str, where: str) -> list:
    """Clients that share a subscription, at the nodes of `where`."""
    found = []
    for number, name in enumerate(where):
        client = world.client(name, f"{group}{name}{number}")
        client.subscribe(f"$share/{group}/t", qos=1)
        found.append(client)
    world.run(0.1)
    return found


def test_x5_two_groups_with_shifted_counters_get_each_message_once():
    world = FederationWorld("ABC")
    groups = {"g": members(world, "g", "BC")}
    publisher = world.client("A", "pub")
    publisher.publish("t", qos=1)
    world.run(0.1)
    groups["h"] = members(world, "h", "BC")
    for client in groups["g"]:
        client.payloads()
    for number in range(1_000):
        publisher.publish("t", b"%d" % number, qos=1)
    world.run(1)
    for clients in groups.values():
        got = [payload for client in clients for payload in client.payloads()]
        assert sorted(got, key=int) == numbered(1_000)


@pytest.mark.parametrize("where", ["AAABBB", "ABBB", "BBB", "ABC"])
def test_x6_shared_subscriptions_are_fair_over_nodes(where):
    world = FederationWorld("ABC")
    clients = members(world, "g", where)
    publishers = [world.client("A", "one"), world.client("C", "two")]
    total = 1_000 * len(clients)
    for number in range(total):
        publishers[number % 2].publish("t", b"%d" % number, qos=1)
        if number % 100 == 0:
            world.run(0.05)
    world.run(1)
    got = [client.payloads() for client in clients]
    assert sorted((payload for each in got for payload in each), key=int) == numbered(total)
    assert all(950 <= len(each) <= 1_050 for each in got), [len(each) for each in got]


def test_a_group_is_served_by_members_with_a_connection():
    world = FederationWorld("ABC")
    session = {"clean_start": False, "session_expiry_interval": 1_000}
    away = world.client("B", "away", **session)
    away.subscribe("$share/g/t", qos=1)
    here = world.client("C", "here")
    here.subscribe("$share/g/t", qos=1)
    away.cut()
    world.run(0.1)
    publisher = world.client("A", "pub")
    for number in range(10):
        publisher.publish("t", b"%d" % number, qos=1)
    world.run(0.1)
    assert here.payloads() == numbered(10)
    here.disconnect()
    world.run(0.1)
    publisher.publish("t", b"kept", qos=1)
    world.run(0.1)
    world.at("B", away, **session)
    assert away.payloads() == [b"kept"]


def test_what_an_ended_member_had_goes_to_another_node():
    """Q6: at least once with QoS 1."""
    world = FederationWorld("ABC")
    ending, staying = members(world, "g", "BC")
    ending.acks = False
    publisher = world.client("A", "pub")
    for number in range(10):
        publisher.publish("t", b"%d" % number, qos=1)
    world.run(0.1)
    assert len(ending.payloads()) == 5
    ending.acks = True
    ending.disconnect()
    world.run(0.1)
    assert sorted(staying.payloads()) == numbered(10)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_a_member_of_a_lost_node_may_have_had_goes_to_no_other(qos):
    """But with QoS 1, which may come twice."""
    world = FederationWorld("ABC")
    members = [world.client(name, f"member{name}") for name in "BC"]
    for member in members:
        member.subscribe("$share/g/t", qos=2)
    publisher = world.client("A", "pub")
    world.run(0.2)
    for name in "BC":                                    # what they answer is on its way for long
        at_ns = world.now_ns + 10 * SECOND
        world._links[world.nodes[name].handle, world.nodes["A"].handle].append((at_ns, b""))
    for number in range(2):
        publisher.publish("t", b"%d" % number, qos=qos)
    world.run(0.1)
    first, second = (member.payloads() for member in members)
    assert sorted(first + second) == [b"0", b"1"], "one each, and A does not know"
    world.crash("B")
    world.run(1)
    world.start("B")
    world.run(3)
    assert members[1].payloads() == (first if qos == 1 else [])


def test_a_group_whose_member_ends_while_a_message_is_on_its_way():
    world = FederationWorld("ABC")
    ending, staying = members(world, "g", "BC")
    publisher = world.client("A", "pub")
    publisher.publish("t", b"0", qos=1)
    publisher.publish("t", b"1", qos=1)
    ending.disconnect()                                  # the node of `ending` has not got them yet
    world.run(0.5)
    assert sorted(staying.payloads() + ending.payloads()) == numbered(2)
    assert world.sent("B", "rerouted") == 1


def test_what_waits_for_a_dead_node_goes_to_members_elsewhere():
    world = FederationWorld("ABC", window_bytes=1, batch_bytes=1, broker={"ack_timeout_s": 60})
    members(world, "g", "B")
    staying, = members(world, "g", "C")
    publisher = world.client("A", "pub")
    world.pause("B")
    for number in range(10):
        publisher.publish("t", b"%d" % number, qos=1)
    world.run(2)
    got = sorted(staying.payloads())
    assert len(got) == 9, "one was under way to B: it may have arrived there"


def test_x7_x8_x9_retained_messages():
    world = FederationWorld("AB")
    early = world.client("B", "early")
    early.subscribe("t/#", qos=1)
    world.run(0.1)
    publisher = world.client("A", "pub")
    for number in range(20):
        publisher.publish(f"t/{number}", b"%d" % number, qos=1, retain=True)
    world.run(0.2)
    assert early.payloads() == numbered(20)
    world.start("C")
    world.run(1)
    for name in "ABC":
        late = world.client(name, f"late{name}")
        late.subscribe("t/#")
        assert sorted(late.messages, key=lambda each: int(each.payload))[19].retain
        assert sorted(late.payloads(), key=int) == numbered(20)
    world.crash("C")
    world.run(2)
    world.start("C")
    world.run(3)
    assert early.payloads() == [], "X7: a join repeats nothing"
    for number in range(20):
        publisher.publish(f"t/{number}", b"", qos=1, retain=True)
    world.run(1)
    assert early.payloads() == [b""] * 20, "a clear is a message to those that are there"
    for name in "ABC":
        later = world.client(name, f"later{name}")
        later.subscribe("t/#")
        assert later.payloads() == [], "X8"
        assert not len(world.nodes[name].broker.router.retained)


def test_retained_messages_of_two_halves():
    """Q8: one winner everywhere, and what was cleared last stays cleared."""
    world = FederationWorld("ABCD")
    publishers = {name: world.client(name, f"pub{name}") for name in "ABCD"}
    publishers["A"].publish("cleared", b"old", retain=True)
    world.run(0.5)
    world.split("AB", "CD")
    world.run(1)
    publishers["A"].publish("both", b"from A", retain=True)
    publishers["A"].publish("cleared", b"", retain=True)
    world.run(1)
    publishers["C"].publish("both", b"from C", retain=True)
    world.run(1)
    world.heal()
    world.run(5)
    for name in "ABCD":
        retained = world.nodes[name].broker.router.retained
        assert {each.topic: each.payload for each in retained.matching("#", world.now_ns)} == {"both": b"from C"}


def test_a_will_comes_once():
    world = FederationWorld("AB")
    subscriber = world.client("B", "sub")
    subscriber.subscribe("wills")
    world.run(0.1)
    world.client("A", "dies", will=Will("wills", b"dead", 1, False)).cut()
    world.client("A", "leaves", will=Will("wills", b"gone", 1, False)).disconnect()
    world.run(1)
    assert subscriber.payloads() == [b"dead"]


def test_what_came_from_a_peer_goes_to_no_other():
    world = FederationWorld("ABC")
    subscribers = [world.client(name, name) for name in "ABC"]
    for subscriber in subscribers:
        subscriber.subscribe("#", qos=1)
    world.run(0.1)
    for number, name in enumerate("ABC"):
        world.client(name, f"pub{name}").publish("t", b"%d" % number, qos=1)
    world.run(1)
    assert all(Counter(subscriber.payloads()) == Counter(numbered(3)) for subscriber in subscribers)
    assert [world.sent(name) for name in "ABC"] == [2, 2, 2]


def test_no_local_holds_between_nodes():
    world = FederationWorld("AB")
    other = world.client("B", "same")
    other.subscribe("t", no_local=True)
    world.run(0.1)
    world.client("A", "other").publish("t", b"1", qos=1)
    world.run(0.1)
    assert other.payloads() == [b"1"]


@pytest.mark.parametrize("policy", list(WhenFull))
def test_the_bound_of_a_queue(policy):
    """Q11, Q12."""
    world = FederationWorld("AB", queue_bytes=20_000, window_bytes=2_000, when_full=policy,
                            broker={"ack_timeout_s": 1.0, "receive_maximum": 60_000})
    subscriber = world.client("B", "sub")
    subscriber.subscribe("t", qos=1)
    world.run(0.1)
    world.pause("B")
    world.run(1)
    publisher = world.client("A", "pub")
    for number in range(1_000):
        publisher.publish("t", b"%d" % number, qos=1)
        world.nodes["A"].ledgers_add_up()
    acknowledged = sum(isinstance(each, PubAckPacket) for each in publisher.packets)
    assert (acknowledged == 1_000) is (policy is not WhenFull.BLOCK)
    world.run(1.5)
    assert sum(isinstance(each, PubAckPacket) for each in publisher.packets) == 1_000
    report, = world.nodes["A"].federation.report(world.now_ns)
    world.resume("B")
    world.run(3)
    got = subscriber.payloads()
    if policy is WhenFull.DISCONNECT:
        assert report["dropped"] == {"disconnected": 1_000}
        assert report["state"].startswith("cut")
        publisher.publish("t", b"later", qos=1)
        world.run(0.5)
        assert subscriber.payloads() == [b"later"]
    else:
        assert got == numbered(1_000)[-len(got):]
        assert report["dropped"] == {"queue_full": 1_000 - len(got)}
        assert 100 < len(got) < 300
