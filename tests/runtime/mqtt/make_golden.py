"""Makes the golden bytes with the encoders of others: `python -m tests.runtime.mqtt.make_golden`.

mqtt5.txt: version 5, by mqtt5 0.8.0 (Rust). paho.txt: what clients send, both versions, by paho-mqtt 2.2.0.
mosquitto.txt: what a server answers, both versions, by mosquitto 2.0.11 (Debian) on loopback. A line is a name and the
bytes in hex; `expected.py` beside the files has what each of them means.

Written once: the files are the reference, this is how they came about.
"""
from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mqtt5
import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from jgroups_py.system.free_ports import free_range

FOLDER = Path(__file__).parents[2] / "unit" / "blocks" / "mqtt" / "golden"
USER = [("trace", "7f"), ("empty", ""), ("trace", "second"), ("über", "\N{SNOWMAN}")]
TEXTS = {"payload_format_indicator": 1, "message_expiry_interval": 3600, "content_type": "text/plain",
         "response_topic": "answers/7", "correlation_data": b"\xff\xfe\x80\0", "user_properties": USER}


def of_mqtt5() -> dict[str, bytes]:
    """Every packet of version 5: the shortest, one with all properties, reasons."""
    m = mqtt5
    will = m.Will("state/last", payload=b"gone", qos=m.QoS.EXACTLY_ONCE, retain=True, will_delay_interval=30, **TEXTS)
    packets: dict[str, Any] = {
        "connect": m.ConnectPacket("client-1", clean_start=True, keep_alive=60),
        "connect-empty": m.ConnectPacket(""),
        "connect-full": m.ConnectPacket(
            "client-2", username="ann", password=b"\0secret\xff", will=will, keep_alive=65535,
            session_expiry_interval=4294967295, authentication_method="SCRAM", authentication_data=b"\1\2",
            request_problem_info=False, request_response_info=True, receive_max=20, topic_alias_max=10,
            max_packet_size=100_000, user_properties=USER),
        "connack": m.ConnAckPacket(),
        "connack-full": m.ConnAckPacket(
            session_present=True, session_expiry_interval=120, assigned_client_id="auto-1", server_keep_alive=30,
            authentication_method="SCRAM", authentication_data=b"\3", response_info="answers/",
            server_reference="b:1883", reason_str="welcome", receive_max=100, topic_alias_max=5,
            max_qos=m.QoS.AT_LEAST_ONCE, retain_available=False, max_packet_size=65536,
            wildcard_subscription_available=False, subscription_id_available=False,
            shared_subscription_available=False, user_properties=USER),
        "connack-banned": m.ConnAckPacket(reason_code=m.ConnAckReasonCode.BANNED),
        "publish-0": m.PublishPacket("a/b", b"hello"),
        "publish-empty": m.PublishPacket("a", b"", retain=True),
        "publish-1": m.PublishPacket("a/b", b"hello", qos=m.QoS.AT_LEAST_ONCE, packet_id=1, duplicate=True),
        "publish-2": m.PublishPacket("a/b", bytes(range(256)), qos=m.QoS.EXACTLY_ONCE, packet_id=65535, retain=True),
        "publish-alias": m.PublishPacket("", b"x", topic_alias=65535),
        "publish-full": m.PublishPacket("a/\N{SNOWMAN}", b"x" * 20_000, topic_alias=3,
                                        subscription_ids=[1, 127, 128, 268_435_455], **TEXTS),
        "subscribe": m.SubscribePacket(10, [
            m.TopicFilter("a/b", max_qos=m.QoS.AT_MOST_ONCE, retain_as_published=False)]),
        "subscribe-full": m.SubscribePacket(11, [
            m.TopicFilter("a/+/#", max_qos=m.QoS.EXACTLY_ONCE, no_local=True, retain_as_published=True,
                          retain_handling=m.RetainHandling.SEND_NEVER),
            m.TopicFilter("$share/g/a/#", max_qos=m.QoS.AT_LEAST_ONCE, retain_as_published=False,
                          retain_handling=m.RetainHandling.SEND_IF_SUBSCRIPTION_NOT_EXISTS)],
            subscription_id=268_435_455, user_properties=USER),
        "suback": m.SubAckPacket(10, [m.SubAckReasonCode(each) for each in (0, 1, 2, 0x80, 0x8F, 0xA2)],
                                 reason_str="some", user_properties=USER),
        "unsubscribe": m.UnsubscribePacket(12, ["a/b", "+/+", "$share/g/#"], user_properties=USER),
        "unsuback": m.UnsubAckPacket(12, [m.UnsubAckReasonCode(each) for each in (0, 0x11, 0x87)], reason_str="why"),
        "pingreq": m.PingReqPacket(),
        "pingresp": m.PingRespPacket(),
        "disconnect": m.DisconnectPacket(),
        "disconnect-will": m.DisconnectPacket(reason_code=m.DisconnectReasonCode.DISCONNECT_WITH_WILL_MESSAGE),
        "disconnect-full": m.DisconnectPacket(
            reason_code=m.DisconnectReasonCode.SESSION_TAKEN_OVER, session_expiry_interval=0, reason_str="again",
            server_reference="c:1883", user_properties=USER),
        "auth": m.AuthPacket(),
        "auth-continue": m.AuthPacket(reason_code=m.AuthReasonCode.CONTINUE_AUTHENTICATION, reason_str="go on",
                                      authentication_method="SCRAM", authentication_data=b"\5", user_properties=USER),
    }
    packets |= acks_of_mqtt5()
    return {name: packet.write() for name, packet in packets.items()}


def acks_of_mqtt5() -> dict[str, Any]:
    """The four acknowledgements: success, another reason, and all properties."""
    m, packets = mqtt5, {}
    for name, kind, code in (
        ("puback", m.PubAckPacket, m.PubAckReasonCode.NO_MATCHING_SUBSCRIBERS),
        ("pubrec", m.PubRecPacket, m.PubRecReasonCode.PAYLOAD_FORMAT_INVALID),
        ("pubrel", m.PubRelPacket, m.PubRelReasonCode.PACKET_ID_NOT_FOUND),
        ("pubcomp", m.PubCompPacket, m.PubCompReasonCode.PACKET_ID_NOT_FOUND),
    ):
        make: Any = kind
        packets[name] = make(257)
        packets[f"{name}-reason"] = make(1, reason_code=code)
        packets[f"{name}-full"] = make(65535, reason_code=code, reason_str="why", user_properties=USER)
    return packets


def paho_properties(kind: int, **values: object) -> Properties:
    """Those of a packet."""
    found = Properties(kind)
    for name, value in values.items():
        setattr(found, name, value)
    return found


class Recorder(paho.Client):
    """A client without a connection: what it would send is kept."""

    def __init__(self, protocol: int, client_id: str, **options: Any) -> None:
        super().__init__(paho.CallbackAPIVersion.VERSION2, client_id, protocol=protocol, **options)
        self.sent: list[bytes] = []
        self._sock = object()                            # type: ignore[assignment]

    def _packet_queue(self, command: int, packet: bytes, mid: int, qos: int, info: Any = None) -> Any:
        self.sent.append(bytes(packet))
        return paho.MQTT_ERR_SUCCESS

    def _sock_close(self) -> None:
        self._sock = None


def of_paho() -> dict[str, bytes]:
    """What a client sends, in both versions."""
    found: dict[str, bytes] = {}

    def add(name: str, client: Recorder, call: Callable[[], object]) -> None:
        client.sent.clear()
        call()
        (found[name],) = client.sent

    for label, protocol in (("3", paho.MQTTv311), ("5", paho.MQTTv5)):
        five = protocol == paho.MQTTv5
        plain = Recorder(protocol, "client-1", **({} if five else {"clean_session": True}))
        add(f"{label}-connect", plain, lambda c=plain: c._send_connect(60))
        full = Recorder(protocol, "client-2", **({} if five else {"clean_session": False}))
        full.username_pw_set("ann", "secret")
        full.will_set("state/last", b"gone", 2, True, properties=paho_properties(
            PacketTypes.WILLMESSAGE, WillDelayInterval=30, UserProperty=USER) if five else None)
        if five:
            full._clean_start = False
            full._connect_properties = paho_properties(
                PacketTypes.CONNECT, SessionExpiryInterval=120, ReceiveMaximum=20, UserProperty=USER)
        add(f"{label}-connect-full", full, lambda c=full: c._send_connect(65535))
        of_message = paho_properties(
            PacketTypes.PUBLISH, PayloadFormatIndicator=1, MessageExpiryInterval=3600, TopicAlias=3,
            CorrelationData=b"\xff\xfe\x80\0", ResponseTopic="answers/7", UserProperty=USER) if five else None
        add(f"{label}-publish-0", plain,
            lambda c=plain: c._send_publish(0, b"a/b", b"hello", 0, False, False, None, None))
        add(f"{label}-publish-1", plain,
            lambda c=plain: c._send_publish(1, b"a/b", b"hello", 1, False, True, None, None))
        add(f"{label}-publish-2", plain,
            lambda c=plain, p=of_message: c._send_publish(
                65535, "a/\N{SNOWMAN}".encode(), bytes(200), 2, True, False, None, p))
        options = SubscribeOptions(2, noLocal=True, retainAsPublished=True, retainHandling=2)
        add(f"{label}-subscribe", plain, lambda c=plain, o=options, five=five: c._send_subscribe(
            False, [(b"a/+/#", o), (b"b", SubscribeOptions(1))] if five else [(b"a/+/#", 2), (b"b", 1)],
            paho_properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=128) if five else None))
        add(f"{label}-unsubscribe", plain, lambda c=plain: c._send_unsubscribe(False, [b"a/b", b"+/+"], None))
        for name in ("puback", "pubrec", "pubrel", "pubcomp"):
            add(f"{label}-{name}", plain, lambda c=plain, n=name: getattr(c, f"_send_{n}")(257))
        add(f"{label}-pingreq", plain, lambda c=plain: c._send_pingreq())
        add(f"{label}-disconnect", plain, lambda c=plain, five=five: c._send_disconnect(
            ReasonCode(PacketTypes.DISCONNECT, "Disconnect with will message") if five else None, None))
    return found


@contextmanager
def mosquitto() -> Iterator[int]:
    """One that listens on loopback; its port."""
    port = free_range()
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
        config.write(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
        config.flush()
        with subprocess.Popen(["mosquitto", "-c", config.name]) as broker:
            try:
                for _ in range(100):
                    with socket.socket() as probe:
                        if probe.connect_ex(("127.0.0.1", port)) == 0:
                            break
                    time.sleep(0.1)
                yield port
            finally:
                broker.terminate()


def of_mosquitto() -> dict[str, bytes]:
    """What a server sends, in both versions: one request at a time, all that comes back."""
    found: dict[str, bytes] = {}
    ours = of_paho()
    with mosquitto() as port:
        for label in ("3", "5"):
            with socket.create_connection(("127.0.0.1", port)) as client:
                for name, sent in (
                    ("connack", "connect"), ("suback", "subscribe"), ("puback", "publish-1"), ("pubrec", "publish-2"),
                    ("pingresp", "pingreq"), ("unsuback", "unsubscribe"), ("pubcomp", "pubrel"),
                ):
                    data = ours[f"{label}-{sent}"]
                    if sent == "publish-2":
                        data = mqtt5.PublishPacket("z", b"", qos=mqtt5.QoS.EXACTLY_ONCE, packet_id=9).write() \
                            if label == "5" else b"\x34\x05\0\1z\0\x09"
                    if sent == "pubrel":
                        data = b"\x62\2\0\x09"
                    client.sendall(data)
                    time.sleep(0.3)
                    found[f"{label}-{name}"] = client.recv(4096)
    return found


def main() -> None:
    """Write the three files."""
    for name, made in (("mqtt5", of_mqtt5()), ("paho", of_paho()), ("mosquitto", of_mosquitto())):
        lines = [f"{case} {data.hex()}\n" for case, data in made.items()]
        (FOLDER / f"{name}.txt").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
