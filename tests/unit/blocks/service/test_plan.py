"""Which member is asked, what follows after a failure; answers that are kept; items that wait to be pulled."""
from __future__ import annotations

import itertools

import pytest

from jgroups_py.blocks.service import Service, method
from jgroups_py.blocks.service.directory import PAUSE_NS, CallPlan, Choice, Directory, Reach
from jgroups_py.blocks.service.interface import MethodSpec, interface_of
from jgroups_py.blocks.service.messages import (
    PIECE_BYTES,
    Offered,
    decode_items,
    decode_offer,
    encode_items,
    encode_offer,
)
from jgroups_py.blocks.service.once import KEPT_CALLERS, KEPT_PER_CALLER, KeptAnswers, OnceVerdict
from jgroups_py.blocks.service.streams import StreamBuffer
from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.errors import (
    ConfigError,
    MemberLeftError,
    NoMemberError,
    NoMethodError,
    NoServiceError,
    OverloadedError,
    RemoteError,
    RequestError,
    RequestTimeoutError,
    WireError,
)
from jgroups_py.model.units import seconds

A, B, C = (Address(bytes([number]) * 16, name) for number, name in enumerate("ABC", 1))
FAR, FARTHER = (ProxyUUID(Address(bytes([number]) * 16, name), None, site) for number, name, site in
                ((9, "X", "SFO"), (8, "Y", "NYC")))


class Verbs(Service, name="verbs"):
    @method(idempotent=True)
    def again(self) -> None: ...

    @method()
    def never(self) -> None: ...

    @method(once=True)
    def once(self) -> None: ...


def spec(name: str) -> MethodSpec:
    return interface_of(Verbs)[name]


KEYS = tuple(spec(name).key for name in ("again", "never", "once"))


@pytest.fixture
def directory() -> Directory:
    made = Directory()
    made.me = A
    made.view((A, B, C))
    for member in (B, C):
        made.offered(member, (Offered("verbs", "1", KEYS),))
    return made


def plan(directory: Directory, name: str, choice: Choice | None = None, until_s: float = 9) -> CallPlan:
    numbers = itertools.count(1)
    return CallPlan(directory, spec(name), choice or Choice(Reach.ANY), seconds(until_s), lambda: next(numbers))


def test_only_members_that_offer_the_method_are_asked_and_those_with_the_fewest_calls_first(directory: Directory):
    assert set(directory.candidates(KEYS[0], Choice(Reach.ANY))) == {B, C}
    directory.began(B)
    assert directory.candidates(KEYS[0], Choice(Reach.ANY)) == [C, B]
    directory.ended(B, seconds(1))
    assert not directory.under_way
    directory.offered(A, (Offered("verbs", "1", KEYS),))
    directory.began(A)
    assert directory.candidates(KEYS[0], Choice(Reach.ANY, "local"))[0] == A
    assert directory.candidates(b"12345678", Choice(Reach.ANY)) == []
    with pytest.raises(ConfigError, match="prefer='nearest'"):
        Choice(Reach.ANY, "nearest")


def test_the_same_key_is_at_the_same_member_and_moves_only_when_that_goes(directory: Directory):
    def home(key: str) -> Address:
        return directory.candidates(KEYS[0], Choice(Reach.ANY, f"hash:{key}"))[0]
    homes = {str(key): home(str(key)) for key in range(40)}
    assert set(homes.values()) == {B, C}
    directory.view((A, C, B))
    assert all(home(key) == member for key, member in homes.items())
    directory.view((A, C))
    assert all(home(key) == C for key in homes)


def test_nearest_is_the_own_site_then_the_one_that_answers_soonest(directory: Directory):
    directory.global_view({"LON": (A, B, C), "SFO": (FAR,), "NYC": (FARTHER,)}, "LON")
    for far in (FAR, FARTHER):
        directory.offered(far, (Offered("verbs", "1", KEYS),))
    near = Choice(Reach.NEAREST)
    assert set(directory.candidates(KEYS[0], near)) == {B, C}
    assert directory.candidates(KEYS[0], Choice(Reach.SITE, site="SFO")) == [FAR]
    assert set(directory.candidates(KEYS[0], Choice(Reach.SITE, site="LON"))) == {B, C}
    directory.view((A,))
    directory.ended(FAR, seconds(0.2))
    directory.ended(FARTHER, seconds(0.1))
    assert directory.candidates(KEYS[0], near) == [FARTHER, FAR]
    assert directory.present(FAR)
    directory.global_view({}, "")
    assert not directory.present(FAR)


def test_an_idempotent_call_goes_to_the_next_member_when_one_left_or_is_late(directory: Directory):
    call = plan(directory, "again")
    first = call.next(0)
    assert first in (B, C)
    assert call.attempt_ends_ns(0) == seconds(3)
    call.failed(first, MemberLeftError(first))
    second = call.next(seconds(1))
    assert {first, second} == {B, C}
    assert second is not None
    call.failed(second, RequestTimeoutError("late"))
    assert call.next(seconds(2)) is None                     # all were asked: a pause, then once more
    assert call.next(seconds(2) + PAUSE_NS) in (B, C)
    with pytest.raises(RequestTimeoutError, match="a member may have run it"):
        call.next(seconds(9))


@pytest.mark.parametrize("error", [MemberLeftError(B), RequestTimeoutError("late"), RemoteError(B, "KeyError", "1")])
def test_another_call_ends_once_it_may_have_run(directory: Directory, error: RequestError):
    call = plan(directory, "never")
    assert call.next(0) is not None
    assert call.attempt_ends_ns(0) == seconds(9)
    with pytest.raises(type(error)):
        call.failed(B, error)


@pytest.mark.parametrize("error", [NoMemberError(B), NoMethodError("no"), OverloadedError("full")])
def test_any_call_goes_on_where_it_did_not_run(directory: Directory, error: RequestError):
    call = plan(directory, "never")
    first = call.next(0)
    assert first is not None
    call.failed(first, error)
    assert call.next(0) not in (first, None)
    pinned = plan(directory, "never", Choice(Reach.AT, member=B))
    assert pinned.next(0) == B
    with pytest.raises(type(error)) as found:
        pinned.failed(B, error)
    assert found.value.definite


def test_an_error_after_an_attempt_that_may_have_run_is_not_definite(directory: Directory):
    call = plan(directory, "again")
    first = call.next(0)
    assert first is not None
    call.failed(first, MemberLeftError(first))
    error = RemoteError(C, "KeyError", "1")
    with pytest.raises(RemoteError):
        call.failed(C, error)
    assert not error.definite
    assert RemoteError.definite


def test_a_call_that_runs_once_waits_for_its_member(directory: Directory):
    call = plan(directory, "once")
    first = call.next(0)
    assert first is not None
    number = call.number
    call.failed(first, MemberLeftError(first))
    directory.view(tuple(member for member in (A, B, C) if member != first))
    assert call.next(seconds(1)) is None
    call.failed(first, NoMemberError(first))
    directory.view((A, B, C))
    assert call.next(seconds(2)) is None                     # a pause
    assert (call.next(seconds(2)), call.again, call.number) == (first, first, number)


def test_without_a_member_that_offers_it_a_call_ends_definite(directory: Directory):
    directory.view((A,))
    call = plan(directory, "never")
    assert call.next(0) is None
    with pytest.raises(NoServiceError, match="no member offered verbs"):
        call.next(seconds(9))


def test_offers_of_members_that_no_view_has_yet_are_kept_but_not_without_end(directory: Directory):
    directory.offered(FAR, ())
    directory.view((A, B))
    assert FAR in directory.offers
    for number in range(1000):
        directory.offered(Address(number.to_bytes(16, "big")), ())
    directory.view((A, B))
    assert len(directory.offers) < 300


# --- answers that are kept ----------------------------------------------------------------------------------------


class Ticket:
    """Remembers its answer."""

    src = A

    def __init__(self) -> None:
        self.replies: list[object] = []

    def answer(self, payload: bytes = b"") -> None:
        self.replies.append(payload)

    def refuse(self, kind: str, text: str) -> None:
        self.replies.append((kind, text))


def test_a_call_that_comes_again_gets_the_answer_of_the_first():
    kept = KeptAnswers()
    tickets = [Ticket() for _ in range(3)]
    assert kept.arrived(A, 1, False, tickets[0]) is OnceVerdict.RUN
    assert kept.arrived(A, 1, True, tickets[1]) is OnceVerdict.WAIT
    kept.ended(A, 1, lambda ticket: ticket.answer(b"x"))
    assert kept.arrived(A, 1, True, tickets[2]) is OnceVerdict.WAIT
    assert [ticket.replies for ticket in tickets] == [[b"x"]] * 3
    assert kept.arrived(B, 1, False, Ticket()) is OnceVerdict.RUN


def test_a_retry_that_never_came_runs_and_one_that_was_forgotten_does_not():
    kept = KeptAnswers()
    assert kept.arrived(A, 1, False, Ticket()) is OnceVerdict.RUN
    assert kept.arrived(A, 3, True, Ticket()) is OnceVerdict.RUN
    for number in range(4, 4 + 2 * KEPT_PER_CALLER):
        kept.arrived(A, number, False, Ticket())
        kept.ended(A, number, lambda ticket: ticket.answer(b""))
    assert kept.arrived(A, 4, True, Ticket()) is OnceVerdict.FORGOTTEN
    assert kept.arrived(A, 3, True, Ticket()) is OnceVerdict.WAIT            # it runs still
    for number in range(KEPT_CALLERS + 1):
        kept.arrived(Address(number.to_bytes(16, "big")), 1, False, Ticket())
    assert kept.arrived(A, 9, True, Ticket()) is OnceVerdict.FORGOTTEN


# --- streams ------------------------------------------------------------------------------------------------------


def test_items_wait_for_a_pull_up_to_a_window():
    buffer, pull = StreamBuffer(2), Ticket()
    buffer.add(b"a")
    buffer.flush()
    assert not buffer.full
    buffer.add(b"b")
    assert buffer.full
    assert buffer.pulled(pull)
    assert not buffer.pulled(Ticket())
    buffer.flush()
    assert decode_items(pull.replies[0], 2) == ([b"a", b"b"], True)         # type: ignore[arg-type]
    assert not buffer.full
    buffer.add(bytes(PIECE_BYTES))
    assert buffer.full


def test_the_end_of_a_stream_comes_with_the_last_items_and_an_error_after_them():
    ended, failed = StreamBuffer(9), StreamBuffer(9)
    for buffer in (ended, failed):
        buffer.add(b"a")
    ended.end(None)
    failed.end(lambda pull: pull.refuse("KeyError", "1"))
    last, before, error = Ticket(), Ticket(), Ticket()
    ended.pulled(last)
    ended.flush()
    assert (decode_items(last.replies[0], 9), ended.closed) == (([b"a"], False), True)   # type: ignore[arg-type]
    failed.pulled(before)
    failed.flush()
    assert (decode_items(before.replies[0], 9), failed.closed) == (([b"a"], True), False)  # type: ignore[arg-type]
    failed.pulled(error)
    failed.flush()
    assert (error.replies, failed.closed) == ([("KeyError", "1")], True)
    assert not failed.pulled(Ticket())


@pytest.mark.parametrize("data", [b"", b"\2", b"\1\0\0", b"\1\0\0\0\5ab", encode_items([b"x"] * 3, True)])
def test_items_that_are_no_items_are_refused(data: bytes):
    with pytest.raises(WireError):
        decode_items(data, 2)


def test_offers_are_read_as_they_were_written():
    offers = (Offered("orders", "1.2.0", KEYS), Offered("ünit", "0", ()))
    assert decode_offer(encode_offer(offers)) == offers
    for length in range(2, len(encode_offer(offers))):
        if length != len(encode_offer(offers[:1])):
            with pytest.raises(WireError):
                decode_offer(encode_offer(offers)[:length])
