"""UNICAST: non-members get few connections and little memory, and no peer makes it keep more than a bound."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.model.batch import Batch
from jgroups_py.model.counter_jumps import MAX_JUMP
from jgroups_py.protocols.unicast import Unicast, UnicastBase, UnicastConfig, UnicastData
from jgroups_py.protocols.unicast.headers import UnicastAck
from jgroups_py.testing.bench import Bench, Group, address, change, unicast, view_of
from jgroups_py.windows.receive import BATCH_BYTES

V1 = view_of("A", "B")


def member(**config: object) -> Bench:
    """A in a view with B."""
    bench = Bench(Unicast(UnicastConfig(**config)))
    bench.down(change(V1))
    return bench


def data(src: str, first: int, *payloads: bytes, base: int = 1, connection: int = 1) -> Batch:
    """Numbered messages to A as they arrive."""
    return unicast(src, "A", *payloads, headers=(UnicastData(connection, first, base),))


def test_a_flood_of_non_members_is_delivered_and_few_of_their_connections_are_kept() -> None:
    a = member(max_non_members=100)
    for number in range(5000):
        a.up(data(f"X{number}", 1, b"x"))
    assert len(a.payloads()) == 5000
    assert a.stats()["connections"] <= 100
    assert a.stats()["non_members_evicted"] == 4900
    layer = a.stack.find(Unicast)
    assert isinstance(layer, Unicast)
    assert len(layer.peers.non_members) == 100
    assert len(layer.receiving.closed_unknown) <= 4096
    assert not layer.receiving.closed


def test_a_non_member_that_was_evicted_continues_where_it_was() -> None:
    a = member(max_non_members=10)
    a.up(data("old", 1, b"1", b"2"))
    for number in range(20):
        a.up(data(f"X{number}", 1, b"x"))
    a.up(data("old", 2, b"2", b"3", base=1))                  # it repeats what was not acknowledged
    assert a.payloads("old") == [b"1", b"2", b"3"]


def test_connections_with_unacknowledged_messages_are_not_dropped_for_a_flood() -> None:
    a = member(max_non_members=10)
    a.down(unicast("A", "friend", b"unacknowledged"))
    for number in range(50):
        a.up(data(f"X{number}", 1, b"x"))
    assert a.stats()["unacknowledged"] == 1
    assert a.stats()["connections"] <= 11


def test_connections_with_former_members_are_not_dropped_for_a_flood_of_non_members() -> None:
    a = member(max_non_members=10)
    a.up(data("B", 1, b"1"))
    a.up(data("B", 3, b"3"))
    a.down(change(view_of("A", counter=2), V1))
    for number in range(50):
        a.up(data(f"X{number}", 1, b"x"))
    a.up(data("B", 2, b"2"))
    assert a.payloads("B") == [b"1", b"2", b"3"]


def test_non_members_together_get_little_memory_and_members_their_own() -> None:
    a = member(max_non_member_bytes="64K", max_ahead_bytes="256K")
    for number in range(100):
        a.up(data(f"X{number}", 1, b"x"))
        a.up(data(f"X{number}", 3, bytes(10_000)))
    layer = a.stack.find(Unicast)
    assert isinstance(layer, Unicast)
    assert layer.receiving.unknown_bytes == 6 * (10_000 + BATCH_BYTES)
    assert a.stats()["ahead_dropped"] == 94
    a.up(data("X0", 2, b"closes the hole"))
    assert len(a.payloads("X0")) == 3
    assert layer.receiving.unknown_bytes == 5 * (10_000 + BATCH_BYTES)
    for number in range(100):
        a.up(data("B", 3 + 2 * number, bytes(10_000)))
    assert layer.receiving.incoming[V1.members[1]].window.ahead_bytes == 250_000
    a.up(data("X1", 1, b"new", connection=2))                 # what the old connection kept is gone
    assert layer.receiving.unknown_bytes == 4 * (10_000 + BATCH_BYTES)
    a.down(change(view_of("A", "B", "X2", counter=2), V1))     # one becomes a member
    assert layer.receiving.unknown_bytes == 3 * (10_000 + BATCH_BYTES)
    a.advance(1_000_000)
    assert layer.receiving.unknown_bytes == 0


@pytest.mark.parametrize("nbytes", [10_000, 0])
def test_members_share_the_memory_for_messages_behind_holes_and_each_has_its_part(nbytes: int) -> None:
    """Runs of headers only take room, too."""
    names = "BCDE"
    a = member(max_ahead_bytes="256K")
    a.down(change(view_of("A", *names, counter=2), V1))
    for name in names:                                       # one after the other, the first takes all
        for number in range(1, 2000):
            a.up(data(name, 1 + 2 * number, *[bytes(nbytes)] * bool(nbytes)))
    layer = a.stack.find(Unicast)
    assert isinstance(layer, Unicast)
    weights = [layer.receiving.incoming[address(name)].window.ahead_weight for name in names]
    assert sum(weights) <= 2 * (256 << 10)
    assert min(weights) > (256 << 10) // 5 - nbytes - BATCH_BYTES
    a.up(data("E", 1, b"wanted"))
    a.up(data("E", 2, b"wanted too"))
    assert b"wanted too" in a.payloads("E"), "delivery goes on"


@pytest.mark.parametrize("seed", range(10))
def test_all_is_delivered_in_order_although_little_fits_ahead_of_a_hole(seed: int) -> None:
    rng = Random(seed)
    both = Group(lambda name: [Unicast(UnicastConfig(max_ahead_bytes="64K", max_resend_bytes="64K"))], "AB")
    both.install(V1)
    both.delays_of = lambda _: [rng.random() * 3 for _ in range(rng.random() > 0.2)]
    sent = [b"%d" % number + bytes(9000) for number in range(100)]
    for payload in sent:
        both["A"].down(unicast("A", "B", payload))
        both.run(0.2)
    both.run(60_000)
    assert both["B"].payloads("A") == sent
    assert both["B"].stats()["ahead_dropped"] > 0, "the limit played its part"


@pytest.mark.parametrize("known", [False, True])
def test_a_connection_that_begins_near_the_limit_of_numbers_is_refused(known: bool) -> None:
    """Its acknowledgement would name a number that no member reads."""
    a = member()
    if known:
        a.up(data("B", 1, b"1"))
    a.up(data("B", (1 << 62) - 1, b"last", connection=7, base=(1 << 62) - 1))
    a.advance(1000)
    assert a.stats()["malformed_dropped"] == 1
    assert all(ack.next <= 2 for ack, _ in a.sent_with(UnicastAck))
    assert a.payloads("B") == [b"1"] * known


@pytest.mark.parametrize("jump", [MAX_JUMP + 3, (1 << 62) - 1])
def test_a_base_that_jumps_far_is_refused(jump: int) -> None:
    a = member()
    a.up(data("B", 1, b"1"))
    a.up(data("B", jump, b"far", base=jump))
    a.up(unicast("B", "A", headers=(UnicastBase(1, jump),)))
    assert a.stats()["malformed_dropped"] == 2
    a.up(data("B", 2, b"2"))
    assert a.payloads("B") == [b"1", b"2"]


def test_empty_messages_before_the_first_view_are_bounded_in_number() -> None:
    bench = Bench(Unicast(UnicastConfig()))
    for number in range(1, 6000):
        bench.up(unicast("B", "A", headers=(UnicastData(1, number, 1),)))
    assert bench.stats()["early_dropped"] == 5999 - 4096
