"""How the demo counts: its report of a loss, a double, a disorder."""
from __future__ import annotations

from jgroups_py.cli.demo.processes import DemoMember
from jgroups_py.cli.demo.report import rows_of
from jgroups_py.cli.demo.tally import DeliveryPauses, DemoTally
from jgroups_py.cli.demo.text import LINES, made_text


def tally(*numbers: int) -> DemoTally:
    counted = DemoTally()
    for number in numbers:
        counted.add(number)
    return counted


def member(tag: str, site: str, state: str = "up", sent: int = 0, **received: DemoTally) -> DemoMember:
    made = DemoMember(tag, site, None, state=state, sent=sent)     # type: ignore[arg-type]
    made.report = {"received": {name: t.as_dict() for name, t in received.items()}}
    return made


def test_numbers_in_order_are_all_received() -> None:
    assert (tally(0, 1, 2).received, tally(0, 1, 2).lost(3)) == (3, 0)


def test_a_number_left_out_is_lost() -> None:
    assert tally(0, 1, 3).lost(4) == 1


def test_a_number_again_is_a_duplicate() -> None:
    assert tally(0, 1, 1, 2).duplicated == 1


def test_a_number_that_comes_late_is_out_of_order_and_not_lost() -> None:
    counted = tally(0, 2, 1, 3)
    assert (counted.out_of_order, counted.lost(4), counted.duplicated) == (1, 0, 0)


def test_a_late_joiner_counts_from_its_first_message() -> None:
    assert tally(7, 8, 9).lost(10) == 0


def test_a_pause_is_remembered_with_its_beginning() -> None:
    gaps = DeliveryPauses()
    for at in (1.0, 1.01, 1.5, 1.51):
        gaps.delivered(at)
    assert [(began, round(length, 2)) for began, length in gaps.pauses] == [(1.01, 0.49)]


def test_what_a_killed_origin_sent_is_what_its_own_site_has() -> None:
    killed = member("A", "NYC", "killed")
    members = [member("B", "NYC", A=tally(*range(10))), member("D", "SFO", A=tally(*range(8)))]
    assert [(row["sent"], row["lost"]) for row in rows_of(killed, members)] == [(10, 0), (10, 2)]


def test_what_only_the_other_site_has_of_a_killed_origin_is_no_loss_at_home() -> None:
    killed = member("A", "NYC", "killed")
    members = [member("B", "NYC", A=tally(*range(8))), member("D", "SFO", A=tally(*range(10))),
              member("E", "SFO", A=tally(*range(9)))]
    assert [(row["sent"], row["lost"]) for row in rows_of(killed, members)] == [(8, 0), (10, 0), (10, 1)]


def test_a_late_joiner_that_came_after_the_last_message_has_lost_nothing() -> None:
    origin = member("C", "NYC", sent=100)
    origin.sent_log = [(1.0, 50), (5.0, 100)]
    late = member("A#2", "NYC")
    late.up_at = 10.0
    assert [(row["sent"], row["lost"]) for row in rows_of(origin, [late])] == [(0, 0)]


def test_a_late_joiner_that_gets_nothing_of_what_is_sent_later_has_lost_it() -> None:
    origin = member("C", "NYC", sent=100)
    origin.sent_log = [(1.0, 50), (5.0, 60), (9.0, 100)]
    late = member("A#2", "NYC")
    late.up_at = 3.5
    assert [(row["sent"], row["lost"]) for row in rows_of(origin, [late])] == [(40, 40)]


def test_a_late_joiner_has_lost_nothing_of_an_origin_that_was_killed_before() -> None:
    killed = member("D", "SFO", "killed", sent=8)
    members = [member("C", "NYC", D=tally(*range(10))), member("A#2", "NYC")]
    assert [(row["sent"], row["lost"]) for row in rows_of(killed, members)] == [(10, 0), (0, 0)]


def test_the_made_text_has_its_lines_and_follows_from_the_seed() -> None:
    assert made_text(1) == made_text(1) != made_text(2)
    assert len(made_text(1).splitlines()) == LINES
