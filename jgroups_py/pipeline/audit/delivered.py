"""One receiver's deliveries of one origin: which numbers, which of them twice or out of order, and in which view."""
from __future__ import annotations

from collections.abc import Iterable

import attrs

from jgroups_py.pipeline.audit.world import AuditedRecorder, Span
from jgroups_py.windows.ranges import Range, Ranges


@attrs.define(eq=False)
class Delivered:
    """What one receiver delivered of one numbering. Numbers in ranges; with each fault the span that shows it."""

    seen: Ranges = attrs.Factory(Ranges)
    skipped: Ranges = attrs.Factory(Ranges)                    # arrived, but not passed to the application
    by_view: dict[str, Ranges] = attrs.Factory(dict)
    twice: list[tuple[Range, Span]] = attrs.Factory(list)
    late: list[tuple[Range, Span]] = attrs.Factory(list)       # delivered after a higher number

    def first(self) -> int:
        """The lowest number that was delivered; 0: none was."""
        return next(iter(self.seen), (0, 0))[0]


def deliveries(receiver: AuditedRecorder, spans: Iterable[Span]) -> Delivered:
    """The deliveries in the spans of one receiver and one numbering.

    A message out of band may overtake others and be overtaken, so it is never late and makes no other late.
    """
    found = Delivered()
    taken = []
    highest = 0
    for span in sorted(spans, key=lambda span: span.row):
        first, stop = span.first, span.stop
        found.twice += [(again, span) for again in found.seen.overlap(first, stop)]
        if not span.oob:
            new = Ranges(found.seen.holes(first, stop))
            found.late += [(behind, span) for behind in new.overlap(first, min(stop, highest))]
            highest = max(highest, stop)
        found.seen.add(first, stop)
        if receiver.skipped(span):
            found.skipped.add(first, stop)
        else:
            taken.append((first, stop))
        found.by_view.setdefault(span.view_id, Ranges()).add(first, stop)
    for first, stop in taken:
        found.skipped.subtract(first, stop)
    return found
