"""Clients that are not ours against `jgroups mqtt serve`: mosquitto_pub and mosquitto_sub, paho-mqtt, aiomqtt."""
from __future__ import annotations

import asyncio
import ssl
import threading
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import aiomqtt
import paho.mqtt.client as paho
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.runtime.mqtt.processes import END_SECONDS, Subscriber, publish, serving

pytestmark = pytest.mark.real
VERSIONS = pytest.mark.parametrize("version", ["311", "5"])
LOCAL = ("--host", "127.0.0.1", "--port", "0")


@VERSIONS
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_messages_arrive_once_and_in_order(version, qos):
    with serving(*LOCAL) as broker, Subscriber(broker.port, "a/#", "-C", "5", "-q", qos, "-V", version, "-v") as sub:
        for number in range(5):
            publish(broker.port, f"a/{number}", f"text {number}", "-q", qos, "-V", version)
        assert sub.lines() == [f"a/{number} text {number}" for number in range(5)]


@VERSIONS
def test_a_retained_message_waits_for_subscribers_until_it_is_cleared(version):
    with serving(*LOCAL) as broker:
        publish(broker.port, "state", "on", "-r", "-q", "1", "-V", version)
        with Subscriber(broker.port, "state", "-C", "1", "-F", "%r %p", "-V", version) as sub:
            assert sub.lines() == ["1 on"]
        publish(broker.port, "state", "", "-r", "-q", "1", "-V", version)
        with Subscriber(broker.port, "#", "-C", "1", "-F", "%r %t", "-V", version) as sub:
            publish(broker.port, "other", "x", "-V", version)
            assert sub.lines() == ["0 other"]


@VERSIONS
def test_the_will_of_a_client_that_is_killed_is_published_once(version):
    with serving(*LOCAL) as broker, Subscriber(broker.port, "wills", "-C", "2", "-V", version) as sub:
        with Subscriber(broker.port, "x", "--will-topic", "wills", "--will-payload", "gone", "-V", version) as killed:
            killed.process.kill()
            killed.process.wait()
        publish(broker.port, "x", "a sign that the broker goes on")
        # The will is published when the broker sees the end of the connection, so the second message is sent after it.
        assert sub.process.stdout is not None
        seen = []
        while "gone\n" not in seen:
            seen.append(sub.process.stdout.readline())
        publish(broker.port, "wills", "end")
        assert sub.lines() == ["end"]


@VERSIONS
def test_a_persistent_session_gets_what_came_meanwhile(version):
    session = ("-i", "reader", "-c", "-q", "1", "-V", version, *(("-x", "100") if version == "5" else ()))
    with serving(*LOCAL) as broker:
        with Subscriber(broker.port, "t", *session):
            pass
        for number in range(3):
            publish(broker.port, "t", str(number), "-q", "1", "-V", version)
        with Subscriber(broker.port, "t", *session, "-C", "3", waits=False) as sub:
            assert sub.lines() == ["0", "1", "2"]


def test_a_shared_subscription_gives_each_message_to_one_member():
    with serving(*LOCAL) as broker, Subscriber(broker.port, "$share/g/t", "-V", "5", "-C", "2") as one, \
            Subscriber(broker.port, "$share/g/t", "-V", "5", "-C", "2") as other:
        for number in range(4):
            publish(broker.port, "t", str(number), "-q", "1")
        assert sorted(one.lines() + other.lines()) == ["0", "1", "2", "3"]


# --- TLS and WebSocket ----------------------------------------------------------------------------------------------

@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """Files of a certificate for 127.0.0.1 that signs itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    today = datetime.now()
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(today - timedelta(days=2))
            .not_valid_after(today + timedelta(days=2))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), True).sign(key, hashes.SHA256()))
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption()))
    return str(paths[0]), str(paths[1])


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_tls(certificate, loop, tmp_path):
    file = tmp_path / "node.yml"
    file.write_text(f"listeners: [{{address: '127.0.0.1:0', tls: {{cert_file: {certificate[0]}, "
                    f"key_file: {certificate[1]}}}}}]\n")
    tls = ("--cafile", certificate[0])
    with serving("-c", str(file), "--loop", loop) as broker:
        assert broker.listeners == [f"mqtts://127.0.0.1:{broker.port}"]
        with Subscriber(broker.port, "t", "-C", "2", "-q", "2", *tls) as sub:
            publish(broker.port, "t", "hidden", "-q", "2", *tls)
            publish(broker.port, "t", "x" * 100_000, "-q", "2", *tls)
            assert sub.lines() == ["hidden", "x" * 100_000]
        with pytest.raises(AssertionError):              # no TLS: refused
            publish(broker.port, "t", "open")
        code, said = broker.end()
        assert (code, said) == (0, "stopped\n")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("protocol", [paho.MQTTv311, paho.MQTTv5])
def test_paho_over_websocket(loop, protocol, tmp_path, certificate):
    file = tmp_path / "node.yml"
    file.write_text(f"listeners: [{{address: '127.0.0.1:0', websocket: {{path: /mqtt}}}}, "
                    f"{{address: '127.0.0.1:0', websocket: {{path: /mqtt}}, "
                    f"tls: {{cert_file: {certificate[0]}, key_file: {certificate[1]}}}}}]\n")
    with serving("-c", str(file), "--loop", loop, listeners=2) as broker:
        assert [each.partition(":")[0] for each in broker.listeners] == ["ws", "wss"]
        for number in (0, 1):
            payloads = [b"x" * size for size in (0, 100, 70_000)]
            assert echo(broker.port_of(number), protocol, payloads, certificate[0] if number else None) == payloads


def echo(port: int, protocol: int, payloads: list[bytes], ca: str | None) -> list[bytes]:
    """What a paho client gets of what it publishes, over WebSocket."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=protocol, transport="websockets")
    client.ws_set_options("/mqtt")
    if ca is not None:
        client.tls_set(ca, tls_version=ssl.PROTOCOL_TLS_CLIENT)
    got: list[bytes] = []
    done, failed = threading.Event(), []

    def connected(_: object, __: object, ___: object, reason: paho.ReasonCode, ____: object) -> None:
        failed.extend([reason] if reason.is_failure else [])
        client.subscribe("t", 2)

    def subscribed(*_: object) -> None:
        for payload in payloads:
            client.publish("t", payload, 2)

    def received(_: object, __: object, message: paho.MQTTMessage) -> None:
        got.append(message.payload)
        if len(got) == len(payloads):
            done.set()

    client.on_connect, client.on_subscribe, client.on_message = connected, subscribed, received
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        assert done.wait(END_SECONDS), f"{got}, {failed}"
    finally:
        client.disconnect()
        client.loop_stop()
    return got


# --- asyncio --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("protocol", list(aiomqtt.ProtocolVersion)[1:])
def test_aiomqtt(protocol):
    async def body(port: int) -> None:
        async with aiomqtt.Client("127.0.0.1", port, protocol=protocol) as client:
            await client.subscribe("a/+/c", qos=2)
            for qos in (0, 1, 2):
                await client.publish("a/b/c", str(qos), qos=qos)
            got = []
            async for message in client.messages:
                got.append((str(message.topic), message.payload, message.qos))
                if len(got) == 3:
                    break
            assert sorted(got) == [("a/b/c", b"%d" % qos, qos) for qos in (0, 1, 2)]
    with serving(*LOCAL) as broker:
        asyncio.run(asyncio.wait_for(body(broker.port), END_SECONDS))
