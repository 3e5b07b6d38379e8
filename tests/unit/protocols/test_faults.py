"""The fault layers: what they do to runs, with the right headers in every piece."""
from __future__ import annotations

from collections.abc import Sequence

import pytest

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import SetPartition
from jgroups_py.model.ports import LastFrames
from jgroups_py.protocols.faults import (
    Delay,
    DelayConfig,
    Discard,
    DiscardConfig,
    Duplicate,
    DuplicateConfig,
    Partition,
    PartitionConfig,
    Shuffle,
    ShuffleConfig,
)
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.protocols.nakack.headers import MulticastData
from jgroups_py.protocols.stable.protocol import Stable
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.bench import Bench, Group, address, change, multicast, unicast, view_of

RAW = view_of("A").id.raw


def numbered(number: int, src: str = "B") -> object:
    """A run whose payloads say which numbers its messages have, from 1."""
    return multicast(src, *[b"%d" % n for n in range(1, number + 1)], headers=(MulticastData(RAW, 1),))


def numbers(bench: Bench) -> list[int]:
    """The numbers of the messages that got through; each piece's header must agree with its payloads."""
    for batch in bench.delivered:
        assert batch.headers[-1].first == int(batch.payloads[0])      # type: ignore[attr-defined]
    return [int(payload) for payload in bench.payloads()]


def test_discard_drops_about_its_share_of_the_messages() -> None:
    bench = Bench(Discard(DiscardConfig(up_ratio="30%")))
    bench.up(numbered(1000))
    got = numbers(bench)
    assert 600 < len(got) < 800
    assert got == sorted(got)
    assert bench.stats()["discarded"] == 1000 - len(got)


def test_discard_drops_going_down_and_control_messages_too() -> None:
    bench = Bench(Discard(DiscardConfig(down_ratio=0.5)))
    for _ in range(100):
        bench.down(multicast("A"))
    assert 30 < len(bench.sent()) < 70


def test_discard_all_drops_everything() -> None:
    bench = Bench(Discard(DiscardConfig(discard_all=True)))
    bench.up(numbered(5))
    bench.down(multicast("A", b"x"))
    assert (bench.delivered, bench.sent()) == ([], [])


def test_discard_can_be_limited_to_some_senders() -> None:
    bench = Bench(Discard(DiscardConfig(up_ratio=1.0, src="B, C")))
    for src in "ABCD":
        bench.up(multicast(src, src.encode()))
    assert bench.payloads() == [b"A", b"D"]


def test_the_first_batches_going_down_can_be_dropped() -> None:
    bench = Bench(Discard(DiscardConfig(drop_down_multicasts=2, drop_down_unicasts=1)))
    for number in range(3):
        bench.down(multicast("A", b"m%d" % number))
        bench.down(unicast("A", "B", b"u%d" % number))
    assert [batch.payloads[0] for batch in bench.sent()] == [b"u1", b"m2", b"u2"]


def test_a_discarded_frame_does_not_count_as_received() -> None:
    class Asks(Protocol):
        needs = {"last_frames": LastFrames}
        last_frames: LastFrames

    asks = Asks()
    bench = Bench(Discard(DiscardConfig(up_ratio=1.0, src="B")), asks)
    bench.transport.last_frames[address("B")] = 5
    bench.advance(7)
    bench.up(multicast("B"))
    bench.up(multicast("C"))
    assert asks.last_frames.last_frame_ns(address("B")) is None
    assert asks.last_frames.last_frame_ns(address("C")) == 7_000_000


def test_delay_keeps_messages_back_in_their_order() -> None:
    bench = Bench(Delay(DelayConfig(in_ns="10ms", out_ns="20ms", constant_delay=False)))
    for number in range(50):
        bench.up(multicast("B", b"%d" % number))
        bench.down(multicast("A", b"%d" % number))
    bench.advance(10)
    assert bench.payloads() == [b"%d" % number for number in range(50)]
    bench.advance(10)
    assert [batch.payloads[0] for batch in bench.sent()] == [b"%d" % number for number in range(50)]


def test_a_constant_delay_is_exact() -> None:
    bench = Bench(Delay(DelayConfig(in_ns="10ms")))
    bench.up(multicast("B", b"1"))
    bench.advance(5)
    bench.up(multicast("B", b"2"))
    bench.advance(5)
    assert bench.payloads() == [b"1"]
    bench.advance(5)
    assert bench.payloads() == [b"1", b"2"]


def test_duplicate_copies_what_is_configured() -> None:
    bench = Bench(Duplicate(DuplicateConfig(incoming_copies=2, outgoing_copies=1, copy_unicast_msgs=False)))
    bench.up(multicast("B", b"m"))
    bench.up(unicast("B", "A", b"u"))
    bench.down(multicast("A", b"m"))
    assert bench.payloads() == [b"m", b"m", b"m", b"u"]
    assert len(bench.sent()) == 2


def test_shuffle_tears_and_reorders_but_loses_nothing() -> None:
    bench = Bench(Shuffle(ShuffleConfig(max_size=6, down=True)))
    bench.up(numbered(100))
    for number in (200, 300, 400):
        bench.up(multicast("B", b"%d" % number, headers=(MulticastData(RAW, number),)))
        bench.down(multicast("A", b"x", b"y"))
    bench.advance(50)
    assert sorted(numbers(bench)) == [*range(1, 101), 200, 300, 400]
    assert numbers(bench) != sorted(numbers(bench))
    assert sum(len(batch) for batch in bench.sent()) == 6


def test_a_partition_separates_its_groups_until_it_is_healed() -> None:
    group = Group(lambda name: [Partition(PartitionConfig(groups="A,B|C"))], "ABCD")

    def heard_by_c() -> list[bytes]:
        for name in "ABD":
            group[name].down(multicast(name, name.encode()))
        group.settle()
        got = group["C"].payloads()
        group["C"].delivered.clear()
        return got
    assert heard_by_c() == [b"D"]
    group["C"].down(SetPartition(()))
    assert heard_by_c() == [b"A", b"B", b"D"]
    group["C"].down(SetPartition((("B", "C"), ("A", "D"))))
    assert heard_by_c() == [b"B"]
    assert group["C"].stats()["separated"] == 4


def test_a_name_in_two_groups_is_refused() -> None:
    with pytest.raises(ConfigError, match="'A' is given twice"):
        PartitionConfig(groups="A,B|A")


FAULTS: dict[str, Sequence[Protocol]] = {
    "discard": (Discard(DiscardConfig(up_ratio=0.2, down_ratio=0.1)),),
    "shuffle": (Shuffle(ShuffleConfig(max_size=4, max_time_ns="10ms", down=True)),),
    "duplicate": (Duplicate(),),
    "all": (Delay(DelayConfig(in_ns="3ms", constant_delay=False)), Discard(DiscardConfig(up_ratio=0.2)), Duplicate(),
            Shuffle(ShuffleConfig(max_size=4, max_time_ns="10ms"))),
}


@pytest.mark.parametrize("faults", FAULTS)
def test_nakack_repairs_every_fault_layer(faults: str) -> None:
    def layers(_: str) -> list[Protocol]:
        return [*(type(layer)(layer.config) for layer in FAULTS[faults]), Nakack(), Stable()]
    group = Group(layers, "ABC")
    for bench in group.running:
        bench.down(change(view_of("A", "B", "C")))
    for number in range(50):
        for name in "ABC":
            group[name].down(multicast(name, b"%d" % number, b"%d'" % number))
        group.run(1)
    group.run(20_000)
    for bench in group.running:
        for name in "ABC":
            assert bench.payloads(name) == [p for n in range(50) for p in (b"%d" % n, b"%d'" % n)]
