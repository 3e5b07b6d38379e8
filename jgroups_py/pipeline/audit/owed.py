"""The messages of an origin that are due to a receiver: those that it did not deliver are lost.

Of one numbering of an origin these are due to a receiver:
 (a) what another member of its site delivered in a view that both completed with the same successor (S5);
 (b) what lies between the lowest and the highest number that it delivered (no holes: F, R4);
 (c) what was sent before its lowest one while it was a member already: in a view of its own at the same site, or, from
     another site, after its first contact with that site;
 (d) if it stayed to the end of its site's traffic: what was sent behind its highest one. At the open end of a record
     that still grows, what was sent within the last `settle_ns` is pending, not lost.
Not due are messages that a state contains which the receiver fetched from another site, and messages of topics to which
no member of its site subscribes. "Sent" means: recorded by the origin, if it did not crash; of an origin that crashed,
what a survivor of its site delivered (R3 promises no more).
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from jgroups_py.pipeline.audit.delivered import Delivered
from jgroups_py.pipeline.audit.world import AuditedRecorder, AuditedSystem, Span
from jgroups_py.windows.ranges import Range, Ranges


@attrs.define(eq=False)
class Traffic:
    """One numbering of one origin: what the origin recorded as sent, what all recorders did as delivered. received:
    incarnation -> its deliveries."""

    origin: str
    origin_site: str
    origin_name: str
    stream: str
    dest: str
    sent: list[Span]
    delivered: list[Span]
    received: dict[str, Delivered]

    @property
    def key(self) -> tuple[str, str, str]:
        """As Span.key."""
        return (self.origin, self.stream, self.dest)


@attrs.frozen
class Owed:
    """The messages due to a receiver by now, and those that may still be under way."""

    due: Ranges
    pending: Ranges


def united(ranges: Iterable[Ranges]) -> Ranges:
    """The numbers that are in any of them."""
    return Ranges(each for found in ranges for each in found)


def without(ranges: Ranges, *others: Ranges) -> Ranges:
    """The numbers of `ranges` that are in none of the others."""
    found = Ranges(ranges)
    for other in others:
        for first, stop in other:
            found.subtract(first, stop)
    return found


def sets_of_views(traffic: Traffic, world: AuditedSystem) -> dict[tuple[str, str, str, str], Ranges]:
    """(cluster, site, view, next view) -> all that members which went from view to next view delivered in the view."""
    found: dict[tuple[str, str, str, str], Ranges] = {}
    for receiver in world.recorders.values():
        by_view = traffic.received[receiver.incarnation].by_view if receiver.incarnation in traffic.received else {}
        for view, successor in receiver.changes:
            union = found.setdefault((receiver.cluster, receiver.site, view, successor), Ranges())
            for first, stop in by_view.get(view, ()):
                union.add(first, stop)
    return found


def evidence(traffic: Traffic, world: AuditedSystem, settle_ns: int) -> list[Span]:
    """Spans that prove which messages were sent and must arrive."""
    origin = world.recorders.get(traffic.origin)
    if origin is None:
        return traffic.delivered                            # the origin has no record: what was delivered was sent
    if origin.stopped or world.stayed(origin, settle_ns):
        return traffic.sent
    survivors = {each.incarnation for each in world.peers(origin) if each.end_ns > origin.end_ns}
    return [span for span in traffic.delivered if span.incarnation in survivors]


def owed(
    traffic: Traffic, receiver: AuditedRecorder, world: AuditedSystem, sets: Mapping[tuple[str, str, str, str], Ranges],
    proofs: Iterable[Span], settle_ns: int,
) -> Owed:
    """The messages due to this receiver."""
    got = traffic.received.get(receiver.incarnation, Delivered())
    due, pending = Ranges(got.seen), Ranges()
    for view, successor in receiver.changes:                                                   # (a)
        for first, stop in sets[receiver.cluster, receiver.site, view, successor]:
            due.add(first, stop)
    lowest, highest = got.first(), got.seen.stop
    due.add(lowest, highest)                                                                   # (b)
    for span in proofs:                                                                        # (c)
        first, stop = _since_joined(traffic, receiver, span, settle_ns)
        due.add(first, min(stop, lowest))
    if world.stayed(receiver, settle_ns):                                                      # (d)
        latest_ns = receiver.end_ns - (0 if receiver.stopped else settle_ns)
        for span in proofs:
            first, stop = (span.first, span.stop) if highest else _since_joined(traffic, receiver, span, settle_ns)
            if receiver.site == traffic.origin_site and span.view_id not in receiver.views:
                continue
            settled = split_at(span, latest_ns)
            due.add(max(first, highest), min(stop, settled))
            pending.add(max(first, settled, highest), stop)
    covered = without(receiver.covered.get(traffic.key, Ranges()), got.seen)
    return Owed(without(due, covered), without(pending, due, covered))


def _since_joined(traffic: Traffic, receiver: AuditedRecorder, span: Span, settle_ns: int) -> Range:
    """The part of a span that was sent while the receiver took part in the group; empty ranges are at its end."""
    if receiver.site == traffic.origin_site:
        return (span.first, span.stop) if span.view_id in receiver.views else (span.stop, span.stop)
    contact_ns = receiver.contact_ns.get(traffic.origin_site)
    return (span.stop, span.stop) if contact_ns is None else (split_at(span, contact_ns + settle_ns - 1), span.stop)


def split_at(span: Span, wall_ns: int) -> int:
    """The first number of a span that was sent after this time, if those of the span were even in time."""
    if span.wall_last_ns <= wall_ns:
        return span.stop
    if span.wall_ns > wall_ns:
        return span.first
    share = (wall_ns - span.wall_ns) / (span.wall_last_ns - span.wall_ns)
    return span.first + int((span.stop - span.first) * share)
