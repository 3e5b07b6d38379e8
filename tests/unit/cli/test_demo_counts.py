"""How the demo counts: its report of a loss, a double, a disorder."""
from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jgroups_py.cli.demo.processes import DemoMember
from jgroups_py.cli.demo.report import rows_of, sentence, verdict
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
    assert [(row["expected"], row["lost"]) for row in rows_of(killed, members)] == [(10, 0), (10, 2)]


def test_what_only_the_other_site_has_of_a_killed_origin_is_no_loss_at_home() -> None:
    killed = member("A", "NYC", "killed")
    members = [member("B", "NYC", A=tally(*range(8))), member("D", "SFO", A=tally(*range(10))),
              member("E", "SFO", A=tally(*range(9)))]
    assert [(row["expected"], row["lost"]) for row in rows_of(killed, members)] == [(8, 0), (10, 0), (10, 1)]


def test_a_late_joiner_that_came_after_the_last_message_has_lost_nothing() -> None:
    origin = member("C", "NYC", sent=100)
    origin.sent_log = [(1.0, 50), (5.0, 100)]
    late = member("A#2", "NYC")
    late.up_at = 10.0
    assert [(row["expected"], row["lost"]) for row in rows_of(origin, [late])] == [(0, 0)]


def test_a_late_joiner_that_gets_nothing_of_what_is_sent_later_has_lost_it() -> None:
    origin = member("C", "NYC", sent=100)
    origin.sent_log = [(1.0, 50), (5.0, 60), (9.0, 100)]
    late = member("A#2", "NYC")
    late.up_at = 3.5
    assert [(row["expected"], row["lost"]) for row in rows_of(origin, [late])] == [(40, 40)]


def test_a_late_joiner_has_lost_nothing_of_an_origin_that_was_killed_before() -> None:
    killed = member("D", "SFO", "killed", sent=8)
    members = [member("C", "NYC", D=tally(*range(10))), member("A#2", "NYC")]
    assert [(row["expected"], row["lost"]) for row in rows_of(killed, members)] == [(10, 0), (0, 0)]


def test_the_made_text_has_its_lines_and_follows_from_the_seed() -> None:
    assert made_text(1) == made_text(1) != made_text(2)
    assert len(made_text(1).splitlines()) == LINES


def finished(folder: Path, reported: list[str], was_cut: bool) -> dict[str, Any]:
    """The verdict on a run in which two of ten answers did not arrive. reported: events of the answerer."""
    members = [member("C", "NYC"), member("F", "SFO")]
    for each in members:
        assert each.report is not None
        each.report.update(foreign=0, gaps=[], answered=10, unicasts=tally(*range(8)).as_dict())
        (folder / f"copy-{each.tag}.txt").write_bytes(b"x")
    group = SimpleNamespace(workers=members, up=lambda site=None: members)
    director: Any = SimpleNamespace(
        group=group, plan=SimpleNamespace(lines=1, data=b"x", out=folder), sender="C", answerer="F", incidents=[],
        relays=[], reported=[{"event": event, "member": "F"} for event in reported], was_cut=was_cut)
    return verdict(director)


@pytest.mark.parametrize(("reported", "was_cut", "ok"), [
    (["unreachable"], True, True), ([], True, False), (["unreachable"], False, False),
    (["unreachable", "lost"], True, False), (["lost"], True, False)])
def test_unicasts_that_were_reported_while_the_bridge_was_cut_are_no_loss(
    tmp_path: Path, reported: list[str], was_cut: bool, ok: bool,
) -> None:
    result = finished(tmp_path, reported, was_cut)
    assert result["ok"] is ok
    assert ("2 unicasts were reported as unreachable" in sentence(result)) is ok


def test_a_pause_is_of_the_last_incident_before_it(tmp_path: Path) -> None:
    receiver = member("C", "NYC")
    assert receiver.report is not None
    receiver.report.update(foreign=0, gaps=[(101.0, 0.1), (105.0, 3.0)], unicasts=tally().as_dict(), answered=0)
    (tmp_path / "copy-C.txt").write_bytes(b"x")
    director: Any = SimpleNamespace(
        group=SimpleNamespace(workers=[receiver], up=lambda site=None: [receiver]), sender="C", answerer="F", relays=[],
        plan=SimpleNamespace(lines=1, data=b"x", out=tmp_path), reported=[], was_cut=False, sites=("NYC",),
        started_s=100.0, incidents=[{"what": "killed", "at": 1.0}, {"what": "frozen", "at": 4.9}])
    assert [incident["longest_gap_s"] for incident in verdict(director)["incidents"]] == [{"NYC": 0.1}, {"NYC": 3.0}]
