"""The digest of the lag job: rows to state, in one pass over whole columns."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jgroups_py.archive.schema import MQTT
from jgroups_py.pipeline.grouping import Groups, Numbers, column, group, numbers, take
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.lag.state import BLOCK, BLOCK_BITS, EDGE, FLOW, PAUSE, START, STATE, TIMES
from jgroups_py.pipeline.packed_arrays import pack, pack_times
from jgroups_py.pipeline.seqno_ranges import ORIGIN, RECORDER, in_order, is_message, is_one_of

COLUMNS = (*RECORDER, "row", "kind", "wall_ns", "mono_ns", *ORIGIN, "seqno", "size", "detail")
_TEXTS = (*RECORDER, "kind", *ORIGIN)


def digest(rows: Any, options: JobOptions) -> Any:
    """The state that a record batch of rows makes."""
    parts = list(_starts(rows))
    groups = _messages(rows)
    if len(groups):
        messages = Messages.of(rows, groups)
        parts += [_times(messages), _flow(messages, options)]
    return pa.concat_tables([STATE.empty_table(), *parts, *pauses(rows, options)]).combine_chunks()


@attrs.frozen
class Messages:
    """Rows of a batch that are messages, grouped. seqno, wall (ns): their columns, in the order of the groups."""

    rows: Any
    groups: Groups
    seqno: Numbers
    wall: Numbers

    @classmethod
    def of(cls, rows: Any, groups: Groups) -> Messages:
        """The messages in `groups` of the rows of a batch."""
        return cls(rows, groups, *(numbers(rows, name)[groups.order] for name in ("seqno", "wall_ns")))

    def cut(self, values: Numbers) -> Messages:
        """The same messages in smaller groups of equal `values`, see Groups.cut."""
        groups = self.groups.cut(values)
        return (Messages(self.rows, groups, self.seqno, self.wall) if groups.order is self.groups.order
                else Messages.of(self.rows, groups))


def _messages(rows: Any) -> Groups:
    """The numbered messages, grouped by recorder, kind and numbering; in a group they are as recorded."""
    numbered = np.asarray(column(rows, "seqno").is_valid())
    more = [] if numbered.all() else [(numbered.astype(np.int64), 2)]
    groups = group(rows, ("incarnation", "kind", "origin", "stream", "dest"), more)
    firsts = groups.firsts
    return groups.only(is_message(column(rows, "kind").take(pa.array(firsts))) & numbered[firsts])


def table(sort: str, size: int, columns: dict[str, Any]) -> Any:
    """`size` lines of state of one sort; columns that are not given are null."""
    columns = {"sort": pa.array([sort] * size), **columns}
    return pa.Table.from_arrays([columns.get(field.name, pa.nulls(size, field.type)) for field in STATE], schema=STATE)


def texts(rows: Any, names: Sequence[str], positions: Numbers) -> dict[str, Any]:
    """Name -> its column of `rows` at these positions."""
    return dict(zip(names, take(rows, names, positions), strict=True))


def key_of(*columns: Any) -> Any:
    """The values of columns joined to one key; null counts as ""."""
    return pc.binary_join_element_wise(*[pc.fill_null(pc.cast(each, pa.string()), "") for each in columns], "/")


def _starts(rows: Any) -> Iterator[Any]:
    at = np.flatnonzero(is_one_of(column(rows, "kind"), [START]))
    if len(at):
        columns = texts(rows, (*RECORDER, "detail"), at)
        yield table(START, len(at), {**columns, "key": key_of(columns["incarnation"])})


def _times(messages: Messages) -> Any:
    """For each block of an origin's numbers: which of them were sent or delivered, and when.

    What a member delivered of its own messages is left out, since that is no replication.
    """
    found = messages.cut(messages.seqno >> BLOCK_BITS)
    groups, first = found.groups, found.seqno[found.groups.starts[:-1]]
    columns, block = texts(found.rows, _TEXTS, groups.firsts), pa.array(first >> BLOCK_BITS)
    within = (found.seqno & (BLOCK - 1)).astype(np.uint16)
    jumps = np.flatnonzero(found.seqno[1:] != found.seqno[:-1] + 1) + 1
    jumps_before = np.searchsorted(jumps, groups.starts, side="right")
    consecutive = jumps_before[1:] - np.isin(groups.starts[1:], jumps) == jumps_before[:-1]
    bounds = list(zip(groups.starts[:-1].tolist(), groups.starts[1:].tolist(), strict=True))
    times = [pack_times(found.wall[a:b]) for a, b in bounds]
    whole = table(TIMES, len(groups), {
        **columns, "block": block, "key": key_of(columns["origin"], columns["stream"], columns["dest"], block),
        "n": pa.array(groups.lengths), "least": pa.array([begin for begin, _ in times], pa.int64()),
        "row": pa.array(first & (BLOCK - 1)),
        "a": pa.array([None if one else pack(within[a:b], "<u2")
                       for one, (a, b) in zip(consecutive, bounds, strict=True)], pa.binary()),
        "b": pa.array([steps for _, steps in times], pa.binary())})
    own = pc.and_(pc.equal(columns["kind"], "delivered"), pc.equal(columns["origin"], columns["incarnation"]))
    return whole.filter(pc.invert(pc.fill_null(own, False)))


def _flow(messages: Messages, options: JobOptions) -> Any:
    """Messages and bytes sent and delivered, by window: of the group, without the messages of MQTT in them."""
    found = messages.cut(messages.wall // options.window_ns)
    groups, rows = found.groups, found.rows
    columns, starts = texts(rows, _TEXTS, groups.firsts), groups.starts[:-1]
    multicast = np.asarray(pc.fill_null(pc.equal(columns["stream"], "all"), False))
    flow = table(FLOW, len(groups), {
        **columns, "key": pa.array([FLOW] * len(groups)), "window": pa.array(found.wall[starts] // options.window_ns),
        "n": pa.array(groups.lengths), "bytes": pa.array(np.add.reduceat(numbers(rows, "size")[groups.order], starts)),
        "most": pa.array(np.where(multicast, np.maximum.reduceat(found.seqno, starts), 0))})
    return flow.filter(pc.fill_null(pc.not_equal(columns["stream"], MQTT), True))


def pauses(rows: Any, options: JobOptions) -> Iterator[Any]:
    """Times without deliveries from a site, and the edges: the first and the last delivery of these rows."""
    wall, mono, row = (numbers(rows, name) for name in ("wall_ns", "mono_ns", "row"))
    groups = group(rows, ("incarnation", "origin_site", "kind"))
    groups = in_order(groups.only(is_one_of(column(rows, "kind").take(pa.array(groups.firsts)), ["delivered"])), row)
    if not len(groups):
        return
    ordered = mono[groups.order]
    lengths = np.diff(ordered)
    lengths[groups.starts[1:-1] - 1] = 0                     # between two groups there is no pause
    at = np.flatnonzero(lengths >= options.pause_ns)
    columns = texts(rows, (*RECORDER, "origin_site"), groups.order[at])
    yield table(PAUSE, len(at), {**columns, "key": key_of(columns["incarnation"], columns["origin_site"]),
                                 "least": pa.array(wall[groups.order[at]]), "most": pa.array(lengths[at])})
    firsts, lasts = groups.firsts, groups.order[groups.starts[1:] - 1]
    columns = texts(rows, (*RECORDER, "origin_site"), firsts)
    yield table(EDGE, len(groups), {
        **columns, "key": key_of(columns["incarnation"], columns["origin_site"]),
        "least": pa.array(wall[firsts]), "most": pa.array(wall[lasts]),
        "row": pa.array(row[firsts]), "row_stop": pa.array(row[lasts] + 1),
        "mono_ns": pa.array(mono[firsts]), "mono_stop_ns": pa.array(mono[lasts])})


__all__ = ["COLUMNS", "digest", "key_of", "pauses", "table", "texts"]
