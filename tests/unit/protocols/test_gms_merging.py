"""GMS: exclusion, merging, and leaders of merges that die."""
from __future__ import annotations

from collections.abc import Sequence

import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.events import Disconnect, ExcludedHint, Found, MembersFound, ViewChange
from jgroups_py.model.units import millis
from jgroups_py.model.view import MergeView
from jgroups_py.protocols.gms.headers import CutHeader, InstallHeader, MergeReady, Prepare, StateHeader
from jgroups_py.testing.bench import InFlight, address
from tests.unit.protocols.gms_group import LATENCY_MS, crash_at, heal, in_view, split


@pytest.mark.parametrize("sides", [("ABC", "DE"), ("AE", "B", "CD"), ("A", "B", "C", "D", "E")])
def test_groups_that_were_apart_unite_in_one_merge_view(sides: tuple[str, ...]) -> None:
    members = in_view("ABCDE")
    split(members, *sides)
    before = [members.view(side[0]) for side in sides]
    heal(members, *(side[0] for side in sides))
    members.run(100)
    assert members.agree("ABCDE")
    view = members.view("D")
    assert isinstance(view, MergeView)
    assert sorted(str(group.id) for group in view.subgroups) == sorted(str(group.id) for group in before if group)
    assert view.coordinator == address("A")


@pytest.mark.parametrize("reached", range(4))
@pytest.mark.parametrize("header", [Prepare, CutHeader, InstallHeader])
def test_a_merge_survives_the_crash_of_its_leader_at_any_step(header: type[Header], reached: int) -> None:
    members = in_view("ABCDE")
    split(members, "ABE", "CD")
    crash_at(members, header, reached)
    heal(members, "A", "C")
    members.run(30)
    members.crash("A")
    members.suspect("A", by="BCDE")
    members.run(12_000)
    for _ in range(3):
        heal(members, *dict.fromkeys(members.names_in_view(name)[0] for name in "BCDE"))
        members.run(3000)
    assert members.agree("BCDE")


def found(name: str, trip_ms: int) -> MembersFound:
    """Discovery's answer of a member so far away."""
    return MembersFound((Found(address(name), (f"10.0.0.{name}", 7800), None, False, millis(trip_ms)),))


@pytest.mark.parametrize("one_way_ms", [100.0, 370.0, 600.0])
@pytest.mark.parametrize("sides", [("A", "BC"), ("AB", "CD"), ("A", "BC", "DE")])
def test_groups_with_long_round_trips_between_them_unite(sides: tuple[str, ...], one_way_ms: float) -> None:
    members = in_view("ABCDE"[:len("".join(sides))])
    split(members, *sides)
    members.sides = []
    members.delays_of = lambda _: (one_way_ms,)
    names = "".join(sides)
    for one in names:
        for other in names:
            members[one].up(found(other, int(2 * one_way_ms)))
    leaders = "".join(side[0] for side in sides)
    for _ in range(3):                                       # as MERGE3 would
        heal(members, *leaders)
        members.run(8000)
        if members.agree(names):
            break
    assert members.agree(names)
    led = members["A"].stats()["merges_led"]
    assert led <= 2


def test_a_report_of_a_group_that_waited_for_another_merge_to_end_does_not_count_for_long() -> None:
    """By then its coordinator may have left, and all groups wait for it until a merge is given up."""
    members = in_view("ABC")
    split(members, "A", "B", "C")
    members.sides = []
    views = {name: view.id for name in "BC" if (view := members.view(name)) is not None}
    members.crash("C")
    merging = members.gms("A").merging
    merging.unite_with({address("C"): views["C"]})
    merging.unite_with({address("B"): views["B"]})           # while the merge with C runs
    members.run(merging.limit_ns() / 1e6 + 1000)
    assert merging.attempt is None
    merging.consider()
    assert merging.attempt is None, "the report is seconds old"
    merging.unite_with({address("B"): views["B"]})
    members.run(100)
    assert members.agree("AB")


@pytest.mark.parametrize(("trip_ms", "merged_in_ms"), [(10, 2_500), (2_000, 20_000)])
def test_a_coordinator_that_is_gone_holds_a_merge_up_for_round_trips_to_its_group_not_to_others(
    trip_ms: int, merged_in_ms: int,
) -> None:
    members = in_view("ABC")
    split(members, "A", "B", "C")
    members.sides = []
    views = {name: view.id for name in "BC" if (view := members.view(name)) is not None}
    members.crash("C")
    members["A"].up(found("C", trip_ms))
    members["A"].up(found("Z", 2_500))                       # a member of another group, or one that has ended
    members.gms("A").merging.unite_with({address("C"): views["C"]})
    took_ms = 0
    while not members.agree("AB"):
        members.gms("A").merging.unite_with({address("B"): views["B"]})
        members.run(100)
        took_ms += 100
        assert took_ms <= merged_in_ms, "A waits for C"
    assert (took_ms > 2_500) == (trip_ms == 2_000), "far away, it gets the time that it may need"


def test_members_that_claim_long_round_trips_do_not_stop_a_group_for_longer_than_four_timeouts() -> None:
    members = in_view("AB")
    gms = members.gms("A")
    members["A"].up(found("Z", 3_600_000))
    assert gms.merging.limit_ns() == 4 * gms.config.merge_timeout_ns
    members.run(61_000)
    assert gms.merging.limit_ns() == gms.config.merge_timeout_ns


def test_a_partner_of_a_merge_goes_on_alone_when_the_leader_is_gone() -> None:
    members = in_view("ABCD")
    split(members, "AB", "CD")

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        cut = in_flight.src == "A" and in_flight.dest in "CD" and members.now_ns > cut_ns
        return () if in_flight.has(MergeReady) or (cut and not in_flight.has(Prepare)) else (LATENCY_MS,)
    cut_ns = members.now_ns + 2_000_000
    members.delays_of = delays_of
    heal(members, "A", "C")
    members.run(9000)
    assert members.names_in_view("D") == "CD"
    members.multicast("C", b"alive")
    members.run(100)
    assert members["D"].payloads()[-1:] == [b"alive"]


def test_a_member_that_was_excluded_unaware_becomes_a_singleton_and_merges_at_once() -> None:
    members = in_view("ABC")
    members.sides = ["AB", "C"]
    members.suspect("C", by="AB")
    members.run(3000)
    assert members.agree("AB")
    assert members.names_in_view("C") == "ABC"
    members.sides = []
    members.multicast("C", b"am I still in?")                  # a stranger's multicast is answered by the coordinator
    members.run(100)
    assert members.agree("ABC")
    views = members["C"].views
    assert [len(view) for view in views[-3:]] == [3, 1, 3]


@pytest.mark.parametrize("asked", [True, False])
def test_a_non_member_that_asks_a_member_for_a_sign_of_life_learns_that_it_was_excluded(asked: bool) -> None:
    """Of what others say only the coordinator tells it: all hear that."""
    members = in_view("ABCD")
    members.sides = ["ABC", "D"]
    members.suspect("D", by="ABC")
    members.run(5000)
    assert (members.names_in_view("C"), members.names_in_view("D")) == ("ABC", "ABCD")
    members.sides = []
    members["C"].up(ExcludedHint(address("D"), asked=asked))
    members.run(5000)
    assert members.agree("ABCD") is asked


def test_a_member_that_is_in_two_views_is_excluded_from_one_before_the_merge() -> None:
    members = in_view("ABC")
    members.sides = ["AB", "C"]
    members.suspect("AB", by="C")                        # only C notices
    members.run(5000)
    assert members.names_in_view("C") == "C"
    assert members.agree("ABC") is False
    heal(members, "A", "C")
    members.run(500)
    for _ in range(2):
        heal(members, "A", "C")
        members.run(500)
    assert members.agree("ABC")
    previous = members["A"].views[-2]
    assert address("C") not in previous                  # S7: A must not come from a view with C, which C left


def test_every_view_change_names_the_members_that_joined_and_left() -> None:
    members = in_view("ABC")
    seen: list[tuple[tuple[Address, ...], tuple[Address, ...]]] = []
    members["A"].passed_up(ViewChange)
    members["A"].passed_down(ViewChange)
    members.crash("B")
    members.suspect("B", by="AC")
    members.run(100)
    seen += [(change.joined, change.left) for change in members["A"].passed_down(ViewChange)]
    assert seen == [((), (address("B"),))]


def test_a_partner_that_is_ready_and_leaves_is_not_in_the_merged_view() -> None:
    members = in_view("ABC")
    split(members, "AB", "C")

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        return () if in_flight.has(StateHeader) and in_flight.src == "B" else members.usual(in_flight)
    members.delays_of = delays_of                                  # the leader's own group takes its time
    heal(members, "A", "C")
    members.run(50)
    members["C"].down(Disconnect())
    members.delays_of = members.usual
    members.run(1000)
    assert members.agree("AB")


class Identities:
    """In place of AUTH: one member has not shown who it is. challenged: who was asked to."""

    def __init__(self, unknown: Address) -> None:
        self.unknown = unknown
        self.challenged: list[Address] = []

    def objection(self, member: Address) -> str:
        return "it has not shown who it is" if member == self.unknown else ""

    contradiction = objection

    def disbelieve(self, member: Address, why: str) -> None:
        raise AssertionError("nobody has contradicted itself")

    def challenge_member(self, member: Address, physical: object) -> None:
        self.challenged.append(member)


def test_a_merge_lets_nobody_in_whom_its_leader_has_not_identified() -> None:
    members = in_view("ABCD")
    split(members, "AB", "CD")
    identities = Identities(address("D"))
    members.gms("A").identities = identities            # type: ignore[assignment]
    heal(members, "A", "C")
    members.run(3000)
    assert members.names_in_view("A") == "AB", "D came in by its coordinator's word"
    assert members.gms("A").stats()["unidentified_refused"] > 0
    assert set(identities.challenged) <= {address("D")}
    identities.unknown = address("Z")
    heal(members, "A", "C")
    members.run(3000)
    assert members.agree("ABCD")
