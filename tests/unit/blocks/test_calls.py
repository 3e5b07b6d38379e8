"""The bookkeeping of requests: the members asked, when a request ends, and with which result."""
from __future__ import annotations

import itertools

import pytest

from jgroups_py.blocks.rpc.calls import BLOCK, NEVER_NS, Answers, Calls, Many, Mode, One
from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.errors import MemberLeftError, RemoteError, RequestTimeoutError
from jgroups_py.wire.block_headers import Ask

A, B, C, D = (Address(bytes([number]) * 16, name) for number, name in enumerate("ABCD", 1))


@pytest.fixture
def calls() -> Calls:
    drawn = itertools.count(1, 10 * BLOCK)
    made = Calls(7, lambda count: next(drawn))
    made.view_installed([A, B, C])
    return made


def one(calls: Calls, dest: Address, deadline_ns: int = NEVER_NS) -> One:
    call = One(dest, deadline_ns, None)
    calls.lane(dest).number((call,), 1)
    return call


def many(calls: Calls, mode: Mode, *members: Address) -> Many:
    """A request by one unicast to each."""
    call = Many(members, mode, NEVER_NS, None, settled=True)
    for member in members:
        calls.lane(member).number((call,), 1)
    return call


def to_all(calls: Calls, mode: Mode) -> Many:
    """A request by multicast."""
    call = Many(calls.members, mode, NEVER_NS, None, settled=False)
    calls.all_members.number((call,), 1)
    return call


def answer(calls: Calls, call: Many | One, src: Address, payload: bytes) -> None:
    for number in call.numbers:
        calls.answered(src, number, (payload,))


def test_requests_to_one_member_have_consecutive_numbers_whatever_is_sent_to_others_between(calls):
    found = [one(calls, dest).numbers[0] for dest in (B, C, B, C, B)]
    assert found[2] == found[0] + 1
    assert found[4] == found[0] + 2
    assert found[3] == found[1] + 1
    assert calls.lane(B).headers(found[0]) == (Ask(7, found[0]),)
    assert calls.lane(B).headers(found[0])[0].shift(2) == Ask(7, found[4])


def test_no_number_is_given_twice_when_a_lane_needs_more(calls):
    numbers = [one(calls, dest).numbers[0] for _ in range(BLOCK + 5) for dest in (B, C)]
    assert len(dict.fromkeys(numbers)) == len(numbers)


def test_a_batch_of_answers_ends_the_requests_of_its_numbers(calls):
    asked = [one(calls, B) for _ in range(3)]
    calls.answered(B, asked[1].numbers[0], (b"second", b"third"))
    assert [call.outcome for call in asked] == [None, b"second", b"third"]
    assert calls.finished == asked[1:]
    assert list(calls.pending.values()) == asked[:1]


def test_an_answer_of_a_member_that_got_no_request_is_dropped(calls):
    call = one(calls, B)
    answer(calls, call, C, b"me too")
    assert call.outcome is None
    assert calls.counters == {"answers_too_late": 1}


def test_a_request_ends_when_the_member_leaves(calls):
    call, other = one(calls, B), one(calls, C)
    calls.view_installed([A, C, D])
    assert isinstance(call.outcome, MemberLeftError)
    assert call.outcome.member == B
    assert other.outcome is None
    assert calls.lane(B).gone
    assert not calls.lane(D).gone


def test_a_request_sent_while_the_member_left_is_found_by_the_check(calls):
    lane = calls.lane(B)
    calls.view_installed([A, C])
    call = One(B, NEVER_NS, None)
    lane.number((call,), 1)
    assert lane.gone
    calls.check(call)
    assert isinstance(call.outcome, MemberLeftError)


def test_a_handlers_error_comes_back_with_its_class_and_text(calls):
    call = one(calls, B)
    calls.failed(B, call.numbers[0], (b"KeyError\nno such key",))
    assert isinstance(call.outcome, RemoteError)
    assert (call.outcome.member, call.outcome.kind, call.outcome.text) == (B, "KeyError", "no such key")


def test_time_ends_requests_and_tells_the_next_deadline(calls):
    early, late = one(calls, B, 100), one(calls, C, 300)
    assert calls.expire(99) == 100
    assert calls.expire(100) == 300
    assert isinstance(early.outcome, RequestTimeoutError)
    assert str(early.outcome).startswith("no answer from ")
    assert late.outcome is None
    assert calls.expire(300) == NEVER_NS


def test_an_answer_that_comes_too_late_is_counted(calls):
    call = one(calls, B, 100)
    calls.expire(100)
    answer(calls, call, B, b"sorry")
    assert isinstance(call.outcome, RequestTimeoutError)
    assert calls.counters["answers_too_late"] == 1


def test_a_request_to_all_waits_for_all_members(calls):
    call = many(calls, Mode.ALL, A, B, C)
    answer(calls, call, C, b"c")
    answer(calls, call, A, b"a")
    assert call.outcome is None
    answer(calls, call, B, b"b")
    assert call.outcome == Answers({C: b"c", A: b"a", B: b"b"}, {}, (), (), complete=True)
    assert not calls.pending


def test_all_is_over_but_not_complete_when_one_leaves_and_one_fails(calls):
    call = many(calls, Mode.ALL, A, B, C)
    calls.failed(A, call.numbers[0], (b"ValueError\n",))
    calls.view_installed([A, C])
    answer(calls, call, C, b"c")
    assert not call.outcome.complete
    assert (list(call.outcome.errors), call.outcome.left, call.outcome.first) == ([A], (B,), b"c")


def test_a_majority_is_enough(calls):
    call = many(calls, Mode.MAJORITY, A, B, C)
    answer(calls, call, A, b"a")
    assert call.outcome is None
    answer(calls, call, C, b"c")
    assert call.outcome.complete
    assert call.outcome.missing == (B,)


def test_a_majority_that_cannot_be_reached_any_more_is_not_waited_for(calls):
    call = many(calls, Mode.MAJORITY, A, B, C)
    calls.view_installed([A])
    assert not call.outcome.complete
    assert call.outcome.left == (B, C)
    assert call.outcome.missing == (A,)


def test_the_first_answer_ends_it_an_error_does_not(calls):
    call = many(calls, Mode.FIRST, A, B, C)
    calls.failed(A, call.numbers[0], (b"ValueError\n",))
    assert call.outcome is None
    answer(calls, call, B, b"b")
    assert call.outcome.complete
    assert call.outcome.first == b"b"
    answer(calls, call, C, b"c")
    assert len(call.outcome) == 1


def test_a_multicast_is_answered_by_the_view_in_which_it_is_delivered(calls):
    call = to_all(calls, Mode.ALL)
    calls.view_installed([A, C, D])                          # B left, D joined before it was numbered
    answer(calls, call, D, b"d")                             # may overtake our own copy
    calls.own_delivered(call.numbers[0], 1, [A, C, D])
    answer(calls, call, A, b"a")
    assert call.outcome is None
    answer(calls, call, C, b"c")
    assert call.outcome.values == {D: b"d", A: b"a", C: b"c"}
    assert call.outcome.left == (B,)
    assert not call.outcome.complete


def test_a_request_to_all_does_not_end_before_its_receivers_are_known(calls):
    call = to_all(calls, Mode.ALL)
    for member in (A, B, C):
        answer(calls, call, member, b"x")
    assert call.outcome is None
    calls.own_delivered(call.numbers[0], 1, [A, B, C])
    assert call.outcome.complete


def test_the_end_of_the_connection_ends_every_request(calls):
    asked = [one(calls, B), to_all(calls, Mode.ALL), many(calls, Mode.FIRST, A, B)]
    calls.end(lambda: RuntimeError("over"))
    assert all(isinstance(call.outcome, RuntimeError) for call in asked)
    assert not calls.pending
    assert calls.finished == asked


def test_members_of_other_sites_outlive_local_views_and_go_with_the_global_one(calls):
    remote = ProxyUUID(Address(b"r" * 16, "R"), None, "SFO")
    call = one(calls, remote)
    calls.view_installed([A])
    assert call.outcome is None
    calls.sites_changed([A])
    assert isinstance(call.outcome, MemberLeftError)
    call = one(calls, remote)
    calls.unreachable(remote)
    assert isinstance(call.outcome, MemberLeftError)


def test_a_forgotten_request_is_not_ended_by_anything(calls):
    call = one(calls, B)
    calls.forget(call)
    answer(calls, call, B, b"b")
    calls.view_installed([A])
    assert call.outcome is None
    assert not calls.finished
