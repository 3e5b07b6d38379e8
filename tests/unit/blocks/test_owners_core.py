"""Sets of partitions at the machine and at a session: nobody owns what another one has not given back."""
from __future__ import annotations

from typing import Any

from jgroups_py.blocks.coordination.core import SessionCore, StoreCall
from jgroups_py.blocks.coordination.errors import MismatchError
from jgroups_py.blocks.coordination.grants import HeldGrant
from jgroups_py.blocks.coordination.machine import CoordinationMachine
from jgroups_py.blocks.coordination.messages import (
    EndSession,
    JoinOwners,
    LeaveOwners,
    OwnersTable,
    PartitionRevoked,
    ReadOwners,
    WaitEnded,
    decode,
    encode,
)
from jgroups_py.blocks.coordination.owning import OwnedSet
from jgroups_py.model.address import Address
from jgroups_py.model.units import seconds

TTL_NS = seconds(3)
BIRTH = 10


class Member:
    """A session beside a machine; what it asks is answered by `settle`, what it is told comes by `hear`."""

    def __init__(self, machine: CoordinationMachine, name: str) -> None:
        self.machine = machine
        self.owner = Address(bytes(15) + name.encode(), name)
        self.core = SessionCore(self.owner, TTL_NS)
        self.now_ns = seconds(100)
        self.asked: list[type] = []
        self.kept: list[StoreCall] = []                      # calls of these kinds are not carried out
        self.keeps: tuple[type, ...] = ()
        self.owns: dict[int, HeldGrant] = {}
        self.asked_back: dict[int, HeldGrant] = {}
        self.lost: list[tuple[int, str]] = []
        self.ended: list[Exception | None] = []
        self.core.store_known(BIRTH, self.now_ns)

    def joins(self, partitions: int = 4, weight: int = 1, name: str = "s") -> OwnedSet:
        owned = OwnedSet(name, partitions, weight, self.owner.name or "", self.gained, self.revoked, self.ended.append)
        self.core.join(owned, self.now_ns)
        self.settle()
        return owned

    def gained(self, partition: int, grant: HeldGrant) -> None:
        assert partition not in self.owns, "it was told of that"
        self.owns[partition] = grant

        def lost(why: str) -> None:
            self.lost.append((partition, why))
            del self.owns[partition]
        grant.on_lost = lost

    def revoked(self, partition: int, grant: HeldGrant) -> None:
        assert self.owns[partition] is grant
        assert partition not in self.asked_back, "it was told of that"
        self.asked_back[partition] = grant

    def lets_go(self) -> None:
        """Give back what is asked back."""
        for partition, grant in self.asked_back.items():
            del self.owns[partition]
            self.core.owning.give_back(grant, lambda *_: None, self.now_ns)
        self.asked_back = {}
        self.settle()

    def settle(self) -> None:
        while self.core.calls:
            calls, self.core.calls = self.core.calls, []
            for call in calls:
                self.asked.append(type(decode(call.data)))
                if isinstance(decode(call.data), self.keeps):
                    self.kept.append(call)
                else:
                    self.answer(call)

    def answer(self, call: StoreCall) -> None:
        data = self.machine.read(call.data) if call.strong else self.machine.apply(call.data)
        call.answered(decode(data), None, self.now_ns)

    def hear(self, *notices: Any) -> None:
        for notice in notices:
            self.core.notified(notice, self.now_ns)
        self.settle()

    def renew(self) -> None:
        self.now_ns += TTL_NS // 3
        self.core.advance(self.now_ns)
        self.settle()


class Pair:
    """A machine with members A and B."""

    def __init__(self) -> None:
        self.machine = CoordinationMachine()
        self.a, self.b = Member(self.machine, "a"), Member(self.machine, "b")

    def notices(self, member: Member) -> list[Any]:
        return [decode(data) for owner, data in self.machine.take_notices() if owner == member.owner]

    def tell(self) -> None:
        """All notices arrive."""
        for owner, data in self.machine.take_notices():
            (self.a if owner == self.a.owner else self.b).hear(decode(data))

    def table(self) -> OwnersTable:
        found = decode(self.machine.read(encode(ReadOwners("s"))))
        assert isinstance(found, OwnersTable)
        return found


def test_a_partition_that_moves_has_its_new_owner_only_when_the_former_has_let_go() -> None:
    pair = Pair()
    pair.a.joins()
    pair.tell()
    assert sorted(pair.a.owns) == [0, 1, 2, 3]
    pair.b.joins()
    pair.tell()
    moving = sorted(pair.a.asked_back)
    assert len(moving) == 2
    assert pair.b.owns == {}, "owned by two"
    assert all(grant.valid(pair.a.now_ns) for grant in pair.a.owns.values())
    fences = {partition: pair.a.owns[partition].fence for partition in moving}
    pair.a.lets_go()
    pair.tell()
    assert sorted(pair.b.owns) == moving
    assert all(grant.fence > fences[partition] for partition, grant in pair.b.owns.items())
    table = pair.table()
    assert (table.partitions, table.members) == (4, 2)
    assert {partition: owner for partition, owner, _ in table.owners} == {
        partition: (pair.b if partition in moving else pair.a).owner for partition in range(4)}


def test_what_a_member_owned_whose_session_ends_goes_to_the_others() -> None:
    pair = Pair()
    pair.a.joins()
    pair.b.joins()
    pair.tell()
    pair.a.lets_go()
    assert pair.a.core.session is not None
    pair.machine.apply(encode(EndSession(pair.a.core.session)))
    pair.tell()
    assert sorted(pair.b.owns) == [0, 1, 2, 3]
    assert pair.table().members == 1


def test_a_member_whose_session_is_lost_takes_part_again() -> None:
    pair = Pair()
    pair.a.joins()
    pair.tell()
    old = {partition: grant.fence for partition, grant in pair.a.owns.items()}
    pair.a.now_ns += 2 * TTL_NS
    pair.a.core.advance(pair.a.now_ns)
    assert sorted(pair.a.lost) == [(partition, "expired") for partition in range(4)]
    pair.a.settle()
    pair.tell()
    assert all(pair.a.owns[partition].fence > fence for partition, fence in old.items())


def test_news_that_was_lost_comes_with_a_renewal_and_once() -> None:
    pair = Pair()
    pair.a.joins()
    pair.machine.take_notices()
    assert pair.a.owns == {}
    pair.a.renew()
    assert sorted(pair.a.owns) == [0, 1, 2, 3]


def test_news_that_comes_twice_or_late_is_taken_once() -> None:
    pair = Pair()
    pair.a.joins()
    told = pair.notices(pair.a)
    pair.a.hear(*told, *told)
    pair.b.joins()
    pair.tell()
    pair.a.lets_go()
    pair.a.hear(*told)
    assert len(pair.a.owns) == 2
    pair.a.renew()
    pair.a.hear(*told)
    assert len(pair.a.owns) == 2


def test_a_partition_that_is_asked_back_before_it_is_known_to_be_owned_is_asked_back_again() -> None:
    pair = Pair()
    pair.a.joins()
    granted = pair.notices(pair.a)
    pair.b.joins()
    pair.a.hear(*reversed(pair.notices(pair.a)), *granted)
    assert (len(pair.a.owns), pair.a.asked_back) == (4, {})
    pair.a.renew()
    assert len(pair.a.asked_back) == 2


def test_a_member_that_leaves_gives_back_what_it_has_and_what_comes_yet() -> None:
    pair = Pair()
    owned = pair.a.joins()
    on_the_way = pair.notices(pair.a)
    pair.a.hear(*on_the_way[:2])
    pair.b.joins()
    pair.tell()
    pair.a.core.owning.leave(owned, pair.a.now_ns)
    pair.a.hear(*on_the_way[2:])
    pair.a.settle()
    assert pair.a.ended == [None]
    pair.tell()
    pair.a.renew()
    pair.a.lets_go()
    pair.tell()
    assert pair.a.owns == {}
    assert sorted(pair.b.owns) == [0, 1, 2, 3]


def test_a_set_is_left_only_when_the_store_has_answered_that_it_was_joined() -> None:
    pair = Pair()
    pair.a.keeps = (JoinOwners,)
    owned = pair.a.joins()
    pair.a.core.owning.leave(owned, pair.a.now_ns)
    pair.a.settle()
    assert LeaveOwners not in pair.a.asked, "a join that arrives after it would be for ever"
    pair.a.answer(pair.a.kept.pop())
    pair.a.settle()
    assert pair.a.asked[-1] is LeaveOwners
    assert pair.a.ended == [None]
    pair.tell()
    assert pair.table().members == 0
    assert pair.table().owners == ()


def test_a_member_that_leaves_while_it_has_no_session_has_left() -> None:
    pair = Pair()
    owned = pair.a.joins()
    pair.tell()
    pair.a.keeps = (LeaveOwners,)
    pair.a.core.owning.leave(owned, pair.a.now_ns)
    pair.a.settle()
    pair.a.now_ns += 2 * TTL_NS
    pair.a.core.advance(pair.a.now_ns)
    assert pair.a.ended == [None]
    pair.a.settle()
    assert pair.table().members == 0


def test_members_with_other_arguments_are_refused() -> None:
    pair = Pair()
    pair.a.joins(partitions=4)
    pair.b.joins(partitions=5)
    assert [type(error) for error in pair.b.ended] == [MismatchError]
    assert "4 partitions, not 5" in str(pair.b.ended[0])
    pair.b.joins(partitions=1 << 20, name="t")
    pair.b.joins(weight=0, name="u")
    assert [type(error) for error in pair.b.ended] == [MismatchError] * 3


def test_what_is_granted_while_a_set_is_being_left_is_not_told_but_given_back() -> None:
    pair = Pair()
    pair.a.keeps = (LeaveOwners,)
    owned = pair.a.joins()
    pair.a.core.owning.leave(owned, pair.a.now_ns)
    told = pair.notices(pair.a)
    assert len(told) == 4
    pair.a.hear(*told)
    assert pair.a.owns == {}, "the application was told of what it does not take any more"
    assert pair.a.core.counters["orphans_released"] == 4


def test_a_partition_that_was_lost_with_a_session_is_not_asked_back_in_the_next() -> None:
    pair = Pair()
    pair.a.joins()
    pair.b.joins()
    pair.tell()
    late = pair.a.asked_back
    pair.a.asked_back = {}
    pair.a.now_ns += 2 * TTL_NS
    pair.a.core.advance(pair.a.now_ns)
    pair.a.settle()
    assert pair.a.core.session is not None
    pair.a.core.owning.news(1 << 50, 0, PartitionRevoked(next(iter(late.values())).fence), pair.a.now_ns)
    assert pair.a.asked_back == {}


def test_news_that_comes_when_the_lease_is_over_is_not_told() -> None:
    pair = Pair()
    pair.a.joins()
    told = pair.notices(pair.a)
    pair.a.now_ns += 2 * TTL_NS
    pair.a.hear(*told)
    assert pair.a.owns == {}, "it was told of a partition that it does not hold any more"


def test_fences_that_are_over_are_not_kept_in_the_machine() -> None:
    pair = Pair()
    pair.a.joins()
    pair.b.joins()
    pair.tell()
    assert len(pair.machine.owned.sets["s"].revoked) == 2
    pair.a.lets_go()
    assert pair.machine.owned.sets["s"].revoked == {}


def test_a_copy_of_the_machine_goes_on_as_the_original() -> None:
    pair = Pair()
    pair.a.joins()
    pair.b.joins(weight=2)
    pair.tell()
    copy = CoordinationMachine()
    copy.load(pair.machine.save())
    assert copy.save() == pair.machine.save()
    session = pair.a.core.session
    assert session is not None
    results = [machine.apply(encode(EndSession(session))) for machine in (pair.machine, copy)]
    assert results[0] == results[1]
    assert pair.machine.take_notices() == copy.take_notices() != []
    assert copy.save() == pair.machine.save()


def test_a_set_that_nobody_takes_part_in_is_forgotten() -> None:
    pair = Pair()
    owned = pair.a.joins()
    pair.tell()
    pair.a.core.owning.leave(owned, pair.a.now_ns)
    pair.a.settle()
    pair.tell()
    assert pair.machine.owned.sets, "it is owned yet"
    pair.a.lets_go()
    assert pair.machine.owned.sets == {}
    pair.b.joins(partitions=5)
    pair.tell()
    assert len(pair.b.owns) == 5


def test_a_notice_that_is_none_does_nothing() -> None:
    pair = Pair()
    pair.a.joins()
    session = pair.a.core.session
    assert session is not None
    pair.a.hear(WaitEnded(session, 1 << 40, 0, b"\xff"), WaitEnded(session, 1 << 41, 0, encode(EndSession(1))),
                WaitEnded(session, 1 << 42, 9, b""))
    assert pair.a.owns == {}
