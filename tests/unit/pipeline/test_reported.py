"""What a merged view reported as missed (`MergeView.missed`) is no fault; what it did not report is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jgroups_py.archive.layout import RecorderId, hour_folder
from jgroups_py.archive.schema import ROWS
from jgroups_py.archive.sealing import write_segment
from jgroups_py.model.batch import OOB
from jgroups_py.pipeline.audit.judge import is_clean, totals
from tests.unit.pipeline.test_skipped import A, B, audited

FIRST, APART, ALONE, MERGED, AGAIN, TWICE = (f"{number:016x}|aa" for number in range(1, 7))


class Record:
    """The rows of one member, added one after the other."""

    def __init__(self, member: str, view: str = FIRST) -> None:
        self.member = member
        self.rows: list[dict[str, Any]] = []
        self.view(view)

    def add(self, kind: str, **columns: Any) -> Record:
        """A row; its columns without the usual ones."""
        row = len(self.rows)
        self.rows.append({
            "cluster": "c", "site": None, "member": self.member, "incarnation": self.member, "date": "2026-01-01",
            "hour": 1, "row": row, "kind": kind, "wall_ns": 10**18 + row, "mono_ns": row, "view_id": self.view_id,
            "stream": None, "count": 1, "flags": 0, **columns})
        return self

    def view(self, view_id: str, missed: dict[str, int] | None = None) -> Record:
        """Install a view; what it reports as missed."""
        self.view_id = view_id
        return self.add("view", detail=json.dumps({
            "members": [[A, "A"], [B, "B"]], "previous": None, "joined": [], "left": [], "missed": missed or {}}))

    def sent(self, *numbers: int, stream: str = "all") -> Record:
        """Multicasts of this member, which it delivers at once."""
        for number in numbers:
            self.add("sent", origin=self.member, origin_name=self.member, stream=stream, seqno=number)
            self.got(number, origin=self.member, stream=stream)
        return self

    def got(self, *numbers: int, origin: str = A, stream: str = "all", flags: int = 0) -> Record:
        """Deliveries."""
        for number in numbers:
            self.add("delivered", origin=origin, origin_name=origin, stream=stream, seqno=number, flags=flags)
        return self

    def stop(self) -> list[dict[str, Any]]:
        """The end."""
        return self.add("stop").rows


def sender() -> list[dict[str, Any]]:
    """A sends 1 and 2 with B, 3 and 4 without it, 5 and 6 with it again."""
    return Record(A).sent(1, 2).view(APART).sent(3, 4).view(MERGED).sent(5, 6).stop()


def excluded(missed: int | None, *, before: tuple[int, ...] = (1, 2), after: tuple[int, ...] = (5, 6)) -> list[Any]:
    """B, which was apart after `before`; how many of A's messages the merged view reports (None: an older archive)."""
    record = Record(B).got(*before).view(ALONE)
    return record.view(MERGED, {} if missed is None else {A: missed}).got(*after).stop()


@pytest.mark.parametrize("cut", [1, 3, 1000])
def test_what_was_reported_is_a_count_of_its_own_and_no_fault(cut: int) -> None:
    by_receiver, found, pairs = audited(sender(), excluded(2), cut=cut)
    assert found == [("reported_missed", B, 3, 5)]
    counts = by_receiver[B]
    assert (counts["expected"], counts["delivered"], counts["reported_missed"], counts["lost"]) == (6, 4, 2, 0)
    assert is_clean(totals(pairs))


def test_what_was_not_reported_is_lost() -> None:
    assert audited(sender(), excluded(None))[1] == [("lost", B, 3, 5)]
    assert audited(sender(), excluded(1))[1] == [("reported_missed", B, 4, 5), ("lost", B, 3, 4)]


def test_what_was_sent_while_the_member_was_excluded_without_its_knowledge_is_covered_too() -> None:
    """B stood still: A sent 3 in the view that B still had."""
    stood = Record(B).got(1, 2).view(MERGED, {A: 2}).got(5, 6).stop()
    record = Record(A).sent(1, 2, 3).view(APART).sent(4).view(MERGED).sent(5, 6).stop()
    assert audited(record, stood)[1] == [("reported_missed", B, 3, 5)]


def test_no_loss_before_the_last_delivery_and_none_after_the_merge_is_covered() -> None:
    found = audited(sender(), excluded(9, before=(2,)))[1]
    assert found == [("reported_missed", B, 3, 5), ("lost", B, 1, 2)]
    assert audited(sender(), excluded(9, after=(6,)))[1] == [("reported_missed", B, 3, 5), ("lost", B, 5, 6)]


def test_a_message_that_was_sent_before_the_merged_view_but_delivered_in_it_is_not_covered() -> None:
    frozen = Record(A).sent(1, 2).view(APART).sent(3, 4)
    frozen.add("sent", origin=A, origin_name=A, stream="all", seqno=5).view(MERGED).got(5).sent(6)
    assert audited(frozen.stop(), excluded(9, after=(6,)))[1] == [("reported_missed", B, 3, 5), ("lost", B, 5, 6)]


def test_what_no_record_of_another_member_has_is_not_covered() -> None:
    without_four = Record(A).sent(1, 2).view(APART).sent(3).view(MERGED).sent(5, 6).stop()
    found = [line for line in audited(without_four, excluded(9))[1] if line[1] == B]
    assert found == [("reported_missed", B, 3, 4), ("lost", B, 4, 5)]


def test_messages_from_before_the_join_use_the_number_up() -> None:
    """B was alone since its start: the report has what is not due to it, which explains nothing that is."""
    joiner = Record(B, ALONE).view(MERGED, {A: 4}).got(5).view(AGAIN).view(TWICE, {A: 1}).got(9).stop()
    record = Record(A).sent(1, 2, 3, 4).view(MERGED).sent(5).view(APART).sent(6, 7, 8).view(TWICE).sent(9).stop()
    assert audited(record, joiner)[1] == [("reported_missed", B, 8, 9), ("lost", B, 6, 8)]


def test_two_separations_with_nothing_delivered_between_take_both_numbers() -> None:
    apart = Record(B).got(1).view(ALONE).view(MERGED, {A: 2}).view(AGAIN).view(TWICE, {A: 1}).got(5).stop()
    record = Record(A).sent(1).view(APART).sent(2, 3).view(MERGED).sent(4).view(TWICE).sent(5).stop()
    assert audited(record, apart)[1] == [("reported_missed", B, 2, 5)]
    less = Record(B).got(1).view(ALONE).view(MERGED, {A: 1}).view(AGAIN).view(TWICE, {A: 1}).got(5).stop()
    assert audited(record, less)[1] == [("reported_missed", B, 3, 5), ("lost", B, 2, 3)]


def test_both_streams_share_one_number() -> None:
    record = Record(A).sent(1).sent(1, stream="local").view(APART).sent(2).sent(2, 3, stream="local").view(MERGED)
    record.sent(3).sent(4, stream="local")
    other = Record(B).got(1).got(1, stream="local").view(MERGED, {A: 3}).got(3).got(4, stream="local").stop()
    assert audited(record.stop(), other)[1] == [("reported_missed", B, 2, 3), ("reported_missed", B, 2, 4)]
    less = Record(B).got(1).got(1, stream="local").view(MERGED, {A: 2}).got(3).got(4, stream="local").stop()
    assert audited(record.rows, less)[1] == [
        ("reported_missed", B, 2, 3),
        ("reported_missed", B, 3, 4),
        ("lost", B, 2, 3),
    ]


def test_unicasts_the_unreliable_stream_and_other_origins_are_not_covered() -> None:
    unicasts = Record(A)
    for number in (1, 2, 3):
        unicasts.add("sent", origin=A, origin_name=A, stream="unicast", seqno=number, dest=B)
    got = Record(B)
    for number in (1, 3):
        if number == 3:
            got.view(MERGED, {A: 9, "cc": 9})
        got.add("delivered", origin=A, origin_name=A, stream="unicast", seqno=number, dest=B)
    assert audited(unicasts.stop(), got.stop())[1] == [("lost", B, 2, 3)]
    third = Record(B).got(1, 2).view(ALONE).view(MERGED, {"cc": 9}).got(5, 6).stop()
    assert audited(sender(), third)[1] == [("lost", B, 3, 5)]


def test_a_range_that_was_declared_lost_as_well_uses_the_number_up() -> None:
    record = Record(B).got(1, 2).view(ALONE).view(MERGED, {A: 1})
    record.add("lost", origin=A, origin_name=A, stream="all", seqno=4, detail=json.dumps({"dest_site": None}))
    assert audited(sender(), record.got(5, 6).stop())[1] == [("declared_lost", B, 4, 5), ("lost", B, 3, 4)]


def test_messages_out_of_band_do_not_end_the_hole() -> None:
    record = Record(B).got(1).got(4, flags=OOB).view(MERGED, {A: 2}).got(5, 6).stop()
    standing = Record(A).sent(1, 2, 3, 4).view(APART).view(MERGED).sent(5, 6).stop()
    assert audited(standing, record)[1] == [("reported_missed", B, 2, 4)]


def test_rows_that_the_other_recorder_dropped_may_have_been_missed() -> None:
    record = Record(A).sent(1, 2).view(APART)
    record.add("gap", origin=A, origin_name=A, stream="all", seqno=3, count=2, detail=json.dumps({"of": "delivered"}))
    assert audited(record.view(MERGED).sent(5, 6).stop(), excluded(2))[1] == [
        ("unrecorded", A, 3, 5), ("reported_missed", B, 3, 5)]


def written(directory: Path, *records: list[dict[str, Any]]) -> None:
    """The rows of each member as a sealed segment of an archive."""
    for rows in records:
        recorder = RecorderId("c", "", rows[0]["member"], rows[0]["incarnation"])
        table = pa.Table.from_pylist(rows, ROWS)
        write_segment(directory / recorder.folder / hour_folder(rows[0]["wall_ns"]), 0, len(rows), table.to_batches())
