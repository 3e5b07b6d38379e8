"""Spans: what a recorder recorded of one origin, as ranges. The audit's digest of the rows.

Problem: the audit compares sets of messages between recorders; as rows they would have to be sorted and joined by the
million. Idea: one origin numbers its messages without holes, so what a recorder sent or delivered is, but for faults,
one range a view. A span is such a range: consecutive numbers recorded one after the other. Digesting takes one pass
without a shuffle, and spans of neighbouring pieces of an archive fold into one, so the result grows with views and
faults, not with messages. Facts (views, losses, ...) pass through as spans of their own.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jgroups_py.archive.schema import SKIPPING
from jgroups_py.model.batch import NO_FC, OOB
from jgroups_py.pipeline.grouping import Groups, Numbers, changes, codes, column, group, numbers, take

RECORDER = ("cluster", "site", "member", "incarnation")
ORIGIN = ("origin_site", "origin", "origin_name", "stream", "dest")
COLUMNS = (*RECORDER, "row", "kind", "wall_ns", "view_id", *ORIGIN, "seqno", "count", "flags", "detail")
"""What the digest needs of the rows."""

SPANS = pa.schema([
    *(pa.field(name, pa.string()) for name in (*RECORDER, "kind", *ORIGIN)),
    pa.field("oob", pa.bool_()),                   # out of band: may overtake, so it has no order
    pa.field("no_fc", pa.bool_()),                 # FLOW never skips it
    pa.field("view_id", pa.string()),
    pa.field("detail", pa.string()),               # of a fact
    pa.field("first", pa.int64()),                 # seqnos, half-open
    pa.field("stop", pa.int64()),
    pa.field("row", pa.int64()),                   # rows of the recorder, the first and the one behind the last
    pa.field("row_stop", pa.int64()),
    pa.field("wall_ns", pa.int64()),               # of the first and of the last row
    pa.field("wall_last_ns", pa.int64()),
])

SAME = ("incarnation", "kind", "origin", "stream", "dest", "view_id")
"""Spans that agree in these, in `oob` and in `no_fc` may be one, unless their recorder began or ceased to skip a
sender's multicasts between them: so skipped messages form whole spans."""
MESSAGES = ("sent", "delivered")


def digest(rows: Any) -> Any:
    """The spans of a record batch of rows (of one recorder or of several, in any order).

    Messages without a number, from a sender that has no ARCHIVE, cannot be compared and are left out.
    """
    rows = _numbered(rows)
    if not len(rows):
        return pa.RecordBatch.from_pylist([], SPANS)
    seqno, count, row, wall = (numbers(rows, name) for name in ("seqno", "count", "row", "wall_ns"))
    flags = numbers(rows, "flags")
    oob, no_fc = flags & OOB != 0, flags & NO_FC != 0
    groups = in_order(group(rows, SAME, [_marks(oob, no_fc), _facts_apart(rows)]), row)
    order = groups.order
    stop = seqno + count
    starts = np.flatnonzero(_breaks(groups, seqno[order], stop[order]) | changes(_switches(rows, row)[order]))
    ends = np.append(starts[1:], len(order)) - 1
    firsts, lasts = order[starts], order[ends]
    return pa.RecordBatch.from_arrays([
        *take(rows, (*RECORDER, "kind", *ORIGIN), firsts), pa.array(oob[firsts]), pa.array(no_fc[firsts]),
        *take(rows, ("view_id", "detail"), firsts), pa.array(seqno[firsts]), pa.array(stop[lasts]),
        pa.array(row[firsts]), pa.array(row[lasts] + 1), pa.array(wall[firsts]), pa.array(wall[lasts])], schema=SPANS)


def _numbered(rows: Any) -> Any:
    """Without messages that have no number."""
    seqno = column(rows, "seqno")
    if not seqno.null_count:
        return rows
    unnumbered = is_message(column(rows, "kind")) & np.asarray(seqno.is_null())
    return rows.filter(pa.array(~unnumbered)) if unnumbered.any() else rows


def _marks(oob: NDArray[np.bool_], no_fc: NDArray[np.bool_]) -> tuple[Numbers, int]:
    if not oob.any() and not no_fc.any():
        return np.zeros(len(oob), np.int64), 1
    return oob + 2 * no_fc, 4


def _switches(table: Any, row: Numbers) -> Numbers:
    """Of each line: how often its recorder had begun or ceased to skip a sender's multicasts by then."""
    found = np.zeros(len(table), np.int64)
    switch = is_one_of(column(table, "kind"), [SKIPPING])
    if switch.any():
        recorder, _ = codes(column(table, "incarnation"))
        for each in np.unique(recorder[switch]):
            mine = recorder == each
            found[mine] = np.searchsorted(np.sort(row[mine & switch]), row[mine])
    return found


def _facts_apart(rows: Any) -> tuple[Numbers, int]:
    """A code that puts every fact into a group of its own: facts are never joined."""
    facts = ~is_message(column(rows, "kind"))
    if not facts.any():
        return np.zeros(len(facts), np.int64), 1
    return np.where(facts, np.cumsum(facts), 0), int(facts.sum()) + 1


def is_message(kind: Any) -> NDArray[np.bool_]:
    """Of each row: whether it is a message sent or delivered."""
    return is_one_of(kind, MESSAGES)


def is_one_of(kind: Any, words: Sequence[str]) -> NDArray[np.bool_]:
    """Of each row: whether its kind is one of these."""
    if not pa.types.is_dictionary(kind.type):
        kind = kind.dictionary_encode()
    known = np.append(np.isin(np.asarray(kind.dictionary.to_pylist(), object), words), False)
    if (known[:-1].all() and not kind.null_count) or not known.any():
        return np.full(len(kind), known[0])
    return known[codes(kind)[0]]


def in_order(groups: Groups, row: Numbers) -> Groups:
    """The same groups, each in order of its rows."""
    if not np.any(row[1:] < row[:-1]):
        return groups                                       # as a recorder wrote them
    ordered = row[groups.order]
    number = groups.number
    if np.any((ordered[1:] < ordered[:-1]) & (number[1:] == number[:-1])):
        return Groups(groups.order[np.lexsort((ordered, number))], groups.starts)
    return groups


def _breaks(groups: Groups, first: Numbers, stop: Numbers) -> NDArray[np.bool_]:
    """Of each row in order: whether a span begins there."""
    breaks = np.zeros(len(first), bool)
    breaks[groups.starts[:-1]] = True
    breaks[1:] |= first[1:] != stop[:-1]
    return breaks


def fold(spans: Any) -> Any:
    """The same in as few spans as possible: those that continue each other in the record become one.

    All spans of a recorder, up to some row of it, have to be together in `spans`.
    """
    table = _table(spans)
    first, stop, row = (numbers(table, name) for name in ("first", "stop", "row"))
    if not len(table):
        return table
    # Views are no border here, so that a span of one view inside another's is not jumped over.
    by = group(table, [name for name in SAME if name != "view_id"],
               [_marks(*(column(table, name).to_numpy(zero_copy_only=False) for name in ("oob", "no_fc")))])
    by = in_order(by, row)
    order = by.order
    view, _ = codes(column(table, "view_id"))
    breaks = _breaks(by, first[order], stop[order]) | changes(view[order]) | changes(_switches(table, row)[order])
    starts = np.flatnonzero(breaks | ~is_message(column(table, "kind"))[order])
    lasts = order[np.append(starts[1:], len(order)) - 1]
    columns = dict(zip(SPANS.names, take(table, SPANS.names, order[starts]), strict=True))
    columns |= dict(zip(("stop", "row_stop", "wall_last_ns"),
                        take(table, ("stop", "row_stop", "wall_last_ns"), lasts), strict=True))
    return pa.Table.from_arrays([columns[name] for name in SPANS.names], schema=SPANS)


def _table(spans: Any) -> Any:
    if isinstance(spans, pa.Table):
        return spans.combine_chunks()
    return pa.Table.from_batches([spans] if isinstance(spans, pa.RecordBatch) else spans, SPANS)


FOLD_BY: Sequence[str] = ("incarnation",)
"""Spans that agree in these have to meet in `fold`."""
