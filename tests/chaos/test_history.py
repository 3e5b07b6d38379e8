"""From records to a history: what processes wrote reaches the checkers whole, and what is wrong in it is found."""
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.model.address import Address
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import check
from tests.chaos import payloads
from tests.chaos.gather import Gathered

A, B, D = ("a" * 32, "b" * 32, "d" * 32)
FIRST, SECOND = "01".rjust(16, "0") + A, "02".rjust(16, "0") + A
REMOTE = "01".rjust(16, "0") + D
Records = dict[str, list[list[Any]]]


def a_run() -> Records:
    """A and B at NYC, D at SFO; A sends four, all deliver them; B ends in the view of both."""
    def local(name: str, address: str, at: int) -> list[list[Any]]:
        return [[at, "start", address, f"{name}#1", "NYC"], [at + 1, "view", SECOND, [A, B], None, {}],
                [at + 20, "deliver", A, None, None, False, [["A#1>*/", 0, 3, 0], ["A#1>*/", 3, 1, 1000]], 0]]

    first, second, delivered = local("A", A, 0)
    sent: list[list[Any]] = [[2, "send", None, [["A#1>*/", 0, 3, 0]], 0, SECOND],
                             [3, "send", None, [["A#1>*/", 3, 1, 1000]], 0, SECOND]]
    return {
        "A": [first, second, *sent, delivered], "B": local("B", B, 0),
        "D": [[0, "start", D, "D#1", "SFO"], [1, "view", REMOTE, [D], None, {}],
              [30, "deliver", A, "NYC", D, False, [["A#1>*/", 0, 3, 0], ["A#1>*/", 3, 1, 1000]], 0]]}


def judged(records: Records, folder: Path) -> list[str]:
    """The guarantees that the run breaks."""
    for name, lines in records.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / name).write_text(text + '[99,"deliver","half a li')       # a kill -9 cuts the last line
    live = {Address(bytes.fromhex(address)): 0 for address in (A, B, D)}
    added: list[h.Entry] = [h.Healed(50), h.End(60, live)]
    history = Gathered([folder / name for name in records], added).history
    return sorted({violation.guarantee for violation in check(history, names=[
        "M1", "M2", "M3", "M4", "S1", "S2", "S4", "S5", "S7", "F", "L", "R1", "R2", "R3", "R4", "R8"])})


def test_a_run_without_fault_breaks_nothing(tmp_path: Path):
    assert judged(a_run(), tmp_path) == []


def lose_locally(records: Records) -> None:
    records["B"][2][6] = [["A#1>*/", 0, 3, 0]]


def double_locally(records: Records) -> None:
    records["B"].append([40, "deliver", A, None, None, False, [["A#1>*/", 1, 1, 0]], 0])


def lose_at_the_other_site(records: Records) -> None:
    records["D"][2][6] = [["A#1>*/", 0, 2, 0], ["A#1>*/", 3, 1, 1000]]


def double_at_the_other_site(records: Records) -> None:
    records["D"].append([40, "deliver", A, "NYC", D, False, [["A#1>*/", 1, 1, 0]], 0])


def change_order(records: Records) -> None:
    records["D"][2][6] = [["A#1>*/", 1, 2, 0], ["A#1>*/", 0, 1, 0], ["A#1>*/", 3, 1, 1000]]


def damage(records: Records) -> None:
    records["B"][2][6] = [["A#1>*/", 0, 3, 0], ["A#1>*/", 3, 1, 999]]


def forge(records: Records) -> None:
    records["B"].append([40, "deliver", A, None, None, False, [["ff00"]], 0])


def bring_by_a_non_member(records: Records) -> None:
    records["D"][2][4] = A


def echo(records: Records) -> None:
    records["B"].append([40, "deliver", A, "NYC", A, False, [["A#1>*/", 3, 1, 1000]], 0])


def leave_out_of_a_view(records: Records) -> None:
    records["B"][1][3] = [A]


@pytest.mark.parametrize(("harm", "broken"), [
    (lose_locally, "L"), (double_locally, "S2"), (lose_at_the_other_site, "R3"), (double_at_the_other_site, "R3"),
    (change_order, "R4"), (damage, "S1"), (forge, "S1"), (bring_by_a_non_member, "R8"), (echo, "R2"),
    (leave_out_of_a_view, "M1")])
def test_what_is_wrong_in_records_is_found(harm: Callable[[Records], None], broken: str, tmp_path: Path):
    records = a_run()
    harm(records)
    assert broken in judged(records, tmp_path)


def test_a_send_that_was_refused_is_not_missed(tmp_path: Path):
    records = a_run()
    records["A"].append([45, "send", None, [["A#1>*/", 4, 2, 0]], 0, SECOND])
    records["A"].append([46, "unsent", [["A#1>*/", 4, 2, 0]], "closed"])
    assert judged(records, tmp_path) == []


@pytest.mark.parametrize("size", [0, 3, 6, 7, 8, 100, 5000])
def test_payloads_are_named_by_their_runs(size: int):
    made = [payloads.make("A#1>*/", number, size) for number in range(8, 12)]
    runs = payloads.runs_of(made)
    again = [payload for prefix, first, count, length in runs
             for payload in (payloads.make(str(prefix), number, int(length))
                             for number in range(int(first), int(first) + int(count)))]
    assert again == made
    assert len(runs) <= 3
    assert len(set(payloads.names(runs))) == 4


@pytest.mark.parametrize("payload", [
    b"", b".", b"A#1>*/", b"A#1>*/17.x", b"A#1>*/017", b"\xff>*/1", b"no slash 5", b"A#1>*/17\x00..."])
def test_a_payload_that_no_sender_makes_is_kept_as_it_is(payload: bytes):
    assert payloads.runs_of([payload]) == [[payload.hex()]]
