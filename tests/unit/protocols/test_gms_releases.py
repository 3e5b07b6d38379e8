"""GMS: each member has the releases of all; what may not run beside one of them is refused, and told why."""
from __future__ import annotations

import pytest

from jgroups_py.model.outputs import LogEntry
from jgroups_py.model.version import OWN, MemberRelease
from jgroups_py.protocols.gms.headers import CutHeader, InstallHeader, JoinRefused
from jgroups_py.testing.bench import address
from tests.unit.protocols.gms_group import Members, crash_at, heal, in_view, split

NEXT = MemberRelease((OWN.version[0], OWN.version[1] + 1, 3), OWN.version[:2])
FAR = MemberRelease((OWN.version[0], OWN.version[1] + 2, 0), (OWN.version[0], OWN.version[1] + 1))


def releases(members: Members, name: str) -> dict[str, str]:
    return {str(member): str(release) for member, release in members.gms(name).member_releases().items()}


def warnings(members: Members, name: str) -> list[str]:
    return [output.text for output in members[name].outputs if isinstance(output, LogEntry)]


@pytest.mark.parametrize("later", ["A", "B", "C", "AB", "BC"])
def test_each_member_has_the_releases_of_all_whoever_came_first(later: str):
    members = Members("ABC")
    for name in later:
        members.gms(name).releases.own = NEXT
    members.join("ABC")
    assert members.agree("ABC")
    told = {name: str(NEXT if name in later else OWN) for name in "ABC"}
    assert [releases(members, name) for name in "ABC"] == [told] * 3


def test_a_member_that_left_is_forgotten():
    members = in_view("ABC")
    members.crash("C")
    members.suspect("C", by="AB")
    members.run(3000)
    assert members.agree("AB")
    assert [sorted(releases(members, name)) for name in "AB"] == [["A", "B"]] * 2


@pytest.mark.parametrize("header", [CutHeader, InstallHeader])
def test_a_coordinator_that_crashes_in_a_join_leaves_the_joiners_release_to_the_next_one(header):
    members = Members("ABC")
    members.gms("C").releases.own = NEXT
    members.join("AB")
    crash_at(members, header, 1)
    members.connect("C")
    members.run(50)
    members.suspect("A", by="B")
    members.run(9000)
    assert members.agree("BC")
    assert [releases(members, name) for name in "BC"] == [{"B": str(OWN), "C": str(NEXT)}] * 2


def test_groups_that_merge_have_the_releases_of_both():
    members = in_view("ABCD")
    members.gms("D").releases.own = NEXT                     # as if it had run it from the beginning
    split(members, "AB", "CD")
    heal(members, "A", "C")
    members.run(5000)
    assert members.agree("ABCD")
    assert releases(members, "D") == {"A": str(OWN), "B": str(OWN), "C": str(OWN), "D": str(NEXT)}
    assert set(releases(members, "A")) == set("ABCD")


@pytest.mark.parametrize("far", ["joiner", "group"])
def test_a_joiner_that_does_not_fit_is_refused_and_both_sides_say_both_versions_and_what_to_do(far: str):
    members = Members("ABC")
    for name in "C" if far == "joiner" else "AB":
        members.gms(name).releases.own = FAR
    members.join("AB")
    members.connect("C")
    members.run(20_000)
    assert members.agree("AB")
    assert members.view("C") is None, "it begins no group beside the one that refused it"
    assert members.gms("A").counters["releases_refused"] > 0
    for name in "AC":
        text = next(text for text in warnings(members, name) if "version" in text)
        assert str(OWN) in text
        assert str(FAR) in text
        assert "docs/how-to/upgrade.md" in text


def test_one_member_that_does_not_fit_is_enough_whoever_is_coordinator():
    members = Members("ABC")
    members.gms("A").releases.own = NEXT
    members.gms("C").releases.own = FAR
    members.join("AB")
    members.connect("C")
    members.run(3000)
    assert members.view("C") is None
    assert any("0.2.0" in text for text in warnings(members, "A"))


def test_a_refused_joiner_is_let_in_once_the_group_is_upgraded():
    members = Members("ABC")
    members.gms("C").releases.own = FAR
    members.join("AB")
    members.connect("C")
    members.run(3000)
    assert members.view("C") is None
    for name in "AB":
        members.gms(name).releases.own = NEXT
        members.gms(name).releases.of = {}
    members.run(20_000)
    assert members.agree("ABC")


def test_groups_that_do_not_fit_stay_apart_and_go_on():
    members = in_view("ABCD")
    split(members, "AB", "CD")
    for name in "CD":
        members.gms(name).releases.own = FAR
        members.gms(name).releases.of = {address(other): FAR for other in "CD" if other != name}
    for _ in range(3):
        heal(members, "A", "C")
        members.run(5000)
    assert members.agree("AB")
    assert members.agree("CD")
    members.multicast("A", b"on")
    members.run(100)
    assert b"on" in members["B"].payloads()


def test_members_of_before_tell_no_release_and_count_as_fitting(monkeypatch):
    members = Members("AB")
    monkeypatch.setattr(members.gms("B").releases, "above", lambda header: ())
    members.join("AB")
    assert members.agree("AB")
    assert releases(members, "A") == {"A": str(OWN)}


def test_a_forged_refusal_is_nothing_to_a_member_that_did_not_ask_its_sender():
    members = in_view("AB")
    before = members.view("B")
    members.gms("A").send(JoinRefused(), address("B"))
    members.run(100)
    assert members.view("B") == before
    assert not members.gms("B").counters["releases_refused"]
