"""The session of a member: how long its grants are valid, and what becomes of what it waits for."""
from __future__ import annotations

from typing import Any

from jgroups_py.blocks.coordination.core import OPEN_AGAIN_NS, WITHDRAW_NS, CoordinationRequest, SessionCore, StoreCall
from jgroups_py.blocks.coordination.errors import LockTimeoutError, UnavailableError
from jgroups_py.blocks.coordination.grants import HeldGrant
from jgroups_py.blocks.coordination.machine import CoordinationMachine
from jgroups_py.blocks.coordination.messages import (
    LOCK,
    Acquire,
    EndSession,
    OpenSession,
    Renew,
    WaitEnded,
    WriteCounter,
    decode,
)
from jgroups_py.model.address import Address
from jgroups_py.model.errors import NotConnectedError
from jgroups_py.model.units import millis, seconds

A, B = Address(bytes(15) + b"a", "A"), Address(bytes(15) + b"b", "B")
TTL_NS = seconds(3)


def add_one(head: tuple[int, int, int, int]) -> WriteCounter:
    """The command that adds one to a counter."""
    return WriteCounter(*head, "n", True, None, 1)


class Member:
    """A session core beside a machine that answers at once, unless it is cut off."""

    def __init__(self, machine: CoordinationMachine, owner: Address) -> None:
        self.machine = machine
        self.core = SessionCore(owner, TTL_NS)
        self.owner = owner
        self.now_ns = seconds(100)
        self.cut = False
        self.held_back: list[StoreCall] = []
        self.results: list[Any] = []
        self.asked: list[type] = []
        self.core.store_known(10, self.now_ns)

    def settle(self) -> None:
        """Answer what was asked, as long as that leads to more."""
        while self.core.calls:
            calls, self.core.calls = self.core.calls, []
            for call in calls:
                self.asked.append(type(decode(call.data)))
                if self.cut:
                    self.held_back.append(call)
                else:
                    self.answer(call)

    def answer(self, call: StoreCall) -> None:
        data = self.machine.read(call.data) if call.strong else self.machine.apply(call.data)
        call.answered(decode(data), None, self.now_ns)

    def hear(self) -> None:
        for owner, data in self.machine.take_notices():
            if owner == self.owner:
                self.core.notified(decode(data), self.now_ns)
        self.settle()

    def request(self, make: Any, timeout_ns: int | None = None, *, waits: bool = True) -> CoordinationRequest:
        deadline_ns = None if timeout_ns is None else self.now_ns + timeout_ns
        request = CoordinationRequest(make, lambda result, error: self.results.append(error or result), deadline_ns,
                                      waits=waits, grants=waits)
        self.core.submit(request, self.now_ns)
        self.settle()
        return request

    def lock(self, timeout_ns: int | None = None) -> CoordinationRequest:
        return self.request(lambda head: Acquire(*head, LOCK, "l", 1), timeout_ns)

    def grant(self) -> HeldGrant:
        self.lock()
        found = self.results.pop()
        assert isinstance(found, HeldGrant)
        return found

    def later(self, by_ns: int) -> None:
        """Time passes, in small steps."""
        until_ns = self.now_ns + by_ns
        while (due_ns := self.core.next_deadline_ns) is not None and due_ns <= until_ns:
            self.now_ns = max(self.now_ns, due_ns)
            self.core.advance(self.now_ns)
            self.settle()
        self.now_ns = until_ns


def two() -> tuple[Member, Member]:
    machine = CoordinationMachine()
    return Member(machine, A), Member(machine, B)


def test_a_session_is_opened_by_the_first_request_and_renewed_from_then_on() -> None:
    member, _ = two()
    member.later(seconds(10))
    assert member.asked == []
    grant = member.grant()
    assert member.asked[0] is OpenSession
    member.later(seconds(10))
    assert member.asked.count(Renew) == 10
    assert grant.valid(member.now_ns)


def test_a_grant_is_valid_for_ttl_from_when_the_last_renewal_was_sent() -> None:
    member, _ = two()
    grant, why = member.grant(), list[str]()
    grant.on_lost = why.append
    member.later(millis(1500))                               # renewed after 1 s
    sent_ns = member.now_ns - millis(500)
    member.cut = True
    member.later(millis(2400))
    assert grant.valid(sent_ns + TTL_NS - 1)
    assert not grant.valid(sent_ns + TTL_NS)
    member.cut = False
    for call in member.held_back:                            # the answers come at last
        member.answer(call)
    member.settle()
    assert not grant.valid(sent_ns + TTL_NS - 1)             # lost once is lost for ever
    member.later(seconds(1))
    assert why == ["expired"]
    assert EndSession in member.asked


def test_a_lease_runs_from_the_sending_of_its_renewal_not_from_the_answer() -> None:
    member, _ = two()
    grant = member.grant()
    member.cut = True
    member.later(seconds(1))
    sent_ns = member.now_ns
    member.now_ns += millis(900)
    member.answer(member.held_back.pop())
    assert grant.lease.until_ns == sent_ns + TTL_NS


def test_what_waits_when_a_session_is_lost_waits_again_in_the_next_one() -> None:
    holder, waiter = two()
    grant = holder.grant()
    waiter.lock()
    waiter.cut = True
    waiter.later(seconds(4))                                 # its session is over, and it does not reach the store
    waiter.cut = False
    for call in waiter.held_back:
        if isinstance(decode(call.data), EndSession):        # else the store would end it when it expires
            waiter.answer(call)
        else:
            call.answered(None, UnavailableError("no answer"), waiter.now_ns)
    waiter.later(seconds(6))
    holder.core.release(grant, False, lambda *_: None, holder.now_ns)
    holder.settle()
    waiter.later(seconds(3))
    waiter.hear()
    [found] = waiter.results
    assert isinstance(found, HeldGrant)
    assert found.valid(waiter.now_ns)


def test_a_wait_that_times_out_is_withdrawn_and_then_certain() -> None:
    holder, waiter = two()
    grant = holder.grant()
    waiter.lock(millis(500))
    waiter.later(millis(501))
    [error] = waiter.results
    assert isinstance(error, LockTimeoutError)
    assert error.definite
    holder.core.release(grant, False, lambda *_: None, holder.now_ns)
    holder.settle()
    assert holder.machine.take_notices() == []


def test_a_wait_that_cannot_be_withdrawn_is_uncertain_and_its_grant_is_released() -> None:
    holder, waiter = two()
    grant = holder.grant()
    waiter.lock(millis(500))
    waiter.cut = True
    waiter.later(millis(501) + WITHDRAW_NS)
    [error] = waiter.results
    assert isinstance(error, UnavailableError)
    assert not error.definite
    holder.core.release(grant, False, lambda *_: None, holder.now_ns)
    holder.settle()
    waiter.cut = False
    waiter.hear()
    assert waiter.core.grants == {}
    assert waiter.machine.permits == {}
    assert waiter.core.counters["orphans_released"] == 1


def test_a_wait_that_is_cancelled_while_its_command_is_under_way_leaves_nothing_behind() -> None:
    member, _ = two()
    first = member.grant()
    member.core.release(first, False, lambda *_: None, member.now_ns)
    member.settle()
    member.cut = True
    request = member.lock()
    member.core.cancel(request, member.now_ns)
    member.settle()
    member.cut = False
    for call in reversed(member.held_back):                  # the withdrawal overtakes the command
        member.answer(call)
    member.settle()
    assert member.results == []
    assert member.machine.permits == {}


def test_a_release_is_repeated_until_the_store_has_it() -> None:
    member, _ = two()
    grant = member.grant()
    member.cut = True
    member.core.release(grant, False, lambda *_: None, member.now_ns)
    member.settle()
    member.cut = False
    member.held_back.pop().answered(None, UnavailableError("no answer"), member.now_ns)
    member.settle()
    assert member.machine.permits == {}


def test_an_outcome_may_come_before_the_answer_and_twice() -> None:
    holder, waiter = two()
    grant = holder.grant()
    waiter.grant_session = waiter.request(add_one, waits=False)      # type: ignore[attr-defined]
    waiter.cut = True
    waiter.lock()
    command = waiter.held_back.pop()
    answer = decode(waiter.machine.apply(command.data))
    holder.core.release(grant, False, lambda *_: None, holder.now_ns)
    holder.settle()
    notices = [decode(data) for _, data in waiter.machine.take_notices()]
    for notice in notices * 2:
        assert isinstance(notice, WaitEnded)
        waiter.core.notified(notice, waiter.now_ns)
    command.answered(answer, None, waiter.now_ns)
    assert len([found for found in waiter.results if isinstance(found, HeldGrant)]) == 1
    assert len(waiter.core.grants) == 1


def test_a_session_that_cannot_be_opened_is_tried_again() -> None:
    member, _ = two()
    member.cut = True
    member.lock()
    member.held_back.pop().answered(None, UnavailableError("no answer"), member.now_ns)
    member.cut = False
    member.later(OPEN_AGAIN_NS)
    assert isinstance(member.results[0], HeldGrant)


def test_the_end_of_a_member_loses_all_and_tells_the_store() -> None:
    member, _ = two()
    grant, why = member.grant(), list[str]()
    grant.on_lost = why.append
    member.lock()
    member.core.close(member.now_ns)
    member.settle()
    assert why == ["closed"]
    assert isinstance(member.results[0], NotConnectedError)
    assert member.machine.sessions == {}
    member.request(add_one, waits=False)
    assert isinstance(member.results[1], NotConnectedError)


def test_an_operation_whose_session_ends_meanwhile_is_uncertain() -> None:
    member, _ = two()
    member.request(add_one, waits=False)
    member.cut = True
    member.request(add_one, seconds(60), waits=False)
    member.later(seconds(4))
    assert isinstance(member.results[1], UnavailableError)
