"""UNICAST between two members on a wire that loses, doubles and delays what it likes."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from jgroups_py.model.batch import NO_RELIABILITY, OOB, Batch
from jgroups_py.model.units import millis
from jgroups_py.protocols.unicast import Unicast, UnicastAck, UnicastBase, UnicastConfig, UnicastData, UnicastNak
from jgroups_py.testing.bench import Bench, Group, InFlight, address, change, unicast, view_of

V1 = view_of("A", "B")


def numbered(first: int, stop: int) -> tuple[bytes, ...]:
    return tuple(b"%d" % n for n in range(first, stop))


def group(**config: object) -> Group:
    made = Group(lambda name: [Unicast(UnicastConfig(**config))], "AB")
    made.install(V1)
    return made


def losing(*, header: type, times: int) -> Callable[[InFlight], Sequence[float]]:
    """A delays_of that loses the first `times` batches with this header."""
    left = [times]

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.has(header) and left[0] > 0:
            left[0] -= 1
            return ()
        return (0.0,)
    return delays_of


def test_a_batch_arrives_as_a_batch_and_is_acknowledged() -> None:
    both = group()
    both["A"].down(unicast("A", "B", *numbered(0, 100)))
    both.settle()
    assert [batch.payloads for batch in both["B"].delivered] == [numbered(0, 100)]
    both.run(50)
    assert both["A"].stats()["unacknowledged"] == 0
    assert both["B"].stats()["acks_sent"] == 1


def test_the_first_message_needs_no_round_trip() -> None:
    both = group()
    both.delays_of = lambda in_flight: (10.0,)
    both["A"].down(unicast("A", "B", b"hello"))
    both.run(10)
    assert both["B"].payloads() == [b"hello"]


def test_a_lost_first_message_is_requested() -> None:
    both = group()
    both.delays_of = losing(header=UnicastData, times=1)
    both["A"].down(unicast("A", "B", b"0"))
    both.settle()
    both["A"].down(unicast("A", "B", b"1", b"2"))
    both.run(20)
    assert both["B"].payloads() == [b"0", b"1", b"2"]
    assert both["B"].stats()["requests_sent"] == 1
    assert both["A"].stats()["retransmitted"] == 1


def test_requests_without_answers_ask_for_less_and_less() -> None:
    both = group()
    both.delays_of = lambda in_flight: \
        () if in_flight.has(UnicastData) and in_flight.batch.headers[-1].first <= 1000 else (0.0,)
    both["A"].down(unicast("A", "B", *numbered(0, 1000)))
    both["A"].down(unicast("A", "B", b"1000"))
    both.run(3000)
    assert both["A"].stats()["retransmitted"] < 2200             # 1000, 500, 250, ... though asked seven times and more
    assert both["B"].stats()["requests_sent"] > 7
    both.delays_of = lambda in_flight: (0.0,)
    both.run(3000)
    assert both["B"].payloads() == list(numbered(0, 1001))


def test_answers_that_take_longer_than_the_longest_interval_are_waited_for() -> None:
    both = group()
    lost = [*range(41, 80), 100]
    both.delays_of = lambda in_flight: (450.0,)
    both["A"].down(unicast("A", "B", b"first"))
    both["B"].down(unicast("B", "A", b"first"))
    both.run(3000)
    before = both["A"].stats()["highest_resent"]

    def delays_of(in_flight: InFlight) -> tuple[float, ...]:
        if in_flight.has(UnicastData) and in_flight.batch.headers[-1].first in lost:
            lost.remove(in_flight.batch.headers[-1].first)
            return ()
        return (450.0,)
    both.delays_of = delays_of
    for one in numbered(0, 200):
        both["A"].down(unicast("A", "B", one))
        both.run(50)
    both.run(5000)
    assert both["B"].payloads() == [b"first", *numbered(0, 200)]
    assert both["A"].stats()["retransmitted"] <= 50                   # 40 were lost; every 500 ms were 76
    assert both["A"].stats()["highest_resent"] - before <= 5


def test_a_slow_path_does_not_starve_a_repair() -> None:
    both = group(xmit_interval_ns=millis(200))
    both.delays_of = lambda in_flight: \
        () if in_flight.has(UnicastData) and in_flight.batch.headers[-1].first <= 200 else (450.0,)
    for one in numbered(0, 201):
        both["A"].down(unicast("A", "B", one))
    both.run(2000)
    both.delays_of = lambda in_flight: (450.0,)
    both.run(20_000)                                                  # one message a round were 37 in that time
    assert both["B"].payloads() == list(numbered(0, 201))


def test_a_lost_last_message_is_retransmitted_without_a_request() -> None:
    both = group()
    both["A"].down(unicast("A", "B", b"0"))
    both.run(100)
    both.delays_of = losing(header=UnicastData, times=1)
    both["A"].down(unicast("A", "B", b"1"))
    both.run(100)
    assert both["B"].payloads() == [b"0", b"1"]
    assert both["A"].stats()["highest_resent"] == 1


def test_lost_acknowledgements_end_in_silence() -> None:
    both = group()
    both.delays_of = losing(header=UnicastAck, times=3)
    both["A"].down(unicast("A", "B", *numbered(0, 10)))
    both.run(3000)
    assert both["B"].payloads() == list(numbered(0, 10))
    assert both["A"].stats()["unacknowledged"] == 0
    resent = both["A"].stats()["highest_resent"]
    assert resent == 3
    both.run(10_000)
    assert both["A"].stats()["highest_resent"] == resent


def test_stale_and_absurd_acknowledgements_change_nothing() -> None:
    a = Bench(Unicast(), me="A")
    a.down(change(V1))
    a.down(unicast("A", "B", *numbered(0, 10)))
    for ack in (UnicastAck(1, 11), UnicastAck(1, 5), UnicastAck(1, 12), UnicastAck(7, 3)):
        a.up(unicast("B", "A", headers=(ack,), flags=NO_RELIABILITY))
    stats = a.stats()
    assert (stats["unacknowledged"], stats["stale_acks"], stats["wrong_acks"]) == (0, 2, 1)


def test_only_missing_messages_are_retransmitted() -> None:
    both = group()
    a = both["A"]
    batches = [unicast("A", "B", *numbered(n, n + 10)) for n in range(0, 100, 10)]
    lost = [3, 7]
    sent = iter(range(len(batches)))
    both.delays_of = lambda in_flight: () if in_flight.has(UnicastData) and next(sent, 99) in lost else (0.0,)
    for batch in batches:
        a.down(batch)
    both.run(30)
    assert both["B"].payloads() == list(numbered(0, 100))
    assert a.stats()["retransmitted"] == 20


def test_a_request_is_answered_up_to_a_limit_in_bytes() -> None:
    a = Bench(Unicast(UnicastConfig(max_resend_bytes="64K")), me="A")
    a.down(change(V1))
    for _ in range(10):
        a.down(unicast("A", "B", bytes(30_000)))
    a.sent()
    a.up(unicast("B", "A", headers=(UnicastNak(1, ((1, 11),)),), flags=NO_RELIABILITY))
    assert len(a.sent_with(UnicastData)) == 3


def test_messages_of_a_member_to_itself_are_delivered_at_once() -> None:
    a = Bench(Unicast(), me="A")
    a.down(change(V1))
    a.down(unicast("A", "A", b"me"))
    assert a.payloads() == [b"me"]
    assert a.sent() == []


def test_unreliable_messages_and_multicasts_pass_untouched() -> None:
    a = Bench(Unicast(), me="A")
    a.down(unicast("A", "B", b"x", flags=NO_RELIABILITY))
    a.down(Batch(address("A"), None, (b"y",)))
    assert [batch.headers for batch in a.sent()] == [(), ()]


def test_oob_messages_overtake_and_come_once() -> None:
    both = group()
    both.delays_of = losing(header=UnicastData, times=1)
    both["A"].down(unicast("A", "B", b"slow"))
    both.settle()
    both.delays_of = lambda in_flight: (0.0, 1.0)
    both["A"].down(unicast("A", "B", b"fast1", b"fast2", flags=OOB))
    both.settle()
    assert both["B"].payloads() == [b"fast1", b"fast2"]
    both.run(1000)
    assert both["B"].payloads() == [b"fast1", b"fast2", b"slow"]


def test_nothing_is_delivered_before_the_first_view() -> None:
    b = Bench(Unicast(), me="B")
    b.up(unicast("A", "B", b"early", headers=(UnicastData(1, 1, 1),)))
    b.up(unicast("A", "B", b"fast", headers=(UnicastData(1, 2, 1),), flags=OOB))
    assert b.payloads() == []
    b.down(change(V1))
    assert b.payloads() == [b"early", b"fast"]


def test_unreliable_messages_before_the_first_view_are_dropped_and_counted() -> None:
    b = Bench(Unicast(), me="B")
    b.up(unicast("A", "B", b"lost", flags=NO_RELIABILITY))
    b.down(change(V1))
    b.up(unicast("A", "B", b"seen", flags=NO_RELIABILITY))
    assert b.payloads() == [b"seen"]
    assert b.stats()["before_view_dropped"] == 1


def test_what_comes_before_the_first_view_is_bounded() -> None:
    b = Bench(Unicast(UnicastConfig(max_early_bytes=1000)), me="B")
    for n in range(3):
        b.up(unicast("A", "B", bytes(400), headers=(UnicastData(1, 1 + n, 1),)))
    b.down(change(V1))
    assert len(b.payloads()) == 2
    assert b.stats()["early_dropped"] == 1


def test_a_new_connection_of_the_same_sender_replaces_the_old() -> None:
    b = Bench(Unicast(), me="B")
    b.down(change(V1))
    for connection, first, payload in ((4, 1, b"old1"), (4, 3, b"old3"), (6, 1, b"new1"), (4, 2, b"old2")):
        b.up(unicast("A", "B", payload, headers=(UnicastData(connection, first, 1),)))
    assert b.payloads() == [b"old1", b"new1"]
    assert b.stats()["replaced_connection_dropped"] == 1
    assert b.stats()["old_connection_dropped"] == 1


def test_a_receiver_that_closed_a_connection_continues_the_stream_without_duplicates() -> None:
    both = group(conn_close_timeout_ns="1s")
    alone = view_of("B", counter=2)
    both["A"].down(unicast("A", "B", *numbered(0, 5)))
    both.settle()
    both["B"].down(change(alone, V1))
    both.delays_of = lambda in_flight: () if in_flight.has(UnicastAck) else (0.0,)
    both.run(1500)                                            # B closed its end, A never saw an acknowledgement
    both["B"].down(change(view_of("A", "B", counter=3), alone))
    both.delays_of = lambda in_flight: (0.0,)
    both["A"].down(unicast("A", "B", *numbered(5, 8)))
    both.run(1500)
    assert both["B"].payloads() == list(numbered(0, 8))
    assert both["A"].stats()["unacknowledged"] == 0


def test_both_ends_may_close_and_open_a_connection_again() -> None:
    both = group(conn_close_timeout_ns="1s")
    both["A"].down(unicast("A", "B", b"before"))
    both.settle()
    apart = {name: view_of(name, counter=2) for name in "AB"}
    for name, view in apart.items():
        both[name].down(change(view, V1))
    both.delays_of = lambda in_flight: ()
    both["A"].down(unicast("A", "B", b"lost"))
    both.run(2000)
    assert both["A"].stats()["unacknowledged_dropped"] == 2
    both.delays_of = lambda in_flight: (0.0,)
    for name, view in apart.items():
        both[name].down(change(view_of("A", "B", counter=3), view))
    both["A"].down(unicast("A", "B", b"after"))
    both.run(1000)
    assert both["B"].payloads() == [b"before", b"after"]


def test_a_short_exclusion_loses_nothing() -> None:
    both = group()
    apart = {name: view_of(name, counter=2) for name in "AB"}
    for name, view in apart.items():
        both[name].down(change(view, V1))
    both.delays_of = lambda in_flight: ()
    both["A"].down(unicast("A", "B", *numbered(0, 3)))
    both.run(5000)
    both.delays_of = lambda in_flight: (0.0,)
    for name, view in apart.items():
        both[name].down(change(view_of("A", "B", counter=3), view))
    both["A"].down(unicast("A", "B", *numbered(3, 5)))
    both.run(1000)
    assert both["B"].payloads() == list(numbered(0, 5))


def test_a_non_member_that_acknowledges_nothing_cannot_fill_memory() -> None:
    a = Bench(Unicast(UnicastConfig(max_unacknowledged_bytes="64K")), me="A")
    a.down(change(V1))
    for _ in range(1000):
        a.down(unicast("A", "C", bytes(1000)))
        assert a.stats()["unacknowledged"] <= 65
    assert a.stats()["unacknowledged_dropped"] > 900
    for _ in range(1000):
        a.down(unicast("A", "B", bytes(1000)))
    assert a.stats()["unacknowledged"] >= 1000, "a member is never given up"


def test_a_non_member_that_acknowledges_may_get_any_amount() -> None:
    a = Bench(Unicast(UnicastConfig(max_unacknowledged_bytes="64K")), me="A")
    a.down(change(V1))
    for number in range(1, 1000):
        a.down(unicast("A", "C", bytes(1000)))
        a.up(unicast("C", "A", headers=(UnicastAck(1, number + 1),)))
    assert "unacknowledged_dropped" not in a.stats()


def test_retransmission_to_a_non_member_ends() -> None:
    a = Bench(Unicast(UnicastConfig(max_retransmit_time_ns="3s")), me="A")
    a.down(change(V1))
    a.down(unicast("A", "C", b"hello?"))
    a.advance(10_000)
    a.sent()
    a.advance(60_000)
    assert a.sent() == []
    assert a.stats()["unacknowledged_dropped"] == 1


def test_retransmission_to_a_member_does_not_end_and_slows_down() -> None:
    a = Bench(Unicast(UnicastConfig(max_retransmit_time_ns="3s")), me="A")
    a.down(change(V1))
    a.down(unicast("A", "B", b"hello?"))
    a.sent()
    a.advance(100_000)
    assert 190 <= len(a.sent_with(UnicastData)) <= 210


def test_an_idle_connection_is_forgotten_and_opens_again() -> None:
    both = group(conn_expiry_timeout_ns="1s")
    both["A"].down(unicast("A", "B", b"1"))
    both.run(5000)
    assert both["A"].stats()["connections"] == both["B"].stats()["connections"] == 0
    both["A"].down(unicast("A", "B", b"2"))
    both.run(500)
    assert both["B"].payloads() == [b"1", b"2"]


def test_messages_below_a_late_base_are_not_waited_for() -> None:
    b = Bench(Unicast(), me="B")
    b.down(change(V1))
    b.up(unicast("A", "B", b"9", headers=(UnicastData(1, 9, 2),)))
    b.advance(10)
    [(missing, _)] = b.sent_with(UnicastNak)
    assert missing.ranges == ((2, 9),)
    b.up(unicast("A", "B", headers=(UnicastBase(1, 9),), flags=NO_RELIABILITY))
    assert b.payloads() == [b"9"]


@pytest.mark.parametrize("header", [UnicastData(1, 2, 3), UnicastData(1, 5, 0), UnicastData(1, 1 << 40, 1)])
def test_absurd_headers_are_dropped_and_counted(header: UnicastData) -> None:
    b = Bench(Unicast(), me="B")
    b.down(change(V1))
    b.up(unicast("A", "B", b"x", headers=(header,)))
    assert b.payloads() == []
    assert b.stats().get("malformed_dropped", 0) + b.stats().get("too_far_ahead_dropped", 0) == 1


@pytest.mark.parametrize("seed", range(30))
def test_everything_arrives_once_in_order_over_a_bad_wire(seed: int) -> None:
    rng = Random(seed)
    both = group(ack_threshold=rng.choice([1, 7, 1000]))

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        copies = rng.choice([0, 1, 1, 1, 1, 2])
        return [rng.choice([0.0, 0.5, 3.0, 20.0]) for _ in range(copies)]
    both.delays_of = delays_of
    sent = {"A": 0, "B": 0}
    for _ in range(60):
        for src, dest in ("AB", "BA"):
            number = rng.randrange(12)
            if number:
                both[src].down(unicast(src, dest, *numbered(sent[src], sent[src] + number)))
                sent[src] += number
        both.run(rng.choice([0, 1, 30]))
    both.delays_of = lambda in_flight: (0.0,)
    both.run(5000)
    assert both["B"].payloads("A") == list(numbered(0, sent["A"]))
    assert both["A"].payloads("B") == list(numbered(0, sent["B"]))
    assert both["A"].stats()["unacknowledged"] == both["B"].stats()["unacknowledged"] == 0


def test_a_request_for_acknowledged_messages_is_answered_with_the_base() -> None:
    """The receiver lost its record of it, and the sender does not keep it: else it is requested for ever."""
    a = Bench(Unicast(), me="A")
    a.down(change(V1))
    for batch in (unicast("A", "B", *numbered(0, 4)), unicast("A", "B", *numbered(4, 8))):
        a.down(batch)
    connection = a.sent_with(UnicastData)[0][0].connection
    a.up(unicast("B", "A", headers=(UnicastAck(connection, 5),), flags=NO_RELIABILITY))
    a.sent()
    a.up(unicast("B", "A", headers=(UnicastNak(connection, ((5, 9),)),), flags=NO_RELIABILITY))
    assert a.sent_with(UnicastBase) == [], "what is requested is still kept, so the receiver must not skip anything"
    a.sent()
    a.up(unicast("B", "A", headers=(UnicastNak(connection, ((2, 9),)),), flags=NO_RELIABILITY))
    assert [base for base, _ in a.sent_with(UnicastBase)] == [UnicastBase(connection, 5)]
