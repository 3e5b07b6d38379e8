"""STATE_TRANSFER: answers to an earlier request do not count for the present one."""
from __future__ import annotations

from jgroups_py.events import GetState
from jgroups_py.protocols.state_transfer import Ask, Cut, Refused, StateTransfer
from jgroups_py.units import NS_PER_S
from tests.unit.harness import address, change, unicast
from tests.unit.protocols.state_apps import V1, App, Loop


def test_what_a_provider_says_to_an_earlier_request_is_not_taken_for_an_answer_to_the_present_one() -> None:
    member = App(Loop(), StateTransfer(), me="C")
    member.down(change(V1))
    attempts = []
    for _ in range(2):
        member.down(GetState(address("A"), NS_PER_S))
        attempts += [ask.attempt for ask, _ in member.said(Ask)]
    earlier, present = attempts
    for late in (Refused(earlier, "busy"), Cut(earlier, {})):
        member.up(unicast("A", "C", headers=(late,)))
    assert member.said(Ask) == [], "B was asked, though A has not refused the present request"
    assert member.begins == 0
    assert member.stats()["stale_dropped"] == 2
    member.up(unicast("A", "C", headers=(Cut(present, {}),)))
    assert member.begins == 1
