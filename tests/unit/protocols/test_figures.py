"""Figures that operators read: each message, vote and view is counted once under its name."""
from __future__ import annotations

from jgroups_py.model.units import seconds
from jgroups_py.protocols.frag import Frag, FragConfig, Fragment
from jgroups_py.protocols.stable.protocol import StabilityVote, Stable, StableConfig
from jgroups_py.testing.bench import Bench, StubPorts, address, change, multicast, unicast, view_of
from tests.unit.protocols.gms_group import in_view
from tests.unit.protocols.nakack_bench import data, group, lose

A, B, C = map(address, "ABC")
V1 = view_of("A", "B", "C")


def test_votes_and_decisions_are_counted_by_stable() -> None:
    below = StubPorts()
    bench = Bench(below, Stable(StableConfig(gossip_ns="1s")))        # type: ignore[arg-type]
    below.digest_value = {A: 5, B: 5, C: 5}
    bench.down(change(V1))
    for name in "BC":
        bench.up(multicast(name, headers=(StabilityVote(V1.id.raw, {A: 5, B: 5, C: 5}),)))
    assert (bench.stats()["votes_received"], bench.stats()["decisions"]) == (2, 1)
    bench.advance(seconds(3) / 1e6)
    assert bench.stats()["votes_sent"] == len(bench.sent_with(StabilityVote)) >= 1


def test_large_messages_are_counted_by_frag() -> None:
    bench = Bench(Frag(FragConfig(frag_size_bytes=1000)), me="A")
    bench.down(change(V1))
    bench.down(unicast("A", "B", bytes(2500)))
    assert sum(len(batch) for _, batch in bench.sent_with(Fragment)) == 3
    assert bench.stats()["fragmented"] == 1
    bench.down(unicast("A", "B", bytes(1000)))
    assert bench.stats()["fragmented"] == 1


def test_views_and_ballots_are_counted_by_gms() -> None:
    members = in_view("ABC")
    assert members["A"].stats()["views_installed"] == 3
    assert members["C"].stats()["views_installed"] == 1
    before = members["A"].stats()["ballots"]
    members.crash("C")
    members.suspect("C", by="AB")
    members.run(100)
    assert members.agree("AB")
    assert members["A"].stats()["ballots"] == before + 1


def test_messages_that_nakack_recovers_are_counted() -> None:
    three = group()
    three.delays_of = lose(type(data("A", 1, b"x").headers[-1]), dest="B", times=1)
    for text in (b"one", b"two", b"three"):
        three["A"].down(multicast("A", text))
        three.run(1)
    three.run(3000)
    assert three["B"].payloads("A") == [b"one", b"two", b"three"]
    assert three["B"].stats()["recovered"] == 1
