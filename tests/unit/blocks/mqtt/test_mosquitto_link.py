"""The link to mosquitto, against a model of it, on a simulated federation."""
from __future__ import annotations

import itertools
from random import Random

import pytest

from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import (
    ConnAckPacket,
    DisconnectPacket,
    MqttError,
    PubAckPacket,
    PublishPacket,
    ReasonCode,
    SentBy,
)
from jgroups_py.blocks.mqtt.mosquitto.link import RETAINED_MARK, MosquittoLink, MosquittoState, OpenBroker, ToMosquitto
from jgroups_py.blocks.mqtt.mosquitto.options import MosquittoOptions
from tests.unit.blocks.mqtt.clients import SECOND, V3, V5
from tests.unit.blocks.mqtt.federation_world import FederationWorld
from tests.unit.blocks.mqtt.mosquitto_model import LinkedNode, ModelMosquitto, linked, run
from tests.unit.blocks.mqtt.random_packets import random_packet


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_crosses_both_ways_with_its_qos_and_its_properties(qos: int):
    world, (a,) = linked("a")
    inside = world.client("a", "inside")
    outside = a.client("outside")
    inside.subscribe("up/+")
    outside.subscribe("down/+")
    run(world, [a], 1)
    outside.publish("up/1", b"1", qos, correlation_data=b"\xff\xfe\x80", user_properties=(("k", "v"),))
    inside.publish("down/1", b"2", qos, response_topic="answers")
    run(world, [a], 1)
    got, sent = inside.messages[0], outside.messages[0]
    assert (got.payload, got.qos, got.properties.correlation_data) == (b"1", qos, b"\xff\xfe\x80")
    assert got.properties.user_properties == (("k", "v"),)
    assert not got.properties.subscription_identifiers
    assert (sent.payload, sent.qos, sent.properties.response_topic) == (b"2", qos, "answers")
    assert (len(inside.messages), len(outside.messages)) == (1, 1), "and neither came back"


def test_only_what_others_want_is_forwarded():
    world, (a, b) = linked("ab")
    there = b.client("there", V3)
    there.subscribe("wanted/#")
    run(world, [a, b], 1)
    here = a.client("here")
    for number in range(100):
        here.publish("unwanted/1", b"%d" % number, 1)
    here.publish("wanted/1", b"yes", 1)
    run(world, [a, b], 1)
    assert there.payloads() == [b"yes"]
    assert (a.count("messages_in"), b.count("messages_out"), world.sent("a")) == (1, 1, 1)
    there.disconnect()
    run(world, [a, b], 1)
    here.publish("wanted/1", b"no more", 1)
    run(world, [a, b], 1)
    assert a.count("messages_in") == 1
    assert a.link.report()["wanted_elsewhere"] == []


def test_three_mosquittos_get_each_message_once():
    world, nodes = linked("abc")
    clients = [node.client(f"client {node.name}") for node in nodes]
    for client in clients:
        client.subscribe("t/#")
    run(world, nodes, 1)
    for client in clients:
        for number in range(3):
            client.publish("t/1", f"{client.client_id} {number}".encode(), number)
    run(world, nodes, 2)
    expected = sorted(f"{client.client_id} {number}".encode() for client in clients for number in range(3))
    assert [sorted(client.payloads()) for client in clients] == [expected] * 3
    assert sum(node.count("messages_in") for node in nodes) == 9


def test_copies_for_filters_that_overlap_are_dropped():
    world, (a,) = linked("a")
    inside = world.client("a", "inside")
    for filter in ("ov/#", "ov/+", "ov/1", "+/1"):
        inside.subscribe(filter)
    outside = a.client("outside")
    run(world, [a], 1)
    for qos in range(3):
        outside.publish("ov/1", b"%d" % qos, qos)
    run(world, [a], 1)
    assert inside.payloads() == [b"0", b"1", b"2"]
    assert a.count("overlap_copies") == 9
    inside.unsubscribe("ov/#")                           # the oldest: the next one counts now
    run(world, [a], 1)
    outside.publish("ov/1", b"again", 2)
    run(world, [a], 1)
    assert inside.payloads() == [b"again"]


def test_mosquitto_has_its_acknowledgement_when_the_peers_have_the_message():
    world, (a, b) = linked("ab", silent_s=60.0)
    peer = world.client("b", "peer")
    peer.subscribe("t", 1)
    run(world, [a, b], 1)
    world.detect_ns = 3_600 * SECOND
    world.pause("b")
    outside = a.client("outside")
    outside.publish("t", b"1", 1)
    run(world, [a, b], 1)
    assert outside.has(PubAckPacket), "mosquitto answers at once"
    link = a.model.broker.sessions["jgroups-sidecar"]
    assert link.in_flight, "it has no answer yet"
    world.resume("b")
    run(world, [a, b], 1)
    assert not link.in_flight
    assert peer.payloads() == [b"1"]


@pytest.mark.parametrize("seed", range(10))
def test_no_message_is_lost_or_doubled_when_the_link_breaks(seed: int):
    rng = Random(f"cuts/{seed}")
    world, (a, b) = linked("ab", seed)
    inside = world.client("b", "inside", clean_start=False, session_expiry_interval=3600)
    outside = a.client("outside", clean_start=False, session_expiry_interval=3600)
    inside.subscribe("up/#")
    outside.subscribe("down/#")
    run(world, [a, b], 1)
    for number in range(60):
        qos = 1 + number % 2
        outside.publish(f"up/{qos}", b"%d" % number, qos)
        inside.publish(f"down/{qos}", b"%d" % number, qos)
        for _ in range(rng.randrange(3)):                # some of what is under way, not all
            for output in a.link.drain(world.now_ns):
                a._carry_out(output)
            a.model.settle()
            rng.choice((a.mosquitto, a.broker)).deliver()
        if rng.random() < 0.2:
            a.cut()
        run(world, [a, b], rng.choice((0, 0.005, 0.3)))
    run(world, [a, b], 10)
    for client, topic in ((inside, "up"), (outside, "down")):
        for qos in (1, 2):
            got = [int(each.payload) for each in client.messages if each.topic == f"{topic}/{qos}"]
            expected = [number for number in range(60) if 1 + number % 2 == qos]
            assert list(dict.fromkeys(got)) == expected, f"{topic}/{qos}: lost or not in order"
            assert qos == 1 or got == expected, f"{topic}/{qos}: doubled"
    assert a.count("link_breaks") > 3


def test_after_a_restart_of_mosquitto_all_is_set_up_again():
    world, (a,) = linked("a")
    inside = world.client("a", "inside")
    inside.subscribe("up")
    inside.publish("down/kept", b"kept", 1, retain=True)
    a.client("outside").subscribe("down/#")
    run(world, [a], 1)
    unreleased = a.client("unreleased")
    unreleased.publish("up", b"before", 2, packet_id=7)
    a.mosquitto.deliver()                                # PUBLISH of QoS 2 is on its way to the broker
    a.settle()
    a.model.restart()
    run(world, [a], 5)
    assert a.is_up
    outside = a.client("outside")
    outside.subscribe("down/#")
    run(world, [a], 6)
    assert outside.payloads() == [b"kept"], "the retained message was placed again"
    inside.messages.clear()
    for packet_id in range(1, 4):
        outside.publish("up", b"%d" % packet_id, 2, packet_id=packet_id)
    inside.publish("down/1", b"down", 2)
    run(world, [a], 1)
    assert inside.payloads() == [b"1", b"2", b"3"]
    assert outside.payloads() == [b"down"]


# --- retained messages ------------------------------------------------------------------------------------------------

def test_retained_messages_come_when_they_are_wanted_first_and_not_again():
    world, (a, b) = linked("ab")
    publisher = world.client("b", "publisher")
    publisher.publish("t/1", b"value", 1, retain=True)
    run(world, [a, b], 1)
    assert a.model.broker.router.retained.get("t/1", 0) is None, "nobody wants it there"
    early = a.client("early")
    early.subscribe("t/#")
    run(world, [a, b], 6)
    assert early.payloads() == [b"value"]
    late = a.client("late")
    late.subscribe("t/1")
    assert (late.messages[0].payload, late.messages[0].retain) == (b"value", True)
    assert (RETAINED_MARK, "a") in late.messages[0].properties.user_properties
    run(world, [a, b], 6)
    assert early.payloads() == [], "another filter brings it to nobody again"


def test_what_mosquitto_has_is_kept_up_to_date_when_nobody_there_wants_it():
    world, (a, b) = linked("ab")
    publisher = world.client("b", "publisher")
    client = a.client("client")
    client.subscribe("t/#")
    run(world, [a, b], 1)
    publisher.publish("t/1", b"one", 1, retain=True)
    publisher.publish("t/2", b"two", 1, retain=True)
    run(world, [a, b], 1)
    client.disconnect()
    run(world, [a, b], 400)                              # its filters are forgotten
    publisher.publish("t/1", b"new", 1, retain=True)
    publisher.publish("t/2", b"", 1, retain=True)
    publisher.publish("t/3", b"unseen", 1, retain=True)
    run(world, [a, b], 6)
    late = a.client("late")
    late.subscribe("t/#")
    assert [(each.payload, each.retain) for each in late.messages] == [(b"new", True)]


def test_an_old_retained_message_of_mosquitto_does_not_replace_a_newer_one():
    world, (a, b) = linked("ab")
    outside, inside = a.client("outside"), world.client("b", "inside")
    inside.subscribe("t")
    run(world, [a, b], 1)
    outside.publish("t", b"old", 1, retain=True)
    run(world, [a, b], 1)
    inside.unsubscribe("t")
    run(world, [a, b], 1)
    inside.publish("t", b"new", 1, retain=True)
    run(world, [a, b], 6)
    inside.messages.clear()
    inside.subscribe("t")
    run(world, [a, b], 6)
    assert inside.payloads() == [b"new"]
    late = a.client("late")
    late.subscribe("t")
    assert late.payloads() == [b"new"]


def test_a_new_sidecar_takes_its_own_retained_messages_for_what_they_are():
    world, (a, b) = linked("ab")
    client, inside = a.client("client"), world.client("b", "inside")
    client.subscribe("t")
    run(world, [a, b], 1)
    inside.publish("t", b"old", 1, retain=True)
    run(world, [a, b], 1)
    client.disconnect()
    a.cut()
    a.model.broker.end_session("jgroups-sidecar", world.now_ns)
    inside.publish("t", b"new", 1, retain=True)
    a.begin()                                            # a new process: it remembers nothing
    run(world, [a, b], 1)
    inside.subscribe("t")
    run(world, [a, b], 6)
    assert inside.payloads() == [b"new"]
    assert a.count("retained_own") == 1
    late = a.client("late")
    late.subscribe("t")
    assert late.payloads() == [b"new"], "and mosquitto has the new one"


def test_a_retained_message_of_mosquitto_that_is_published_again_is_a_message():
    world, (a,) = linked("a")
    outside, inside = a.client("outside"), world.client("a", "inside")
    outside.publish("t", b"same", 1, retain=True)
    inside.subscribe("t")
    run(world, [a], 10)
    outside.publish("t", b"same", 1, retain=True)
    run(world, [a], 1)
    assert inside.payloads() == [b"same", b"same"]
    outside.publish("t", b"", 1, retain=True)
    run(world, [a], 1)
    late = world.client("a", "late")
    late.subscribe("t")
    assert late.payloads() == []


# --- shared subscriptions, topics with $ ------------------------------------------------------------------------------

def test_shared_subscriptions_are_of_their_side():
    """A documented limit: a group has a member at mosquitto, and one in the federation."""
    world, (a, b) = linked("ab")
    outside = [a.client(f"outside {number}") for number in range(2)]
    inside = [world.client("b", f"inside {number}") for number in range(2)]
    for client in (*outside, *inside):
        client.subscribe("$share/g/t", 1)
    run(world, [a, b], 1)
    for number in range(10):
        a.client("publisher").publish("t", b"%d" % number, 1)
    run(world, [a, b], 1)
    assert [len(client.messages) for client in (*outside, *inside)] == [5, 5, 5, 5]


def test_what_begins_with_a_dollar_stays_at_its_broker():
    world, (a,) = linked("a")
    inside, outside = world.client("a", "inside"), a.client("outside")
    for client in (inside, outside):
        client.subscribe("$SYS/#")
        client.subscribe("$CONTROL/#")
        client.subscribe("#")
    run(world, [a], 1)
    outside.messages.clear()
    inside.publish("$CONTROL/x", b"1", 1)
    outside.publish("$CONTROL/x", b"2", 1)
    run(world, [a], 1)
    assert inside.payloads() == [b"1"]
    assert b"1" not in outside.payloads()


# --- what a link cannot do --------------------------------------------------------------------------------------------

def failing(model: ModelMosquitto) -> LinkedNode:
    world = FederationWorld("a")
    node = LinkedNode(world, "a", model)
    run(world, [node], 10)
    assert not node.is_up
    return node


def test_a_mosquitto_that_does_not_report_subscriptions_is_refused():
    for reports in ((), ("N",), ("M/subscribe", "N"), ("M/unsubscribe", "N")):
        assert "log_type unsubscribe" in failing(ModelMosquitto(0, reports)).failed


def test_a_second_link_ends_the_first_which_says_so():
    world, (a, _b) = linked("ab")
    assert not a.failed
    second = LinkedNode(world, "b", a.model)
    run(world, [a, second], 10)
    assert "one mosquitto has one sidecar" in a.failed
    assert not a.is_up
    assert second.is_up
    assert not second.failed
    second.cut()
    run(world, [second], 5)
    assert second.is_up, "its own name is no other's"


def link_alone() -> MosquittoLink:
    world = FederationWorld("a")
    link = MosquittoLink(MosquittoOptions(name="a"), world.nodes["a"].broker, None, Random(1), world.now_ns)
    link.tick(world.now_ns)
    link.mosquitto_opened(world.now_ns)
    link.drain(world.now_ns)
    return link


def test_a_refusal_that_stays_ends_the_link_and_another_is_tried_again():
    link = link_alone()
    link.mosquitto_sent([ConnAckPacket(False, ReasonCode.NOT_AUTHORIZED)], 1_000 * SECOND)
    assert "NOT_AUTHORIZED" in str(link.drain(1_000 * SECOND))
    assert link.state is MosquittoState.DOWN
    link.tick(10_000 * SECOND)
    assert link.state is MosquittoState.DOWN
    link = link_alone()
    link.mosquitto_sent([ConnAckPacket(False, ReasonCode.SERVER_BUSY)], 1_000 * SECOND)
    link.tick(1_010 * SECOND)
    assert link.state is MosquittoState.OPENING


def test_attempts_become_rarer_and_an_answer_that_does_not_come_ends_one():
    link = link_alone()
    opened = []
    for tenth in range(1, 1_000):
        now_ns = 1_000 * SECOND + tenth * SECOND // 10
        link.tick(now_ns)
        if link.state is MosquittoState.OPENING:
            opened.append(tenth)
            link.broke("refused", now_ns)
    waits = [after - before for before, after in itertools.pairwise(opened)]
    assert opened[0] >= 100, "10 s for CONNACK"
    assert waits[:5] == sorted(waits[:5])
    assert waits[-1] in (50, 51)


def test_a_silent_mosquitto_is_given_up():
    world, (a,) = linked("a")
    pings = []
    send = a.mosquitto.send
    a.mosquitto.send = lambda packet: pings.append(packet)           # type: ignore[method-assign, assignment]
    run(world, [a], 50, step_s=0.5)
    assert a.count("link_breaks") == 1
    assert len(pings) >= 2
    a.mosquitto.send = send                                          # type: ignore[method-assign]


def test_packets_behind_connack_wait_for_the_broker():
    link = link_alone()
    link.mosquitto_sent([ConnAckPacket(), PublishPacket("t", b"1", 1, packet_id=9)], 1_000 * SECOND)
    assert any(isinstance(each, OpenBroker) for each in link.drain(1_000 * SECOND))
    link.broker_opened(1_000 * SECOND)
    link.broker_sent([ConnAckPacket()], 1_000 * SECOND)
    assert any(isinstance(getattr(each, "packet", None), PublishPacket) for each in link.drain(1_000 * SECOND))


def test_many_filters_are_subscribed_some_at_a_time():
    world, (a,) = linked("a")
    inside = world.client("a", "inside")
    most = 0
    for number in range(500):
        inside.subscribe(f"f/{number}")
    for _ in range(200):
        a.settle()
        most = max(most, len(a.link._asked))
        world.run(0.01)
    assert a.count("subscribed") == 500
    assert most <= 50
    assert len(a.link.report()["wanted_elsewhere"]) == 500           # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(30))
def test_any_packets_of_mosquitto_leave_a_link_that_works(seed: int):
    rng = Random(f"senseless/{seed}")
    world, (a,) = linked("a")
    inside = world.client("a", "inside")
    inside.subscribe("#")
    run(world, [a], 0.5)
    for _ in range(50):
        data = encode(random_packet(rng, V5), V5)
        try:
            packets = Decoder(SentBy.SERVER, V5).feed(data)
        except MqttError:
            continue
        packets = [each for each in packets if not isinstance(each, DisconnectPacket)]
        a.link.mosquitto_sent(packets, world.now_ns)
        a.settle()
    run(world, [a], 10)
    assert a.is_up
    outside = a.client("outside")
    inside.messages.clear()
    outside.publish("t", b"works", 1)
    run(world, [a], 1)
    assert inside.payloads() == [b"works"]


def test_what_is_sent_to_mosquitto_is_version_5_and_asks_for_no_own_messages():
    link = link_alone()
    link.mosquitto_sent([ConnAckPacket()], 1_000 * SECOND)
    link.broker_opened(1_000 * SECOND)
    link.broker_sent([ConnAckPacket()], 1_000 * SECOND)
    sent = [each.packet for each in link.drain(1_000 * SECOND) if isinstance(each, ToMosquitto)]
    assert [each.filter for each in sent[0].subscriptions] == [           # type: ignore[union-attr]
        "$SYS/broker/log/M/subscribe", "$SYS/broker/log/M/unsubscribe", "$SYS/broker/log/N"]
