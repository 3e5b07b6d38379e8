"""When NAKACK asks, how much, and what it learns from the answers: arithmetic without a stack."""
from __future__ import annotations

from itertools import pairwise

from jgroups_py.model.non_members import NonMembers
from jgroups_py.model.units import millis
from jgroups_py.protocols.nakack.config import NakackConfig
from jgroups_py.protocols.nakack.last_seqno_announcer import LastSeqnoAnnouncer
from jgroups_py.protocols.nakack.nak_schedule import NakPacing, NakSchedule
from jgroups_py.protocols.nakack.retransmit_queue import RetransmitQueue
from jgroups_py.testing.bench import address, multicast
from jgroups_py.windows.send import SendWindow

CONFIG = NakackConfig(ask_again_ns="20ms", xmit_interval_ns="500ms", first_ask_ns="4ms")
A, B, C = map(address, "ABC")


def test_a_requested_range_is_not_requested_again_in_this_turn_and_the_next() -> None:
    schedule = NakSchedule(NakPacing(CONFIG))
    assert schedule.due([(1, 5)], 0) == [(1, 5)]
    assert schedule.due([(1, 5), (7, 9)], millis(10)) == [(7, 9)]
    assert schedule.due([(3, 5), (7, 9)], millis(20)) == []
    assert schedule.due([(3, 5), (7, 9)], millis(40)) == [(3, 5), (7, 9)]


def test_turns_double_while_nothing_comes_up_to_the_longest() -> None:
    schedule, at, asked = NakSchedule(NakPacing(CONFIG)), 0, []
    while len(asked) < 10:
        if schedule.due([(1, 2)], at):
            asked.append(at)
        at = schedule.ends_ns
    waits = [(after - before) // millis(1) for before, after in pairwise(asked)]
    assert waits == [40, 80, 160, 320, 500, 500, 500, 500, 500]


def test_turns_get_twice_as_long_as_answers_take() -> None:
    pacing = NakPacing(CONFIG)
    schedule = NakSchedule(pacing)
    schedule.due([(1, 5)], 0)
    schedule.answered(2, multicast("B", b"x"), millis(50))
    assert pacing.turn_ns(0) == millis(100)
    assert NakSchedule(pacing).due([(1, 2)], 0) == [(1, 2)]


def test_premature_requests_lengthen_turns_and_answers_shorten_them() -> None:
    pacing = NakPacing(CONFIG)
    pacing.premature(0)
    pacing.premature(1)                                        # late together with the first: no new lesson
    assert pacing.delay_ns == millis(8)
    pacing.premature(millis(8))
    assert pacing.delay_ns == millis(16)
    pacing.answered(0)
    assert pacing.delay_ns == millis(14)
    for _ in range(100):
        pacing.answered(0)
    assert pacing.delay_ns == millis(4)


def test_no_more_is_outstanding_than_bytes_allow() -> None:
    schedule = NakSchedule(NakPacing(NakackConfig(ask_bytes="8K")))
    assert schedule.due([(1, 100)], 0) == [(1, 9)]
    schedule.answered(1, multicast("B", *[b"x" * 60] * 8), millis(1))
    assert schedule.due([(9, 200)], millis(1)) == [(9, 137)]
    assert schedule.due([(9, 200)], millis(2)) == []


def test_requests_are_answered_in_order_cut_at_the_room_and_a_new_one_replaces_the_old() -> None:
    window = SendWindow()
    window.add(multicast("A", *[b"x" * 100] * 10))
    queue = RetransmitQueue()
    queue.put(B, A, [(1, 4), (6, 8)])
    queue.put(C, A, [(9, 11)])
    queue.put(B, A, [(2, 4), (6, 8)])
    queue.put(C, B, [(1, 9)])

    def kept(sender: object) -> object:
        return window.between if sender == A else None
    sent = queue.burst(kept, 300)                              # type: ignore[arg-type]
    assert [(request, first, len(batch)) for request, first, batch in sent] == [((B, A), 2, 2), ((B, A), 6, 1)]
    sent = queue.burst(kept, 1000)                             # type: ignore[arg-type]
    assert [(request, first, len(batch)) for request, first, batch in sent] == [((B, A), 7, 1), ((C, A), 9, 2)]
    assert not queue


def test_requests_answered_by_multicast_add_up() -> None:
    queue = RetransmitQueue()
    queue.put(None, A, [(1, 4)])
    queue.put(None, A, [(3, 6)])
    assert list(queue.pending[None, A]) == [(1, 6)]


def test_the_last_number_is_announced_ever_more_rarely_and_only_while_something_is_unstable() -> None:
    announcer = LastSeqnoAnnouncer(first_ns=100, times=0)
    assert announcer.sent() == 100
    assert announcer.tick(stop=5, low=1) == (False, 100)       # something was sent just now
    assert [announcer.tick(stop=5, low=1) for _ in range(3)] == [(True, 200), (True, 400), (True, 800)]
    assert not announcer.fresh                                 # the next send begins anew
    assert announcer.tick(stop=5, low=5) == (False, None)


def test_the_last_number_is_announced_no_more_often_than_allowed() -> None:
    announcer = LastSeqnoAnnouncer(first_ns=100, times=1)
    announcer.sent()
    announcer.tick(stop=5, low=1)
    assert announcer.tick(stop=5, low=1) == (True, 200)
    assert announcer.tick(stop=5, low=1) == (False, None)


def test_the_number_of_non_members_kept_is_bounded() -> None:
    non_members = NonMembers()
    for number in range(3000):
        assert non_members.is_due(address(str(number)), number)
    assert len(non_members.reported) <= 1000
