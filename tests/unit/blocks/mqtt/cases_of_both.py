"""The cases of paho.mqtt.testing that are the same for brokers of MQTT 3.1.1 and of 5, in our own words and under its
names. cases_3_1_1.py and cases_5.py have what differs, and `CASES` with all of a version."""
from __future__ import annotations

from collections.abc import Callable
from functools import wraps

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

V3, V5 = ProtocolVersion.MQTT_3_1_1, ProtocolVersion.MQTT_5
OTHER_NAME = {
    V3: bytes.fromhex("100d 0002 686a 04 02 0000 0003 616263"),
    V5: bytes.fromhex("100e 0002 686a 05 02 0000 00 0003 616263"),
}
"""CONNECT of the client "abc", whose protocol is called "hj"."""
LONG_S = 99_999
KEPT = {V3: {}, V5: {"session_expiry_interval": LONG_S}}
"""What CONNECT says besides Clean Start 0, for a session that outlives its connection."""


def basic(server: Server, version: ProtocolVersion) -> None:
    """One of each QoS comes back to its publisher; a second CONNECT and another protocol end a connection."""
    a, topic = Client(server, "a", version), server.prefix + "TopicA"
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
    a.send(ConnectPacket(a.client_id, version))
    a.wait_for_end()
    a.open()
    a.send_bytes(OTHER_NAME[version])
    a.wait_for_end()
    assert not a.has(ConnAckPacket) or a.answer(ConnAckPacket).reason is not ReasonCode.SUCCESS


def offline_message_queueing(server: Server, version: ProtocolVersion) -> None:
    """A session that is kept gets what came meanwhile; QoS 0 as the broker likes."""
    a, b = Client(server, "a", version), Client(server, "b", version)
    a.connect()
    a.disconnect()
    a.connect(clean_start=False, **KEPT[version])
    a.subscribe(server.prefix + "+/+")
    a.disconnect()
    assert b.connect().session_present is False
    for qos, name in enumerate(("TopicA/B", "Topic/C", "TopicA/C")):
        b.publish(server.prefix + name, b"qos %d" % qos, qos)
    b.disconnect()
    assert a.connect(clean_start=False).session_present is True
    assert [each.qos for each in a.received(2) if each.qos] == [1, 2]


def overlapping_subscriptions(server: Server, version: ProtocolVersion) -> None:
    """One copy with the highest QoS, or one for each subscription."""
    a = Client(server, "a", version)
    a.connect()
    a.subscribe(server.prefix + "TopicA/#", server.prefix + "TopicA/+", qos=(2, 1))
    a.publish(server.prefix + "TopicA/C", b"overlapping", 2)
    assert sorted(each.qos for each in a.received(1)) in ([2], [1, 2])


def keepalive(server: Server, version: ProtocolVersion) -> None:
    """A client that sends nothing is disconnected in 1.5 times its keep-alive, not before, and its will comes."""
    a, b = Client(server, "a", version), Client(server, "b", version)
    b.connect()
    b.subscribe(server.prefix + "/TopicA")
    began_s = server.now_s()
    a.connect(keep_alive_s=2, will=Will(server.prefix + "/TopicA", b"keep-alive expiry"))
    a.wait_for_end()
    assert server.now_s() - began_s > 2
    assert [each.payload for each in b.received(1)] == [b"keep-alive expiry"]


def redelivery_on_reconnect(server: Server, version: ProtocolVersion) -> None:
    """What was not acknowledged comes again on the next connection, marked as a repetition."""
    b, names = Client(server, "b", version), ("TopicA/B", "TopicA/C")
    b.connect()
    b.disconnect()
    b.connect(clean_start=False, **KEPT[version])
    b.subscribe(server.prefix + "TopicA/#")
    b.is_silent = True
    for qos, name in enumerate(names, 1):
        b.publish(server.prefix + name, b"", qos)
    first = b.received(2)
    assert [(each.topic, each.qos, each.dup) for each in first] == [
        (server.prefix + name, qos, False) for qos, name in enumerate(names, 1)]
    b.disconnect()
    b.is_silent = False
    assert b.connect(clean_start=False, **KEPT[version]).session_present is True
    again = b.received(2)
    assert [(each.topic, each.qos, each.dup) for each in again] == [
        (server.prefix + name, qos, True) for qos, name in enumerate(names, 1)]
    assert [each.packet_id for each in again] == [each.packet_id for each in first]
    b.disconnect()
    b.connect(clean_start=False)
    assert not b.received()


def subscribe_failure(server: Server, version: ProtocolVersion) -> None:
    """A refused filter is answered by 0x80, in version 5 if the broker is not to say why."""
    a = Client(server, "a", version)
    a.connect()
    assert a.subscribe(FORBIDDEN, server.prefix + "TopicA").reasons == (
        ReasonCode.UNSPECIFIED_ERROR, ReasonCode.GRANTED_QOS_2)


def dollar_topics(server: Server, version: ProtocolVersion) -> None:
    """A wildcard in the first level matches no topic that begins with "$"."""
    a, b = Client(server, "a", version), Client(server, "b", version)
    topic = "$" + server.prefix + "TopicA/B"
    b.connect()
    b.subscribe("+/+", "+/+/#", "#")
    a.connect()
    # A broker may also refuse to take it.
    a.ask(PublishPacket(topic, b"", 1, packet_id=1), PubAckPacket)
    assert topic not in [each.topic for each in b.received()]


def unsubscribe(server: Server, version: ProtocolVersion) -> None:
    """After UNSUBACK nothing comes from that filter, and from the others everything."""
    a, b = Client(server, "a", version), Client(server, "b", version)
    topics = [server.prefix + name for name in ("TopicA", "TopicA/B", "Topic/C")]
    b.connect()
    for topic in topics:
        b.subscribe(topic)
    answer = b.unsubscribe(topics[0], server.prefix + "none")
    if version is V5:                                    # 3.1.1 has no reasons there
        assert answer.reasons == (ReasonCode.SUCCESS, ReasonCode.NO_SUBSCRIPTION_EXISTED)
    a.connect()
    for topic in topics:
        a.publish(topic, b"", 1)
    assert [each.topic for each in b.received(2)] == topics[1:]


CASES = (basic, offline_message_queueing, overlapping_subscriptions, keepalive, redelivery_on_reconnect,
         subscribe_failure, dollar_topics, unsubscribe)


def cases_of(version: ProtocolVersion) -> list[Callable[[Server], None]]:
    """These cases for brokers of a version, under their names."""
    return [_of_version(case, version) for case in CASES]


def _of_version(
    case: Callable[[Server, ProtocolVersion], None], version: ProtocolVersion,
) -> Callable[[Server], None]:
    @wraps(case)
    def of_version(server: Server) -> None:
        case(server, version)
    return of_version
