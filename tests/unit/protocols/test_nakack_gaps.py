"""When NAKACK asks, how much, and what it learns from the answers: arithmetic without a stack."""
from __future__ import annotations

from itertools import pairwise

from jgroups_py.protocols.nakack.config import NakackConfig
from jgroups_py.protocols.nakack.gaps import Gaps, Pace
from jgroups_py.protocols.nakack.resending import Debts
from jgroups_py.protocols.nakack.silence import Silence
from jgroups_py.strangers import Strangers
from jgroups_py.units import millis
from jgroups_py.windows.send import SendWindow
from tests.unit.harness import address, multicast

CONFIG = NakackConfig(ask_again_ns="20ms", xmit_interval_ns="500ms", first_ask_ns="4ms")
A, B, C = map(address, "ABC")


def test_what_was_asked_for_is_not_asked_for_in_this_turn_and_the_next() -> None:
    gaps = Gaps(Pace(CONFIG))
    assert gaps.due([(1, 5)], 0) == [(1, 5)]
    assert gaps.due([(1, 5), (7, 9)], millis(10)) == [(7, 9)]
    assert gaps.due([(3, 5), (7, 9)], millis(20)) == []
    assert gaps.due([(3, 5), (7, 9)], millis(40)) == [(3, 5), (7, 9)]


def test_turns_double_while_nothing_comes_up_to_the_longest() -> None:
    gaps, at, asked = Gaps(Pace(CONFIG)), 0, []
    while len(asked) < 10:
        if gaps.due([(1, 2)], at):
            asked.append(at)
        at = gaps.ends_ns
    waits = [(after - before) // millis(1) for before, after in pairwise(asked)]
    assert waits == [40, 80, 160, 320, 500, 500, 500, 500, 500]


def test_turns_get_twice_as_long_as_answers_take() -> None:
    pace = Pace(CONFIG)
    gaps = Gaps(pace)
    gaps.due([(1, 5)], 0)
    gaps.answered(2, multicast("B", b"x"), millis(50))
    assert pace.turn_ns(0) == millis(100)
    assert Gaps(pace).due([(1, 2)], 0) == [(1, 2)]


def test_premature_requests_make_patient_and_answers_impatient_again() -> None:
    pace = Pace(CONFIG)
    pace.premature(0)
    pace.premature(1)                                        # late together with the first: no new lesson
    assert pace.patience_ns == millis(8)
    pace.premature(millis(8))
    assert pace.patience_ns == millis(16)
    pace.answered(0)
    assert pace.patience_ns == millis(14)
    for _ in range(100):
        pace.answered(0)
    assert pace.patience_ns == millis(4)


def test_no_more_is_outstanding_than_bytes_allow() -> None:
    gaps = Gaps(Pace(NakackConfig(ask_bytes="8K")))
    assert gaps.due([(1, 100)], 0) == [(1, 9)]
    gaps.answered(1, multicast("B", *[b"x" * 60] * 8), millis(1))
    assert gaps.due([(9, 200)], millis(1)) == [(9, 137)]
    assert gaps.due([(9, 200)], millis(2)) == []


def test_debts_are_paid_in_order_cut_at_the_room_and_a_new_request_replaces_the_old() -> None:
    window = SendWindow()
    window.add(multicast("A", *[b"x" * 100] * 10))
    debts = Debts()
    debts.ask(B, A, [(1, 4), (6, 8)])
    debts.ask(C, A, [(9, 11)])
    debts.ask(B, A, [(2, 4), (6, 8)])
    debts.ask(C, B, [(1, 9)])

    def kept(sender: object) -> object:
        return window.between if sender == A else None
    paid = debts.pay(kept, 300)                              # type: ignore[arg-type]
    assert [(debtor, first, len(run)) for debtor, first, run in paid] == [((B, A), 2, 2), ((B, A), 6, 1)]
    paid = debts.pay(kept, 1000)                             # type: ignore[arg-type]
    assert [(debtor, first, len(run)) for debtor, first, run in paid] == [((B, A), 7, 1), ((C, A), 9, 2)]
    assert not debts


def test_requests_answered_by_multicast_add_up() -> None:
    debts = Debts()
    debts.ask(None, A, [(1, 4)])
    debts.ask(None, A, [(3, 6)])
    assert list(debts.owed[None, A]) == [(1, 6)]


def test_silence_is_told_ever_more_rarely_and_only_while_something_is_unstable() -> None:
    silence = Silence(first_ns=100, times=0)
    assert silence.broken() == 100
    assert silence.tick(stop=5, low=1) == (False, 100)       # something was sent just now
    assert [silence.tick(stop=5, low=1) for _ in range(3)] == [(True, 200), (True, 400), (True, 800)]
    assert not silence.fresh                                 # the next send begins anew
    assert silence.tick(stop=5, low=5) == (False, None)


def test_silence_is_told_no_more_often_than_allowed() -> None:
    silence = Silence(first_ns=100, times=1)
    silence.broken()
    silence.tick(stop=5, low=1)
    assert silence.tick(stop=5, low=1) == (True, 200)
    assert silence.tick(stop=5, low=1) == (False, None)


def test_a_crowd_of_strangers_is_forgotten_and_not_kept() -> None:
    strangers = Strangers()
    for number in range(3000):
        assert strangers.is_news(address(str(number)), number)
    assert len(strangers.told) <= 1000
