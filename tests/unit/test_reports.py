"""The reports of a node's outputs and members to operators."""
from __future__ import annotations

from jgroups_py.model.outputs import (
    GlobalViewInstalled,
    LogEntry,
    MemberChanged,
    SiteStatusChanged,
    UserEvent,
    ViewInstalled,
)
from jgroups_py.model.swim_member import FAILED, JOINED, SUSPECTED, UPDATED, Accusation, Member
from jgroups_py.model.version import MemberRelease
from jgroups_py.model.view import GlobalView
from jgroups_py.node.reports import in_view, member_facts
from jgroups_py.ops.reports import Changes
from jgroups_py.testing.bench import address, view_of

A, B, C = map(address, "ABC")
MEMBER = Member("b", B, ("10.0.0.2", 7946), "suspect", 3, {"role": "web"}, 2.0, 1_234_567)


def events_of(changes: Changes, *outputs: object) -> list[tuple[object, ...]]:
    """The events, each with its member."""
    return [(facts["event"], facts.get("name")) for output in outputs for facts in changes.of(output)]


def test_a_view_reports_which_members_joined_left_and_failed():
    changes = Changes(True, (A, B, C))
    first = ViewInstalled(view_of("A", "D", counter=2), failed=(C,))
    assert events_of(changes, first) == [("view", None), ("left", "B"), ("failed", "C"), ("joined", "D")]
    assert events_of(changes, ViewInstalled(view_of("A", "D", counter=3))) == [("view", None)]


def test_in_a_group_swim_reports_suspicions_by_the_names_of_the_view_and_the_view_reports_the_rest():
    changes = Changes(True)
    hidden = Member(B.raw.hex(), B, None, "suspect", 1, {}, 1.0)
    accusation = Accusation("x", 1, 0)
    (facts,) = changes.of(MemberChanged(SUSPECTED, hidden, (accusation,)))
    assert (facts["name"], facts["evidence"]) == ("B", ["x: no answer by datagram"])
    assert events_of(changes, MemberChanged(FAILED, hidden), MemberChanged(JOINED, hidden)) == []


def test_swim_alone_reports_every_change_with_the_members_figures():
    changes = Changes(False)
    (facts,) = changes.of(MemberChanged(UPDATED, MEMBER))
    assert facts == {"event": "updated", "name": "b", "uuid": B.raw.hex(), "address": "10.0.0.2:7946",
                     "state": "suspect", "incarnation": 3, "tags": {"role": "web"}, "weight": 2.0,
                     "version": None, "rtt_ms": 1.235}


def test_other_sites_and_user_events_are_reported_and_the_rest_is_not():
    changes = Changes(True)
    view = GlobalView({"SFO": (B,), "NYC": (A, C)})
    assert changes.of(SiteStatusChanged("SFO", "DOWN")) == [{"event": "site", "site": "SFO", "status": "DOWN"}]
    assert changes.of(GlobalViewInstalled(view)) == [
        {"event": "global_view", "sites": {"NYC": ["A", "C"], "SFO": ["B"]}}]
    assert changes.of(UserEvent("deploy", b"\xff1", 7)) == [
        {"event": "user_event", "name": "deploy", "payload": "\ufffd1", "ltime": 7}]
    assert changes.of(LogEntry("info", "something")) == []


def test_a_member_of_a_view_has_what_swim_measured_under_its_own_name():
    plain = in_view(B, ("10.0.0.2", 7800), None, None)
    assert (plain["name"], plain["address"], plain["state"], plain["rtt_ms"]) == ("B", "10.0.0.2:7800", "alive", None)
    measured = in_view(B, ("10.0.0.2", 7800), MEMBER, MemberRelease((0, 3, 1), (0, 2)))
    assert (measured["name"], measured["address"], measured["state"]) == ("B", "10.0.0.2:7800", "suspect")
    assert (plain["version"], measured["version"]) == (None, "0.3.1")
    assert measured["rtt_ms"] == member_facts(MEMBER)["rtt_ms"] == 1.235
