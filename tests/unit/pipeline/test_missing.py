"""The audit of an archive that lacks a record never finds that everything arrived."""
import json
import shutil

import pyarrow as pa
import pytest

from jgroups_py.archive.layout import recorders, segments
from jgroups_py.archive.schema import ALL
from jgroups_py.pipeline import seqno_ranges as spans
from jgroups_py.pipeline.audit.missing import missing
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.pipeline.output import document
from jgroups_py.pipeline.report import page
from jgroups_py.pipeline.terminal_summary import as_lines, exit_code
from tests.unit.pipeline.made import archive, folded

SECOND = 10**9


def audited(directory):
    """The audit's document and its tables, as `jgroups pipeline audit` makes them."""
    tables = JOBS["audit"].tables(folded(directory), JobOptions())
    return document("audit", tables), tables


def of(directory, member):
    return [recorder for recorder in recorders(directory) if recorder.member == member]


def without(directory, member):
    for recorder in of(directory, member):
        shutil.rmtree(directory / recorder.folder)


def gaps(found):
    return [(line["what"], line["member"], line["site"]) for line in found["missing"]]


@pytest.mark.parametrize("options", [{}, {"open_end": True}, {"turnover": False}])
def test_an_archive_of_all_members_is_complete_whichever_crash_leave_or_still_record(tmp_path, options):
    archive(tmp_path, messages=12_000, **options)
    found, _ = audited(tmp_path)
    assert (found["verdict"], found["missing"], exit_code(found)) == ("clean", [], 0)
    assert as_lines(found)[-1].startswith("audit: everything arrived once and in order, the same everywhere")


def test_clocks_that_differ_between_sites_make_no_record_incomplete(tmp_path):
    archive(tmp_path, messages=12_000, clock_ns=(("SFO", 3 * SECOND),))
    assert missing(folded(tmp_path)).to_pylist() == []


@pytest.mark.parametrize(("member", "site", "others"), [("B", "NYC", ["A#2@NYC", "A@NYC", "C@NYC"]),
                                                         ("F", "SFO", ["D@SFO", "E@SFO"])])
def test_a_member_all_of_whose_files_are_gone_is_named_and_nothing_is_proven(tmp_path, member, site, others):
    archive(tmp_path, messages=6000)
    without(tmp_path, member)
    found, tables = audited(tmp_path)
    assert gaps(found) == [("not_recorded", member, site)]
    assert (found["ok"], found["verdict"], exit_code(found)) == (False, "incomplete", 3)
    (line,) = found["missing"]
    assert set(others) <= set(line["named_by"].split(", "))
    assert line["views"] >= 2
    assert line["messages"] == 1000                           # what others delivered of it, each message once
    *_, reported, last = as_lines(found)
    assert reported.startswith(f"record missing: {member}@{site}: did not record (")
    assert "what it delivered cannot be judged" in reported
    assert last == ("audit: NOT COMPLETE: no fault in what is recorded; all or a part of the record is missing for "
                    f"{member}@{site}")
    text = page(tables, "a page")
    assert "No fault in what is recorded, but records are missing" in text
    assert f"{member}@{site}</td>" in text
    assert "Every message arrived" not in text


def test_of_a_site_without_any_record_each_member_is_listed(tmp_path):
    archive(tmp_path, messages=6000)
    for member in "DEF":
        without(tmp_path, member)
    assert gaps(audited(tmp_path)[0]) == [("not_recorded", member, "SFO") for member in "DEF"]


def test_faults_come_first_and_missing_records_are_listed_beside_them(tmp_path):
    archive(tmp_path, messages=12_000, faults=1)
    without(tmp_path, "B")
    found, _ = audited(tmp_path)
    assert (found["verdict"], exit_code(found)) == ("faulty", 1)
    assert as_lines(found)[-1].endswith("also, records are missing: B@NYC")


def cut(directory, member, keep):
    """Keep a slice of a member's segments."""
    (recorder,) = of(directory, member)
    every = segments(directory, recorder)
    kept = every[keep]
    assert 0 < len(kept) < len(every)
    for segment in every:
        if segment not in kept:
            segment.path.unlink()


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_recorder_that_ends_while_its_member_runs_on_is_distinguished_from_a_crash(tmp_path, kept):
    archive(tmp_path, messages=24_000, segment_rows=500)     # twelve seconds; A crashes, B and C live on
    cut(tmp_path, "C", slice(0, kept))                        # of five; the last one holds its stop
    found, _ = audited(tmp_path)
    assert gaps(found) == [("ends_early", "C", "NYC")]
    assert exit_code(found) == 3
    assert "messages of it came later" in found["missing"][0]["text"]
    assert found["missing"][0]["messages"] > 200


def test_a_record_without_its_first_segments_begins_late(tmp_path):
    archive(tmp_path, messages=6000, segment_rows=500)
    cut(tmp_path, "F", slice(3, None))
    found, _ = audited(tmp_path)
    assert ("begins_late", "F", "SFO") in gaps(found)
    assert exit_code(found) != 0


# --- by hand --------------------------------------------------------------------------------------------------------

def rows(member, *facts, site=None):
    """Rows of one recorder, each (kind, second, columns)."""
    found = []
    for kind, at_s, columns in facts:
        detail = columns.pop("detail", None)
        found.append({"cluster": "c", "site": site, "member": member.upper()[0], "incarnation": member,
                      "date": "2026-01-01", "hour": 1, "row": len(found), "kind": kind,
                      "wall_ns": int(at_s * SECOND), "mono_ns": 0, "origin_site": site, "stream": "all",
                      "count": 1, "flags": 0, "detail": detail and json.dumps(detail), "view_id": VIEW, **columns})
    return found


VIEW, NEXT, THIRD = "0000000000000001|aa", "0000000000000002|aa", "0000000000000003|aa"


def view(at_s, *members, id=VIEW):
    return "view", at_s, {"view_id": id, "detail": {"members": [[each, each.upper()[0]] for each in members]}}


def message(kind, at_s, origin, seqno, **columns):
    return kind, at_s, {"origin": origin, "origin_name": origin.upper()[0], "seqno": seqno, **columns}


def missing_records(*recorders):
    table = pa.Table.from_pylist([row for each in recorders for row in each], ALL).combine_chunks()
    lines = missing(spans.fold(spans.digest(table.to_batches()[0]))).to_pylist()
    return [(line["what"], line["member"], line["incarnation"], line["named_by"]) for line in lines]


def test_a_member_that_never_sent_nor_recorded_is_known_from_views_alone():
    a = rows("aa", view(1, "aa", "bb", "cc"), ("stop", 2, {}))
    c = rows("cc", view(1, "aa", "bb", "cc"), ("stop", 2, {}))
    assert missing_records(a, c) == [("not_recorded", "B", "bb", "A, C")]


def test_a_member_of_another_site_is_known_from_the_global_view():
    detail = {"sites": {"NYC": [["aa", "A"]], "SFO": [["dd", "D"]]}}
    a = rows("aa", view(1, "aa"), ("global_view", 1, {"detail": detail}), ("stop", 2, {}), site="NYC")
    assert missing_records(a) == [("not_recorded", "D", "dd", "A@NYC")]


@pytest.mark.parametrize(("status", "expected"), [("UP", [("site_not_recorded", "", "", "A@NYC")]), ("DOWN", [])])
def test_a_site_that_was_up_and_of_which_no_member_is_named_is_listed(status, expected):
    known = ("site", 1, {"detail": {"site": "SFO", "status": status}})
    a = rows("aa", view(1, "aa"), known, ("stop", 2, {}), site="NYC")
    assert missing_records(a) == expected


def test_the_destination_of_a_unicast_is_a_member_too():
    a = rows("aa", view(1, "aa"), message("sent", 1, "aa", 1, dest="bb", stream="unicast"), ("stop", 2, {}))
    assert missing_records(a) == [("not_recorded", "", "bb", "A")]


def test_what_a_recorder_had_to_drop_is_evidence_that_is_missing():
    gap = ("gap", 1, {"origin": "aa", "seqno": 4, "count": 3, "detail": {"of": "sent", "why": ""}})
    a = rows("aa", view(1, "aa"), gap, ("stop", 2, {}))
    assert missing_records(a) == [("dropped", "A", "aa", "")]


def test_a_crash_is_no_missing_record():
    """The last message that B sent is not on its disk, and A sees B go 50 ms later."""
    b = rows("bb", view(1, "aa", "bb"), message("sent", 1.5, "bb", 1), message("delivered", 1.6, "aa", 1))
    a = rows("aa", view(1, "aa", "bb"), message("sent", 1.6, "aa", 1), message("delivered", 1.6, "aa", 1),
             message("delivered", 1.5, "bb", 1), message("delivered", 1.7, "bb", 2), view(1.8, "aa", id=NEXT),
             message("sent", 9, "aa", 2), message("delivered", 9, "aa", 2), ("stop", 10, {}))
    assert missing_records(a, b) == []


def test_a_silent_member_whose_recorder_ended_is_known_from_a_later_view_that_has_it():
    b = rows("bb", view(1, "aa", "bb"))
    a = rows("aa", view(1, "aa", "bb"), view(3, "aa", "bb", "cc", id=NEXT), view(6, "aa", id=THIRD), ("stop", 7, {}))
    c = rows("cc", view(3, "aa", "bb", "cc", id=NEXT), ("stop", 6, {}))
    assert missing_records(a, b, c) == [("ends_early", "B", "bb", "A, C")]


@pytest.mark.parametrize(("until_s", "expected"), [(2.5, []), (9, [("ends_early", "B", "bb", "A")])])
def test_a_member_in_the_view_to_the_end_was_to_record_to_the_end(until_s, expected):
    b = rows("bb", view(1, "aa", "bb"), message("delivered", 2, "aa", 1))
    a = rows("aa", view(1, "aa", "bb"), message("sent", 2, "aa", 1), message("delivered", 2, "aa", 1),
             message("sent", until_s, "aa", 2), message("delivered", until_s, "aa", 2), ("stop", until_s, {}))
    assert missing_records(a, b) == expected
