"""The 27 cases that paho.mqtt.testing has for brokers of MQTT 5, in our own words and under its names: those of version
5 alone here, the others in cases_of_both.py."""
from __future__ import annotations

from jgroups_py.blocks.mqtt.codec.encoder import encode
from jgroups_py.blocks.mqtt.codec.packets import (
    DisconnectPacket,
    Properties,
    PubAckPacket,
    PublishPacket,
    PubRecPacket,
    ReasonCode,
    RetainHandling,
    Will,
)
from jgroups_py.blocks.mqtt.codec.text import varint_bytes
from tests.unit.blocks.mqtt.cases_of_both import LONG_S, V5, cases_of
from tests.unit.blocks.mqtt.conformance import SERVER_KEEP_ALIVE_S, Client, Server

USER = (("a", "2"), ("c", "3"))


def client(server: Server, name: str) -> Client:
    return Client(server, name, V5)


def retain_three(a: Client) -> list[str]:
    """One retained message of each QoS; their topics."""
    topics = [a.server.prefix + name for name in ("TopicA/B", "Topic/C", "TopicA/C")]
    for qos, topic in enumerate(topics):
        a.publish(topic, b"qos %d" % qos, qos, retain=True, user_properties=USER)
    return topics


def clear(a: Client, topics: list[str]) -> None:
    """Forget what is retained; outside brokers outlive a case."""
    for topic in topics:
        a.publish(topic, b"", 1, retain=True)


def retained_message(server: Server) -> None:
    """A new subscription gets what was retained, each with its QoS and user properties."""
    a = client(server, "a")
    a.connect()
    topics = retain_three(a)
    a.subscribe(server.prefix + "+/+")
    assert sorted((each.topic, each.qos, each.retain, each.properties.user_properties) for each in a.received(3)) == (
        sorted((topic, qos, True, USER) for qos, topic in enumerate(topics)))
    clear(a, topics)


def will_message(server: Server) -> None:
    """The will of a client that sends nothing any more comes with its user properties."""
    a, b, topic = client(server, "a"), client(server, "b"), server.prefix + "Topic/C"
    b.connect(clean_start=False)
    b.subscribe(topic)
    a.connect(keep_alive_s=2, will=Will(topic, b"will", properties=Properties(
        will_delay_interval=0, user_properties=USER)))
    a.wait_for_end()
    assert [(each.payload, each.properties.user_properties) for each in b.received(1)] == [(b"will", USER)]


def zero_length_clientid(server: Server) -> None:
    """A client without an id gets one, whether it wants a new session or not."""
    for clean_start in (False, True):
        a = client(server, "")
        assert a.connect(clean_start).reason is ReasonCode.SUCCESS
        a.disconnect()


def session_expiry(server: Server) -> None:
    """A session outlives its connection as long as CONNECT says, or DISCONNECT instead."""
    a, topic = client(server, "a"), server.prefix + "TopicA"

    def is_kept(expiry_s: int, away_s: float, **properties: int) -> bool:
        assert a.connect(session_expiry_interval=expiry_s).session_present is False
        a.subscribe(topic)
        a.disconnect(**properties)
        server.pass_time(away_s)
        present = a.connect(clean_start=False, session_expiry_interval=expiry_s).session_present
        a.disconnect(**({"session_expiry_interval": 0} if expiry_s else {}))
        assert a.connect(clean_start=False).session_present is False
        a.disconnect()
        return present

    assert not is_kept(0, 0)
    assert is_kept(3, 1)
    assert not is_kept(1, 2.5)
    assert is_kept(1, 2.5, session_expiry_interval=5)
    assert not is_kept(5, 0, session_expiry_interval=0)


def shared_subscriptions(server: Server) -> None:
    """Each message reaches one member of the group; a plain subscription of both reaches both."""
    a, b = client(server, "a"), client(server, "b")
    plain, shared = server.prefix + "TopicA", server.prefix + "x"
    for each in (a, b):
        each.connect()
        each.subscribe(f"$share/sharename/{shared}", plain)
    b.publish(plain, b"message", 0)
    assert (len(a.received(1)), len(b.received(1))) == (1, 1)
    for number in range(10):
        b.publish(shared, b"%d" % number, number % 3)
    payloads = [each.payload for each in a.received() + b.received()]
    assert sorted(payloads) == sorted(b"%d" % number for number in range(10))


def returned(server: Server, **properties: object) -> None:
    """These properties come back with messages of each QoS."""
    a, topic = client(server, "a"), server.prefix + "TopicA"
    a.connect()
    a.subscribe(topic)
    for qos in (0, 1, 2):
        a.publish(topic, b"", qos, **properties)
    assert [(each.qos, each.properties) for each in a.received(3)] == [
        (qos, Properties(**properties)) for qos in (0, 1, 2)]          # type: ignore[arg-type]


def user_properties(server: Server) -> None:
    """They come in the order in which they were sent."""
    returned(server, user_properties=USER)


def payload_format(server: Server) -> None:
    """What the payload is."""
    returned(server, payload_format_indicator=1, content_type="My name")


def publication_expiry(server: Server) -> None:
    """What expires while a client is away does not come; of the rest the time that is left is told."""
    a, b, topic = client(server, "a"), client(server, "b"), server.prefix + "TopicA"
    b.connect(session_expiry_interval=LONG_S)
    b.subscribe(topic)
    b.disconnect(session_expiry_interval=999_999_999)
    a.connect()
    for seconds, payload in ((1, b"expires"), (6, b"stays")):
        for qos in (1, 2):
            a.publish(topic, payload, qos, message_expiry_interval=seconds)
    server.pass_time(2.5)
    b.connect(clean_start=False)
    found = b.received(2)
    assert [(each.payload, each.qos) for each in found] == [(b"stays", 1), (b"stays", 2)]
    for each in found:
        assert 0 < (each.properties.message_expiry_interval or 0) < 6


def subscribe_options(server: Server) -> None:
    """No Local, Retain As Published, and the three ways of Retain Handling."""
    a, b, topic = client(server, "a"), client(server, "b"), server.prefix + "TopicA"
    for each in (a, b):
        each.connect()
        each.subscribe(topic, no_local=True)
    a.publish(topic, b"no local", 1)
    assert (len(a.received()), len(b.received(1))) == (0, 1)
    a.disconnect()
    a.connect()
    a.subscribe(topic, retain_as_published=True)
    for retain in (False, True):
        a.publish(topic, b"as published", 1, retain=retain)
    assert [each.retain for each in a.received(2)] == [False, True]
    clear(a, [topic])
    a.disconnect()
    a.connect()
    topics = retain_three(a)
    # First and second time.
    for handling, numbers in ((RetainHandling.IF_NEW, (3, 0)), (RetainHandling.NEVER, (0, 0)),
                              (RetainHandling.ALWAYS, (3, 3))):
        a.disconnect()
        a.connect()
        for number in numbers:
            a.subscribe(server.prefix + "+/+", retain_handling=handling)
            assert sorted(each.qos for each in a.received(number)) == [0, 1, 2][:number]
    clear(a, topics)


def assigned_clientid(server: Server) -> None:
    """A client without an id is told which one it has now."""
    a = client(server, "")
    assert a.connect().properties.assigned_client_identifier
    a.disconnect()


def subscribe_identifiers(server: Server) -> None:
    """One message with the identifiers of all subscriptions that matched."""
    a, b, topic = client(server, "a"), client(server, "b"), server.prefix + "TopicA"
    a.connect()
    a.subscribe(topic, identifier=456_789)
    b.connect()
    b.subscribe(topic, identifier=2)
    b.subscribe(topic + "/#", identifier=3)
    b.publish(topic, b"identifiers", 1)
    assert [each.properties.subscription_identifiers for each in a.received(1)] == [(456_789,)]
    assert [sorted(each.properties.subscription_identifiers) for each in b.received(1)] == [[2, 3]]


def request_response(server: Server) -> None:
    """A request brings what is needed to answer it."""
    a, b, topic = client(server, "a"), client(server, "b"), server.prefix + "TopicA"
    for each in (a, b):
        each.connect()
        each.subscribe(topic, no_local=True)
    a.publish(topic, b"request", 1, response_topic=topic, correlation_data=b"334")
    request, = b.received(1)
    assert (request.properties.response_topic, request.properties.correlation_data) == (topic, b"334")
    assert request.properties.response_topic is not None
    b.publish(request.properties.response_topic, b"response", 1, correlation_data=request.properties.correlation_data)
    response, = a.received(1)
    assert (response.payload, response.properties.correlation_data) == (b"response", b"334")
    assert not b.received()


def client_topic_alias(server: Server) -> None:
    """A client's aliases end with its connection; 0 is none, and one that was not set neither."""
    a, topic = client(server, "a"), server.prefix + "TopicA"
    a.connect()
    a.send(PublishPacket(topic, b"", 1, packet_id=1, properties=Properties(topic_alias=0)))
    a.wait_for_end()
    assert a.has(DisconnectPacket)
    if not a.connect(topic_alias_maximum=0, session_expiry_interval=LONG_S).properties.topic_alias_maximum:
        a.disconnect()
        return
    a.subscribe(topic)
    a.publish(topic, b"set", 1, topic_alias=1)
    a.publish("", b"used", 1, topic_alias=1)
    assert [(each.topic, each.payload) for each in a.received(2)] == [(topic, b"set"), (topic, b"used")]
    a.disconnect()
    a.connect(clean_start=False)
    a.publish(topic, b"in full", 1)
    assert [each.payload for each in a.received(1)] == [b"in full"]
    a.send(PublishPacket("", b"", 1, packet_id=1, properties=Properties(topic_alias=1)))
    a.wait_for_end()
    assert a.has(DisconnectPacket)


def server_topic_alias(server: Server) -> None:
    """The broker's first message sets an alias, if the client allows one, and the next ones use it."""
    a, topic = client(server, "a"), server.prefix + "TopicA"
    for allowed in (1, None, 0):
        a.connect(**({} if allowed is None else {"topic_alias_maximum": allowed}))
        a.subscribe(topic)
        for qos in (0, 1, 2):
            a.publish(topic, b"message", qos)
        found = [(each.topic, each.properties.topic_alias) for each in a.received(3)]
        assert found == ([(topic, 1), ("", 1), ("", 1)] if allowed else [(topic, None)] * 3)
        a.disconnect()


def maximum_packet_size(server: Server) -> None:
    """Neither end gets a packet larger than it allows."""
    a, topic = client(server, "a"), server.prefix + "TopicA"
    most = a.connect().properties.maximum_packet_size
    if most is not None and most + 1 < 268_435_455:
        # Its length is enough: nothing of this size need be sent.
        a.send_bytes(b"\x30" + varint_bytes(most) + encode(PublishPacket(topic, b"."), V5)[2:])
        a.wait_for_end()
        assert a.answer(DisconnectPacket).reason is ReasonCode.PACKET_TOO_LARGE
    else:
        a.disconnect()
    a.connect(maximum_packet_size=80)
    a.subscribe(topic)
    a.publish(topic, b"." * 32)
    a.publish(topic, b"." * 80, 1)
    assert [len(each.payload) for each in a.received(1)] == [32]


def server_keep_alive(server: Server) -> None:
    """The broker's keep-alive takes the place of a longer one."""
    a = client(server, "a")
    assert a.connect(keep_alive_s=2 * SERVER_KEEP_ALIVE_S).properties.server_keep_alive == SERVER_KEEP_ALIVE_S
    a.disconnect()


def flow_control1(server: Server) -> None:
    """The broker has no more in flight than the client's Receive Maximum."""
    a, topic = client(server, "a"), server.prefix + "TopicA"
    a.connect(receive_maximum=2, session_expiry_interval=0)
    a.subscribe(topic)
    a.is_silent = True
    for number in range(1, 4):
        a.publish(topic, b"message %d" % number, 1)
    first, second = a.received(2)
    assert [each.payload for each in (first, second)] == [b"message 1", b"message 2"]
    a.send(PubAckPacket(first.packet_id))
    third, = a.received(1)
    assert third.payload == b"message 3"
    a.send(PubAckPacket(second.packet_id), PubAckPacket(third.packet_id))
    assert not a.received()
    a.disconnect()


def flow_control2(server: Server) -> None:
    """A client with more in flight than the broker's Receive Maximum is disconnected by 0x93."""
    a, topic = client(server, "a"), server.prefix + "TopicA"
    most = a.connect(session_expiry_interval=0).properties.receive_maximum or 65_535
    for first in range(1, most + 1, 1000):
        a.send(*(PublishPacket(topic, b"message", 2, packet_id=packet_id)
                 for packet_id in range(first, min(first + 1000, most + 1))))
    a.wait_for(lambda: sum(isinstance(each, PubRecPacket) for each in a.answers) == most or a.is_closed, "PUBREC")
    assert not a.is_closed, a.answers[-1]
    # One more, whose packet id is free only if all that there are may be in flight.
    a.send(PublishPacket(topic, b"message", 2, packet_id=most % 65_535 + 1))
    a.wait_for_end()
    assert a.answer(DisconnectPacket).reason is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def will_delay(server: Server) -> None:
    """The will comes after its delay or at the end of the session, whichever is first."""
    a, b, topic = client(server, "a"), client(server, "b"), server.prefix + "TopicA"
    b.connect()
    b.subscribe(topic)
    for delay_s, expiry_s in ((2, 4), (4, 0), (4, 1)):
        a.connect(session_expiry_interval=expiry_s, will=Will(
            topic, b"will", properties=Properties(will_delay_interval=delay_s)))
        began_s, expected_s = server.now_s(), min(delay_s, expiry_s)
        a.cut()
        assert [each.payload for each in b.received(1)] == [b"will"]
        assert expected_s <= server.now_s() - began_s < expected_s + 2
        a.connect()
        a.disconnect()


CASES = (*cases_of(V5), retained_message, will_message, zero_length_clientid, session_expiry, shared_subscriptions,
         user_properties, payload_format, publication_expiry, subscribe_options, assigned_clientid,
         subscribe_identifiers, request_response, client_topic_alias, server_topic_alias, maximum_packet_size,
         server_keep_alive, flow_control1, flow_control2, will_delay)
