"""The facts that each recorder recorded: its site, its views, its end, losses declared to it, rows that it dropped.

Made from folded spans (seqno_ranges.py). A recorder is one incarnation of a member, as receivers and origins are.
"""
from __future__ import annotations

import json
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from jgroups_py.archive.schema import COVERED, FORGOTTEN, PASSED
from jgroups_py.pipeline.seqno_ranges import MESSAGES
from jgroups_py.windows.ranges import Ranges

Stream = tuple[str, str, str]
"""A numbering, in which an origin counts its messages: (origin's incarnation, stream, destination's or "")."""


@attrs.frozen
class Span:
    """One line of seqno_ranges.SPANS, as an object; null is ""."""

    cluster: str
    site: str
    member: str
    incarnation: str
    kind: str
    origin_site: str
    origin: str
    origin_name: str
    stream: str
    dest: str
    oob: bool
    no_fc: bool
    view_id: str
    detail: str
    first: int
    stop: int
    row: int
    row_stop: int
    wall_ns: int
    wall_last_ns: int

    @property
    def key(self) -> Stream:
        """The numbering that `first` and `stop` belong to."""
        return (self.origin, self.stream, self.dest)


@attrs.frozen
class MissedReport:
    """What a merged view reported as missed of one sender: how many multicasts, and the row and view that say so."""

    row: int
    view_id: str
    number: int


@attrs.define(eq=False)
class AuditedRecorder:
    """One incarnation of a member, and the facts in its record."""

    cluster: str
    site: str
    member: str
    incarnation: str
    views: list[str] = attrs.Factory(list)                 # in the order in which it installed them
    tag: str = ""                                          # its name; that of the second incarnation is "A#2"
    begin_ns: int = 0
    stopped: bool = False                                  # the record ends with `stop`
    end_ns: int = 0                                        # time of its last row
    declared: dict[Stream, Ranges] = attrs.Factory(dict)   # losses declared to this member
    elsewhere: dict[tuple[Stream, str], Ranges] = attrs.Factory(dict)      # losses at another site, by that site
    unrecorded: dict[tuple[Stream, str], Ranges] = attrs.Factory(dict)     # dropped by the recorder, "sent" or
    #                                                                        "delivered"
    covered: dict[Stream, Ranges] = attrs.Factory(dict)    # not to be delivered: in a state that was installed, or
    #                                                        of topics to which the site does not subscribe
    contact_ns: dict[str, int] = attrs.Factory(dict)       # site -> time of the first contact with it
    forgotten: dict[str, list[tuple[int, int]]] = attrs.Factory(dict)    # origin -> (row, numbers that no member kept)
    missed: dict[str, list[MissedReport]] = attrs.Factory(dict)          # sender -> what merged views reported
    coordinators: dict[str, str] = attrs.Factory(dict)     # view -> its coordinator, which relays other sites' messages
    switches: dict[str, list[int]] = attrs.Factory(dict)   # sender -> rows at which skipping began, ended, began, ...

    @property
    def changes(self) -> Iterator[tuple[str, str]]:
        """(view, next view) for each view that was followed by another one."""
        return zip(self.views, self.views[1:], strict=False)

    def forgot(self, origin: str, row: int, count: int) -> None:
        """Add a row `forgotten`: no member kept this many numbers of an origin's multicasts that this one lacked."""
        self.forgotten.setdefault(origin, []).append((row, count))

    def contacted(self, site: str, wall_ns: int) -> None:
        """Add a contact: a message of that site was delivered, or the site was reported UP."""
        self.contact_ns[site] = min(wall_ns, self.contact_ns.get(site, wall_ns))

    def switched(self, sender: str, row: int, on: bool) -> None:
        """Add a row at which FLOW began (`on`) or ended to skip a sender's multicasts."""
        rows = self.switches.setdefault(sender, [])
        if on == (len(rows) % 2 == 0):
            rows.append(row)

    def skipped(self, span: Span) -> bool:
        """Whether a delivered span was dropped above ARCHIVE, for a slow application."""
        if span.dest or span.no_fc:
            return False
        sender = span.origin if span.origin_site == self.site else self.coordinators.get(span.view_id, "")
        return bisect(self.switches.get(sender, ()), span.row) % 2 == 1

    def declared_lost(self, key: Stream) -> Ranges:
        """The losses of a numbering that were declared to this member."""
        return self.declared.get(key, Ranges())

    def not_recorded(self, key: Stream, kind: str) -> Ranges:
        """The rows of a kind that the recorder dropped, as numbers."""
        return self.unrecorded.get((key, kind), Ranges())


@attrs.define(eq=False)
class AuditedSystem:
    """All recorders of an archive."""

    recorders: dict[str, AuditedRecorder] = attrs.Factory(dict)
    last_delivery_ns: dict[tuple[str, str], int] = attrs.Factory(dict)     # (cluster, site) -> last one at any member

    def peers(self, of: AuditedRecorder) -> list[AuditedRecorder]:
        """All recorders of the same site, including the given one."""
        return [each for each in self.recorders.values() if (each.cluster, each.site) == (of.cluster, of.site)]

    def stayed(self, recorder: AuditedRecorder, settle_ns: int) -> bool:
        """Whether a recorder recorded to the end of its site's traffic: it neither crashed nor left before."""
        last_ns = self.last_delivery_ns.get((recorder.cluster, recorder.site), 0)
        return recorder.end_ns >= last_ns - (0 if recorder.stopped else settle_ns)


def spans_of(table: Any) -> list[Span]:
    """The lines of a table with the columns of seqno_ranges.SPANS."""
    columns = [[("" if value is None else value) for value in table.column(name).to_pylist()]
               for name in table.schema.names]
    return [Span(*values) for values in zip(*columns, strict=True)]


def world_of(spans: list[Span]) -> AuditedSystem:
    """All recorders with their facts, collected from all spans."""
    world = AuditedSystem()
    for span in sorted(spans, key=lambda span: (span.incarnation, span.row)):
        recorder = world.recorders.get(span.incarnation)
        if recorder is None:
            recorder = AuditedRecorder(span.cluster, span.site, span.member, span.incarnation, begin_ns=span.wall_ns)
            world.recorders[span.incarnation] = recorder
        recorder.end_ns = max(recorder.end_ns, span.wall_last_ns)
        if span.kind == "delivered":
            place = (span.cluster, span.site)
            world.last_delivery_ns[place] = max(span.wall_last_ns, world.last_delivery_ns.get(place, 0))
            recorder.contacted(span.origin_site, span.wall_ns)
        elif span.kind not in MESSAGES:
            _add_fact(recorder, span)
    name_incarnations(world)
    return world


def name_incarnations(world: AuditedSystem) -> None:
    """Set the tag of every recorder; those with one name are numbered in the order in which they began."""
    turns: Counter[tuple[str, str, str]] = Counter()
    for recorder in sorted(world.recorders.values(), key=lambda recorder: recorder.begin_ns):
        place = (recorder.cluster, recorder.site, recorder.member)
        turns[place] += 1
        recorder.tag = recorder.member + (f"#{turns[place]}" if turns[place] > 1 else "")


def _add_fact(recorder: AuditedRecorder, span: Span) -> None:
    """Add one fact to a recorder."""
    detail = json.loads(span.detail) if span.detail else {}
    if span.kind == "view":
        recorder.views.append(span.view_id)
        if detail.get("members"):
            recorder.coordinators[span.view_id] = detail["members"][0][0]
        for sender, number in detail.get("missed", {}).items():
            recorder.missed.setdefault(sender, []).append(MissedReport(span.row, span.view_id, number))
    elif span.kind == "stop":
        recorder.stopped = True
    elif span.kind == "site" and detail.get("status") == "UP":
        recorder.contacted(detail["site"], span.wall_ns)
    elif span.kind == "skipping":
        recorder.switched(span.origin, span.row, bool(detail["on"]))
    elif span.kind == FORGOTTEN:
        recorder.forgot(span.origin, span.row, span.stop - span.first)
    elif span.kind == "lost":
        dest_site = detail.get("dest_site")
        if dest_site:
            recorder.elsewhere.setdefault((span.key, dest_site), Ranges()).add(span.first, span.stop)
        else:
            recorder.declared.setdefault(span.key, Ranges()).add(span.first, span.stop)
    elif span.kind in (COVERED, PASSED):
        recorder.covered.setdefault(span.key, Ranges()).add(span.first, span.stop)
    elif span.kind == "gap":
        recorder.unrecorded.setdefault((span.key, detail.get("of", "delivered")), Ranges()).add(span.first, span.stop)
