"""The timeline: views, relays, site status, failovers, and the gap in the deliveries around each.

Facts are kept as recorded; pauses between deliveries come from the lag job's digest, whose schema of state this job
shares.
"""
from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from jgroups_py.model.units import NS_PER_S
from jgroups_py.pipeline.grouping import column, numbers
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.lag.digest import key_of, pauses, table, texts
from jgroups_py.pipeline.lag.fold import Line, edges
from jgroups_py.pipeline.lag.state import EDGE, PAUSE, STATE
from jgroups_py.pipeline.seqno_ranges import RECORDER, is_message

COLUMNS = (*RECORDER, "row", "kind", "wall_ns", "mono_ns", "view_id", "origin_site", "seqno", "count", "detail")
FACT = "fact"
ViewKey = tuple[str, str, str]                         # cluster, site, id
FOLD_BY: Sequence[str] = ("key",)
BEFORE_NS, AFTER_NS = NS_PER_S // 2, 3 * NS_PER_S      # a pause in this time counts as caused by an incident

EVENTS = pa.schema([*(pa.field(name, pa.string()) for name in ("cluster", "site", "member", "incarnation", "kind")),
                    pa.field("wall_ns", pa.int64()), pa.field("view_id", pa.string()), pa.field("text", pa.string())])
VIEWS = pa.schema([*(pa.field(name, pa.string()) for name in ("cluster", "site", "view_id")),
                   pa.field("begin_ns", pa.int64()), pa.field("end_ns", pa.int64()),
                   pa.field("coordinator", pa.string()), pa.field("members", pa.string()),
                   pa.field("joined", pa.string()), pa.field("left", pa.string())])
LIVES = pa.schema([*(pa.field(name, pa.string()) for name in RECORDER), pa.field("begin_ns", pa.int64()),
                   pa.field("end_ns", pa.int64()), pa.field("stopped", pa.bool_())])
GAPS = pa.schema([pa.field("wall_ns", pa.int64()), pa.field("what", pa.string()), pa.field("members", pa.string()),
                  pa.field("at_site", pa.string()), pa.field("origin_site", pa.string()),
                  pa.field("site", pa.string()), pa.field("begin_ns", pa.int64()), pa.field("gap_ns", pa.int64())])
PAUSES = pa.schema([*(pa.field(name, pa.string()) for name in (*RECORDER, "origin_site")),
                    pa.field("begin_ns", pa.int64()), pa.field("length_ns", pa.int64())])


def digest(rows: Any, options: JobOptions) -> Any:
    """The facts and pauses of a record batch of rows."""
    facts = rows.filter(pa.array(~is_message(column(rows, "kind"))))
    parts = [*([_facts(facts)] if len(facts) else []), *pauses(rows, options)]
    return pa.concat_tables(parts).combine_chunks() if parts else STATE.empty_table()


def _facts(facts: Any) -> Any:
    columns = texts(facts, (*RECORDER, "kind", "view_id", "detail"), np.arange(len(facts)))
    return table(FACT, len(facts), {
        **{name: columns[name] for name in (*RECORDER, "kind", "detail")}, "key": key_of(columns["incarnation"]),
        "origin_name": columns["view_id"], "row": pa.array(numbers(facts, "row")),
        "least": pa.array(numbers(facts, "wall_ns")), "n": pa.array(numbers(facts, "count"))})


def fold(state: Any, options: JobOptions, final: bool) -> Any:
    """Join the edges of a recorder's deliveries; all other state stays."""
    lines = state.to_pylist()
    found = [line for line in lines if line["sort"] != EDGE]
    found += edges([line for line in lines if line["sort"] == EDGE], options)
    return pa.Table.from_pylist(found, STATE)


def tables(state: Any, options: JobOptions) -> Mapping[str, Any]:
    """Name -> table."""
    lines = state.to_pylist()
    facts = sorted((line for line in lines if line["sort"] == FACT),
                   key=lambda line: (line["least"], line["incarnation"], line["row"]))
    idle = [line for line in lines if line["sort"] == PAUSE]
    ends = [line for line in lines if line["sort"] == EDGE]
    found = list(views(facts, ends))
    return {
        "events": _table(map(_event, facts), EVENTS),
        "views": _table(found, VIEWS),
        "lives": _table(lives(facts, ends), LIVES),
        "pauses": _table(({**{name: line[name] for name in (*RECORDER, "origin_site")}, "begin_ns": line["least"],
                           "length_ns": line["most"]} for line in idle), PAUSES),
        "gaps": _table(gaps(facts, found, lives(facts, ends), idle), GAPS),
    }


def _table(lines: Iterable[Line], schema: pa.Schema) -> Any:
    return pa.Table.from_pylist(list(lines), schema).sort_by([(name, "ascending") for name in schema.names])


def _detail(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line["detail"]) if line["detail"] else {}
    return found


def _event(line: Line) -> Line:
    return {**{name: line[name] for name in (*RECORDER, "kind")}, "wall_ns": line["least"],
            "view_id": line["origin_name"], "text": text_of(line["kind"], _detail(line), line["n"])}


def text_of(kind: str, detail: dict[str, Any], count: int) -> str:
    """A fact in words."""
    if kind == "view":
        return "view of " + ", ".join(name or address[:8] for address, name in detail.get("members", ()))
    if kind == "site":
        return f"{detail.get('site')} is {detail.get('status')}"
    if kind == "relay":
        return f"relay of {detail.get('site')}: {str(detail.get('relay'))[:8]}, epoch {detail.get('epoch')}"
    if kind in ("lost", "gap", "covered"):
        return f"{count} messages " + {"lost": "declared lost", "gap": "not recorded", "covered": "in a state"}[kind]
    if kind == "forgotten":
        return f"{count} numbers of a sender's multicasts: no member keeps them any longer"
    if kind == "skipping":
        return ("a sender's multicasts are dropped for the slow application" if detail["on"] else
                "the application gets all multicasts again")
    return {"start": "began to record", "stop": f"stopped: {detail.get('reason', '')}"}.get(kind, kind)


def views(facts: Iterable[Line], ends: Iterable[Line]) -> Iterator[Line]:
    """The views of each site. A view begins when the first member installs it, and ends when the first one installs the
    next, or with the site's last row."""
    last: dict[tuple[str, str], int] = defaultdict(int)
    first: dict[ViewKey, Line] = {}
    stops: dict[ViewKey, int] = {}
    for line in [*facts, *ends]:
        place = (line["cluster"], line["site"] or "")
        last[place] = max(last[place], line["least"], line["most"] or 0)
        if line["kind"] == "view":
            first.setdefault((*place, line["origin_name"] or ""), line)
            before = (*place, _detail(line).get("previous") or "")
            stops[before] = min(line["least"], stops.get(before, line["least"]))
    names: dict[str, str] = {}
    for (cluster, site, view), line in sorted(first.items(), key=lambda item: (item[0][:2], item[1]["least"])):
        yield _view((cluster, site), line, stops.get((cluster, site, view), last[cluster, site]), names)


def _view(place: tuple[str, str], line: Line, end_ns: int, names: dict[str, str]) -> Line:
    detail = _detail(line)
    members = detail.get("members", [])
    names.update({address: name or address[:8] for address, name in members})

    def named(addresses: Iterable[str]) -> str:
        return ", ".join(names.get(address, address[:8]) for address in addresses)

    return {"cluster": place[0], "site": place[1], "view_id": line["origin_name"], "begin_ns": line["least"],
            "end_ns": end_ns, "coordinator": named([members[0][0]]) if members else "",
            "members": named(address for address, _ in members), "joined": named(detail.get("joined", ())),
            "left": named(detail.get("left", ()))}


def lives(facts: Iterable[Line], ends: Iterable[Line]) -> list[Line]:
    """Each incarnation, from its first to its last row."""
    found: dict[str, Line] = {}
    for line in [*facts, *ends]:
        begin_ns = line["least"]
        end_ns = max(begin_ns, line["most"] or 0)
        known = found.setdefault(line["incarnation"], {
            **{name: line[name] for name in RECORDER}, "begin_ns": begin_ns, "end_ns": end_ns, "stopped": False})
        known["begin_ns"], known["end_ns"] = min(known["begin_ns"], begin_ns), max(known["end_ns"], end_ns)
        known["stopped"] = known["stopped"] or line["kind"] == "stop"
    return list(found.values())


def gaps(
    facts: Iterable[Line], found: Iterable[Line], known_lives: Iterable[Line], idle: Iterable[Line],
) -> Iterator[Line]:
    """For each crash or leave of a member, the longest pause around it, from each site at each site."""
    ended = [life for life in known_lives if not life["stopped"]]
    for before, after, left in _departures(facts, {(each["cluster"], each["site"], each["view_id"]): each
                                                   for each in found}):
        failover = before["coordinator"] != after["coordinator"]
        crashed = [life for life in ended if life["incarnation"] in left
                   and life["end_ns"] <= after["begin_ns"] + BEFORE_NS]
        begin_ns = max((life["end_ns"] for life in crashed), default=after["begin_ns"])
        what = ("failover: coordinator " if failover else "") + ("crashed" if crashed else "left")
        for (origin_site, site), pause in sorted(_longest(idle, begin_ns).items()):
            yield {"wall_ns": begin_ns, "what": what, "members": after["left"], "at_site": after["site"],
                   "origin_site": origin_site, "site": site, "begin_ns": pause["least"], "gap_ns": pause["most"]}


def _departures(facts: Iterable[Line], known: Mapping[ViewKey, Line]) -> Iterator[tuple[Line, Line, list[str]]]:
    """(view, next view, addresses that left), each view change once, as the first member recorded it."""
    reported: dict[ViewKey, None] = {}
    for line in facts:
        detail = _detail(line) if line["kind"] == "view" else {}
        place = (line["cluster"], line["site"] or "")
        after, before = (*place, line["origin_name"] or ""), (*place, detail.get("previous") or "")
        if detail.get("left") and before in known and after not in reported:
            reported[after] = None
            yield known[before], known[after], detail["left"]


def _longest(idle: Iterable[Line], wall_ns: int) -> dict[tuple[str, str], Line]:
    """(origin's site, site) -> the longest pause at a receiver of that site around this time."""
    found: dict[tuple[str, str], Line] = {}
    for line in idle:
        if line["least"] > wall_ns + AFTER_NS or line["least"] + line["most"] < wall_ns - BEFORE_NS:
            continue
        route = (line["origin_site"] or "", line["site"] or "")
        if route not in found or found[route]["most"] < line["most"]:
            found[route] = line
    return found
