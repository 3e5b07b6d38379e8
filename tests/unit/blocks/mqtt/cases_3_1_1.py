"""The ten cases that paho.mqtt.testing has for brokers of MQTT 3.1.1, in our own words and under its names."""
from __future__ import annotations

from jgroups_py.blocks.mqtt.codec.packets import (
    ConnAckPacket,
    ConnectPacket,
    ProtocolVersion,
    PubAckPacket,
    PublishPacket,
    ReasonCode,
    Will,
)
from tests.unit.blocks.mqtt.conformance import FORBIDDEN, Client, Server

V3 = ProtocolVersion.MQTT_3_1_1
OTHER_NAME = bytes.fromhex("100d 0002 686a 04 02 0000 0003 616263")
"""CONNECT of the client "abc", whose protocol is called "hj"."""


def client(server: Server, name: str) -> Client:
    return Client(server, name, V3)


def basic(server: Server) -> None:
    """One of each QoS comes back to its publisher; a second CONNECT and another protocol end a connection."""
    a, topic = client(server, "a"), server.prefix + "TopicA"
    a.connect()
    a.disconnect()
    answer = a.connect()
    assert (answer.reason, answer.session_present) == (ReasonCode.SUCCESS, False)
    a.subscribe(topic)
    for qos in (0, 1, 2):
        a.publish(topic, b"qos %d" % qos, qos)
    assert [(each.topic, each.payload, each.qos, each.retain) for each in a.received(3)] == [
        (topic, b"qos %d" % qos, qos, False) for qos in (0, 1, 2)]
    a.disconnect()
    a.connect()
    a.send(ConnectPacket(a.client_id, V3))
    a.wait_for_end()
    a.open()
    a.send_bytes(OTHER_NAME)
    a.wait_for_end()
    assert not a.has(ConnAckPacket) or a.answer(ConnAckPacket).reason is not ReasonCode.SUCCESS


def retained_messages(server: Server) -> None:
    """A new subscription gets what was retained, each with its QoS, and nothing after that was cleared."""
    a = client(server, "a")
    topics = [server.prefix + name for name in ("TopicA/B", "Topic/C", "TopicA/C")]
    a.connect()
    for qos, topic in enumerate(topics):
        a.publish(topic, b"qos %d" % qos, qos, retain=True)
    a.subscribe(server.prefix + "+/+")
    assert sorted((each.topic, each.payload, each.qos, each.retain) for each in a.received(3)) == sorted(
        (topic, b"qos %d" % qos, qos, True) for qos, topic in enumerate(topics))
    a.disconnect()
    a.connect()
    for qos, topic in enumerate(topics):
        a.publish(topic, b"", qos, retain=True)
    a.subscribe(server.prefix + "+/+")
    assert not a.received()


def zero_length_clientid(server: Server) -> None:
    """Without a client id only a clean session is to be had."""
    a = client(server, "")
    assert a.connect(clean_start=False).reason is ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
    a.wait_for_end()
    assert a.connect().reason is ReasonCode.SUCCESS
    a.disconnect()


def offline_message_queueing(server: Server) -> None:
    """A session that is kept gets what came meanwhile; QoS 0 as the broker likes."""
    a, b = client(server, "a"), client(server, "b")
    a.connect()
    a.disconnect()
    a.connect(clean_start=False)
    a.subscribe(server.prefix + "+/+")
    a.disconnect()
    assert b.connect().session_present is False
    for qos, name in enumerate(("TopicA/B", "Topic/C", "TopicA/C")):
        b.publish(server.prefix + name, b"qos %d" % qos, qos)
    b.disconnect()
    assert a.connect(clean_start=False).session_present is True
    assert [each.qos for each in a.received(2) if each.qos] == [1, 2]


def overlapping_subscriptions(server: Server) -> None:
    """One copy with the highest QoS, or one for each subscription."""
    a = client(server, "a")
    a.connect()
    a.subscribe(server.prefix + "TopicA/#", server.prefix + "TopicA/+", qos=(2, 1))
    a.publish(server.prefix + "TopicA/C", b"overlapping", 2)
    assert sorted(each.qos for each in a.received(1)) in ([2], [1, 2])


def keepalive(server: Server) -> None:
    """A client that sends nothing is disconnected in 1.5 times its keep-alive, not before, and its will comes."""
    a, b = client(server, "a"), client(server, "b")
    b.connect()
    b.subscribe(server.prefix + "/TopicA")
    began_s = server.now_s()
    a.connect(keep_alive_s=2, will=Will(server.prefix + "/TopicA", b"keep-alive expiry"))
    a.wait_for_end()
    assert server.now_s() - began_s > 2
    assert [each.payload for each in b.received(1)] == [b"keep-alive expiry"]


def redelivery_on_reconnect(server: Server) -> None:
    """What was not acknowledged comes again on the next connection, marked as a repetition."""
    b, names = client(server, "b"), ("TopicA/B", "TopicA/C")
    b.connect()
    b.disconnect()
    b.connect(clean_start=False)
    b.subscribe(server.prefix + "TopicA/#")
    b.is_silent = True
    for qos, name in enumerate(names, 1):
        b.publish(server.prefix + name, b"", qos)
    first = b.received(2)
    assert [(each.topic, each.qos, each.dup) for each in first] == [
        (server.prefix + name, qos, False) for qos, name in enumerate(names, 1)]
    b.disconnect()
    b.is_silent = False
    assert b.connect(clean_start=False).session_present is True
    again = b.received(2)
    assert [(each.topic, each.qos, each.dup) for each in again] == [
        (server.prefix + name, qos, True) for qos, name in enumerate(names, 1)]
    assert [each.packet_id for each in again] == [each.packet_id for each in first]
    b.disconnect()
    b.connect(clean_start=False)
    assert not b.received()


def subscribe_failure(server: Server) -> None:
    """A refused filter is answered by 0x80."""
    a = client(server, "a")
    a.connect()
    assert a.subscribe(FORBIDDEN, server.prefix + "TopicA").reasons == (
        ReasonCode.UNSPECIFIED_ERROR, ReasonCode.GRANTED_QOS_2)


def dollar_topics(server: Server) -> None:
    """A wildcard in the first level matches no topic that begins with "$"."""
    a, b = client(server, "a"), client(server, "b")
    topic = "$" + server.prefix + "TopicA/B"
    b.connect()
    b.subscribe("+/+", "+/+/#", "#")
    a.connect()
    # A broker may also refuse to take it.
    a.ask(PublishPacket(topic, b"", 1, packet_id=1), PubAckPacket)
    assert topic not in [each.topic for each in b.received()]


def unsubscribe(server: Server) -> None:
    """After UNSUBACK nothing comes from that filter, and from the others everything."""
    a, b = client(server, "a"), client(server, "b")
    topics = [server.prefix + name for name in ("TopicA", "TopicA/B", "Topic/C")]
    b.connect()
    for topic in topics:
        b.subscribe(topic)
    b.unsubscribe(topics[0])
    a.connect()
    for topic in topics:
        a.publish(topic, b"", 1)
    assert [each.topic for each in b.received(2)] == topics[1:]


CASES = (basic, retained_messages, zero_length_clientid, offline_message_queueing, overlapping_subscriptions, keepalive,
         redelivery_on_reconnect, subscribe_failure, dollar_topics, unsubscribe)
