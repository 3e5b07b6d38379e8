"""What FLOW spared a slow application: neither lost nor delivered, whatever pieces the rows come in."""
import json

import pyarrow as pa
import pytest

from jgroups_py.archive.schema import ALL
from jgroups_py.model.batch import NO_FC
from jgroups_py.pipeline import seqno_ranges as spans
from jgroups_py.pipeline.audit.judge import COUNTS, is_clean, judge, totals
from jgroups_py.pipeline.terminal_summary import as_lines

A, B, FAR = "aa", "bb", "ff"
VIEW = "0000000000000001|aa"


def recorder(member, site=None):
    """A function that makes the next row of this recorder."""
    rows = []

    def add(kind, origin=None, seqno=None, detail=None, **columns):
        rows.append({"cluster": "c", "site": site, "member": member, "incarnation": member, "date": "2026-01-01",
                     "hour": 1, "row": len(rows), "kind": kind, "wall_ns": 10**9 + len(rows), "mono_ns": len(rows),
                     "view_id": VIEW, "origin": origin, "origin_name": origin, "origin_site": site, "stream": "all",
                     "seqno": seqno, "count": 1, "flags": 0, "detail": detail and json.dumps(detail), **columns})
        return rows

    add("view", detail={"members": [[A, "A"], [B, "B"]], "previous": None, "joined": [], "left": []})
    return add


def state(rows, cut):
    """The spans of rows, digested and folded in pieces of `cut` rows, as a stream does it."""
    table = pa.Table.from_pylist(rows, ALL)
    found = spans.SPANS.empty_table()
    for first in range(0, len(table), cut):
        piece = spans.digest(table.slice(first, cut).combine_chunks().to_batches()[0])
        found = spans.fold(pa.concat_tables([found, pa.Table.from_batches([piece])]))
    return found


def audited(*recorders, cut=1000):
    """Pairs by receiver, and all findings, of all members' rows."""
    pairs, findings = judge(pa.concat_tables([state(rows, cut) for rows in recorders]))
    return ({line["receiver"]: line for line in pairs.to_pylist()},
            [(line["fault"], line["receiver"], line["first"], line["stop"]) for line in findings.to_pylist()], pairs)


def sender(numbers=6, **columns):
    add = recorder(A, columns.get("origin_site"))
    for seqno in range(1, numbers + 1):
        add("sent", A, seqno, **columns)
    return add("stop")


@pytest.mark.parametrize("cut", [1, 3, 1000])
def test_between_on_and_off_messages_are_skipped_not_delivered_and_not_lost(cut):
    add = recorder(B)
    for seqno in range(1, 7):
        if seqno in (3, 5):
            add("skipping", A, detail={"on": seqno == 3})
        add("delivered", A, seqno)
    found, findings, pairs = audited(sender(), add("stop"), cut=cut)
    assert (found[B]["expected"], found[B]["delivered"], found[B]["skipped"], found[B]["lost"]) == (6, 4, 2, 0)
    assert findings == [("skipped", B, 3, 5)]
    assert is_clean(totals(pairs))


def test_what_is_skipped_to_the_end_of_the_record_has_no_end():
    add = recorder(B)
    add("skipping", A, detail={"on": True})
    for seqno in range(1, 7):
        add("delivered", A, seqno)
    assert audited(sender(), add("stop"))[1] == [("skipped", B, 1, 7)]


def test_unicasts_what_is_marked_no_fc_and_other_senders_are_never_skipped():
    add = recorder(B)
    add("skipping", "cc", detail={"on": True})
    add("delivered", A, 1)
    add("skipping", A, detail={"on": True})
    add("delivered", A, 2, flags=NO_FC)
    add("delivered", A, 3)
    add("delivered", A, 4, flags=NO_FC)
    add("delivered", "dd", 1, stream="unicast", dest=B)
    add("skipping", "dd", detail={"on": True})
    add("delivered", "dd", 2, stream="unicast", dest=B)
    _, findings, _ = audited(sender(4), add("stop"))
    assert findings == [("skipped", B, 3, 4)]


def test_what_the_relay_of_the_view_brings_is_skipped_with_the_relay_s_own():
    add = recorder(B, "NYC")
    add("delivered", FAR, 1, origin_site="SFO")
    add("skipping", A, detail={"on": True})
    add("delivered", FAR, 2, origin_site="SFO")
    add("delivered", A, 1)
    add("skipping", A, detail={"on": False})
    add("delivered", FAR, 3, origin_site="SFO")
    assert sorted(audited(add("stop"))[1]) == [("skipped", B, 1, 2), ("skipped", B, 2, 3)]


def test_a_message_that_came_twice_and_was_skipped_once_was_delivered():
    add = recorder(B)
    add("delivered", A, 1)
    add("skipping", A, detail={"on": True})
    add("delivered", A, 1)
    found, findings, _ = audited(sender(1), add("stop"))
    assert (found[B]["delivered"], found[B]["skipped"]) == (1, 0)
    assert findings == [("duplicated", B, 1, 2)]


def test_numbers_of_topics_without_a_subscriber_at_the_site_are_not_lost():
    add = recorder(B, "NYC")
    add("delivered", FAR, 1, origin_site="SFO")
    add("passed", FAR, 2, origin_site="SFO", count=3)
    add("delivered", FAR, 5, origin_site="SFO")
    found, findings, _ = audited(add("stop"))
    assert findings == []
    assert (found[B]["expected"], found[B]["delivered"], found[B]["lost"]) == (2, 2, 0)


def test_the_verdict_on_a_clean_archive_names_skipped_messages():
    pair = {"origin": "A", "origin_site": "", "receiver": "B", "receiver_site": "", "stream": "all"}
    counts = dict.fromkeys(COUNTS, 0) | {"expected": 9, "delivered": 7, "skipped": 2}
    found = {"verdict": "clean", "missing": [], "totals": counts | {"sent": 8}, "pairs": [pair | counts],
             "findings": [1]}
    head, line, _, explained, verdict = as_lines(found)
    assert head.split() == ["origin", "receiver", "expected", "delivered", "lost", "twice", "disorder", "skipped"]
    assert line.split() == ["A", "B", "9", "7", "0", "0", "0", "2"]
    assert explained == "8 messages were sent, each expected once at every member that it is for: 9 deliveries"
    assert verdict.endswith("the same everywhere; 2 were skipped for slow applications")
