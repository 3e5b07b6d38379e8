"""The broker's core by the standard's statements (numbers of version 5 where 3.1.1 has the same)."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.blocks.mqtt.broker.journal import SessionJournal
from jgroups_py.blocks.mqtt.broker.options import AckWhen, WhenFull
from jgroups_py.blocks.mqtt.broker.outputs import MoreToSend, SendAcks, SendPacket, SendPublish
from jgroups_py.blocks.mqtt.broker.ports import Forwarding, NoFederation
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.codec.decoder import Decoder
from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import (
    AuthPacket,
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    MqttError,
    PingReqPacket,
    PingRespPacket,
    Properties,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    ReasonCode,
    RetainHandling,
    SubAckPacket,
    SubscribePacket,
    Subscription,
    UnsubscribePacket,
    Will,
)
from tests.unit.blocks.mqtt.clients import SECOND, V3, V5, Bench, Client

BOTH = pytest.mark.parametrize("version", [V3, V5])


# --- CONNECT --------------------------------------------------------------------------------------------------------

@BOTH
def test_3_1_0_1_the_first_packet_is_connect(version):
    bench = Bench()
    client = Client(bench, "a", version)
    client.open()
    client.send(PingReqPacket())
    assert client.closed is not None
    assert not client.packets


def test_3_1_0_2_a_second_connect_is_a_protocol_error():
    client = Bench().client("a")
    client.send(ConnectPacket("a"))
    assert client.answer(DisconnectPacket).reason is ReasonCode.PROTOCOL_ERROR
    assert client.closed is not None


def test_3_1_2_2_another_version_is_refused_in_words_that_its_client_reads():
    bench = Bench()
    client = Client(bench, "a", V3)
    client.open()
    bench.broker.failed(client.number, MqttError(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, "version 3"), bench.now_ns)
    bench.settle()
    assert client.answer(ConnAckPacket).reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION
    assert client.closed is not None


@BOTH
def test_3_1_2_4_clean_start_discards_the_session(version):
    bench = Bench()
    client = bench.client("a", version, clean_start=False, session_expiry_interval=100)
    client.subscribe("t")
    client.cut()
    assert client.connect(clean_start=True).session_present is False
    bench.client("p").publish("t", qos=1)
    assert not client.messages


@BOTH
def test_3_1_2_5_a_session_is_resumed_and_what_came_meanwhile_is_delivered(version):
    bench = Bench()
    client = bench.client("a", version, clean_start=False, session_expiry_interval=100)
    client.subscribe("t")
    client.cut()
    publisher = bench.client("p")
    for qos in (0, 1, 2):
        publisher.publish("t", b"%d" % qos, qos)
    assert client.connect(clean_start=False, session_expiry_interval=100).session_present is True
    assert client.payloads() == [b"1", b"2"]
    assert bench.count("dropped_offline_qos_0") == 1


@BOTH
def test_3_1_2_8_the_will_comes_when_the_connection_is_lost(version):
    bench = Bench()
    watcher = bench.client("w")
    watcher.subscribe("will", 2)
    client = bench.client("a", version, will=Will("will", b"gone", 2, False))
    client.cut()
    assert [(each.payload, each.qos) for each in watcher.messages] == [(b"gone", 2)]
    bench.wait(1000)
    assert watcher.payloads() == [b"gone"]


@BOTH
def test_3_1_2_10_the_will_is_deleted_by_disconnect(version):
    bench = Bench()
    watcher = bench.client("w")
    watcher.subscribe("will", 2)
    bench.client("a", version, will=Will("will", b"gone")).disconnect()
    bench.wait(1000)
    assert not watcher.messages


def test_3_14_disconnect_with_will_message_publishes_it():
    bench = Bench()
    watcher = bench.client("w")
    watcher.subscribe("will", 2)
    bench.client("a", will=Will("will", b"gone")).disconnect(ReasonCode.DISCONNECT_WITH_WILL_MESSAGE)
    assert watcher.payloads() == [b"gone"]


@BOTH
def test_3_1_2_22_the_keep_alive_ends_after_one_and_a_half(version):
    bench = Bench()
    client = bench.client("a", version, keep_alive_s=10)
    bench.wait(14)
    client.send(PingReqPacket())
    client.answer(PingRespPacket)
    bench.wait(14.9)
    assert client.closed is None
    bench.wait(0.2)
    assert client.closed is not None
    assert client.closed.reason is ReasonCode.KEEP_ALIVE_TIMEOUT
    assert client.has(DisconnectPacket) is (version is V5)


def test_3_1_2_24_no_packet_is_larger_than_the_client_takes():
    bench = Bench()
    client = bench.client("a", maximum_packet_size=30)
    client.subscribe("t", 1)
    publisher = bench.client("p")
    # 2 + 2 + 1 + 2 + 1 bytes and the payload.
    publisher.publish("t", b"x" * 22, 1)
    publisher.publish("t", b"x" * 23, 1)
    publisher.publish("t", b"y", 1)
    assert [len(each) for each in client.payloads()] == [22, 1]
    assert bench.count("dropped_too_large") == 1
    assert client.number, "one that is too large is as if it was sent"


@BOTH
def test_3_1_3_6_an_empty_client_id_is_assigned(version):
    bench = Bench()
    client = Client(bench, "", version)
    answer = client.connect()
    assert answer.reason is ReasonCode.SUCCESS
    assert (answer.properties.assigned_client_identifier is not None) is (version is V5)
    assert len(bench.broker.sessions) == 1


def test_3_1_3_8_of_3_1_1_an_empty_client_id_has_no_session_to_keep():
    client = Client(Bench(), "", V3)
    assert client.connect(clean_start=False).reason is ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
    assert client.closed is not None


def test_3_1_3_9_a_will_with_delay_is_cancelled_by_a_new_connection():
    bench = Bench()
    watcher = bench.client("w")
    watcher.subscribe("will", 2)
    will = Will("will", b"gone", 1, False, Properties(will_delay_interval=10))
    client = bench.client("a", will=will, session_expiry_interval=100)
    client.cut()
    bench.wait(9.9)
    client.connect(clean_start=False, session_expiry_interval=100, will=will)
    bench.wait(20)
    assert not watcher.messages
    client.cut()
    bench.wait(10)
    assert watcher.payloads() == [b"gone"]


@pytest.mark.parametrize("expiry", [0, 5])
def test_3_1_3_2_2_a_session_that_ends_before_the_delay_publishes_the_will(expiry):
    bench = Bench()
    watcher = bench.client("w")
    watcher.subscribe("will", 2)
    will = Will("will", b"gone", 1, False, Properties(will_delay_interval=10))
    bench.client("a", will=will, session_expiry_interval=expiry).cut()
    bench.wait(expiry)
    assert watcher.payloads() == [b"gone"]
    bench.wait(20)
    assert not watcher.messages


@pytest.mark.parametrize("order", [(3, 8), (8, 3)])
def test_of_two_wills_that_come_from_other_nodes_one_waits_and_the_other_comes_at_once(order):
    """Parts of a split group had the client one after the other, so its session here is joined of both."""
    bench = Bench()
    watcher = bench.client("w")
    watcher.subscribe("will", 2)
    bench.broker.adopt("a", 100, [], bench.now_ns)
    for left_s in order:
        bench.broker.withdraw_adopted_will("a")              # of a copy: there is none
        bench.broker.adopt_will("a", Will("will", b"%d" % left_s, 1), bench.now_ns, left_ns=left_s * SECOND)
    bench.settle()
    assert watcher.payloads() == [b"3"]
    bench.wait(7.9)
    assert not watcher.messages
    bench.wait(0.1)
    assert watcher.payloads() == [b"8"]


@pytest.mark.parametrize("of_node", ["", "other", "the one that is back"])
@pytest.mark.parametrize("is_back", [False, True])
def test_only_the_will_of_a_copy_is_withdrawn(of_node, is_back):
    bench = Bench()
    watcher = bench.client("w")
    watcher.subscribe("will", 2)
    bench.broker.adopt("a", 100, [], bench.now_ns)
    bench.broker.adopt_will("a", Will("will", b"gone", 1), bench.now_ns, left_ns=SECOND, of_node=of_node)
    changes: list[None] = []
    bench.broker.sessions["a"].journal = SessionJournal(list, lambda: changes.append(None))
    if is_back:
        bench.broker.withdraw_adopted_wills("the one that is back")
    else:
        bench.broker.withdraw_adopted_will("a")              # its session comes from elsewhere
    bench.wait(2)
    is_withdrawn = of_node == "the one that is back" if is_back else of_node
    assert changes, "its copies are told that it is withdrawn, or published"
    assert watcher.payloads() == [b"gone"] * (not is_withdrawn)


@BOTH
def test_3_1_4_3_a_client_that_connects_again_takes_over(version):
    bench = Bench()
    first = bench.client("a", version, clean_start=False, session_expiry_interval=100)
    first.subscribe("t")
    second = Client(bench, "a", V5)
    assert second.connect(clean_start=False, session_expiry_interval=100).session_present is True
    assert first.closed is not None
    assert first.closed.reason is ReasonCode.SESSION_TAKEN_OVER
    assert first.has(DisconnectPacket) is (version is V5)
    bench.client("p").publish("t", b"1", 1)
    assert second.payloads() == [b"1"]
    assert not first.messages


def test_3_1_2_11_2_the_session_expires():
    bench = Bench()
    client = bench.client("a", session_expiry_interval=10)
    client.subscribe("t")
    client.cut()
    bench.wait(9.9)
    assert "a" in bench.broker.sessions
    bench.wait(0.2)
    assert "a" not in bench.broker.sessions
    assert not bench.broker.router.tree.match("t").plain
    assert client.connect(clean_start=False).session_present is False


def test_3_2_2_3_4_connack_has_no_maximum_qos_when_it_is_2():
    assert Client(Bench(), "a", V5).connect().properties.maximum_qos is None
    bench = Bench(max_qos=1)
    client = Client(bench, "a", V5)
    assert client.connect().properties.maximum_qos == 1
    assert client.subscribe("t", 2) is ReasonCode.GRANTED_QOS_1
    client.publish("t", qos=2)
    assert client.answer(DisconnectPacket).reason is ReasonCode.QOS_NOT_SUPPORTED


def test_3_2_2_21_the_servers_keep_alive_takes_the_place_of_the_clients():
    bench = Bench(max_keep_alive_s=20)
    client = Client(bench, "a", V5)
    assert client.connect(keep_alive_s=60).properties.server_keep_alive == 20
    bench.wait(30.1)
    assert client.closed is not None


def test_4_12_0_1_an_unknown_authentication_method_is_refused():
    assert Client(Bench(), "a", V5).connect(
        authentication_method="x").reason is ReasonCode.BAD_AUTHENTICATION_METHOD
    client = Bench().client("a")
    client.send(AuthPacket())
    assert client.answer(DisconnectPacket).reason is ReasonCode.PROTOCOL_ERROR


def test_a_connection_without_connect_is_closed():
    bench = Bench(connect_timeout_s=3)
    client = Client(bench, "a", V5)
    client.open()
    bench.wait(3.1)
    assert client.closed is not None
    assert bench.count("connect_timeouts") == 1


def test_connections_and_sessions_are_limited():
    bench = Bench(max_clients=2)
    kept = bench.client("a", session_expiry_interval=100)
    kept.cut()
    bench.client("b")
    assert Client(bench, "c", V5).connect().reason is ReasonCode.QUOTA_EXCEEDED
    assert kept.connect(clean_start=False).reason is ReasonCode.SUCCESS
    client = Client(bench, "d", V5)
    client.open()
    assert client.closed is not None
    assert bench.count("refused_full") == 1


# --- PUBLISH --------------------------------------------------------------------------------------------------------

@BOTH
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("subscribed", [0, 1, 2])
def test_3_8_4_8_the_qos_is_the_lesser_of_both(version, published, subscribed):
    bench = Bench()
    client = bench.client("a", version)
    assert client.subscribe("t", subscribed) == subscribed
    publisher = bench.client("p", version)
    publisher.publish("t", b"x", published)
    assert [each.qos for each in client.messages] == [min(published, subscribed)]
    assert [publisher.has(kind) for kind in (PubAckPacket, PubRecPacket, PubCompPacket)] == [
        published == 1, published == 2, published == 2]
    assert not bench.broker.sessions["a"].in_flight


@BOTH
def test_4_3_3_10_qos_2_is_routed_once_until_it_is_released(version):
    bench = Bench()
    client = bench.client("a", version)
    client.subscribe("t")
    publisher = bench.client("p", version, clean_start=False, session_expiry_interval=100)
    publisher.acks = False
    publisher.publish("t", b"1", 2, packet_id=7)
    publisher.publish("t", b"1", 2, packet_id=7, dup=True)
    publisher.cut()
    publisher.connect(clean_start=False, session_expiry_interval=100)
    publisher.publish("t", b"1", 2, packet_id=7, dup=True)
    assert client.payloads() == [b"1"]
    publisher.send(PubRelPacket(7))
    assert publisher.answer(PubCompPacket).reason is ReasonCode.SUCCESS
    publisher.publish("t", b"2", 2, packet_id=7)
    assert client.payloads() == [b"2"]


def test_4_3_3_an_unknown_release_is_answered():
    client = Bench().client("a")
    client.send(PubRelPacket(9))
    assert client.answer(PubCompPacket).reason is ReasonCode.PACKET_IDENTIFIER_NOT_FOUND


@BOTH
def test_4_4_0_1_what_is_in_flight_is_repeated_in_order(version):
    bench = Bench()
    client = bench.client("a", version, clean_start=False, session_expiry_interval=100)
    client.subscribe("t")
    client.acks = False
    publisher = bench.client("p")
    for number, qos in enumerate((1, 2, 1, 2)):
        publisher.publish("t", b"%d" % number, qos)
    first = list(client.messages)
    client.send(PubRecPacket(first[1].packet_id))
    client.messages.clear()
    client.packets.clear()
    client.cut()
    client.connect(clean_start=False, session_expiry_interval=100)
    assert [(each.payload, each.dup, each.packet_id) for each in client.messages] == [
        (each.payload, True, each.packet_id) for each in first if each.payload != b"1"]
    assert client.answer(PubRelPacket).packet_id == first[1].packet_id, "received, so never published again"
    assert bench.count("resent") == 4


def test_4_9_no_more_in_flight_than_receive_maximum_also_when_repeated():
    bench = Bench()
    client = bench.client("a", session_expiry_interval=100, receive_maximum=3)
    client.acks = False
    client.subscribe("t", 1)
    publisher = bench.client("p")
    for number in range(10):
        publisher.publish("t", b"%d" % number, 1)
    assert client.payloads() == [b"0", b"1", b"2"]
    client.send(PubAckPacket(1))
    assert client.payloads() == [b"3"]
    client.cut()
    client.connect(clean_start=False, session_expiry_interval=100, receive_maximum=2)
    assert client.payloads() == [b"1", b"2"]
    client.send(PubAckPacket(2))
    assert client.payloads() == [b"3"]
    client.acks = True
    client.send(PubAckPacket(3), PubAckPacket(4))
    assert client.payloads() == [b"%d" % number for number in range(4, 10)]


@BOTH
def test_what_is_acknowledged_before_it_is_repeated_counts_as_in_flight(version):
    bench = Bench(max_inflight=2)
    client = bench.client("a", version, clean_start=False, session_expiry_interval=100)
    client.subscribe("t")
    client.acks = False
    publisher = bench.client("p")
    for number in range(2):
        publisher.publish("t", b"%d" % number, 2)
    client.cut()
    client.open()
    bench.broker.write_blocked(client.number)
    client.send(ConnectPacket("a", version, False, properties=Properties(session_expiry_interval=100)))
    client.send(PubRecPacket(1))
    client.answer(PubRelPacket)
    client.messages.clear()
    bench.broker.write_ready(client.number, bench.now_ns)
    bench.settle()
    client.send(PubCompPacket(1))
    for number in range(2, 5):
        publisher.publish("t", b"%d" % number, 2)
    assert [(each.payload, each.dup) for each in client.messages] == [(b"1", True), (b"2", False)]
    connection = bench.broker.sessions["a"].connection
    assert connection is not None
    assert connection.in_flight == 2


def test_3_3_4_9_more_than_our_receive_maximum_is_an_error():
    client = Bench(receive_maximum=3).client("a")
    client.acks = False
    for number in range(4):
        client.publish("t", b"%d" % number, 2)
    assert client.answer(DisconnectPacket).reason is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_3_3_2_5_an_expired_message_is_not_delivered_and_the_rest_says_what_is_left():
    bench = Bench()
    client = bench.client("a", session_expiry_interval=100)
    client.subscribe("t", 1)
    client.cut()
    publisher = bench.client("p")
    publisher.publish("t", b"short", 1, message_expiry_interval=5)
    publisher.publish("t", b"long", 1, message_expiry_interval=60)
    bench.wait(10)
    client.connect(clean_start=False)
    assert [(each.payload, each.properties.message_expiry_interval) for each in client.messages] == [(b"long", 50)]
    assert bench.count("dropped_expired") == 1


def test_3_3_2_3_4_topic_aliases_of_a_client_end_with_its_connection():
    bench = Bench(topic_alias_maximum=3)
    watcher = bench.client("w")
    watcher.subscribe("#")
    client = bench.client("a")
    client.publish("t/1", b"1", topic_alias=3)
    client.publish("", b"2", topic_alias=3)
    client.publish("t/2", b"3", topic_alias=3)
    client.publish("", b"4", topic_alias=3)
    assert [(each.topic, each.payload) for each in watcher.messages] == [
        ("t/1", b"1"), ("t/1", b"2"), ("t/2", b"3"), ("t/2", b"4")]
    assert all(each.properties == Properties() for each in watcher.messages)
    client.cut()
    client.connect()
    client.publish("", b"5", topic_alias=3)
    assert client.answer(DisconnectPacket).reason is ReasonCode.PROTOCOL_ERROR
    client.connect()
    client.publish("t", b"6", topic_alias=4)
    assert client.answer(DisconnectPacket).reason is ReasonCode.TOPIC_ALIAS_INVALID


def test_3_1_2_27_topic_aliases_towards_a_client_stay_within_its_maximum():
    bench = Bench()
    client = bench.client("a", topic_alias_maximum=1)
    client.subscribe("#")
    publisher = bench.client("p")
    for topic in ("a", "a", "b", "a"):
        publisher.publish(topic)
    assert [(each.topic, each.properties.topic_alias) for each in client.messages] == [
        ("a", 1), ("", 1), ("b", None), ("", 1)]


def test_3_3_2_properties_are_forwarded_unchanged():
    bench = Bench()
    client = bench.client("a")
    client.subscribe("t", identifier=5)
    properties = Properties(payload_format_indicator=1, content_type="c", response_topic="r",
                            correlation_data=b"\xff\xfe\x80", user_properties=(("k", "1"), ("k", "2")))
    bench.client("p").send(PublishPacket("t", b"x", properties=properties))
    got = client.messages[0].properties
    assert got.subscription_identifiers == (5,)
    assert (got.correlation_data, got.user_properties, got.content_type, got.response_topic) == (
        b"\xff\xfe\x80", (("k", "1"), ("k", "2")), "c", "r")


def test_3_3_4_6_a_client_sends_no_subscription_identifier():
    client = Bench().client("a")
    client.send(PublishPacket("t", b"x", properties=Properties(subscription_identifiers=(1,))))
    assert client.answer(DisconnectPacket).reason is ReasonCode.PROTOCOL_ERROR


def test_a_publication_for_nobody_is_acknowledged_as_such():
    bench = Bench()
    client = bench.client("a")
    client.publish("t", qos=1)
    assert client.answer(PubAckPacket).reason is ReasonCode.NO_MATCHING_SUBSCRIBERS


@BOTH
def test_system_topics_are_the_brokers(version):
    bench = Bench(sys_interval_s=10)
    client = bench.client("a", version)
    client.subscribe("$SYS/#", 0)
    assert {each.topic: each.retain for each in client.messages}["$SYS/broker/uptime"] is True
    client.messages.clear()
    client.publish("$SYS/broker/uptime", b"lie", 1)
    assert not client.messages
    assert client.answer(PubAckPacket).reason is (ReasonCode.TOPIC_NAME_INVALID if version is V5
                                                  else ReasonCode.SUCCESS)
    bench.wait(10)
    assert {each.topic: each.payload for each in client.messages}["$SYS/broker/uptime"] == b"10"
    assert {each.topic: each.payload for each in client.messages}["$SYS/broker/clients/connected"] == b"1"


# --- retained -------------------------------------------------------------------------------------------------------

@BOTH
def test_3_3_1_5_the_last_retained_message_comes_with_the_flag(version):
    bench = Bench()
    publisher = bench.client("p", version)
    client = bench.client("a", version)
    client.subscribe("t/+", 1)
    publisher.publish("t/1", b"old", 1, retain=True)
    publisher.publish("t/1", b"new", 1, retain=True)
    assert [(each.payload, each.retain) for each in client.messages] == [(b"old", False), (b"new", False)]
    late = bench.client("b", version)
    late.subscribe("t/#", 1)
    assert [(each.payload, each.retain, each.qos) for each in late.messages] == [(b"new", True, 1)]


@BOTH
def test_3_3_1_6_an_empty_payload_clears(version):
    bench = Bench()
    publisher = bench.client("p", version)
    publisher.publish("t", b"1", retain=True)
    publisher.publish("t", b"", retain=True)
    late = bench.client("b", version)
    late.subscribe("#", 1)
    assert not late.messages


@pytest.mark.parametrize(("handling", "expected"), [
    (RetainHandling.ALWAYS, [b"1", b"1"]), (RetainHandling.IF_NEW, [b"1"]), (RetainHandling.NEVER, [])])
def test_3_3_1_9_to_11_retain_handling(handling, expected):
    bench = Bench()
    bench.client("p").publish("t", b"1", retain=True)
    client = bench.client("a")
    client.subscribe("t", retain_handling=handling)
    client.subscribe("t", retain_handling=handling)
    assert client.payloads() == expected


def test_3_3_1_13_retain_as_published_keeps_the_flag():
    bench = Bench()
    client = bench.client("a")
    client.subscribe("t", retain_as_published=True)
    publisher = bench.client("p")
    publisher.publish("t", b"1", retain=True)
    publisher.publish("t", b"2")
    assert [(each.payload, each.retain) for each in client.messages] == [(b"1", True), (b"2", False)]


def test_a_retained_message_expires():
    bench = Bench()
    bench.client("p").publish("t", b"1", retain=True, message_expiry_interval=5)
    bench.wait(5)
    client = bench.client("a")
    client.subscribe("t")
    assert not client.messages


# --- SUBSCRIBE ------------------------------------------------------------------------------------------------------

def test_3_8_3_3_no_local():
    bench = Bench()
    client = bench.client("a")
    client.subscribe("t", no_local=True)
    client.publish("t", b"own")
    bench.client("b").publish("t", b"other")
    assert client.payloads() == [b"other"]


def test_3_8_3_4_no_local_of_a_shared_subscription_is_an_error():
    client = Bench().client("a")
    client.send(SubscribePacket(1, (Subscription("$share/g/t", 0, no_local=True),)))
    assert client.answer(DisconnectPacket).reason is ReasonCode.PROTOCOL_ERROR


def test_3_8_4_3_a_repeated_subscription_replaces_the_first():
    bench = Bench()
    client = bench.client("a")
    client.subscribe("t", 0, identifier=1)
    client.subscribe("t", 2, identifier=2)
    bench.client("p").publish("t", b"x", 2)
    assert [(each.qos, each.properties.subscription_identifiers) for each in client.messages] == [(2, (2,))]


def test_3_3_4_overlapping_subscriptions_give_one_copy_with_all_identifiers():
    bench = Bench()
    client = bench.client("a")
    client.subscribe("t/#", 0, identifier=1)
    client.subscribe("t/+", 2, identifier=2)
    client.subscribe("t/1", 1)
    bench.client("p").publish("t/1", b"x", 2)
    message, = client.messages
    assert message.qos == 2
    assert sorted(message.properties.subscription_identifiers) == [1, 2]


def test_3_8_4_6_each_filter_has_its_code_in_order():
    bench = Bench(max_subscriptions=2, max_levels=3)
    client = bench.client("a")
    client.send(SubscribePacket(1, tuple(Subscription(filter, qos) for filter, qos in (
        ("a", 1), ("a/b/c/d", 0), ("b", 2), ("c", 0)))))
    assert client.answer(SubAckPacket).reasons == (
        ReasonCode.GRANTED_QOS_1, ReasonCode.TOPIC_FILTER_INVALID, ReasonCode.GRANTED_QOS_2, ReasonCode.QUOTA_EXCEEDED)
    assert bench.count("refused_subscribe") == 2


@BOTH
def test_3_10_4_unsubscribe(version):
    bench = Bench()
    client = bench.client("a", version)
    client.subscribe("t")
    assert client.unsubscribe("t") is ReasonCode.SUCCESS
    bench.client("p").publish("t")
    assert not client.messages
    client.send(UnsubscribePacket(9, ("t",)))
    if version is V5:
        assert client.packets.pop().reasons == (ReasonCode.NO_SUBSCRIPTION_EXISTED,)


def test_4_8_2_a_shared_subscription_takes_turns():
    bench = Bench()
    members = [bench.client(name) for name in "abc"]
    for member in members:
        member.subscribe("$share/g/t/+", 1)
    other = bench.client("o")
    other.subscribe("$share/h/t/#", 1)
    publisher = bench.client("p")
    for number in range(30):
        publisher.publish("t/1", b"%d" % number, 1)
    assert [len(each.messages) for each in (*members, other)] == [10, 10, 10, 30]
    members[0].cut()
    members[1].unsubscribe("$share/g/t/+")
    publisher.publish("t/1", b"last", 1)
    assert members[2].messages[-1].payload == b"last"


def test_clients_of_3_1_1_share_subscriptions_too_also_with_those_of_5():
    bench = Bench()
    members = [bench.client(f"m{number}", version) for number, version in enumerate((V3, V3, V5))]
    for member in members:
        assert member.subscribe("$share/g/t", 1) is ReasonCode.GRANTED_QOS_1
    publisher = bench.client("p", V3)
    for number in range(6):
        publisher.publish("t", b"%d" % number, 1)
    assert [member.payloads() for member in members] == [[b"0", b"3"], [b"1", b"4"], [b"2", b"5"]]


@pytest.mark.parametrize("filter", ["$share/g", "$share/g/", "$share//t", "$share/+/t", "$share/#"])
def test_what_only_begins_like_a_shared_subscription_is_a_plain_filter_to_3_1_1(filter):
    bench = Bench()
    client = bench.client("a", V3)
    topic = filter.replace("+", "g").replace("#", "g/t")
    client.send(*Decoder(version=V3).feed(encode(SubscribePacket(9, (Subscription(filter, 1),)), V3)))
    assert client.answer(SubAckPacket).reasons == (ReasonCode.GRANTED_QOS_1,)
    client.publish(topic, b"1", 1)
    assert client.payloads() == [b"1"]
    assert client.unsubscribe(filter) is ReasonCode.SUCCESS
    client.publish(topic, b"2", 1)
    assert not client.messages
    with pytest.raises(MqttError, match="TOPIC_FILTER_INVALID"):
        Decoder(version=V5).feed(encode(SubscribePacket(9, (Subscription(filter, 1),)), V5))


def test_4_8_2_4_the_message_of_a_session_that_ends_goes_to_another_member():
    bench = Bench()
    members = [bench.client(name, receive_maximum=1, session_expiry_interval=10) for name in "ab"]
    for member in members:
        member.acks = False
        member.subscribe("$share/g/t", 2)
    publisher = bench.client("p")
    for number, qos in enumerate((1, 1, 2, 1)):
        publisher.publish("t", b"%d" % number, qos)
    assert [each.payloads() for each in members] == [[b"0"], [b"1"]]
    members[0].cut()
    bench.wait(11)
    assert bench.count("moved_to_other_member") == 2, "0 in flight, 2 queued"
    members[1].acks = True
    members[1].send(PubAckPacket(1))
    assert members[1].payloads() == [b"3", b"0", b"2"]


def test_4_8_2_5_what_was_begun_of_qos_2_goes_to_no_other_member():
    bench = Bench()
    members = [bench.client(name) for name in "ab"]
    for member in members:
        member.acks = False
        member.subscribe("$share/g/t", 2)
    bench.client("p").publish("t", b"1", 2)
    members[0].cut()
    assert not members[1].messages
    assert bench.count("dropped_session_ended") == 1


# --- acknowledgements that wait for peers -----------------------------------------------------------------------------

class Peers(NoFederation):
    """A federation that takes what the test releases."""

    def __init__(self) -> None:
        self.interests: list[tuple[str, str, int, int]] = []
        self.tokens: list[int] = []
        self.elsewhere: frozenset[tuple[str, str]] = frozenset()
        self.next_token = 0

    def interest(self, group, filter, members, online):
        self.interests.append((group, filter, members, online))

    def publish(self, publication, groups, now_ns):
        if not publication.qos or not self.next_token:
            return Forwarding(0, self.elsewhere, 1)
        self.next_token += 1
        self.tokens.append(self.next_token)
        return Forwarding(self.next_token, self.elsewhere, 1)

    def retained(self, publication, now_ns):
        pass


@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledgements_wait_for_peers_and_keep_their_order(qos):
    peers = Peers()
    peers.next_token = 100
    bench = Bench(peers)
    client = bench.client("a")
    kind = PubAckPacket if qos == 1 else PubRecPacket
    ids = [client.publish("t", qos=qos) for _ in range(3)]
    assert not client.has(kind)
    bench.broker.release(peers.tokens[1], bench.now_ns)
    bench.settle()
    assert not client.has(kind), "the first is not acknowledged yet"
    bench.broker.release(peers.tokens[0], bench.now_ns)
    bench.settle()
    assert [client.answer(kind).packet_id for _ in range(2)] == ids[:2]
    assert not client.has(kind)
    bench.wait(5)
    assert client.answer(kind).packet_id == ids[2]
    assert bench.count("ack_timeouts") == 1
    bench.broker.release(peers.tokens[2], bench.now_ns)
    bench.settle()
    assert not client.has(kind)


class PeersWithOneToken(Peers):
    """Gives all messages the same token."""

    def publish(self, publication, groups, now_ns):
        return Forwarding(self.next_token if publication.qos else 0, self.elsewhere, 1)


@pytest.mark.parametrize("ends_by", ["release", "timeout"])
def test_acknowledgements_of_one_token_come_together_and_in_order(ends_by):
    peers = PeersWithOneToken()
    peers.next_token = 7
    bench = Bench(peers)
    client, other = bench.client("a", session_expiry_interval=100), bench.client("b")
    client.acks = False
    packets = [PublishPacket("t", b"", qos, packet_id=at + 1) for at, qos in enumerate((1, 1, 2, 0, 1, 2))]
    bench.broker.received(client.number, packets, bench.now_ns)
    bench.broker.received(other.number, packets[:1], bench.now_ns)
    bench.settle()
    assert not client.has(PubAckPacket)
    assert not client.has(PubRecPacket)
    client.publish("t", qos=2, packet_id=3, dup=True)
    if ends_by == "release":
        bench.broker.release(7, bench.now_ns)
        bench.settle()
    else:
        bench.wait(5)
    assert bench.count("ack_timeouts") == (6 if ends_by == "timeout" else 0)
    found = [each for each in client.packets if isinstance(each, PubAckPacket | PubRecPacket)]
    assert sorted(each.packet_id for each in found if isinstance(each, PubAckPacket)) == [1, 2, 5]
    assert [each.packet_id for each in found if isinstance(each, PubRecPacket)] == [3, 6], "once each"
    assert other.answer(PubAckPacket).packet_id == 1
    client.publish("t", qos=2, packet_id=3, dup=True)
    assert found[-1] is not client.packets[-1], "the PUBREC is known to have been sent: it comes at once"


def test_a_token_that_was_released_takes_no_message_more():
    """[MQTT-4.6.0-2]: what is behind it waits for a token of its own, though the number is the same."""
    peers = PeersWithOneToken()
    bench = Bench(peers)
    client = bench.client("a")
    peers.next_token = 1
    client.publish("t", qos=1, packet_id=1)
    peers.next_token = 2
    client.publish("t", qos=1, packet_id=2)
    bench.broker.release(2, bench.now_ns)
    client.publish("t", qos=1, packet_id=3)
    bench.broker.release(1, bench.now_ns)
    bench.settle()
    assert [each.packet_id for each in client.packets if isinstance(each, PubAckPacket)] == [1, 2]
    bench.broker.release(2, bench.now_ns)
    bench.settle()
    assert client.packets[-1].packet_id == 3


def test_acknowledgements_of_one_read_leave_together_and_those_with_a_reason_in_between():
    bench = Bench()
    client = bench.client("a")
    bench.client("sub").subscribe("wanted")
    topics = ("wanted", "wanted", "nobody", "wanted")
    bench.broker.received(client.number, [PublishPacket(topic, b"", 1, packet_id=at + 1)
                                          for at, topic in enumerate(topics)], bench.now_ns)
    outputs = [each for each in bench.broker.drain() if isinstance(each, SendAcks | SendPacket)]
    assert [each.packet_ids if isinstance(each, SendAcks) else each.packet.packet_id
            for each in outputs] == [[1, 2], 3, [4]]
    assert outputs[1].packet.reason is ReasonCode.NO_MATCHING_SUBSCRIBERS


def test_with_ack_local_no_peer_is_awaited():
    peers = Peers()
    peers.next_token = 100
    client = Bench(peers, ack=AckWhen.LOCAL).client("a")
    client.publish("t", qos=1)
    assert client.answer(PubAckPacket).reason is ReasonCode.SUCCESS


def test_a_repeated_publish_of_qos_2_waits_for_the_peers_of_the_first():
    peers = Peers()
    peers.next_token = 100
    bench = Bench(peers)
    client = bench.client("a", session_expiry_interval=100)
    client.acks = False
    client.publish("t", qos=2, packet_id=4)
    client.cut()
    client.connect(clean_start=False, session_expiry_interval=100)
    client.publish("t", qos=2, packet_id=4, dup=True)
    assert not client.has(PubRecPacket)
    assert len(peers.tokens) == 1
    bench.broker.release(peers.tokens[0], bench.now_ns)
    bench.settle()
    assert client.answer(PubRecPacket).packet_id == 4


@pytest.mark.parametrize("quality", [(1,), (2,), (1, 2), (2, 2, 1)])
def test_3_3_4_9_what_waits_for_peers_counts_once(quality):
    """QoS 2 is in the session from its PUBLISH to its PUBREL, whether its PUBREC waits or not."""
    peers = Peers()
    peers.next_token = 100
    bench = Bench(peers, receive_maximum=6)
    client = bench.client("a")
    client.acks = False                                  # no PUBREL
    qualities = list(quality) * 6
    for qos in qualities[:6]:
        client.publish("t", qos=qos)
    assert not client.has(DisconnectPacket)
    for token in list(peers.tokens):
        bench.broker.release(token, bench.now_ns)
    bench.settle()
    for qos in (1,) * qualities[:6].count(1):            # PUBACK has made room, PUBREC has not
        client.publish("t", qos=qos)
    assert not client.has(DisconnectPacket)
    client.publish("t", qos=1)
    assert client.answer(DisconnectPacket).reason is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_a_client_of_3_1_1_is_not_read_while_too_much_of_it_waits():
    peers = Peers()
    peers.next_token = 100
    bench = Bench(peers, receive_maximum=4)
    client = bench.client("a", V3)
    for _ in range(5):
        client.publish("t", qos=1)
    assert client.paused
    for token in list(peers.tokens):
        bench.broker.release(token, bench.now_ns)
    bench.settle()
    assert not client.paused
    assert len([each for each in client.packets if isinstance(each, PubAckPacket)]) == 5


def test_interest_crosses_at_the_first_and_the_last_subscriber():
    peers = Peers()
    bench = Bench(peers)
    first, second = bench.client("a"), bench.client("b", session_expiry_interval=5)
    first.subscribe("t/#")
    second.subscribe("t/#")
    second.subscribe("t/#", 1)
    assert peers.interests == [("", "t/#", 1, 1)]
    first.cut()
    second.cut()
    assert len(peers.interests) == 1
    bench.wait(6)
    assert peers.interests[1:] == [("", "t/#", 0, 0)]


def test_members_of_a_group_are_counted_for_the_peers_and_chosen_there():
    peers = Peers()
    bench = Bench(peers)
    first = bench.client("a", session_expiry_interval=5)
    first.subscribe("$share/g/t", 1)
    bench.client("b").subscribe("$share/g/t", 1)
    first.cut()
    bench.wait(6)
    assert peers.interests == [("g", "t", 1, 1), ("g", "t", 2, 2), ("g", "t", 2, 1), ("g", "t", 1, 1)]
    peers.elsewhere = frozenset([("g", "t")])
    bench.client("p").publish("t", qos=1)
    assert not bench.clients[2].messages
    bench.broker.deliver(Publication("t", b"1", 1), (), bench.now_ns)
    bench.broker.deliver(Publication("t", b"2", 1), [("g", "t")], bench.now_ns)
    bench.settle()
    assert bench.clients[2].payloads() == [b"2"]


# --- full queues ----------------------------------------------------------------------------------------------------

def stopped(bench: Bench) -> Client:
    """A subscriber whose transport takes nothing."""
    client = bench.client("slow", session_expiry_interval=100)
    client.subscribe("t", 1)
    bench.broker.write_blocked(client.number)
    return client


def test_a_full_queue_drops_its_oldest():
    bench = Bench(queue_messages=3)
    client = stopped(bench)
    publisher = bench.client("p")
    for number in range(5):
        publisher.publish("t", b"%d" % number, number % 2)
    bench.broker.write_ready(client.number, bench.now_ns)
    bench.settle()
    assert client.payloads() == [b"2", b"3", b"4"]
    assert bench.count("dropped_queue_full") == 2


def test_a_queue_is_bounded_in_bytes():
    bench = Bench(queue_bytes=3000)
    stopped(bench)
    publisher = bench.client("p")
    for _ in range(100):
        publisher.publish("t", b"x" * 500, 1)
    assert bench.broker.sessions["slow"].queue_bytes <= 3000
    assert bench.count("dropped_queue_full") == 96


def test_a_full_subscriber_is_disconnected_if_the_policy_says_so():
    bench = Bench(queue_messages=3, when_full=WhenFull.DISCONNECT)
    client = stopped(bench)
    publisher = bench.client("p")
    for number in range(6):
        publisher.publish("t", b"%d" % number, 1)
    assert client.answer(DisconnectPacket).reason is ReasonCode.QUOTA_EXCEEDED
    client.connect(clean_start=False)
    assert client.payloads() == [b"3", b"4", b"5"]


def test_a_full_subscriber_blocks_its_publishers_until_there_is_room():
    bench = Bench(queue_messages=4, when_full=WhenFull.BLOCK)
    client = stopped(bench)
    publisher, other = bench.client("p", keep_alive_s=1), bench.client("o")
    for number in range(6):
        publisher.publish("t", b"%d" % number, 1)
    assert publisher.paused
    assert not other.paused
    bench.wait(3)
    assert publisher.number, "what is not read cannot be late"
    bench.broker.write_ready(client.number, bench.now_ns)
    bench.settle()
    assert not publisher.paused
    assert client.payloads() == [b"%d" % number for number in range(6)]
    assert bench.count("dropped_queue_full") == 0


def test_no_publisher_waits_longer_than_the_timeout():
    bench = Bench(queue_messages=4, when_full=WhenFull.BLOCK, block_timeout_s=2)
    stopped(bench)
    publisher = bench.client("p")
    for number in range(6):
        publisher.publish("t", b"%d" % number, 1)
    bench.wait(2)
    assert not publisher.paused
    for number in range(20):
        publisher.publish("t", b"%d" % number, 1)
    assert not publisher.paused
    assert len(bench.broker.sessions["slow"].queue) == 4
    assert bench.count("block_timeouts") == 1


@pytest.mark.parametrize("policy", list(WhenFull))
def test_for_a_session_without_connection_nobody_waits(policy):
    bench = Bench(queue_messages=4, when_full=policy)
    client = bench.client("a", session_expiry_interval=100)
    client.subscribe("t", 1)
    client.cut()
    publisher = bench.client("p")
    for number in range(6):
        publisher.publish("t", b"%d" % number, 1)
    assert not publisher.paused
    client.connect(clean_start=False)
    assert client.payloads() == [b"2", b"3", b"4", b"5"]


# --- everything -----------------------------------------------------------------------------------------------------

def test_shutdown_and_kick_say_why():
    bench = Bench()
    client, other = bench.client("a"), bench.client("b")
    assert bench.broker.kick("a", bench.now_ns)
    assert not bench.broker.kick("nobody", bench.now_ns)
    bench.broker.shutdown(bench.now_ns)
    bench.settle()
    assert client.answer(DisconnectPacket).reason is ReasonCode.ADMINISTRATIVE_ACTION
    assert other.answer(DisconnectPacket).reason is ReasonCode.SERVER_SHUTTING_DOWN
    assert not bench.broker.connections


@pytest.mark.parametrize("seed", range(100))
def test_any_packets_in_any_order_end_in_an_answer_or_a_disconnect(seed):
    """Valid packets without sense: the broker lives, and what is left agrees with itself."""
    rng = Random(seed)
    bench = Bench(queue_messages=5, receive_maximum=3, max_subscriptions=4, when_full=rng.choice(list(WhenFull)))
    clients = [Client(bench, name, rng.choice([V3, V5])) for name in "abc"]
    for _ in range(150):
        client = rng.choice(clients)
        if not client.number:
            client.open()
        client.acks = rng.random() < 0.7
        packet_id = rng.randint(1, 4)
        client.send(*rng.choices([
            ConnectPacket(client.client_id, client.version, rng.random() < 0.5, rng.randint(0, 3),
                          will=rng.choice([None, Will("t", b"w", 1, True, Properties(will_delay_interval=1))]),
                          properties=Properties(session_expiry_interval=rng.randint(0, 3))),
            PublishPacket(rng.choice(["t", "t/a", "$SYS/x"]), b"x", *rng.choice([(0, True), (0, False)])),
            PublishPacket("t", b"x", rng.choice([1, 2]), rng.random() < 0.3, False, packet_id),
            PubAckPacket(packet_id), PubRecPacket(packet_id), PubRelPacket(packet_id), PubCompPacket(packet_id),
            SubscribePacket(packet_id, (Subscription(rng.choice(["t", "#", "$share/g/t", "+/a"]), rng.randint(0, 2)),)),
            UnsubscribePacket(packet_id, ("t", "$share/g/t")), PingReqPacket(), DisconnectPacket(),
        ], k=rng.randint(1, 4)))
        if client.number and rng.random() < 0.1:
            client.cut()
        if rng.random() < 0.1:
            bench.wait(rng.random() * 3)
        sessions = bench.broker.sessions
        assert len(bench.broker.router.tree) == sum(len(each.subscriptions) for each in sessions.values())
        for session in sessions.values():
            assert session.queue_bytes == sum(each.publication.size for each in session.queue)
            assert len(session.queue) <= 10
            if session.connection is not None:
                assert session.connection.in_flight + len(session.connection.repeat) == len(session.in_flight)
                assert bench.broker.connections[session.connection.number] is session.connection
    bench.wait(100)
    for client in clients:
        if client.number:
            client.cut()
    bench.wait(8 * 24 * 3600)
    assert not bench.broker.sessions
    assert not bench.broker.connections
    assert not len(bench.broker.router.tree)
    assert bench.broker.next_deadline_ns() is None


def test_a_message_that_was_queued_too_long_is_dropped():
    bench = Bench(max_queued_s=10)
    client = bench.client("a", clean_start=False, session_expiry_interval=100)
    client.subscribe("t", 1)
    client.cut()
    other = bench.client("b")
    other.publish("t", b"late", 1)
    bench.wait(6)
    other.publish("t", b"in time", 1)
    bench.wait(6)
    client.connect(clean_start=False, session_expiry_interval=100)
    assert client.payloads() == [b"in time"]
    assert bench.count("dropped_expired") == 1


def test_a_packet_size_that_limits_nothing_is_not_told():
    """paho-mqtt 2.2 refuses a CONNACK with more than 268,435,455, which gmqtt's files have."""
    for limit, told in ((268_435_456, None), (1000, 1000)):
        answer = Client(Bench(max_packet_bytes=limit), "a", V5).connect()
        assert answer.properties.maximum_packet_size == told


# --- much at once ---------------------------------------------------------------------------------------------------

def test_what_waits_is_sent_in_parts_and_in_order():
    """Between them the transport can say that it takes no more."""
    bench = Bench(queue_qos_0=True)
    client = bench.client("a", clean_start=False, session_expiry_interval=100)
    client.subscribe("t", 0)
    client.cut()
    other = bench.client("b")
    sent = [b"%5d" % number + bytes(10_000) for number in range(30)]
    for payload in sent:
        other.publish("t", payload)
    client.open()
    client.send(ConnectPacket("a", V5, False, properties=Properties(session_expiry_interval=100)))
    assert client.payloads() == sent
    client.cut()
    for payload in sent:
        other.publish("t", payload)
    client.open()
    number = client.number
    bench.broker.received(number, (ConnectPacket("a", V5, False),), bench.now_ns)
    outputs = bench.broker.drain()
    bench.broker.write_blocked(number)
    assert sum(isinstance(each, SendPublish) for each in outputs) == 7
    assert isinstance(outputs[-1], MoreToSend)


@pytest.mark.parametrize("qos", [0, 1])
def test_all_retained_messages_come_and_then_what_is_new(qos):
    """However many there are, and though the queue of a session is short."""
    bench = Bench(queue_messages=10, max_inflight=5)
    other = bench.client("b")
    for number in range(200):
        other.publish(f"t/{number}", bytes(1_000), qos, retain=True)
    client = bench.client("a")
    client.acks = False
    client.send(SubscribePacket(1, (Subscription("t/#", qos),)))
    other.publish("t/199", b"new", qos)
    while not client.messages or client.messages[-1].payload != b"new":
        acknowledge = [each.packet_id for each in client.messages if each.qos][-5:]
        client.send(*(PubAckPacket(packet_id) for packet_id in acknowledge))
    assert [each.topic for each in client.messages if each.retain] == [f"t/{number}" for number in range(200)]


def test_retained_messages_that_were_not_sent_wait_for_the_session():
    bench = Bench(max_inflight=5)
    other = bench.client("b")
    for number in range(20):
        other.publish(f"t/{number}", b"x", 1, retain=True)
    client = bench.client("a", session_expiry_interval=100)
    client.acks = False
    client.send(SubscribePacket(1, (Subscription("t/#", 1),)))
    client.cut()
    client.messages.clear()
    client.acks = True
    client.connect(clean_start=False, session_expiry_interval=100)
    assert [each.topic for each in client.messages] == [f"t/{number}" for number in range(20)]


@pytest.mark.parametrize(("own", "elsewhere", "used"), [
    (3, (57, 10), 58), (3, (3,), 4), (65_530, (65_535,), 1), (40_000, (0,), 40_001)])
def test_a_session_that_is_joined_with_another_one_gives_packet_ids_behind_those_of_both(own, elsewhere, used):
    """Its client may have QoS 2 of either: another message under such an id is a repetition to it [MQTT-4.3.3-10]."""
    bench = Bench()
    client = bench.client("a", clean_start=False, session_expiry_interval=100)
    client.subscribe("t", 2)
    client.cut()
    bench.broker.sessions["a"].last_id = own
    for last_id in elsewhere:
        bench.broker.adopt("a", 100, [], bench.now_ns, last_id=last_id)
    bench.client("p").publish("t", b"new", 2)
    client.connect(clean_start=False, session_expiry_interval=100)
    assert [message.packet_id for message in client.messages] == [used]
