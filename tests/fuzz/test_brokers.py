"""What the fuzz of the MQTT broker says of brokers that are wrong."""
from __future__ import annotations

import pytest

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.session import ClientSession
from tests.fuzz.codecs import fuzz
from tests.fuzz.targets import targets

INPUTS = 200


def causes(name: str) -> list[str]:
    return list(fuzz(targets()[name], 2, INPUTS).causes)


@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_an_acknowledgement_that_is_counted_twice_is_found(monkeypatch, version):
    original = ClientSession.arrived

    def twice(self, connection, packet_id):
        is_done = original(self, connection, packet_id)
        connection.in_flight -= is_done
        return is_done

    monkeypatch.setattr(ClientSession, "arrived", twice)
    assert causes(f"mqtt-broker-{version}-sent-1") == ["AssertionError in elsewhere"]


def test_a_subscription_that_stays_behind_is_found(monkeypatch):
    original = Broker._end_session

    def forgetful(self, session, now_ns):
        kept = dict(session.subscriptions)
        session.subscriptions.clear()
        original(self, session, now_ns)
        session.subscriptions.update(kept)

    monkeypatch.setattr(Broker, "_end_session", forgetful)
    assert causes("mqtt-broker-5-fresh")


def test_an_exception_of_the_broker_is_found(monkeypatch):
    def broken(self, connection, session, packet, now_ns):
        raise KeyError(packet.packet_id)

    monkeypatch.setattr(Broker, "_on_release", broken)
    wanted = "KeyError in blocks/mqtt/broker/broker.py"
    assert any(cause.startswith(wanted) for cause in causes("mqtt-broker-5-recorded"))
