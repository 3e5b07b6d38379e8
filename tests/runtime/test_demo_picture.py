"""The live picture of the demo, drawn at every stage without a terminal."""
from __future__ import annotations

from pathlib import Path

from rich.console import Console

from jgroups_py.cli.demo.director import DemoPlan, Director
from jgroups_py.cli.demo.picture import Plain, Screen
from jgroups_py.cli.demo.processes import DemoMember


def director(tmp_path: Path) -> Director:
    plan = DemoPlan(data=b"one\ntwo\n", out=tmp_path, rate=10, members=3, sites=2, seed=1, kill=True)
    return Director(plan, Plain(lambda text: None))


def drawn(play: Director) -> str:
    console = Console(width=120, record=True, file=open("/dev/null", "w"))     # noqa: SIM115
    console.print(Screen().draw(play))
    return console.export_text()


def test_it_can_be_drawn_before_a_member_has_started(tmp_path: Path) -> None:
    assert "0 of 2 lines" in drawn(director(tmp_path))


def test_it_shows_members_their_state_and_the_relay(tmp_path: Path) -> None:
    play = director(tmp_path)
    for tag, site, state in (("A", "NYC", "up"), ("C", "NYC", "up"), ("D", "SFO", "killed")):
        member = DemoMember(tag, site, None, state=state, view=["A", "C"], coordinator="A")      # type: ignore[arg-type]
        member.received = {"C": 1}
        member.sent = 1
        play.group.workers.append(member)
    text = drawn(play)
    assert "view A C" in text
    assert "killed" in text
    assert [line for line in text.splitlines() if "relay" in line and "A" in line]
    assert "1 of 2 lines" in text
