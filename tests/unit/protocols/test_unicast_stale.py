"""UNICAST: what is said about another connection, or about what was never sent, changes nothing."""
from __future__ import annotations

from jgroups_py.protocols.unicast import Unicast, UnicastAck, UnicastConfig, UnicastData, UnicastNak
from jgroups_py.testing.bench import Bench, change, unicast, view_of


def sender() -> tuple[Bench, int]:
    """A with one unacknowledged message to B, and the number of its connection."""
    a = Bench(Unicast(UnicastConfig()), me="A")
    a.down(change(view_of("A", "B", "C")))
    a.down(unicast("A", "B", b"one"))
    ((data, _),) = a.sent_with(UnicastData)
    return a, data.connection


def test_only_the_receiver_of_a_connection_acknowledges_and_only_what_was_sent() -> None:
    a, connection = sender()
    for src, ack, counter in (
        ("B", UnicastAck(connection ^ 1, 2), "stale_acks"), ("C", UnicastAck(connection, 2), "stale_acks"),
        ("B", UnicastAck(connection, 3), "wrong_acks"), ("B", UnicastAck(connection, 1), "stale_acks"),
    ):
        before = a.stats().get(counter, 0)
        a.up(unicast(src, "A", headers=(ack,)))
        assert a.stats()[counter] == before + 1
        assert a.stats()["unacknowledged"] == 1
    a.up(unicast("B", "A", headers=(UnicastAck(connection, 2),)))
    assert a.stats()["unacknowledged"] == 0
    a.up(unicast("B", "A", headers=(UnicastAck(connection, 2),)))
    assert a.stats()["stale_acks"] == 4


def test_messages_are_retransmitted_only_to_the_receiver_of_their_connection() -> None:
    a, connection = sender()
    for src, missing in (("B", UnicastNak(connection ^ 1, ((1, 2),))), ("C", UnicastNak(connection, ((1, 2),)))):
        a.up(unicast(src, "A", headers=(missing,)))
        assert a.sent_with(UnicastData) == []
    assert a.stats()["stale_requests"] == 2
    a.up(unicast("B", "A", headers=(UnicastNak(connection, ((1, 2),)),)))
    assert [batch.payloads for _, batch in a.sent_with(UnicastData)] == [(b"one",)]


def test_messages_of_a_member_to_itself_are_neither_numbered_nor_waited_for() -> None:
    a = Bench(Unicast(UnicastConfig()), me="A")
    a.down(change(view_of("A", "B")))
    a.down(unicast("A", "A", b"note"))
    assert a.payloads() == [b"note"]
    assert a.stats()["unacknowledged"] == 0
    a.advance(5000)
    assert a.payloads() == [b"note"]
