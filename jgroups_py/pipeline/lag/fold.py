"""The fold of the lag job: times of sending and of delivery are matched to delays; histograms and flows are added up.

A message's delay is counted once for each recorder, at its first delivery. While streaming, a block of numbers is kept
until every recorder that ever delivered from its origin has all of it, or until there are KEPT_BLOCKS newer ones.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jgroups_py.pipeline.grouping import changes
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.lag.state import (
    BIN_NS,
    BLOCK,
    DELAYS,
    EDGE,
    FLOW,
    KEPT_BLOCKS,
    PAUSE,
    RECORDER_AND_ORIGIN,
    SEEN,
    START,
    STATE,
    TIMES,
)
from jgroups_py.pipeline.packed_arrays import joined, pack, pack_times, unpack, unpack_times
from jgroups_py.pipeline.seqno_ranges import RECORDER

Line = dict[str, Any]
Numbers = NDArray[np.uint16]
NEVER = np.iinfo(np.int64).min
MOST_COUNTED = 1 << 20                   # if lowest and highest bin are closer than that, bins are counted, not sorted


def fold(state: Any, options: JobOptions, final: bool) -> Any:
    """The same state in fewer lines."""
    by_sort: dict[str, list[Line]] = defaultdict(list)
    for line in state.to_pylist():
        by_sort[line["sort"]].append(line)
    found = [*by_sort[START], *by_sort[PAUSE], *edges(by_sort[EDGE], options), *flows(by_sort[FLOW])]
    new, waiting = match(by_sort[TIMES], by_sort[SEEN], options)
    found += histograms([*by_sort[DELAYS], *new])
    if not final:
        found += still_wanted(waiting, found)
    return pa.Table.from_pylist(found, STATE)


# --- delays ---------------------------------------------------------------------------------------------------------

@attrs.define(eq=False)
class NumberBlock:
    """One block of one numbering. sent_ns: time of sending by number, NEVER if unknown; seen: incarnation -> which
    numbers are in its histograms."""

    sent_ns: NDArray[np.int64] = attrs.Factory(lambda: np.full(BLOCK, NEVER))
    sent: list[Line] = attrs.Factory(list)
    seen: dict[str, NDArray[np.bool_]] = attrs.Factory(dict)
    seen_lines: dict[str, Line] = attrs.Factory(dict)
    delivered: list[Line] = attrs.Factory(list)
    unmatched: list[Line] = attrs.Factory(list)

    def lines(self) -> Iterator[Line]:
        """The state from which a later fold continues."""
        yield from self.sent
        yield from self.unmatched
        for incarnation, line in self.seen_lines.items():
            yield {**line, "sort": SEEN, "a": np.packbits(self.seen[incarnation]).tobytes(), "b": None}


Numbering = tuple[str, str, str]
Waiting = dict[tuple[Numbering, int], NumberBlock]


def match(times: list[Line], seen: list[Line], options: JobOptions) -> tuple[list[Line], Waiting]:
    """Match deliveries with their times of sending; returns new histograms, and the blocks with what is left to match.
    """
    blocks: Waiting = defaultdict(NumberBlock)
    for line in seen:
        block = blocks[_place(line)]
        block.seen[line["incarnation"]] = np.unpackbits(np.frombuffer(line["a"], np.uint8)).astype(bool)
        block.seen_lines[line["incarnation"]] = line
    for line in times:
        block = blocks[_place(line)]
        (block.sent if line["kind"] == "sent" else block.delivered).append(line)
        if line["kind"] == "sent":
            block.sent_ns[numbers_of(line)] = unpack_times(line["least"], line["b"], line["n"])
    found: list[Line] = []
    for block in blocks.values():
        for line in block.delivered:
            found += count(block, line, options)
    return found, blocks


def _place(line: Line) -> tuple[Numbering, int]:
    return (line["origin"], line["stream"], line["dest"] or ""), line["block"]


def numbers_of(line: Line) -> Numbers | slice:
    """The numbers within the block that a line has times for, in the order of these times."""
    return slice(line["row"], line["row"] + line["n"]) if line["a"] is None else unpack(line["a"], "<u2")


def count(block: NumberBlock, line: Line, options: JobOptions) -> Iterator[Line]:
    """Histograms, one a window, of the deliveries in `line`. Those whose time of sending is unknown stay unmatched."""
    within, times = numbers_of(line), unpack_times(line["least"], line["b"], line["n"])
    seen = block.seen.setdefault(line["incarnation"], np.zeros(BLOCK, bool))
    block.seen_lines.setdefault(line["incarnation"], line)
    sent_ns = block.sent_ns[within]
    if not isinstance(within, slice) or seen[within].any() or (sent_ns == NEVER).any():
        order = np.argsort(times, kind="stable")
        within, times, sent_ns = np.arange(BLOCK, dtype=np.uint16)[within][order], times[order], sent_ns[order]
        fresh, known = ~seen[within] & _firsts(within), sent_ns != NEVER
        early, ready = fresh & ~known, fresh & known
        if early.any():
            first, steps = pack_times(times[early])
            block.unmatched.append({**line, "n": int(early.sum()), "a": pack(within[early], "<u2"), "least": first,
                                    "b": steps})
        within, sent_ns, times = within[ready], sent_ns[ready], times[ready]
    seen[within] = True
    yield from by_window(line, sent_ns // options.window_ns, times - sent_ns)


def _firsts(within: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """For each number of a block, whether it is its first occurrence: a message delivered twice counts at the first."""
    first = np.empty(BLOCK, np.int64)
    places = np.arange(len(within))
    first[within[::-1]] = places[::-1]
    return np.equal(first[within], places)


def by_window(line: Line, windows: NDArray[np.int64], delays: NDArray[np.int64]) -> Iterator[Line]:
    """A histogram of the delays of each window. windows, delays: one of each for every message."""
    if np.any(windows[1:] < windows[:-1]):
        order = np.argsort(windows, kind="stable")
        windows, delays = windows[order], delays[order]
    starts = np.flatnonzero(changes(windows))
    for start, inside in zip(starts.tolist(), np.split(delays, starts[1:]), strict=False):
        bins, counts = _counted(inside // BIN_NS)
        yield {**{name: line[name] for name in RECORDER_AND_ORIGIN}, "sort": DELAYS, "key": DELAYS,
               "window": int(windows[start]),
               "n": len(inside), "least": int(inside.min()), "most": int(inside.max()),
               "a": pack(bins), "b": pack(counts)}


def _counted(bins: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different bins, and how often each occurs."""
    least = int(bins.min())
    if int(bins.max()) - least < MOST_COUNTED:
        counts = np.bincount(bins - least)
        found = np.flatnonzero(counts)
        return found + least, counts[found]
    return np.unique(bins, return_counts=True)


def histograms(lines: Iterable[Line]) -> Iterator[Line]:
    """Add up the histograms of one numbering, recorder and window."""
    together: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for line in lines:
        together[line["incarnation"], line["origin"], line["stream"], line["dest"], line["window"]].append(line)
    for same in together.values():
        yield same[0] if len(same) == 1 else add_up(same)


def add_up(lines: list[Line]) -> Line:
    """Several histograms, added up to one."""
    bins, at = np.unique(joined([line["a"] for line in lines]), return_inverse=True)
    counts = np.zeros(len(bins), np.int64)
    np.add.at(counts, at, joined([line["b"] for line in lines]))
    return {**lines[0], "n": sum(line["n"] for line in lines), "least": min(line["least"] for line in lines),
            "most": max(line["most"] for line in lines), "a": pack(bins), "b": pack(counts)}


def still_wanted(waiting: Waiting, found: Iterable[Line]) -> Iterator[Line]:
    """The state of those blocks that are not complete and not yet given up."""
    receivers: dict[Numbering, dict[str, None]] = defaultdict(dict)
    newest: dict[Numbering, int] = {}
    for line in found:
        if line["sort"] == DELAYS:
            receivers[line["origin"], line["stream"], line["dest"] or ""][line["incarnation"]] = None
    for (numbering, number), block in waiting.items():
        newest[numbering] = max(number, newest.get(numbering, 0))
        receivers[numbering].update(dict.fromkeys(block.seen))
    for (numbering, number), block in waiting.items():
        full = number and not (block.sent_ns == NEVER).any() and not block.unmatched
        done = full and all(each in block.seen and block.seen[each].all() for each in receivers[numbering])
        if not done and number > newest[numbering] - KEPT_BLOCKS:
            yield from block.lines()


# --- flows and pauses -----------------------------------------------------------------------------------------------

def flows(lines: Iterable[Line]) -> Iterator[Line]:
    """Sums by recorder, origin, kind and window."""
    sums: dict[tuple[Any, ...], Line] = {}
    for line in lines:
        key = (line["incarnation"], line["kind"], line["origin"], line["window"])
        known = sums.get(key)
        sums[key] = line if known is None else {**known, "n": known["n"] + line["n"],
                                                "bytes": known["bytes"] + line["bytes"],
                                                "most": max(known["most"], line["most"])}
    yield from sums.values()


def edges(lines: list[Line], options: JobOptions) -> Iterator[Line]:
    """One edge for each recorder and site, joined from all of its edges, and the pauses between these.

    Between two edges that do not touch there is a pause only if no third one lies between them. That is known here,
    because all edges of one recorder and site come to one fold.
    """
    together: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        together[line["incarnation"], line["origin_site"]].append(line)
    for same in together.values():
        same.sort(key=lambda line: line["row"])
        for before, after in pairwise(same):
            length = after["mono_ns"] - before["mono_stop_ns"]
            if length >= options.pause_ns:
                yield {**{name: before[name] for name in (*RECORDER, "origin_site", "key")}, "sort": PAUSE,
                       "least": before["most"], "most": length}
        first, last = same[0], same[-1]
        yield {**first, "most": last["most"], "row_stop": last["row_stop"], "mono_stop_ns": last["mono_stop_ns"]}
