"""The requests of a member about partitions: which host gets them next, and how each ends."""
from __future__ import annotations

import jgroups_py as jg
from jgroups_py.blocks.placement import Candidate
from jgroups_py.blocks.replication.calls import ANSWER_NS, PAUSES_NS, WINDOW, PartitionCalls
from jgroups_py.blocks.replication.messages import PartitionReply, PartitionRequest, ReplyStatus, Verb
from jgroups_py.blocks.replication.routing import PartitionUnavailableError
from jgroups_py.model.address import Address
from jgroups_py.model.units import seconds

MEMBERS = {name: Address(name.encode() * 16, name) for name in "ABC"}


def calls_at(*names: str) -> PartitionCalls:
    calls = PartitionCalls("")
    hosts(calls, *names)
    return calls


def hosts(calls: PartitionCalls, *names: str, now_ns: int = 0) -> None:
    calls.hosts_changed(tuple(Candidate(name, 1) for name in names), max(1, len(names)),
                        {name: MEMBERS[name] for name in names}, now_ns)


def write(calls: PartitionCalls, timeout_s: float = 10, now_ns: int = 0) -> None:
    calls.begin(0, Verb.WRITE, b"x", seconds(timeout_s), None, now_ns)


def sent(calls: PartitionCalls) -> list[tuple[Address, PartitionRequest]]:
    found, calls.requests = calls.requests, []
    return found


def reply(
    number: int, status: ReplyStatus, leader: Address | None = None, data: bytes = b"",
) -> PartitionReply:
    return PartitionReply(0, number, status, 1, leader, (), data)


def test_a_redirected_request_goes_to_the_leader_at_once_under_the_same_id() -> None:
    calls = calls_at(*"ABC")
    write(calls)
    [(first, request)] = sent(calls)
    leader = next(member for member in MEMBERS.values() if member != first)
    calls.replied(first, reply(request.number, ReplyStatus.REDIRECT, leader), 1)
    [(second, again)] = sent(calls)
    assert (second, again.request) == (leader, request.request)
    calls.replied(leader, reply(request.number, ReplyStatus.OK, data=b"done"), 2)
    [call] = calls.finished
    assert (call.reply, call.error, len(calls)) == (b"done", None, 0)
    write(calls)
    assert sent(calls)[0][0] == leader, "the next one goes there at once"


def test_a_busy_host_is_asked_again_after_a_pause_that_grows() -> None:
    calls = calls_at("A")
    write(calls)
    now_ns = 0
    for pause_ns in (*PAUSES_NS, PAUSES_NS[-1]):
        [(member, request)] = sent(calls)
        calls.replied(member, reply(request.number, ReplyStatus.BUSY), now_ns)
        assert sent(calls) == []
        assert calls.next_deadline_ns is not None
        calls.advance(now_ns + pause_ns - 1)
        assert sent(calls) == []
        now_ns += pause_ns + seconds(0.01)
        calls.advance(now_ns)


def test_without_an_answer_another_host_is_asked() -> None:
    calls = calls_at(*"AB")
    write(calls)
    [(first, request)] = sent(calls)
    calls.advance(ANSWER_NS)
    [(second, again)] = sent(calls)
    assert (second != first, again.request) == (True, request.request)
    calls.replied(first, reply(request.number, ReplyStatus.OK), ANSWER_NS + 1)
    assert calls.finished == [], "the late answer of another host than the one that is asked"


def test_when_a_host_leaves_its_requests_go_to_another_one_at_once() -> None:
    calls = calls_at(*"AB")
    write(calls)
    [(first, _)] = sent(calls)
    other = "B" if first.name == "A" else "A"
    hosts(calls, other, now_ns=5)
    assert [member.name for member, _ in sent(calls)] == [other]


def test_a_member_that_starts_again_under_its_name_is_another_host() -> None:
    calls = calls_at("A")
    write(calls)
    sent(calls)
    later = Address(b"Z" * 16, "A")
    calls.hosts_changed((Candidate("A", 1),), 1, {"A": later}, 5)
    assert [member for member, _ in sent(calls)] == [later]


def test_without_any_host_a_request_waits_for_one_and_ends_at_its_deadline() -> None:
    calls = calls_at()
    write(calls, timeout_s=1)
    write(calls, timeout_s=60)
    assert sent(calls) == []
    for now_ns in range(0, seconds(1.1), seconds(0.01)):
        calls.advance(now_ns)
    [call] = calls.finished
    assert isinstance(call.error, PartitionUnavailableError)
    assert "no write within 1" in str(call.error)
    hosts(calls, "A", now_ns=seconds(1.1))
    calls.advance(seconds(1.2))
    assert len(sent(calls)) == 1


def test_requests_beyond_the_window_wait_for_answers_and_have_deadlines_too() -> None:
    calls = calls_at("A")
    for _ in range(WINDOW + 2):
        write(calls, timeout_s=1)
    first = sent(calls)
    assert (len(first), len(calls)) == (WINDOW, WINDOW + 2)
    calls.replied(MEMBERS["A"], reply(first[0][1].number, ReplyStatus.OK), 1)
    assert len(sent(calls)) == 1
    for now_ns in (seconds(1), seconds(1.1)):
        calls.advance(now_ns)
    assert len(calls) == 0
    assert sum(call.error is not None for call in calls.finished) == WINDOW + 1


def test_at_the_end_of_the_connection_all_end_with_the_reason() -> None:
    calls = calls_at("A")
    for _ in range(WINDOW + 1):
        write(calls)
    calls.end(jg.NotConnectedError("over"))
    assert len(calls.finished) == WINDOW + 1
    assert {str(call.error) for call in calls.finished} == {"over"}
    assert (len(calls), calls.next_deadline_ns) == (0, None)


def test_an_answer_to_nothing_is_ignored() -> None:
    calls = calls_at("A")
    calls.replied(MEMBERS["A"], reply(7, ReplyStatus.OK), 0)
    assert calls.finished == []
