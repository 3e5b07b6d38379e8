"""The table of `jgroups top` without a terminal: rates, totals, and lines that fit whatever is shown."""
from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from jgroups_py.cli import main
from jgroups_py.cli.top.table import ORDERS, lines_of, with_rates


def member(name: str, site: str = "NYC", **changes: Any) -> dict[str, Any]:
    return {"site": site, "name": name, "uuid": name.encode().hex(), "state": "alive", "clock": 100.0, "view": "A|2",
            "coordinator": False, "relay": False, "sent": 100, "delivered": 300, "sent_bytes": 1000,
            "delivered_bytes": 3000, "kept_back_bytes": 0, "backlog_bytes": 0, "sites": {}, "suspected_by": [],
            **changes}


def survey(*members: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"cluster": "chat", "asked_by": "A", "took_ms": 3.1, "not_asked": 0, "sites": {"SFO": "UP"},
            "agree": {"view": True, "stack": True, "version": True}, "members": list(members), **changes}


def test_rates_are_taken_by_the_members_own_clock():
    found = with_rates(survey(member("A", clock=104.0, sent=500, delivered=300, sent_bytes=9000)),
                       survey(member("A", clock=100.0)))
    shown = found["members"][0]
    assert (shown["sent_per_second"], shown["delivered_per_second"], shown["sent_bytes_per_second"]) == (100, 0, 2000)


@pytest.mark.parametrize("before", [
    None, survey(), survey(member("A", clock=200.0)), survey(member("A", sent=10 ** 9, delivered=10 ** 9))],
    ids=["first survey", "new member", "clock set back", "counts fell"])
def test_there_is_no_rate_where_nothing_can_be_compared(before: dict[str, Any] | None):
    shown = with_rates(survey(member("A", clock=101.0)), before)["members"][0]
    assert (shown["sent_per_second"], shown["delivered_per_second"]) == (None, None)


def test_a_member_of_an_earlier_version_and_one_that_does_not_answer_have_dashes_and_the_totals_count_the_others():
    old = {name: value for name, value in member("B").items() if name not in ("sent", "sent_bytes", "delivered_bytes")}
    gone = {"site": "NYC", "name": "C", "uuid": "cc", "state": "no answer", "suspected_by": ["A", "B"]}
    found = with_rates(survey(member("A", relay=True, sites={"SFO": {"held": 7}, "LON": {"held": 2}}), old, gone), None)
    assert (found["total"]["sent"], found["total"]["delivered"], found["total"]["held"]) == (100, 600, 9)
    lines = lines_of(found, 160, 20, "site", styled=False)
    rows = {line.split()[1]: line.split() for line in lines[3:6]}
    assert rows["A"][3:6] == ["relay", "100", "300"]
    assert "9" in rows["A"]
    assert rows["B"][4:6] == ["-", "300"]
    assert rows["C"][2:4] == ["no", "answer"]
    assert "A,B" in rows["C"]


@pytest.mark.parametrize("width", [1, 20, 40, 80, 120, 300])
@pytest.mark.parametrize("height", [1, 3, 5, 24])
def test_no_line_is_wider_and_no_screen_is_higher_than_the_terminal(width: int, height: int):
    names = ["A", "名前" * 30, "x" * 200, "\x1b[2Jred", "two\nlines", "é" * 60]
    members = [member(name, delivered=10 ** 15, suspected_by=["A" * 90]) for name in names]
    for order in ORDERS:
        lines = lines_of(with_rates(survey(*members), None), width, height, order, styled=False)
        assert len(lines) <= height
        assert max(cell_len(line) for line in lines) <= width
        assert not any("\x1b" in line or "\n" in line for line in lines)


def test_columns_that_do_not_fit_are_left_out_from_the_least_important_one():
    found = with_rates(survey(member("A")), None)
    wide, narrow = (lines_of(found, width, 24, "site", styled=False)[2].split() for width in (150, 80))
    assert wide[-1] == "view"
    assert {"sent", "sent/s"} <= set(wide)
    assert "view" not in narrow
    assert {"site", "member", "state", "sent/s", "recv/s", "held"} <= set(narrow)


def test_rows_that_do_not_fit_are_counted():
    found = with_rates(survey(*(member(f"M{number:03}") for number in range(50))), None)
    lines = lines_of(found, 80, 24, "site", styled=False)
    assert (len(lines), lines[-2]) == (24, "... and 31 more")
    assert lines[-3].split()[1] == "M018"


def test_what_changed_and_who_is_suspected_is_marked():
    before = with_rates(survey(member("A", coordinator=True), member("B"), member("C"), member("D")), None)
    now = with_rates(survey(member("A"), member("B", coordinator=True), member("C"),
                            member("D", suspected_by=["B"])), before)
    rows = lines_of(now, 80, 24, "site", before=before)[3:7]
    assert [row.startswith("\x1b[1m") for row in rows] == [True, True, False, True]


def test_sites_that_are_down_and_differences_are_said():
    head = lines_of(with_rates(survey(member("A"), sites={"SFO": "DOWN"}, not_asked=3, agree={
        "view": False, "stack": False, "version": True}), None), 200, 24, "site", styled=False)[1]
    assert head.endswith("not asked: SFO is DOWN, 3 members not asked, members differ in view and stack")


@pytest.mark.parametrize(("arguments", "why"), [
    ([], "no member is named"), (["--json", "--control", "x"], "--json is allowed only with --once"),
    (["--control", "x"], "no terminal")])
def test_what_top_cannot_do_is_said(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str],
                                    monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JGROUPS_CONTROL", raising=False)
    assert main(["top", *arguments]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0.1", "nan", "x", "1e9"])
def test_an_interval_below_the_age_of_surveys_is_refused(text: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["top", "--control", "x", "--interval", text])
    assert "is no interval" in capsys.readouterr().err
