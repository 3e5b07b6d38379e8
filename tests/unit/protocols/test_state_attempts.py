"""STATE_TRANSFER: answers to an earlier request do not count for the present one."""
from __future__ import annotations

from jgroups_py.events import GetState
from jgroups_py.protocols.state_transfer import Ask, Cut, Refused, StateTransfer, StateTransferConfig
from jgroups_py.units import NS_PER_S
from tests.unit.harness import address, change, multicast, unicast
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


def test_members_that_all_refused_are_asked_again_a_little_later_in_the_same_order() -> None:
    member = App(Loop(), StateTransfer(StateTransferConfig(retry_interval_ns="500ms")), me="C")
    member.down(change(V1))
    member.down(GetState(address("A"), 60 * NS_PER_S))
    for _ in range(2):
        for provider in "AB":
            ((ask, batch),) = member.said(Ask)
            assert batch.dest == address(provider)
            member.up(unicast(provider, "C", headers=(Refused(ask.attempt, "busy"),)))
        assert member.said(Ask) == [], "both have refused"
        member.advance(499)
        assert member.said(Ask) == []
        member.advance(1)
    assert len(member.said(Ask)) == 1
    assert member.ends == []


def test_messages_that_were_kept_back_are_delivered_when_no_state_comes() -> None:
    member = App(Loop(), StateTransfer(), me="C")
    member.down(change(V1))
    member.down(GetState(address("A"), NS_PER_S))
    member.up(multicast("B", b"meanwhile"))
    assert member.log == []
    member.advance(1000)
    assert len(member.ends) == 1
    assert member.ends[0] != ""
    assert member.log == [b"meanwhile"]
    member.up(multicast("B", b"later"))
    assert member.log == [b"meanwhile", b"later"]
