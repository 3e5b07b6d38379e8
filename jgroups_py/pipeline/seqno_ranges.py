"""Spans: the messages in a record as ranges of seqnos. They are the audit's digest of the rows.

Problem: the audit compares sets of messages between recorders; as rows, millions would have to be sorted and joined.
Idea: an origin numbers its messages without holes, so the messages that a recorder sent or delivered in one view are,
but for faults, one range. A span is such a range: consecutive numbers that were recorded one after the other. Digesting
takes one pass without a shuffle, and spans of neighbouring pieces of an archive fold into one, so the result grows with
views and faults, not with messages. Facts (views, losses, ...) are spans of their own and are not changed.
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
"""The columns of the rows that the digest needs."""

SPANS = pa.schema([
    *(pa.field(name, pa.string()) for name in (*RECORDER, "kind", *ORIGIN)),
    pa.field("oob", pa.bool_()),                   # out of band: may overtake others, so its order is not checked
    pa.field("no_fc", pa.bool_()),                 # FLOW never skips it
    pa.field("view_id", pa.string()),
    pa.field("detail", pa.string()),               # facts only
    pa.field("first", pa.int64()),                 # seqnos, half-open
    pa.field("stop", pa.int64()),
    pa.field("row", pa.int64()),                   # row numbers of the recorder, half-open
    pa.field("row_stop", pa.int64()),
    pa.field("wall_ns", pa.int64()),               # times of the first and of the last row
    pa.field("wall_last_ns", pa.int64()),
])

SAME = ("incarnation", "kind", "origin", "stream", "dest", "view_id")
"""Consecutive messages that agree in these columns, in `oob` and in `no_fc` may be one span, unless the recorder began
or ended to skip a sender's multicasts between them: a span is either skipped as a whole or not at all."""
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
    """The rows without messages that have no number."""
    seqno = column(rows, "seqno")
    if not seqno.null_count:
        return rows
    unnumbered = is_message(column(rows, "kind")) & np.asarray(seqno.is_null())
    return rows.filter(pa.array(~unnumbered)) if unnumbered.any() else rows


def _marks(oob: NDArray[np.bool_], no_fc: NDArray[np.bool_]) -> tuple[Numbers, int]:
    """The two flags of each row as one code, for grouping."""
    if not oob.any() and not no_fc.any():
        return np.zeros(len(oob), np.int64), 1
    return oob + 2 * no_fc, 4


def _switches(table: Any, row: Numbers) -> Numbers:
    """For each line, how often its recorder had begun or ended to skip a sender's multicasts before it."""
    found = np.zeros(len(table), np.int64)
    switch = is_one_of(column(table, "kind"), [SKIPPING])
    if switch.any():
        recorder, _ = codes(column(table, "incarnation"))
        for each in np.unique(recorder[switch]):
            own = recorder == each
            found[own] = np.searchsorted(np.sort(row[own & switch]), row[own])
    return found


def _facts_apart(rows: Any) -> tuple[Numbers, int]:
    """A code that gives every fact a group of its own, since facts are never joined."""
    facts = ~is_message(column(rows, "kind"))
    if not facts.any():
        return np.zeros(len(facts), np.int64), 1
    return np.where(facts, np.cumsum(facts), 0), int(facts.sum()) + 1


def is_message(kind: Any) -> NDArray[np.bool_]:
    """For each row, whether it is a message sent or delivered."""
    return is_one_of(kind, MESSAGES)


def is_one_of(kind: Any, words: Sequence[str]) -> NDArray[np.bool_]:
    """For each row, whether its kind is one of these words."""
    if not pa.types.is_dictionary(kind.type):
        kind = kind.dictionary_encode()
    known = np.append(np.isin(np.asarray(kind.dictionary.to_pylist(), object), words), False)
    if (known[:-1].all() and not kind.null_count) or not known.any():
        return np.full(len(kind), known[0])
    return known[codes(kind)[0]]


def in_order(groups: Groups, row: Numbers) -> Groups:
    """The same groups, each in order of row numbers."""
    if not np.any(row[1:] < row[:-1]):
        return groups                                       # as a recorder wrote them
    ordered = row[groups.order]
    number = groups.number
    if np.any((ordered[1:] < ordered[:-1]) & (number[1:] == number[:-1])):
        return Groups(groups.order[np.lexsort((ordered, number))], groups.starts)
    return groups


def _breaks(groups: Groups, first: Numbers, stop: Numbers) -> NDArray[np.bool_]:
    """For each row, in the order of the groups, whether a span begins there."""
    breaks = np.zeros(len(first), bool)
    breaks[groups.starts[:-1]] = True
    breaks[1:] |= first[1:] != stop[:-1]
    return breaks


def fold(spans: Any) -> Any:
    """Join spans that continue each other in the record, so that there are as few as possible.

    `spans` must contain all spans of a recorder up to some row.
    """
    table = _table(spans)
    first, stop, row = (numbers(table, name) for name in ("first", "stop", "row"))
    if not len(table):
        return table
    # Not grouped by view: else a span could be joined with a later one of its view across a span of another view.
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
"""Spans that agree in these columns must come to `fold` together."""
