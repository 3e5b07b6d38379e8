"""The machine of coordination: what a session holds, that commands take effect once, and that a copy is a copy."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.blocks.coordination import Fence, StaleFenceError
from jgroups_py.blocks.coordination.lease import DRIFT, LeaseKeeper, StoredLease
from jgroups_py.blocks.coordination.machine import CoordinationMachine
from jgroups_py.blocks.coordination.messages import (
    LOCK,
    MESSAGES,
    SEMAPHORE,
    Acquire,
    Arrive,
    Carried,
    CellChanged,
    CellValue,
    CommandRefused,
    CoordinationMessage,
    CounterValue,
    EndSession,
    GrantResult,
    Holders,
    NoSession,
    OpenSession,
    PutItem,
    ReadCounter,
    ReadHolders,
    Release,
    Renew,
    Renewed,
    SessionOpened,
    Stale,
    TakeItem,
    WaitEnded,
    Waits,
    WatchCell,
    Withdraw,
    Withdrawn,
    WriteCell,
    WriteCounter,
    decode,
    encode,
)
from jgroups_py.model.address import Address
from jgroups_py.model.errors import WireError
from jgroups_py.model.units import millis, seconds

A, B = Address(bytes(15) + b"a", "A"), Address(bytes(15) + b"b", "B")
BIRTH = 1_800_000_000_000_000


HEAD = 1, 2, 3, 4
GOLDEN: tuple[tuple[CoordinationMessage, str], ...] = (
    (OpenSession(A, 3000, 5), "010000000000000000000000000000006100014100000bb80000000000000005"),
    (EndSession(6), "020000000000000006"),
    (Acquire(*HEAD, LOCK, "l", 1),
     "0300000000000000010000000000000002000000000000000300000000000000040000016c00000001"),
    (Release(*HEAD, 7, True), "040000000000000001000000000000000200000000000000030000000000000004000000000000000701"),
    (Withdraw(*HEAD, 9), "0500000000000000010000000000000002000000000000000300000000000000040000000000000009"),
    (Renew(6, 8), "1400000000000000060000000000000008"),
    (GrantResult(7, b"v", 1), "210000000000000007000000017600000001"),
    (Renewed(8, ((7, 2, b"r"),)), "28000000000000000800000001000000000000000700000000000000020000000172"),
    (WaitEnded(6, 7, 2, b"r"), "320000000000000006000000000000000700000000000000020000000172"),
)
"""Messages and their bytes, as they always were."""


class Store:
    """A machine, and the numbers of its sessions' commands."""

    def __init__(self) -> None:
        self.machine = CoordinationMachine()
        self.numbers: dict[int, int] = {}

    def do(self, command: CoordinationMessage) -> CoordinationMessage:
        return decode(self.machine.apply(encode(command)))

    def ask(self, query: CoordinationMessage) -> CoordinationMessage:
        return decode(self.machine.read(encode(query)))

    def open(self, owner: Address, ttl_ms: int = 1000, birth: int = BIRTH) -> int:
        opened = self.do(OpenSession(owner, ttl_ms, birth))
        assert isinstance(opened, SessionOpened)
        return opened.session

    def head(self, session: int) -> tuple[int, int, int, int]:
        number = self.numbers[session] = self.numbers.get(session, 0) + 1
        return session, number, number, 0

    def lock(self, session: int, name: str = "l") -> CoordinationMessage:
        return self.do(Acquire(*self.head(session), LOCK, name, 1))

    def granted(self, session: int, name: str = "l") -> int:
        result = self.lock(session, name)
        assert isinstance(result, GrantResult)
        return result.fence

    def outcomes(self) -> list[tuple[Address, CoordinationMessage]]:
        found = []
        for owner, data in self.machine.take_notices():
            notice = decode(data)
            found.append((owner, decode(notice.result) if isinstance(notice, WaitEnded) else notice))
        return found


def test_every_message_survives_its_encoding_and_none_follows() -> None:
    values = {"owner": A, "name": "n", "value": b"v", "expected": b"e", "why": "w", "result": b"r",
              "outcomes": ((7, 8, b"r"),), "holders": ((A, 9),), "label": "x", "owners": ((3, A, 9),)}
    for kind in MESSAGES.known():
        integers = kind is WriteCounter or kind is CounterValue
        arguments = {name: (-5 if integers and name in ("value", "expected") else values.get(name, 1))
                     for name, _ in kind.codecs}
        for name in ("back", "on", "adds", "changed"):
            if name in arguments:
                arguments[name] = True
        message = kind(**arguments)
        data = encode(message)
        assert decode(data) == message
        with pytest.raises(WireError):
            decode(data + b"x")
        with pytest.raises(WireError):
            decode(data[:-1])


@pytest.mark.parametrize(("message", "golden"), GOLDEN, ids=lambda value: type(value).__name__)
def test_messages_are_written_as_they_always_were(message: CoordinationMessage, golden: str) -> None:
    assert encode(message).hex() == golden
    assert decode(bytes.fromhex(golden)) == message


def test_any_bytes_are_refused_or_a_command() -> None:
    rng, machine, store = Random(5), CoordinationMachine(), Store()
    session = store.open(A)
    for _ in range(3000):
        data = bytearray(encode(Acquire(*store.head(session), LOCK, "l", 1)))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        for one in (machine, store.machine):
            decode(one.apply(bytes(data)))
            decode(one.read(bytes(data)))


def test_a_lock_goes_to_one_session_after_the_other_with_growing_numbers() -> None:
    store = Store()
    one, other = store.open(A), store.open(B)
    first = store.granted(one)
    assert first > BIRTH
    assert first < 1 << 53                                   # exact in JSON
    assert isinstance(store.lock(other), Waits)
    assert store.ask(ReadHolders(LOCK, "l")) == Holders(((A, first),), 1)
    assert store.do(Release(*store.head(one), first, False)) == Carried(True)
    [(owner, result)] = store.outcomes()
    assert owner == B
    assert isinstance(result, GrantResult)
    assert result.fence > first
    renewed = store.ask(Renew(other, 0))
    assert isinstance(renewed, Renewed)
    assert [outcome[2] for outcome in renewed.outcomes] == [encode(result)]
    assert store.ask(Renew(other, renewed.place)) == Renewed(renewed.place, ())


def test_numbers_of_a_store_that_is_created_again_go_on_above() -> None:
    old, new = Store(), Store()
    session = old.open(A)
    last = max(old.granted(session, name) for name in "lmn")
    assert new.granted(new.open(A, birth=BIRTH + 1000)) > last


def test_a_release_ends_its_own_grant_and_no_later_one() -> None:
    store = Store()
    session = store.open(A)
    first = store.granted(session)
    store.do(Release(*store.head(session), first, False))
    second = store.granted(session)
    assert store.do(Release(*store.head(session), first, False)) == Carried(False)
    assert store.ask(ReadHolders(LOCK, "l")) == Holders(((A, second),), 0)


def test_the_end_of_a_session_gives_all_on_and_its_commands_do_nothing_any_more() -> None:
    store = Store()
    one, other = store.open(A), store.open(B)
    store.granted(one)
    store.lock(other)
    store.lock(one, "m")
    assert store.do(EndSession(one)) == Carried(True)
    assert [owner for owner, _ in store.outcomes()] == [B]
    assert store.do(EndSession(one)) == Carried(False)
    assert isinstance(store.lock(one), NoSession)
    assert isinstance(store.ask(Renew(one, 0)), NoSession)
    assert store.ask(ReadHolders(LOCK, "m")) == Holders((), 0)


def test_a_command_takes_effect_once_in_any_order_of_its_copies() -> None:
    for seed in range(50):
        store, rng = Store(), Random(seed)
        session = store.open(A)
        commands = [WriteCounter(session, number, 1, 0, "n", True, None, 1 << number) for number in range(1, 9)]
        copies = [command for command in commands for _ in range(3)]
        rng.shuffle(copies)
        results: dict[int, CoordinationMessage] = {}
        for command in copies:
            result = store.do(command)
            assert results.setdefault(command.number, result) == result
        assert store.ask(ReadCounter("n")) == CounterValue(sum(1 << number for number in range(1, 9)), False)
        store.do(WriteCounter(session, 9, 9, 0, "n", True, None, 0))
        assert isinstance(store.do(commands[0]), Stale)      # settled: a late copy does nothing
        assert len(store.machine.sessions[session].results) == 1


def test_a_wait_that_was_withdrawn_gets_nothing_also_if_it_comes_later() -> None:
    store = Store()
    one, other = store.open(A), store.open(B)
    fence = store.granted(one)
    store.lock(other)
    assert isinstance(store.do(Withdraw(other, 2, 1, 0, 1)), Withdrawn)
    assert isinstance(store.do(Withdraw(other, 3, 1, 0, 4)), Withdrawn)
    store.do(Release(*store.head(one), fence, False))
    assert isinstance(store.do(Acquire(other, 4, 1, 0, LOCK, "l", 1)), Withdrawn)
    assert store.outcomes() == []
    assert store.ask(ReadHolders(LOCK, "l")) == Holders((), 0)


def test_a_withdrawal_that_comes_too_late_says_what_was_granted() -> None:
    store = Store()
    one, other = store.open(A), store.open(B)
    fence = store.granted(one)
    store.lock(other)
    store.do(Release(*store.head(one), fence, False))
    result = store.do(Withdraw(other, 2, 2, 0, 1))
    assert isinstance(result, GrantResult)
    direct = store.granted(one, "m")
    assert store.do(Withdraw(one, 9, store.numbers[one], 0, store.numbers[one])) == GrantResult(direct, b"", 0)


def test_a_semaphore_has_as_many_holders_as_permits_and_one_number_of_them() -> None:
    store = Store()
    sessions = [store.open(A) for _ in range(3)]
    results = [store.do(Acquire(*store.head(session), SEMAPHORE, "s", 2)) for session in sessions]
    assert [type(result) for result in results] == [GrantResult, GrantResult, Waits]
    refused = store.do(Acquire(*store.head(sessions[0]), SEMAPHORE, "s", 3))
    assert isinstance(refused, CommandRefused)
    assert "with 2 permits, not 3" in refused.why


def test_a_barrier_opens_for_all_at_once_and_begins_anew() -> None:
    store = Store()
    one, other = store.open(A), store.open(B)
    for _ in range(2):
        assert isinstance(store.do(Arrive(*store.head(one), "b", 2)), Waits)
        passed = store.do(Arrive(*store.head(other), "b", 2))
        assert store.outcomes() == [(A, passed)]
    store.do(Arrive(*store.head(one), "b", 2))
    store.do(EndSession(one))
    assert isinstance(store.do(Arrive(*store.head(other), "b", 2)), Waits)


def test_an_item_of_a_queue_goes_back_to_its_place_unless_it_was_finished() -> None:
    store = Store()
    one, other = store.open(A), store.open(B)
    for value in (b"1", b"2"):
        store.do(PutItem(*store.head(one), "q", value))
    taken = store.do(TakeItem(*store.head(one), "q"))
    assert isinstance(taken, GrantResult)
    assert (taken.value, taken.attempt) == (b"1", 1)
    store.do(EndSession(one))
    again = store.do(TakeItem(*store.head(other), "q"))
    assert isinstance(again, GrantResult)
    assert (again.value, again.attempt) == (b"1", 2)
    assert store.do(Release(*store.head(other), again.fence, False)) == Carried(True)
    following = store.do(TakeItem(*store.head(other), "q"))
    assert isinstance(following, GrantResult)
    assert following.value == b"2"


def test_cells_are_compared_and_their_watchers_told() -> None:
    store = Store()
    one, other = store.open(A), store.open(B)
    store.do(WatchCell(*store.head(other), "c", True))
    assert store.do(WriteCell(*store.head(one), "c", 1, None, b"x")) == CellValue(1, b"x", True)
    assert store.do(WriteCell(*store.head(one), "c", 1, None, b"y")) == CellValue(1, b"x", False)
    assert store.outcomes() == [(B, CellChanged(other, "c", 1, b"x"))]
    store.do(WatchCell(*store.head(other), "c", False))
    store.do(WriteCell(*store.head(one), "c", 0, None, None))
    assert store.outcomes() == []


def test_a_counter_does_not_leave_its_range() -> None:
    store = Store()
    session = store.open(A)
    store.do(WriteCounter(*store.head(session), "n", False, None, (1 << 63) - 1))
    refused = store.do(WriteCounter(*store.head(session), "n", True, None, 1))
    assert isinstance(refused, CommandRefused)
    assert "out of range" in refused.why


def test_what_is_no_command_is_refused() -> None:
    machine = CoordinationMachine()
    for data in (b"", b"\xff", b"\x03", encode(Renew(1, 1)), encode(Waits())):
        assert isinstance(decode(machine.apply(data)), CommandRefused)
        assert isinstance(decode(machine.read(data or b"\x00")), CommandRefused | NoSession)


def test_a_copy_goes_on_as_the_original() -> None:
    store, rng = Store(), Random(1)
    sessions = [store.open(owner) for owner in (A, B, A)]
    fences: list[int] = []

    def command(session: int) -> CoordinationMessage:
        head = store.head(session)
        choices: list[CoordinationMessage] = [
            Acquire(*head, LOCK, rng.choice("lm"), 1), Arrive(*head, "b", 3), TakeItem(*head, "q"),
            PutItem(*head, "q", b"x"), WriteCell(*head, "c", 0, None, b"y"), WatchCell(*head, "c", True),
            WriteCounter(*head, "n", True, None, -3), Release(*head, rng.choice(fences or [1]), True),
            Withdraw(*head, rng.randint(1, 9))]
        return rng.choice(choices)
    for _ in range(200):
        result = store.do(command(rng.choice(sessions)))
        fences += [result.fence] if isinstance(result, GrantResult) else []
    store.machine.take_notices()
    copy = CoordinationMachine()
    copy.load(store.machine.save())
    assert copy.save() == store.machine.save()
    for _ in range(100):
        data = encode(command(rng.choice(sessions)))
        assert copy.apply(data) == store.machine.apply(data)
        assert copy.take_notices() == store.machine.take_notices()
    for session in sessions:
        assert copy.apply(encode(EndSession(session))) == store.machine.apply(encode(EndSession(session)))
    assert copy.save() == store.machine.save()
    assert not copy.permits
    assert not copy.barriers


# --- leases -----------------------------------------------------------------------------------------------------------

def test_a_session_expires_some_time_after_its_last_renewal() -> None:
    sessions = {1: StoredLease(A, 1000)}
    keeper = LeaseKeeper(sessions, 0)
    due_ns = round(seconds(1) * (1 + DRIFT))
    assert keeper.next_deadline_ns == due_ns
    keeper.asked(encode(Renew(1, 0)), millis(800))
    assert keeper.next_deadline_ns == millis(800) + due_ns
    assert keeper.advance(due_ns) == []
    assert keeper.answer(encode(Renew(1, 0))) is None
    assert keeper.advance(millis(800) + due_ns) == [encode(EndSession(1))]
    assert keeper.answer(encode(Renew(1, 0))) == encode(NoSession())     # decided: no renewal is confirmed any more
    assert keeper.next_deadline_ns is None


def test_a_member_whose_process_has_ended_is_not_waited_for() -> None:
    sessions = {1: StoredLease(A, 1000), 2: StoredLease(B, 1000)}
    keeper = LeaseKeeper(sessions, 0)
    keeper.gone(A, 5)
    assert keeper.advance(5) == [encode(EndSession(1))]
    sessions[3] = StoredLease(A, 1000)                       # a late command of the dead
    keeper.applied(6)
    assert keeper.advance(6) == [encode(EndSession(3))]


# --- fences -----------------------------------------------------------------------------------------------------------

def test_a_fence_admits_the_latest_holder_again_and_no_earlier_one() -> None:
    fence = Fence(highest=3)
    for number in (3, 5, 5):
        fence.admit(number)
    with pytest.raises(StaleFenceError, match="fence 4 comes after 5") as error:
        fence.admit(4)
    assert (error.value.number, error.value.highest, fence.highest) == (4, 5, 5)
