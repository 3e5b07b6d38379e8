"""GMS: members and coordinators that die at any step, and what is delivered before the next view."""
from __future__ import annotations

from collections.abc import Sequence

import pytest

from jgroups_py.model.batch import Header
from jgroups_py.model.events import Disconnect, RaiseView, Unsuspect
from jgroups_py.protocols.gms.headers import AckHeader, CutHeader, InstallHeader, Prepare, StateHeader
from jgroups_py.testing.bench import InFlight
from tests.unit.protocols.gms_group import LATENCY_MS, Members, crash_at, in_view


def test_a_crashed_member_is_not_in_the_next_view() -> None:
    members = in_view("ABCD")
    members.crash("C")
    members.suspect("C", by="ABD")
    members.run(50)
    assert members.agree("ABD")


def test_several_suspects_are_excluded_by_one_view() -> None:
    members = in_view("ABCDE")
    before = len(members["E"].views)
    for name in "AC":
        members.crash(name)
        members.suspect(name, by="BDE")
    members.run(50)
    assert members.agree("BDE")
    assert len(members["E"].views) == before + 1


def test_after_a_suspicion_was_withdrawn_the_coordinator_decides_as_before() -> None:
    """C no longer suspects A, so it must not take over when B is gone: the group would split."""
    members = in_view("ABC")
    before = len(members["C"].views)
    members.suspect("A", by="C")
    members["C"].up(Unsuspect((members["A"].me,)))
    members.crash("B")
    members.suspect("B", by="C")
    members.run(100)
    assert len(members["C"].views) == before
    members.suspect("B", by="A")
    members.run(100)
    assert members.agree("AC")
    assert len(members["C"].views) == before + 1


@pytest.mark.parametrize("reached", range(5))
@pytest.mark.parametrize("header", [Prepare, CutHeader, InstallHeader])
def test_a_view_change_survives_the_crash_of_the_coordinator_at_any_step(header: type[Header], reached: int) -> None:
    members = in_view("ABCDE")
    members.multicast("A", b"one")
    members.multicast("E", b"two")
    crash_at(members, header, reached)
    members["C"].down(Disconnect())
    members.run(30)
    members.crash("A")
    members.suspect("A", by="BCDE")
    members.run(3000)
    assert members.agree("BDE")
    for name in "DE":
        assert sorted(members[name].payloads()) == sorted(members["B"].payloads())


@pytest.mark.parametrize("reached", range(4))
@pytest.mark.parametrize("header", [Prepare, CutHeader, InstallHeader])
def test_a_join_survives_the_crash_of_the_coordinator_at_any_step(header: type[Header], reached: int) -> None:
    members = Members("ABCD")
    members.join("ABC")
    crash_at(members, header, reached)
    members.connect("D")
    members.run(30)
    members.crash("A")
    members.suspect("A", by="BC")
    members.run(5000)
    assert members.agree("BCD")


@pytest.mark.parametrize("header", [StateHeader, AckHeader])
def test_a_member_that_crashes_during_a_view_change_is_left_out(header: type[Header]) -> None:
    members = in_view("ABCD")

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.src == "C" and in_flight.has(header):
            members.crash("C")
        return () if in_flight.src in members.crashed else (LATENCY_MS,)
    members.delays_of = delays_of
    members["D"].down(Disconnect())
    members.run(5000)
    assert members.agree("AB")


def test_no_member_stays_frozen_when_the_coordinator_falls_silent_unsuspected() -> None:
    members = in_view("ABC")
    crash_at(members, CutHeader, 1)
    members["A"].down(RaiseView(10))
    members.run(15_000)
    assert members.agree("BC")
    members.multicast("B", b"goes on")
    members.run(100)
    assert members["C"].payloads() == [b"goes on"]


def test_a_coordinator_that_is_suspected_falsely_is_back_after_a_merge() -> None:
    members = in_view("ABC")
    members.suspect("A", by="BC")
    members.run(1000)
    assert members.agree("BC")
    members.multicast("A", b"I live")
    members.run(100)
    assert members.agree("ABC")


def test_a_message_that_only_one_survivor_has_reaches_all_before_the_next_view() -> None:
    members = in_view("ABCD")

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        return () if in_flight.src == "A" and in_flight.dest != "D" else (LATENCY_MS,)
    members.delays_of = delays_of
    members.multicast("A", b"last words")
    members.run(1)
    members.crash("A")
    members.delays_of = members.usual
    members.suspect("A", by="BCD")
    members.run(100)
    assert members.agree("BCD")
    assert [members[name].payloads() for name in "BCD"] == [[b"last words"]] * 3


def test_what_is_sent_during_a_change_is_delivered_in_the_next_view_by_all() -> None:
    members = in_view("ABC")
    members["C"].down(Disconnect())
    members.run(11.2)
    members.multicast("B", b"in between")
    assert members["B"].stack.pending_bytes() > 0
    members.run(50)
    assert members.agree("AB")
    assert members["A"].payloads() == members["B"].payloads() == [b"in between"]
    assert members["C"].payloads() == []
