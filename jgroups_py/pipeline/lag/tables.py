"""The tables of the lag job, from its folded state."""
from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.lag.clocks import Offset, least_between, offsets
from jgroups_py.pipeline.lag.fold import Line, flows, histograms
from jgroups_py.pipeline.lag.state import BIN_NS, DELAYS, FLOW, PAUSE, START
from jgroups_py.pipeline.packed_arrays import unpack

_ROUTE = [pa.field("origin_site", pa.string()), pa.field("site", pa.string())]
_WAYS = [pa.field(name, pa.int64()) for name in ("messages", "p50_ns", "p99_ns", "p999_ns", "max_ns")]
LAG = pa.schema([*_ROUTE, pa.field("begin_ns", pa.int64()), *_WAYS])
SUMMARY = pa.schema([*_ROUTE, *_WAYS, pa.field("clock_error_ns", pa.int64()), pa.field("max_backlog", pa.int64()),
                     pa.field("rpo_ns", pa.int64()), pa.field("rto_ns", pa.int64())])
MEMBERS = pa.schema([pa.field("origin_site", pa.string()), pa.field("origin_name", pa.string()),
                     pa.field("origin", pa.string()), pa.field("site", pa.string()), pa.field("receiver", pa.string()),
                     pa.field("incarnation", pa.string()), *_WAYS])
CLOCKS = pa.schema([pa.field("here", pa.string()), pa.field("there", pa.string()), pa.field("offset_ns", pa.int64()),
                    pa.field("error_ns", pa.int64()), pa.field("how", pa.string())])
BACKLOG = pa.schema([*_ROUTE, pa.field("end_ns", pa.int64()), pa.field("messages", pa.int64())])
FLOWS = pa.schema([pa.field("site", pa.string()), pa.field("kind", pa.string()), pa.field("begin_ns", pa.int64()),
                   pa.field("messages", pa.int64()), pa.field("bytes", pa.int64())])
QUANTILES = (0.5, 0.99, 0.999)

Lines = Iterable[Line]


def tables(state: Any, options: JobOptions) -> Mapping[str, Any]:
    """Name -> table."""
    by_sort: dict[str, list[Line]] = defaultdict(list)
    for line in state.to_pylist():
        by_sort[line["sort"]].append(line)
    delays, flow = list(histograms(by_sort[DELAYS])), list(flows(by_sort[FLOW]))
    host = hosts(by_sort[START])
    apart = offsets(least_between((host(line["origin"]), host(line["incarnation"]), line["least"])
                                  for line in delays))

    def shifted(lines: Lines) -> Histogram:
        return Histogram.of((line, apart[host(line["origin"]), host(line["incarnation"])].offset_ns)
                            for line in lines)

    behind = list(backlog(flow, options))
    return {
        "lag": _table(_by(delays, _window, shifted, options), LAG),
        "lag_summary": _table(summary(delays, behind, by_sort[PAUSE], flow, shifted,
                                      lambda line: apart[host(line["origin"]), host(line["incarnation"])], options),
                              SUMMARY),
        "lag_members": _table(_by(delays, _members, shifted, options), MEMBERS),
        "clocks": _table(({field.name: getattr(each, field.name) for field in CLOCKS}
                          for each in apart.values() if each.here != each.there), CLOCKS),
        "backlog": _table(behind, BACKLOG),
        "throughput": _table(throughput(flow, options), FLOWS),
    }


def _table(lines: Iterable[Line], schema: pa.Schema) -> Any:
    return pa.Table.from_pylist(list(lines), schema).sort_by([(name, "ascending") for name in schema.names
                                                              if name not in ("p50_ns", "p99_ns")])


def hosts(starts: Lines) -> Callable[[str], str]:
    """A function from an incarnation to its host, or to the incarnation itself if its host is not recorded."""
    found = {line["incarnation"]: json.loads(line["detail"] or "{}").get("host") for line in starts}
    return lambda incarnation: found.get(incarnation) or incarnation


# --- delays ---------------------------------------------------------------------------------------------------------

class Histogram:
    """Delays of several origins and recorders together, with their clocks corrected."""

    def __init__(self, values: NDArray[np.int64], counts: NDArray[np.int64], most_ns: int) -> None:
        order = np.argsort(values, kind="stable")
        self.values, self.counts = values[order], np.cumsum(counts[order])
        self.most_ns = most_ns

    @classmethod
    def of(cls, lines: Iterable[tuple[Line, int]]) -> Histogram:
        """The sum of (line of sort delays, offset of the receiver's clock to subtract from it)."""
        found = list(lines)
        values = [unpack(line["a"]) * BIN_NS + BIN_NS // 2 - offset_ns for line, offset_ns in found]
        return cls(np.concatenate(values), np.concatenate([unpack(line["b"]) for line, _ in found]),
                   max(line["most"] - offset_ns for line, offset_ns in found))

    def quantile_ns(self, share: float) -> int:
        """The delay that this share of the messages did not exceed."""
        at = int(np.searchsorted(self.counts, share * int(self.counts[-1])))
        return max(0, min(int(self.values[at]), self.most_ns))

    def columns(self) -> dict[str, int]:
        """The columns of the tables. A delay below zero is an error of the clocks and shown as zero."""
        p50, p99, p999 = (self.quantile_ns(share) for share in QUANTILES)
        return {"messages": int(self.counts[-1]), "p50_ns": p50, "p99_ns": p99, "p999_ns": p999,
                "max_ns": max(0, self.most_ns)}


def _window(line: Line, options: JobOptions) -> Line:
    return {**_route(line), "begin_ns": line["window"] * options.window_ns}


def _members(line: Line, options: JobOptions) -> Line:
    return {**_route(line), "origin_name": line["origin_name"], "origin": line["origin"], "receiver": line["member"],
            "incarnation": line["incarnation"]}


def _route(line: Line) -> Line:
    return {"origin_site": line["origin_site"] or "", "site": line["site"] or ""}


def _by(
    delays: Lines, name: Callable[[Line, JobOptions], Line], shifted: Callable[[Lines], Histogram], options: JobOptions,
) -> Iterator[Line]:
    """One line of a table for all histograms to which `name` gives the same columns."""
    together: dict[tuple[Any, ...], tuple[Line, list[Line]]] = {}
    for line in delays:
        named = name(line, options)
        together.setdefault(tuple(named.values()), (named, []))[1].append(line)
    for named, same in together.values():
        yield {**named, **shifted(same).columns()}


def summary(
    delays: Lines, behind: Lines, pauses: Lines, flow: Lines, shifted: Callable[[Lines], Histogram],
    apart: Callable[[Line], Offset], options: JobOptions,
) -> Iterator[Line]:
    """Figures over the whole time, by origin's site and receiver's site, with the cost of losing the origin's site.

    RPO: the age of the oldest message that was not replicated yet, at the worst moment. RTO: the longest time in which
    nothing was delivered although something was sent.
    """
    together: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in delays:
        together[line["origin_site"] or "", line["site"] or ""].append(line)
    sending: dict[str, list[int]] = defaultdict(list)
    for line in flow:
        if line["kind"] == "sent":
            sending[line["origin_site"] or ""].append(line["window"])
    for (origin_site, site), same in together.items():
        columns = shifted(same).columns()
        errors = [apart(line).error_ns for line in same]
        longest = [line["most"] for line in pauses
                   if (line["origin_site"] or "", line["site"] or "") == (origin_site, site)
                   and _sent_meanwhile(line, sending[origin_site], options)]
        yield {"origin_site": origin_site, "site": site, **columns,
               "clock_error_ns": None if None in errors else max(error for error in errors if error is not None),
               "max_backlog": max((line["messages"] for line in behind
                                   if (line["origin_site"], line["site"]) == (origin_site, site)), default=0),
               "rpo_ns": columns["max_ns"], "rto_ns": max(longest, default=0)}


def _sent_meanwhile(pause: Line, windows: Iterable[int], options: JobOptions) -> bool:
    first = pause["least"] // options.window_ns
    stop = (pause["least"] + pause["most"]) // options.window_ns + 1
    return any(first <= window < stop for window in windows)


# --- flows ----------------------------------------------------------------------------------------------------------

def backlog(flow: Lines, options: JobOptions) -> Iterator[Line]:
    """How many messages of a site another site did not have yet, at the end of each window.

    Compares the highest number sent with the highest that any member of the other site delivered, so that late joiners
    and crashes do not matter.
    """
    sent: dict[str, dict[int, int]] = defaultdict(dict)                          # origin -> window -> highest
    got: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)               # (origin, site) -> ...
    sites: dict[str, str] = {}
    for line in flow:
        place = sent[line["origin"]] if line["kind"] == "sent" else got[line["origin"], line["site"] or ""]
        place[line["window"]] = max(line["most"], place.get(line["window"], 0))
        sites[line["origin"]] = line["origin_site"] or ""
    windows = sorted({line["window"] for line in flow})
    sums: dict[tuple[str, str, int], int] = defaultdict(int)
    for (origin, site), delivered in got.items():
        if site == sites[origin]:
            continue
        numbered = arrived = 0
        for window in windows:
            numbered = max(numbered, sent[origin].get(window, 0))
            arrived = max(arrived, delivered.get(window, 0))
            sums[sites[origin], site, window] += max(0, numbered - arrived)
    for (origin_site, site, window), messages in sums.items():
        yield {"origin_site": origin_site, "site": site, "end_ns": (window + 1) * options.window_ns,
               "messages": messages}


def throughput(flow: Lines, options: JobOptions) -> Iterator[Line]:
    """Messages and bytes sent and delivered by the members of each site together, by window."""
    sums: dict[tuple[str, str, int], Line] = {}
    for line in flow:
        key = (line["site"] or "", line["kind"], line["window"])
        known = sums.setdefault(key, {"site": key[0], "kind": key[1], "begin_ns": key[2] * options.window_ns,
                                      "messages": 0, "bytes": 0})
        known["messages"] += line["n"]
        known["bytes"] += line["bytes"] or 0
    yield from sums.values()
