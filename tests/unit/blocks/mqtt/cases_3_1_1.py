"""The ten cases that paho.mqtt.testing has for brokers of MQTT 3.1.1, in our own words and under its names: those that
differ from version 5 here, the others in cases_of_both.py."""
from __future__ import annotations

from jgroups_py.blocks.mqtt.codec.packets import ReasonCode
from tests.unit.blocks.mqtt.cases_of_both import V3, cases_of
from tests.unit.blocks.mqtt.conformance import Client, Server


def retained_messages(server: Server) -> None:
    """A new subscription gets what was retained, each with its QoS, and nothing after that was cleared."""
    a = Client(server, "a", V3)
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
    a = Client(server, "", V3)
    assert a.connect(clean_start=False).reason is ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
    a.wait_for_end()
    assert a.connect().reason is ReasonCode.SUCCESS
    a.disconnect()


CASES = (*cases_of(V3), retained_messages, zero_length_clientid)
