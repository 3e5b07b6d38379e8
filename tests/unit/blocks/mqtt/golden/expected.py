"""What the golden bytes mean: file -> case -> packets, written by hand from the arguments in make_golden.py."""
from __future__ import annotations

from jgroups_py.blocks.mqtt.codec.packets import (
    AuthPacket,
    ConnAckPacket,
    ConnectPacket,
    DisconnectPacket,
    Packet,
    PingReqPacket,
    PingRespPacket,
    Properties,
    ProtocolVersion,
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
    UnsubAckPacket,
    UnsubscribePacket,
    Will,
)

R = ReasonCode
V3, V5 = ProtocolVersion.MQTT_3_1_1, ProtocolVersion.MQTT_5
USER = (("trace", "7f"), ("empty", ""), ("trace", "second"), ("über", "\N{SNOWMAN}"))
BYTES = b"\xff\xfe\x80\0"
WHY = Properties(reason_string="why", user_properties=USER)

MQTT5: dict[str, tuple[Packet, ...]] = {
    "connect": (ConnectPacket("client-1", V5, True, 60),),
    "connect-empty": (ConnectPacket("", V5, False),),
    "connect-full": (ConnectPacket(
        "client-2", V5, False, 65535, "ann", b"\0secret\xff",
        Will("state/last", b"gone", 2, True, Properties(
            payload_format_indicator=1, message_expiry_interval=3600, content_type="text/plain",
            response_topic="answers/7", correlation_data=BYTES, user_properties=USER, will_delay_interval=30)),
        Properties(session_expiry_interval=0xFFFFFFFF, authentication_method="SCRAM", authentication_data=b"\1\2",
                   request_problem_information=0, request_response_information=1, receive_maximum=20,
                   topic_alias_maximum=10, maximum_packet_size=100_000, user_properties=USER)),),
    "connack": (ConnAckPacket(),),
    "connack-full": (ConnAckPacket(True, R.SUCCESS, Properties(
        session_expiry_interval=120, assigned_client_identifier="auto-1", server_keep_alive=30,
        authentication_method="SCRAM", authentication_data=b"\3", response_information="answers/",
        server_reference="b:1883", reason_string="welcome", receive_maximum=100, topic_alias_maximum=5, maximum_qos=1,
        retain_available=0, maximum_packet_size=65536, wildcard_subscription_available=0,
        subscription_identifiers_available=0, shared_subscription_available=0, user_properties=USER)),),
    "connack-banned": (ConnAckPacket(False, R.BANNED),),
    "publish-0": (PublishPacket("a/b", b"hello"),),
    "publish-empty": (PublishPacket("a", b"", retain=True),),
    "publish-1": (PublishPacket("a/b", b"hello", 1, dup=True, packet_id=1),),
    "publish-2": (PublishPacket("a/b", bytes(range(256)), 2, retain=True, packet_id=65535),),
    "publish-alias": (PublishPacket("", b"x", properties=Properties(topic_alias=65535)),),
    "publish-full": (PublishPacket("a/\N{SNOWMAN}", b"x" * 20_000, properties=Properties(
        payload_format_indicator=1, message_expiry_interval=3600, content_type="text/plain",
        response_topic="answers/7", correlation_data=BYTES, subscription_identifiers=(1, 127, 128, 268_435_455),
        topic_alias=3, user_properties=USER)),),
    "subscribe": (SubscribePacket(10, (Subscription("a/b"),)),),
    "subscribe-full": (SubscribePacket(
        11, (Subscription("a/+/#", 2, True, True, RetainHandling.NEVER),
             Subscription("$share/g/a/#", 1, False, False, RetainHandling.IF_NEW)),
        Properties(subscription_identifiers=(268_435_455,), user_properties=USER)),),
    "suback": (SubAckPacket(10, (
        R.GRANTED_QOS_0, R.GRANTED_QOS_1, R.GRANTED_QOS_2, R.UNSPECIFIED_ERROR, R.TOPIC_FILTER_INVALID,
        R.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED), Properties(reason_string="some", user_properties=USER)),),
    "unsubscribe": (UnsubscribePacket(12, ("a/b", "+/+", "$share/g/#"), Properties(user_properties=USER)),),
    "unsuback": (UnsubAckPacket(12, (R.SUCCESS, R.NO_SUBSCRIPTION_EXISTED, R.NOT_AUTHORIZED),
                                Properties(reason_string="why")),),
    "pingreq": (PingReqPacket(),),
    "pingresp": (PingRespPacket(),),
    "disconnect": (DisconnectPacket(),),
    "disconnect-will": (DisconnectPacket(R.DISCONNECT_WITH_WILL_MESSAGE),),
    "disconnect-full": (DisconnectPacket(R.SESSION_TAKEN_OVER, Properties(
        session_expiry_interval=0, reason_string="again", server_reference="c:1883", user_properties=USER)),),
    "auth": (AuthPacket(),),
    "auth-continue": (AuthPacket(R.CONTINUE_AUTHENTICATION, Properties(
        authentication_method="SCRAM", authentication_data=b"\5", reason_string="go on", user_properties=USER)),),
    "puback": (PubAckPacket(257),),
    "puback-reason": (PubAckPacket(1, R.NO_MATCHING_SUBSCRIBERS),),
    "puback-full": (PubAckPacket(65535, R.NO_MATCHING_SUBSCRIBERS, WHY),),
    "pubrec": (PubRecPacket(257),),
    "pubrec-reason": (PubRecPacket(1, R.PAYLOAD_FORMAT_INVALID),),
    "pubrec-full": (PubRecPacket(65535, R.PAYLOAD_FORMAT_INVALID, WHY),),
    "pubrel": (PubRelPacket(257),),
    "pubrel-reason": (PubRelPacket(1, R.PACKET_IDENTIFIER_NOT_FOUND),),
    "pubrel-full": (PubRelPacket(65535, R.PACKET_IDENTIFIER_NOT_FOUND, WHY),),
    "pubcomp": (PubCompPacket(257),),
    "pubcomp-reason": (PubCompPacket(1, R.PACKET_IDENTIFIER_NOT_FOUND),),
    "pubcomp-full": (PubCompPacket(65535, R.PACKET_IDENTIFIER_NOT_FOUND, WHY),),
}
PAHO: dict[str, tuple[Packet, ...]] = {
    "3-connect": (ConnectPacket("client-1", V3, True, 60),),
    "3-connect-full": (ConnectPacket("client-2", V3, False, 65535, "ann", b"secret",
                                     Will("state/last", b"gone", 2, True)),),
    "3-publish-2": (PublishPacket("a/\N{SNOWMAN}", bytes(200), 2, retain=True, packet_id=65535),),
    "3-subscribe": (SubscribePacket(1, (Subscription("a/+/#", 2), Subscription("b", 1))),),
    "3-disconnect": (DisconnectPacket(),),
    "5-connect": (ConnectPacket("client-1", V5, True, 60),),
    "5-connect-full": (ConnectPacket(
        "client-2", V5, False, 65535, "ann", b"secret",
        Will("state/last", b"gone", 2, True, Properties(will_delay_interval=30, user_properties=USER)),
        Properties(session_expiry_interval=120, receive_maximum=20, user_properties=USER)),),
    "5-publish-2": (PublishPacket("a/\N{SNOWMAN}", bytes(200), 2, retain=True, packet_id=65535, properties=Properties(
        payload_format_indicator=1, message_expiry_interval=3600, topic_alias=3, correlation_data=BYTES,
        response_topic="answers/7", user_properties=USER)),),
    "5-subscribe": (SubscribePacket(
        1, (Subscription("a/+/#", 2, True, True, RetainHandling.NEVER), Subscription("b", 1)),
        Properties(subscription_identifiers=(128,))),),
    "5-disconnect": (DisconnectPacket(R.DISCONNECT_WITH_WILL_MESSAGE),),
    **{f"{version}-{name}": packets for version in "35" for name, packets in {
        "publish-0": (PublishPacket("a/b", b"hello"),),
        "publish-1": (PublishPacket("a/b", b"hello", 1, dup=True, packet_id=1),),
        "unsubscribe": (UnsubscribePacket(2, ("a/b", "+/+")),),
        "puback": (PubAckPacket(257),),
        "pubrec": (PubRecPacket(257),),
        "pubrel": (PubRelPacket(257),),
        "pubcomp": (PubCompPacket(257),),
        "pingreq": (PingReqPacket(),),
    }.items()},
}
MOSQUITTO: dict[str, tuple[Packet, ...]] = {
    "3-connack": (ConnAckPacket(),),
    "3-suback": (SubAckPacket(1, (R.GRANTED_QOS_2, R.GRANTED_QOS_1)),),
    # The message comes back to its publisher, which subscribed a/+/#; in version 5 it asked for no local.
    "3-puback": (PublishPacket("a/b", b"hello", 1, packet_id=1), PubAckPacket(1)),
    "3-unsuback": (UnsubAckPacket(2),),
    "5-connack": (ConnAckPacket(properties=Properties(topic_alias_maximum=10, receive_maximum=20)),),
    "5-suback": (SubAckPacket(1, (R.GRANTED_QOS_2, R.GRANTED_QOS_1)),),
    "5-puback": (PubAckPacket(1),),
    "5-unsuback": (UnsubAckPacket(2, (R.NO_SUBSCRIPTION_EXISTED, R.NO_SUBSCRIPTION_EXISTED)),),
    **{f"{version}-{name}": packets for version in "35" for name, packets in {
        "pubrec": (PubRecPacket(9),), "pingresp": (PingRespPacket(),), "pubcomp": (PubCompPacket(9),)}.items()},
}
EXPECTED = {"mqtt5": MQTT5, "paho": PAHO, "mosquitto": MOSQUITTO}
WRITTEN_OTHERWISE = {
    ("mosquitto", "5-connack"): "writes its properties in another order",
}
"""Cases whose bytes we would write otherwise, and how: they decode to the same."""
