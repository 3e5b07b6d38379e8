"""Which members a receipt names, and when it comes: channel/receipt_polls.py, step by step."""
from __future__ import annotations

from typing import Any

from jgroups_py.channel.receipt_polls import REPEAT_NS, LaneKey, MemberReply, PollResult, ReceiptPolls, moved_together
from jgroups_py.model.address import Address
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.testing.bench import address, view_of

A, B, C = map(address, "ABC")
STABLE, HANDLED, ORDERED = LaneKey(1), LaneKey(2), LaneKey(3)
YES = MemberReply()


class Sender:
    """A's polls, in a view of these members at first. asked: (destination, number) of each poll that was sent."""

    def __init__(self, *names: str) -> None:
        self.asked: list[tuple[Address | None, int]] = []
        self.done: dict[int, PollResult] = {}
        self.settled_of: list[int] = []
        self.polls = ReceiptPolls(self.send, own_only=(3,))
        self.polls.me = A
        self.polls.view_installed(view_of(*names), 0)

    def send(self, dest: Address | None, number: int, stage: int, settled: int) -> None:
        self.asked.append((dest, number))
        self.settled_of.append(settled)

    def waits(self, ticket: int, key: LaneKey = STABLE, digest: bytes = b"") -> None:
        """A send whose message is queued at once."""
        self.registers(ticket, key, digest)
        self.polls.ready([ticket], 0)

    def registers(self, ticket: int, key: LaneKey = STABLE, digest: bytes = b"") -> None:
        self.polls.register(key, ticket, digest, lambda answers: self.done.update({ticket: answers}))

    def answered(self, number: int, *members: Address, reply: MemberReply = YES) -> list[bool]:
        return [self.polls.answered(member, number, reply, 0) for member in members]


def merged(*groups: View, counter: int = 9) -> MergeView:
    members = tuple(dict.fromkeys(member for group in groups for member in group.members))
    return MergeView(ViewId(counter, members[0]), members, groups)


def names(answers: PollResult) -> tuple[Any, ...]:
    return answers.members, answers.left, answers.failed


def test_a_receipt_comes_when_all_members_have_answered():
    a = Sender("A", "B", "C")
    a.waits(1)
    a.answered(1, A, B)
    assert (a.asked, a.done) == ([(None, 1)], {})
    assert a.answered(1, C) == [True]
    assert names(a.done[1]) == ((A, B, C), (), ())
    assert a.answered(1, C) == [False]                       # late, and for nobody


def test_one_poll_at_a_time_serves_all_that_wait():
    a = Sender("A", "B")
    for ticket in range(1, 6):
        a.waits(ticket)
    assert a.asked == [(None, 1)]
    a.answered(1, A, B)
    assert (list(a.done), a.asked) == ([1], [(None, 1), (None, 2)])
    a.answered(2, B, A)
    assert (sorted(a.done), len(a.asked), a.settled_of) == ([1, 2, 3, 4, 5], 2, [0, 1])


def test_lanes_do_not_wait_for_each_other():
    a = Sender("A", "B")
    a.waits(1, HANDLED)
    a.waits(2, STABLE)
    a.answered(2, A, B)
    assert list(a.done) == [2]
    a.waits(3, ORDERED)                                      # only this member's own delivery counts
    a.answered(3, A)
    assert names(a.done[3]) == ((A,), (), ())


def test_who_leaves_is_waited_for_no_more_and_named():
    a = Sender("A", "B", "C")
    a.waits(1)
    a.answered(1, B)
    a.polls.view_installed(view_of("A", "B", counter=2), 0)
    assert a.asked == [(None, 1), (None, 2)]                 # answers of the other view do not count
    assert a.answered(1, A, B) == [False, False]
    a.answered(2, A, B)
    assert names(a.done[1]) == ((A, B), (C,), ())


def test_who_joins_after_the_send_is_neither_waited_for_nor_named():
    a = Sender("A", "B")
    a.registers(1)
    a.polls.view_installed(view_of("A", "B", "C", counter=2), 0)
    a.polls.ready([1], 0)
    a.answered(1, A, B)
    assert names(a.done[1]) == ((A, B), (), ())
    a.waits(2)
    a.answered(2, A, B)
    assert 2 not in a.done
    a.answered(2, C)
    assert names(a.done[2]) == ((A, B, C), (), ())


def test_a_member_that_comes_back_by_a_merge_counts_as_left():
    before = view_of("A", "B", "C")
    a = Sender("A", "B", "C")
    a.waits(1)
    # C had parted, with B it had never been apart; A saw no view without C
    a.polls.view_installed(merged(before, View(ViewId(2, C), (C,))), 0)
    a.answered(2, A, B, C)
    assert names(a.done[1]) == ((A, B), (C,), ())


def test_who_moved_together_is_told_by_the_subgroups_of_a_merge():
    before, now = view_of("A", "B", "C"), view_of("A", "B", counter=2)
    apart = View(ViewId(2, C), (C,))
    assert moved_together(None, before, A) == {A, B, C}
    assert moved_together(before, now, A) == {A, B}
    assert moved_together(before, merged(before, apart), A) == {A, B}
    assert moved_together(before, merged(now, apart), A) == {A}, "A's last view is none of the merged ones"
    assert moved_together(now, merged(now, apart), A) == {A, B}


def test_a_poll_that_is_not_answered_is_repeated_and_one_that_nobody_waits_for_is_not():
    a = Sender("A", "B")
    a.waits(1)
    assert a.polls.due_ns() == REPEAT_NS
    a.polls.repeat(REPEAT_NS - 1)
    assert len(a.asked) == 1
    a.polls.repeat(REPEAT_NS)
    assert (a.asked, a.polls.due_ns()) == ([(None, 1), (None, 1)], 2 * REPEAT_NS)
    a.polls.give_up(1)
    a.waits(2)
    a.polls.repeat(2 * REPEAT_NS)
    assert a.asked[2:] == [(None, 2)]
    a.answered(2, A, B)
    assert list(a.done) == [2]


def test_members_whose_receiver_raised_or_that_dropped_messages_are_named():
    a = Sender("A", "B", "C")
    a.waits(1, HANDLED, b"first")
    a.answered(1, A)
    a.answered(1, B, reply=MemberReply(frozenset({b"other"})))
    a.answered(1, C, reply=MemberReply(frozenset({b"first"})))
    assert names(a.done[1]) == ((A, B, C), (), (C,))
    a.waits(2, HANDLED, b"second")
    a.answered(2, A, C)
    a.answered(2, B, reply=MemberReply(skipped=True))
    assert names(a.done[2]) == ((A, B, C), (), (B,))


def test_members_of_other_sites_are_asked_one_by_one_until_they_are_gone():
    a = Sender("A", "B")
    d, e = address("D"), address("E")
    a.polls.sites_changed({"SFO": (d, e)}, 0)
    key = LaneKey(2, ("", "SFO"))
    a.registers(1, key)
    a.polls.ready([1], 0)
    assert a.asked == [(A, 1), (B, 1), (d, 1), (e, 1)]
    a.answered(1, A, B, d)
    a.polls.repeat(REPEAT_NS)
    assert a.asked[4:] == [(e, 1)]
    a.polls.sites_changed({"SFO": (d,)}, 0)
    assert names(a.done[1]) == ((A, B, d), (e,), ())
    a.waits(2, LaneKey(2, ("SFO",)))
    a.polls.unreachable(d, 0)
    assert names(a.done[2]) == ((), (d,), ())


def test_a_view_change_leaves_the_members_of_other_sites():
    a = Sender("A", "B")
    d = address("D")
    a.polls.sites_changed({"SFO": (d,)}, 0)
    a.waits(1, LaneKey(2, ("", "SFO")))
    a.polls.view_installed(view_of("A", counter=2), 0)
    a.answered(1, A)
    assert a.done == {}
    a.answered(1, d)
    assert names(a.done[1]) == ((A, d), (B,), ())
