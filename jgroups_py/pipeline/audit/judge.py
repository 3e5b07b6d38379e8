"""The audit's verdict over folded spans: a line for every pair of origin and receiver, one for every fault.

Everything here is a function of the spans, which are a small table. In batch it runs in one Python worker of Spark,
while streaming in the driver.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute

from jgroups_py.archive.schema import MQTT
from jgroups_py.model.units import NS_PER_S
from jgroups_py.pipeline.audit.delivered import Delivered, deliveries
from jgroups_py.pipeline.audit.owed import Owed, Traffic, evidence, owed, sets_of_views, united, without
from jgroups_py.pipeline.audit.reported import reported_missed
from jgroups_py.pipeline.audit.world import AuditedRecorder, AuditedSystem, Span, Stream, spans_of, world_of
from jgroups_py.windows.ranges import Range, Ranges

SETTLE_NS = NS_PER_S
UNRELIABLE = ("unreliable", MQTT)
"""Streams of which receivers may miss messages: nobody promised them, or (mqtt) they want some topics alone."""
COUNTS = ("expected", "delivered", "lost", "duplicated", "out_of_order", "declared_lost", "reported_missed", "skipped",
          "pending", "unrecorded", "not_sent", "other_set")
"""Messages of each pair. expected: those due to the receiver, so a message counts once for each of its receivers;
expected = delivered + lost + declared_lost + reported_missed + skipped + pending + unrecorded. reported_missed: a
merged view reported to the member how many it missed while it was apart (reported.py); skipped: they reached the
member, but FLOW dropped them for its slow application, which got only their number; unrecorded: the receiver's recorder
dropped them.
not_sent: delivered, but absent from the complete record of the origin. other_set: the other members that went through
the same two views delivered them, this one did not (S5)."""
CLEAN, INCOMPLETE, FAULTY = "clean", "incomplete", "faulty"
FAULTS = ("lost", "duplicated", "out_of_order", "not_sent", "other_set")

_PAIR = [pa.field(name, pa.string()) for name in (
    "cluster", "origin_site", "origin_name", "origin", "stream", "dest", "site", "receiver", "incarnation")]
PAIRS = pa.schema([*_PAIR, pa.field("origin_tag", pa.string()), pa.field("receiver_tag", pa.string()),
                   *(pa.field(name, pa.int64()) for name in COUNTS)])
FINDINGS = pa.schema([
    pa.field("fault", pa.string()), pa.field("guarantee", pa.string()), *_PAIR, pa.field("view_id", pa.string()),
    pa.field("first", pa.int64()), pa.field("stop", pa.int64()), pa.field("count", pa.int64()),
    pa.field("wall_ns", pa.int64()), pa.field("sent_ns", pa.int64())])
SENT = pa.schema([*_PAIR[:6], pa.field("origin_tag", pa.string()), pa.field("messages", pa.int64()),
                  pa.field("unrecorded", pa.int64())])
"""A line for each numbering: how many different messages were sent, and of how many only deliveries are recorded."""


@attrs.frozen
class Finding:
    """A range of messages and what happened to it (one of COUNTS). wall_ns: time of the row that shows it, 0: no row
    does. In FINDINGS also sent_ns: about when the first of them was sent, 0: not recorded."""

    what: str
    guarantee: str
    first: int
    stop: int
    view_id: str = ""
    wall_ns: int = 0


def judge(spans: Any, settle_ns: int = SETTLE_NS) -> tuple[Any, Any]:
    """(PAIRS, FINDINGS) of a table of folded spans."""
    found = spans_of(spans)
    world = world_of(found)
    pairs: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []
    numberings = {traffic.key: traffic for traffic in traffics(found, world)}
    for traffic in numberings.values():
        sets = sets_of_views(traffic, world)
        proofs = evidence(traffic, world, settle_ns)
        for receiver in receivers(traffic, world):
            names = _names(traffic, receiver)
            due = owed(traffic, receiver, world, sets, proofs, settle_ns)
            if not due.due.total and not due.pending.total:
                continue
            lines = list(compare(traffic, receiver, world, due, numberings))
            lines += other_sets(traffic, receiver, sets)
            tags = {"origin_tag": _tag(traffic, world), "receiver_tag": receiver.tag}
            pairs.append({**names, **tags, **_counts(traffic, receiver, due, lines)})
            findings += [_as_line(names, line, sent_at(traffic, line.first)) for line in lines]
    return pa.Table.from_pylist(pairs, PAIRS), pa.Table.from_pylist(findings, FINDINGS)


def sent(spans: Any) -> Any:
    """SENT of a table of folded spans."""
    found = spans_of(spans)
    world = world_of(found)
    lines = []
    for traffic in traffics(found, world):
        recorded = Ranges((span.first, span.stop) for span in traffic.sent)
        delivered = Ranges((span.first, span.stop) for span in traffic.delivered)
        origin = world.recorders.get(traffic.origin)
        cluster = origin.cluster if origin else traffic.delivered[0].cluster if traffic.delivered else ""
        lines.append({
            "cluster": cluster, "origin_site": traffic.origin_site, "origin_name": traffic.origin_name,
            "origin": traffic.origin, "stream": traffic.stream, "dest": traffic.dest,
            "origin_tag": _tag(traffic, world), "messages": united([recorded, delivered]).total,
            "unrecorded": without(delivered, recorded).total})
    return pa.Table.from_pylist(lines, SENT)


def sent_at(traffic: Traffic, number: int) -> int:
    """About when a message was sent: its share of the time of the span that has it; 0: no row says so."""
    for span in traffic.sent:
        if span.first <= number < span.stop:
            return span.wall_ns + (span.wall_last_ns - span.wall_ns) * (number - span.first) // (span.stop - span.first)
    return 0


def _tag(traffic: Traffic, world: AuditedSystem) -> str:
    origin = world.recorders.get(traffic.origin)
    return origin.tag if origin else traffic.origin_name or traffic.origin[:6]


def traffics(spans: Iterable[Span], world: AuditedSystem) -> list[Traffic]:
    """One Traffic for each numbering, in order of their keys."""
    found: dict[Stream, Traffic] = {}
    by_receiver: dict[tuple[Stream, str], list[Span]] = {}
    for span in spans:
        if span.kind not in ("sent", "delivered") or not span.origin:
            continue
        traffic = found.get(span.key)
        if traffic is None:
            traffic = found[span.key] = Traffic(span.origin, span.origin_site, span.origin_name, span.stream,
                                                span.dest, [], [], {})
        (traffic.sent if span.kind == "sent" else traffic.delivered).append(span)
        if span.kind == "delivered":
            by_receiver.setdefault((span.key, span.incarnation), []).append(span)
    for (key, incarnation), lines in by_receiver.items():
        found[key].received[incarnation] = deliveries(world.recorders[incarnation], lines)
    return [found[key] for key in sorted(found)]


def receivers(traffic: Traffic, world: AuditedSystem) -> Iterator[AuditedRecorder]:
    """The recorders to which messages of this numbering were due: those that delivered some, and its destinations."""
    origin = world.recorders.get(traffic.origin)
    for recorder in world.recorders.values():
        if recorder.incarnation in traffic.received:
            yield recorder
        elif traffic.stream in UNRELIABLE or (origin is not None and recorder.cluster != origin.cluster):
            continue
        elif traffic.dest:
            if recorder.incarnation == traffic.dest:
                yield recorder
        elif recorder is not origin and (traffic.stream == "all" or recorder.site == traffic.origin_site):
            yield recorder                                  # not the origin, which may discard its own messages


def compare(
    traffic: Traffic, receiver: AuditedRecorder, world: AuditedSystem, due: Owed, numberings: Mapping[Stream, Traffic],
) -> Iterator[Finding]:
    """The findings about a receiver's deliveries of one numbering. numberings: those of all origins."""
    got = traffic.received.get(receiver.incarnation, Delivered())
    local = receiver.site == traffic.origin_site
    if traffic.stream not in UNRELIABLE:
        missing = without(due.due, got.seen)
        declared = united([receiver.declared_lost(traffic.key), *_declared_at_origin(traffic, receiver, world)])
        dropped = receiver.not_recorded(traffic.key, "delivered")
        yield from _each("declared_lost", "R3", common(missing, declared))
        yield from _each("unrecorded", "", without(common(missing, dropped), declared))
        gone = forgotten(traffic, receiver, without(missing, dropped))
        yield from _each("declared_lost", "F", without(gone, declared))
        reported = without(reported_missed(traffic, receiver, world, numberings), declared, dropped, gone)
        yield from _each("reported_missed", "S9", common(missing, reported))
        yield from _each("lost", "F" if local else "R3", without(missing, declared, dropped, gone, reported))
        yield from _each("pending", "", due.pending)
        for (first, stop), span in got.late:
            yield Finding("out_of_order", "F" if local else "R4", first, stop, span.view_id, span.wall_ns)
    yield from _each("skipped", "", got.skipped)
    for (first, stop), span in got.twice:
        yield Finding("duplicated", "S2" if local else "R3", first, stop, span.view_id, span.wall_ns)
    yield from _each("not_sent", "S1" if local else "R1", unproven(traffic, got, world))


def forgotten(traffic: Traffic, receiver: AuditedRecorder, missing: Ranges) -> Ranges:
    """The part of `missing` that no member of the group kept any longer (rows `forgotten`).

    NAKACK records such a row when it continues without some numbers of an origin, each of which is at most one message.
    So the row explains missing messages behind the origin's last delivery before it, at most as many as it has numbers.
    It does not name a stream of the origin, so it explains that many in each.
    """
    found = Ranges()
    if traffic.dest:
        return found
    own = [span for span in traffic.delivered if span.incarnation == receiver.incarnation]
    for row, count in receiver.forgotten.get(traffic.origin, ()):
        before = max((span.stop for span in own if span.row < row), default=0)
        for first, stop in without(missing, found):
            first, left = max(first, before), count
            stop = min(stop, first + left)
            found.add(first, stop)
            count -= max(0, stop - first)
    return found


def _declared_at_origin(traffic: Traffic, receiver: AuditedRecorder, world: AuditedSystem) -> Iterator[Ranges]:
    """The losses at the receiver's site that were declared to the origin's site."""
    for recorder in world.recorders.values():
        found = recorder.elsewhere.get((traffic.key, receiver.site))
        if found is not None and recorder.site == traffic.origin_site:
            yield found


def unproven(traffic: Traffic, got: Delivered, world: AuditedSystem) -> Ranges:
    """The messages that were delivered, but are absent from the complete record of their origin."""
    origin = world.recorders.get(traffic.origin)
    if origin is None or not origin.stopped:
        return Ranges()                                     # the origin has no record, or one without its end
    sent = Ranges((span.first, span.stop) for span in traffic.sent)
    return without(got.seen, sent, origin.not_recorded(traffic.key, "sent"))


def other_sets(
    traffic: Traffic, receiver: AuditedRecorder, sets: dict[tuple[str, str, str, str], Ranges],
) -> Iterator[Finding]:
    """Messages of a view that others which went to the same next view delivered in it, and the receiver did not."""
    if traffic.stream in UNRELIABLE or traffic.dest:
        return
    by_view = traffic.received.get(receiver.incarnation, Delivered()).by_view
    if not by_view and receiver.incarnation == traffic.origin:
        return                                              # a member that discards its own messages
    for view, successor in receiver.changes:
        expected = sets[receiver.cluster, receiver.site, view, successor]
        missing = without(expected, by_view.get(view, Ranges()), receiver.not_recorded(traffic.key, "delivered"))
        for first, stop in without(missing, forgotten(traffic, receiver, missing)):
            yield Finding("other_set", "S5", first, stop, view)


def common(these: Ranges, those: Ranges) -> Ranges:
    """The numbers that are in both."""
    return Ranges(part for first, stop in these for part in those.overlap(first, stop))


def _each(what: str, guarantee: str, ranges: Iterable[Range]) -> Iterator[Finding]:
    for first, stop in ranges:
        yield Finding(what, guarantee, first, stop)


def _counts(traffic: Traffic, receiver: AuditedRecorder, due: Owed, lines: Iterable[Finding]) -> dict[str, int]:
    counts = dict.fromkeys(COUNTS, 0)
    for line in lines:
        counts[line.what] += line.stop - line.first
    got = traffic.received.get(receiver.incarnation, Delivered())
    return {**counts, "expected": due.due.total + due.pending.total,
            "delivered": got.seen.total - got.skipped.total}


def _names(traffic: Traffic, receiver: AuditedRecorder) -> dict[str, str]:
    return {"cluster": receiver.cluster, "origin_site": traffic.origin_site, "origin_name": traffic.origin_name,
            "origin": traffic.origin, "stream": traffic.stream, "dest": traffic.dest, "site": receiver.site,
            "receiver": receiver.member, "incarnation": receiver.incarnation}


def _as_line(names: dict[str, str], line: Finding, sent_ns: int) -> dict[str, Any]:
    return {**names, "fault": line.what, "guarantee": line.guarantee, "view_id": line.view_id, "first": line.first,
            "stop": line.stop, "count": line.stop - line.first, "wall_ns": line.wall_ns, "sent_ns": sent_ns}


def totals(pairs: Any) -> dict[str, int]:
    """COUNTS, summed over all pairs."""
    return {name: int(pa.compute.sum(pairs.column(name)).as_py() or 0) for name in COUNTS}


def is_clean(sums: dict[str, int]) -> bool:
    """Whether there is none of FAULTS."""
    return not any(sums[name] for name in FAULTS)


def verdict(sums: dict[str, int], missing: bool) -> str:
    """CLEAN, INCOMPLETE (no fault in what is recorded, but records are missing) or FAULTY.

    >>> verdict(dict.fromkeys(COUNTS, 0), missing=True), verdict({**dict.fromkeys(COUNTS, 0), "lost": 1}, missing=True)
    ('incomplete', 'faulty')
    """
    return FAULTY if not is_clean(sums) else INCOMPLETE if missing else CLEAN
