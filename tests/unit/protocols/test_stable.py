"""STABLE: votes, and what follows from them."""
from __future__ import annotations

from random import Random

from jgroups_py.model.events import MessagesKnown, MessagesStable
from jgroups_py.model.units import seconds
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.protocols.stable.protocol import StabilityVote, Stable, StableConfig
from jgroups_py.testing.bench import Bench, Group, InFlight, StubPorts, address, change, multicast, unicast, view_of

V1 = view_of("A", "B", "C")
A, B, C = map(address, "ABC")


def member(**properties: object) -> tuple[Bench, StubPorts]:
    """STABLE above a layer whose digest the test sets."""
    below = StubPorts()
    bench = Bench(below, Stable(StableConfig(**properties)))          # type: ignore[arg-type]
    below.digest_value = {A: 1, B: 1, C: 1}
    bench.down(change(V1))
    return bench, below


def vote(src: str, a: int, b: int, c: int, view: object = V1) -> object:
    """A vote as it arrives."""
    return multicast(src, headers=(StabilityVote(view.id.raw, {A: a, B: b, C: c}),))      # type: ignore[attr-defined]


def test_the_minimum_of_all_votes_is_stable() -> None:
    bench, below = member()
    below.digest_value = {A: 5, B: 6, C: 7}
    bench.up(vote("B", 9, 2, 3))
    assert bench.passed_down(MessagesStable) == []
    bench.up(vote("C", 4, 8, 8))
    assert bench.passed_down(MessagesStable) == [MessagesStable({A: 4, B: 2, C: 3})]


def test_a_later_vote_of_one_member_raises_the_minimum_without_a_new_round() -> None:
    bench, below = member()
    below.digest_value = {A: 5, B: 5, C: 5}
    bench.up(vote("B", 2, 2, 2))
    bench.up(vote("C", 3, 3, 3))
    bench.up(vote("B", 4, 4, 4))
    assert [event.digest[A] for event in bench.passed_down(MessagesStable)] == [2, 3]


def test_a_vote_from_another_view_is_not_counted() -> None:
    bench, _ = member()
    bench.up(vote("B", 2, 2, 2, view=view_of("A", "B", "C", counter=2)))
    bench.up(vote("X", 2, 2, 2))
    bench.up(vote("C", 2, 2, 2))
    assert bench.passed_down(MessagesStable) == []
    assert bench.stats()["votes_outside_view"] == 2


def test_a_vote_about_other_members_is_refused() -> None:
    bench, _ = member()
    bench.up(multicast("B", headers=(StabilityVote(V1.id.raw, {A: 1, B: 2}),)))
    assert bench.stats()["votes_malformed"] == 1


def test_a_vote_that_a_later_one_overtook_changes_nothing() -> None:
    bench, below = member()
    below.digest_value = {A: 5, B: 5, C: 5}
    bench.up(vote("B", 4, 4, 4))
    bench.up(vote("B", 2, 2, 2))
    bench.up(vote("C", 5, 5, 5))
    assert bench.passed_down(MessagesStable) == [MessagesStable({A: 4, B: 4, C: 4})]
    assert bench.stats()["votes_overtaken"] == 1


def test_only_new_stable_numbers_are_reported() -> None:
    bench, below = member()
    below.digest_value = {A: 5, B: 5, C: 5}
    bench.up(vote("B", 2, 2, 5))
    bench.up(vote("C", 2, 5, 5))
    bench.up(vote("B", 2, 4, 5))
    assert bench.passed_down(MessagesStable)[1:] == [MessagesStable({B: 4})]


def test_votes_end_with_their_view() -> None:
    bench, _ = member()
    bench.up(vote("B", 1, 1, 1))
    bench.down(change(view_of("A", "B", "C", counter=2), V1))
    bench.up(vote("C", 1, 1, 1, view=view_of("A", "B", "C", counter=2)))
    assert bench.passed_down(MessagesStable) == []


def test_no_vote_counts_while_the_layer_below_is_still_in_the_view_before() -> None:
    bench, below = member(max_bytes=10)
    below.digest_value = {A: 9, B: 9, C: 9}
    below.digest_in = view_of("A", "B", "C", counter=7).id.raw
    bench.up(vote("B", 5, 5, 5))
    bench.up(vote("C", 5, 5, 5))
    bench.up(multicast("B", b"x" * 10))
    assert bench.passed_down(MessagesStable) == []
    assert bench.sent_with(StabilityVote) == []
    assert bench.stats()["votes_between_views"] == 2


def test_traffic_triggers_a_vote() -> None:
    bench, _ = member(max_bytes=1000)
    bench.up(multicast("B", b"x" * 999))
    bench.up(unicast("B", "A", b"x" * 999))
    assert bench.sent_with(StabilityVote) == []
    bench.up(multicast("A", b"x"))
    assert [header.digest for header, _ in bench.sent_with(StabilityVote)] == [{A: 1, B: 1, C: 1}]


def test_members_vote_from_time_to_time_at_random() -> None:
    bench, _ = member(gossip_ns="1s")
    bench.advance(100_000)
    assert 70 <= len(bench.sent_with(StabilityVote)) <= 130


def test_a_vote_that_is_ahead_reports_which_messages_exist() -> None:
    bench, _ = member()
    bench.up(vote("B", 1, 4, 1))
    assert bench.passed_down(MessagesKnown) == [MessagesKnown({A: 1, B: 4, C: 1})]
    bench.up(vote("C", 1, 1, 1))
    assert bench.passed_down(MessagesKnown) == []


def test_a_member_alone_decides_by_itself_what_is_stable() -> None:
    bench = Bench(Nakack(), Stable(StableConfig(max_bytes=10)))
    bench.down(change(view_of("A")))
    bench.down(multicast("A", b"x" * 20))
    assert bench.stats()["kept_bytes"] == 0


def test_three_flooding_members_keep_a_few_max_bytes_even_if_votes_get_lost() -> None:
    config = StableConfig(max_bytes=100_000, gossip_ns=seconds(50))
    group = Group(lambda _: [Nakack(), Stable(config)], "ABC")
    group.install(V1)
    rng = Random(1)

    def delays_of(in_flight: InFlight) -> tuple[float, ...]:
        return () if in_flight.has(StabilityVote) and rng.random() < 0.3 else (0.1,)
    group.delays_of = delays_of
    most = 0.0
    for _ in range(200):
        for name in "ABC":
            group[name].down(multicast(name, *[b"x" * 1000] * 10))
        group.run(1)
        most = max([most, *(bench.stats()["kept_bytes"] for bench in group.running)])
    assert 100_000 <= most <= 600_000
    assert all(len(bench.payloads()) == 6000 for bench in group.running)


def test_a_vote_far_ahead_of_what_is_known_is_refused() -> None:
    bench, below = member()
    below.digest_value = {A: 5, B: 5, C: 5}
    bench.up(vote("B", 5 + (1 << 32) + 1, 5, 5))
    bench.up(vote("C", 5, 5, 5))
    assert bench.stats()["votes_implausible"] == 1
    assert bench.passed_down(MessagesStable) == []
    assert bench.passed_down(MessagesKnown) == []
