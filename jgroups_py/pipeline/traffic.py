"""Traffic: messages and bytes per topic, origin, site and window; top talkers; sizes.

The state is sums by window, so fold adds them up. A sent message counts once, a delivered one at each receiver. What
MQTT clients publish (stream `mqtt`) is inside messages of the group: it is in the tables by topic, not in the others,
which would have its bytes twice.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from jgroups_py.archive.schema import MQTT
from jgroups_py.pipeline.grouping import column, group, numbers, take
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.seqno_ranges import MESSAGES, is_message

COLUMNS = ("cluster", "site", "member", "kind", "wall_ns", "origin_site", "origin_name", "stream", "topic",
           "size")
_BY = ("cluster", "site", "member", "kind", "origin_site", "origin_name", "stream", "topic")
STATE = pa.schema([
    *(pa.field(name, pa.string()) for name in _BY), pa.field("window", pa.int64()),
    pa.field("size_below", pa.int64()),                    # a power of two, P: sizes of P/2 up to P are in this line
    pa.field("messages", pa.int64()), pa.field("bytes", pa.int64()), pa.field("largest", pa.int64())])
FOLD_BY: Sequence[str] = ("member", "kind", "origin_name")


def digest(rows: Any, options: JobOptions) -> Any:
    """The sums of a record batch of rows."""
    found = rows.filter(pa.array(is_message(column(rows, "kind"))))
    size = numbers(found, "size")
    window = numbers(found, "wall_ns") // options.window_ns
    return _sums(found, window, size_below(size), np.ones(len(size), np.int64), size, size)


def size_below(size: Any) -> Any:
    """The least power of two above a size.

    >>> size_below(np.array([0, 1, 1000, 1024])).tolist()
    [1, 2, 1024, 2048]
    """
    return np.int64(1) << np.ceil(np.log2(size + 1)).astype(np.int64)


def _sums(table: Any, window: Any, below: Any, messages: Any, nbytes: Any, largest: Any) -> Any:
    if not len(table):
        return STATE.empty_table()
    windows, at_window = np.unique(window, return_inverse=True)
    sizes, at_size = np.unique(below, return_inverse=True)
    groups = group(table, _BY, [(at_window, len(windows)), (at_size, len(sizes))])
    order, starts, firsts = groups.order, groups.starts[:-1], groups.firsts
    return pa.Table.from_arrays([
        *take(table, _BY, firsts), pa.array(window[firsts]), pa.array(below[firsts]),
        pa.array(np.add.reduceat(messages[order], starts)), pa.array(np.add.reduceat(nbytes[order], starts)),
        pa.array(np.maximum.reduceat(largest[order], starts))], schema=STATE)


def fold(state: Any, options: JobOptions, final: bool) -> Any:
    """Add up sums."""
    table = state.combine_chunks()
    return _sums(table, *(numbers(table, name) for name in ("window", "size_below", "messages", "bytes", "largest")))


def tables(state: Any, options: JobOptions) -> Mapping[str, Any]:
    """Name -> table."""
    state = fold(state, options, True)
    begin = pa.array(numbers(state, "window") * options.window_ns)
    state = state.append_column("begin_ns", begin)
    for name in ("site", "origin_site", "stream", "topic"):
        at = state.schema.get_field_index(name)
        state = state.set_column(at, name, state.column(name).fill_null(""))
    # A topic's messages are counted where they were sent, so the figure does not grow with the number of receivers.
    is_carried = pa.compute.not_equal(state.column("stream"), MQTT)
    carried, received = (state.filter(pa.compute.and_(is_carried, pa.compute.equal(state.column("kind"), kind)))
                         for kind in MESSAGES)
    sent = state.filter(pa.compute.equal(state.column("kind"), MESSAGES[0]))
    return {
        "traffic": _added(state, "cluster", "site", "kind", "origin_site", "origin_name", "topic", "begin_ns"),
        "topics": _added(sent, "topic"),
        "talkers": _added(carried, "origin_site", "origin_name").sort_by([("bytes", "descending"),
                                                                       ("messages", "descending")]),
        "sizes": _added(carried, "size_below"),
        "received": _added(received, "origin_site", "site", "member"),
    }


def _added(table: Any, *names: str) -> Any:
    found = table.group_by(list(names)).aggregate([("messages", "sum"), ("bytes", "sum"), ("largest", "max")])
    found = found.rename_columns([*names, "messages", "bytes", "largest"])
    return found.sort_by([(name, "ascending") for name in names])
