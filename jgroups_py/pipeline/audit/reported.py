"""The messages that a merged view reported to a receiver as missed (`MergeView.missed`, in the detail of a row `view`).

Such a report is a number for each sender, of both its streams of reliable multicasts, without the messages' own
numbers. So it explains missing messages only as far as the records of other members bear it out. Of one report these
count: messages that another member sent or delivered before the merged view (members that never installed it: in no
view that the receiver had from then on), between the receiver's last delivery before the report and its first one after
it; of them the highest, at most as many as the report has. All that it explains is taken from its number, also what is
due to nobody (sent before the receiver joined) and what is declared lost by range as well (RELAY), so that a report
never explains more than it said.

With RELAY the number of a relay counts what it relayed, too; the messages of its own application that it covers are
still bounded by the records of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jgroups_py.pipeline.audit.delivered import Delivered
from jgroups_py.pipeline.audit.owed import Traffic, without
from jgroups_py.pipeline.audit.world import AuditedRecorder, AuditedSystem, MissedReport, Stream
from jgroups_py.pipeline.seqno_ranges import MESSAGES
from jgroups_py.windows.ranges import Range, Ranges

STREAMS = ("all", "local")
"""The streams of multicasts that GMS counts."""


def reported_missed(
    traffic: Traffic, receiver: AuditedRecorder, world: AuditedSystem, numberings: Mapping[Stream, Traffic],
) -> Ranges:
    """The messages of this numbering, of those that the receiver did not deliver, that were reported to it."""
    reports = receiver.missed.get(traffic.origin, ())
    if not reports or traffic.dest or traffic.stream not in STREAMS:
        return Ranges()
    found = {stream: Ranges() for stream in STREAMS}
    for report in reversed(reports):                        # the highest numbers belong to the last report
        left = report.number
        for stream in STREAMS:
            numbering = numberings.get((traffic.origin, stream, ""))
            if numbering is not None:
                missed = without(hole(numbering, receiver, world, report), found[stream])
                left -= take_highest(missed, left, found[stream])
    return found[traffic.stream]


def hole(traffic: Traffic, receiver: AuditedRecorder, world: AuditedSystem, report: MissedReport) -> Ranges:
    """What the receiver did not deliver of a numbering, and others had before the merged view of a report."""
    got = traffic.received.get(receiver.incarnation, Delivered())
    own = [span for span in traffic.delivered if span.incarnation == receiver.incarnation and not span.oob]
    first = max((span.stop for span in own if span.row < report.row), default=0)
    stop = min((span.first for span in own if span.row > report.row), default=1 << 63)
    before, later = Ranges(), Ranges()
    for other in world.peers(receiver):
        if other is receiver:
            continue
        views = views_before(report.view_id, other, receiver)
        for span in (*traffic.sent, *traffic.delivered):
            if span.incarnation == other.incarnation:
                if span.view_id in views:
                    before.add(span.first, span.stop)
                elif span.kind == "delivered":
                    later.add(span.first, span.stop)        # perhaps sent before the view, but not missed by it
        for part in (part for kind in MESSAGES for part in other.not_recorded(traffic.key, kind)):
            before.add(*part)                               # in a view that is not recorded
    return Ranges(part for known in without(before, later, got.seen) for part in limited(known, first, stop))


def views_before(view_id: str, member: AuditedRecorder, receiver: AuditedRecorder) -> set[str]:
    """The views of a member that lie before this one, which the receiver installed."""
    if view_id in member.views:
        return set(member.views[:member.views.index(view_id)])
    return set(member.views).difference(receiver.views[receiver.views.index(view_id):])


def limited(numbers: Range, first: int, stop: int) -> Iterator[Range]:
    """The part of a range that lies between `first` and `stop`, if there is one."""
    if max(numbers[0], first) < min(numbers[1], stop):
        yield max(numbers[0], first), min(numbers[1], stop)


def take_highest(numbers: Ranges, most: int, into: Ranges) -> int:
    """Add the highest numbers, at most so many, to other ranges. Returns how many."""
    taken = 0
    for first, stop in reversed(list(numbers)):
        first = max(first, stop - (most - taken))
        if first < stop:
            into.add(first, stop)
            taken += stop - first
    return taken
