"""Rows to the state of the lag job: one pass, whole columns."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jgroups_py.pipeline.grouping import Groups, Numbers, column, group, numbers, take
from jgroups_py.pipeline.job import Options
from jgroups_py.pipeline.lag.state import BLOCK, EDGE, FLOW, PAUSE, START, STATE, TIMES
from jgroups_py.pipeline.packed import pack
from jgroups_py.pipeline.spans import ORIGIN, RECORDER, is_message

COLUMNS = (*RECORDER, "row", "kind", "wall_ns", "mono_ns", *ORIGIN, "seqno", "size", "detail")
_TEXTS = (*RECORDER, "kind", *ORIGIN)


def digest(rows: Any, options: Options) -> Any:
    """The state that a record batch of rows makes."""
    messages = rows.filter(pa.array(is_message(column(rows, "kind")) & _numbered(rows)))
    parts = list(_starts(rows))
    if len(messages):
        parts += [_times(_to_others(messages)), _flow(messages, options), *pauses(messages, options)]
    return pa.concat_tables(parts).combine_chunks() if parts else STATE.empty_table()


def _numbered(rows: Any) -> Any:
    return np.asarray(column(rows, "seqno").is_valid())


def _to_others(messages: Any) -> Any:
    """Without what members delivered of their own: that is no replication."""
    own = pc.and_(pc.equal(column(messages, "kind"), "delivered"),
                  pc.equal(_plain(column(messages, "origin")), _plain(column(messages, "incarnation"))))
    return messages.filter(pc.invert(pc.fill_null(own, False)))


def _plain(array: Any) -> Any:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def table(sort: str, size: int, columns: dict[str, Any]) -> Any:
    """Lines of one sort; columns that it does not use are null."""
    columns = {"sort": pa.array([sort] * size), **columns}
    return pa.Table.from_arrays([columns.get(field.name, pa.nulls(size, field.type)) for field in STATE], schema=STATE)


def texts(rows: Any, names: Sequence[str], positions: Numbers) -> dict[str, Any]:
    """Columns by name."""
    return dict(zip(names, take(rows, names, positions), strict=True))


def key_of(*columns: Any) -> Any:
    """A key out of columns; null counts as empty."""
    return pc.binary_join_element_wise(*[pc.fill_null(pc.cast(each, pa.string()), "") for each in columns], "/")


def _starts(rows: Any) -> Iterator[Any]:
    found = rows.filter(pc.equal(column(rows, "kind"), START))
    if len(found):
        every = np.arange(len(found))
        columns = texts(found, (*RECORDER, "detail"), every)
        yield table(START, len(found), {**columns, "key": key_of(columns["incarnation"])})


def _times(messages: Any) -> Any:
    """Of each block of an origin's numbers: which ones, and when."""
    if not len(messages):
        return STATE.empty_table()
    seqno, wall = numbers(messages, "seqno"), numbers(messages, "wall_ns")
    blocks, ranks = np.unique(seqno // BLOCK, return_inverse=True)
    groups = group(messages, ("incarnation", "kind", "origin", "stream", "dest"), [(ranks, len(blocks))])
    within, times = (seqno % BLOCK)[groups.order], wall[groups.order]
    bounds = list(zip(groups.starts[:-1].tolist(), groups.starts[1:].tolist(), strict=True))
    columns = texts(messages, _TEXTS, groups.firsts)
    block = pa.array(blocks[ranks[groups.firsts]])
    return table(TIMES, len(groups), {
        **columns, "block": block, "key": key_of(columns["origin"], columns["stream"], columns["dest"], block),
        "n": pa.array(groups.lengths), "a": pa.array([pack(within[a:b], "<u2") for a, b in bounds], pa.binary()),
        "b": pa.array([pack(times[a:b]) for a, b in bounds], pa.binary())})


def _flow(messages: Any, options: Options) -> Any:
    """Messages and bytes by window."""
    windows, ranks = np.unique(numbers(messages, "wall_ns") // options.window_ns, return_inverse=True)
    groups = group(messages, ("incarnation", "kind", "origin"), [(ranks, len(windows))])
    size = numbers(messages, "size")[groups.order]
    ours = np.asarray(pc.fill_null(pc.equal(column(messages, "stream"), "all"), False))
    highest = np.where(ours, numbers(messages, "seqno"), 0)[groups.order]
    return table(FLOW, len(groups), {
        **texts(messages, _TEXTS, groups.firsts), "key": pa.array([FLOW] * len(groups)),
        "window": pa.array(windows[ranks[groups.firsts]]), "n": pa.array(groups.lengths),
        "bytes": pa.array(np.add.reduceat(size, groups.starts[:-1])),
        "most": pa.array(np.maximum.reduceat(highest, groups.starts[:-1]))})


def pauses(messages: Any, options: Options) -> Iterator[Any]:
    """Times without deliveries from a site, and the edges between which they were looked for."""
    found = messages.filter(pc.equal(column(messages, "kind"), "delivered"))
    if not len(found):
        return
    wall, mono, row = (numbers(found, name) for name in ("wall_ns", "mono_ns", "row"))
    groups = group(found, ("incarnation", "origin_site"))
    groups = Groups(groups.order[np.lexsort((row[groups.order], groups.number))], groups.starts)
    ordered = mono[groups.order]
    lengths = np.diff(ordered)
    lengths[groups.starts[1:-1] - 1] = 0                     # between two groups there is no pause
    at = np.flatnonzero(lengths >= options.pause_ns)
    columns = texts(found, (*RECORDER, "origin_site"), groups.order[at])
    yield table(PAUSE, len(at), {**columns, "key": key_of(columns["incarnation"], columns["origin_site"]),
                                 "least": pa.array(wall[groups.order[at]]), "most": pa.array(lengths[at])})
    firsts, lasts = groups.firsts, groups.order[groups.starts[1:] - 1]
    columns = texts(found, (*RECORDER, "origin_site"), firsts)
    yield table(EDGE, len(groups), {
        **columns, "key": key_of(columns["incarnation"], columns["origin_site"]),
        "least": pa.array(wall[firsts]), "most": pa.array(wall[lasts]),
        "row": pa.array(row[firsts]), "row_stop": pa.array(row[lasts] + 1),
        "mono_ns": pa.array(mono[firsts]), "mono_stop_ns": pa.array(mono[lasts])})


__all__ = ["COLUMNS", "digest", "key_of", "pauses", "table", "texts"]
