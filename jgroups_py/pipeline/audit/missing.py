"""Records that an archive lacks: those of members that other records mention, and parts of a member's record.

The verdict that everything arrived needs the record of every member, from its start to its end. So the members that
records mention (in views, as origin of a message, as destination) are compared with those that recorded, and each
record with what the other records contain about its member. A record that ends without `stop` is that of a crash, and
complete, unless others prove that the member ran on: they delivered messages that it sent later, it was in their later
views, or they continued to deliver for long while it was in their view.

Times are compared by the clock of one witness at a time, as the clocks of hosts may differ.
"""
from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import attrs
import pyarrow as pa

from jgroups_py.archive.schema import GAP, GLOBAL_VIEW, LOST, RELAY, SITE, VIEW
from jgroups_py.model.units import NS_PER_S
from jgroups_py.pipeline.audit.judge import SETTLE_NS, UNRELIABLE
from jgroups_py.pipeline.audit.world import AuditedRecorder, AuditedSystem, Span, Stream, spans_of, world_of
from jgroups_py.pipeline.seqno_ranges import MESSAGES
from jgroups_py.windows.ranges import Ranges

NOT_RECORDED, SITE_NOT_RECORDED = "not_recorded", "site_not_recorded"
BEGINS_LATE, ENDS_EARLY, DROPPED = "begins_late", "ends_early", "dropped"
UNNOTICED_NS = 60 * NS_PER_S
"""How long a crash may stay undetected by failure detection before a record that ends there counts as cut off (stock
stacks of JGroups take up to 40 s)."""

MISSING = pa.schema([
    pa.field("what", pa.string()),                 # one of the five words above
    *(pa.field(name, pa.string()) for name in ("cluster", "site", "member", "incarnation")),
    pa.field("named_by", pa.string()),             # tags of the recorders that show it, ", " between them
    pa.field("views", pa.int64()),                 # views that name the member and that it has not recorded
    pa.field("messages", pa.int64()),              # its messages that others delivered and it has not recorded;
                                                   # dropped: rows that its recorder dropped
    pa.field("text", pa.string())])                # the same in words, with its consequence
CONSEQUENCES = {
    NOT_RECORDED: "what it delivered cannot be judged; of what it sent only that the others have the same",
    SITE_NOT_RECORDED: "whether anything arrived there cannot be judged",
    BEGINS_LATE: "what it sent and delivered before cannot be judged",
    ENDS_EARLY: "what it sent and delivered after that cannot be judged",
    DROPPED: "whether these arrived there cannot be judged",
}
"""What cannot be judged without the missing record."""


@attrs.define(eq=False)
class Mention:
    """A member, or a site (then incarnation is ""), that records mention."""

    cluster: str
    site: str
    incarnation: str
    member: str = ""
    by: dict[str, None] = attrs.Factory(dict)                  # incarnations of the recorders
    views: dict[str, None] = attrs.Factory(dict)
    messages: dict[tuple[str, str], Ranges] = attrs.Factory(dict)        # (stream, destination) -> delivered


def missing(spans: Any, settle_ns: int = SETTLE_NS) -> Any:
    """MISSING of a table of folded spans. settle_ns: how much of the end of a record a crash may lose."""
    found = spans_of(spans)
    world = world_of(found)
    mentions = mentioned(found, world)
    lines = [*unrecorded(mentions, world), *late_beginnings(found, world),
             *early_ends(found, world, mentions, settle_ns), *dropped(found, world)]
    order = attrgetter("cluster", "site", "member", "incarnation", "what")
    return pa.Table.from_pylist([attrs.asdict(line) for line in sorted(lines, key=order)], MISSING)


@attrs.frozen
class Line:
    """A line of MISSING."""

    what: str
    cluster: str
    site: str
    member: str
    incarnation: str
    named_by: str
    views: int
    messages: int
    text: str


# --- mentions -------------------------------------------------------------------------------------------------------

def mentioned(spans: Iterable[Span], world: AuditedSystem) -> dict[tuple[str, str, str], Mention]:
    """(cluster, site, "") -> the mentions of a site; (cluster, "", incarnation) -> those of a member."""
    found: dict[tuple[str, str, str], Mention] = {}

    def mention(span: Span, site: str, incarnation: str, name: str = "") -> Mention:
        key = (span.cluster, "" if incarnation else site, incarnation)
        known = found.get(key)
        if known is None:
            known = found[key] = Mention(span.cluster, site, incarnation)
        known.site, known.member = known.site or site, known.member or name
        known.by[span.incarnation] = None
        return known

    for span in spans:
        if span.kind in MESSAGES:
            if span.origin:
                one = mention(span, span.origin_site, span.origin, span.origin_name)
                if span.kind == "delivered":
                    one.messages.setdefault((span.stream, span.dest), Ranges()).add(span.first, span.stop)
            if span.dest:
                mention(span, "", span.dest)
            continue
        for site, incarnation, name in named(span):
            mention(span, site, incarnation, name)
        for address in members_of(span):
            mention(span, span.site, address).views[span.view_id] = None
    return found


def members_of(span: Span) -> list[str]:
    """The incarnations in a view; none for another fact."""
    return [address for address, _ in json.loads(span.detail).get("members", ())] if span.kind == VIEW else []


def named(span: Span) -> Iterator[tuple[str, str, str]]:
    """(site, incarnation, name) of each member that a fact names, (site, "", "") of a site."""
    detail = json.loads(span.detail) if span.detail else {}
    if span.kind == VIEW:
        for address, name in detail.get("members", ()):
            yield span.site, address, name
        for address in (*detail.get("joined", ()), *detail.get("left", ())):
            yield span.site, address, ""
    elif span.kind == GLOBAL_VIEW:
        for site, members in detail.get("sites", {}).items():
            for address, name in members:
                yield site, address, name
    elif span.kind in (SITE, RELAY):
        if span.kind == RELAY or detail.get("status") == "UP":      # a site that was never up has no member to record
            yield detail.get("site") or span.site, "", ""
        if detail.get("relay"):
            yield detail.get("site") or span.site, detail["relay"], ""
    elif span.kind == LOST and span.origin:
        yield span.origin_site, span.origin, span.origin_name


def unrecorded(mentions: dict[tuple[str, str, str], Mention], world: AuditedSystem) -> Iterator[Line]:
    """Members that are mentioned and have no record, and sites without any record or mentioned member."""
    sites = {(each.cluster, each.site) for each in world.recorders.values()}
    members = {(one.cluster, one.site) for one in mentions.values() if one.incarnation}
    for one in mentions.values():
        place = (one.cluster, one.site)
        if one.incarnation and one.incarnation not in world.recorders:
            yield _line(NOT_RECORDED, one, world, "did not record")
        elif not one.incarnation and place not in sites and place not in members:
            yield _line(SITE_NOT_RECORDED, one, world, "no member recorded")


def _line(what: str, one: Mention, world: AuditedSystem, begin: str, messages: int | None = None) -> Line:
    tags = sorted({tag_of(world.recorders[by]) for by in one.by if by in world.recorders})
    count = sum(ranges.total for ranges in one.messages.values()) if messages is None else messages
    seen = [f"{len(one.views)} view{'s' * (len(one.views) > 1)}"] if one.views else []
    seen += [f"{count:,} message{'s' * (count > 1)}"] if count else []
    where = f" ({' and '.join(seen) or 'named'} at {', '.join(tags)})"
    return Line(what, one.cluster, one.site, one.member, one.incarnation, ", ".join(tags), len(one.views), count,
                f"{begin}{where}: {CONSEQUENCES[what]}")


def tag_of(recorder: AuditedRecorder) -> str:
    """"A@NYC", after a restart "A#2@NYC".

    >>> tag_of(AuditedRecorder("c", "", "A", "aa", tag="A"))
    'A'
    """
    return recorder.tag + (f"@{recorder.site}" if recorder.site else "")


# --- records --------------------------------------------------------------------------------------------------------

def _line_of_record(
    what: str, recorder: AuditedRecorder, text: str, by: Iterable[str] = (), views: int = 0, messages: int = 0,
) -> Line:
    return Line(what, recorder.cluster, recorder.site, recorder.tag, recorder.incarnation, ", ".join(sorted(by)), views,
                messages, f"{text}: {CONSEQUENCES[what]}")


def late_beginnings(spans: Iterable[Span], world: AuditedSystem) -> Iterator[Line]:
    """Records without their first rows: retention, or an operator, removed them."""
    first: dict[str, int] = {}
    for span in spans:
        first[span.incarnation] = min(span.row, first.get(span.incarnation, span.row))
    for incarnation, row in first.items():
        if row:
            yield _line_of_record(BEGINS_LATE, world.recorders[incarnation], f"its record begins at row {row:,}")


def dropped(spans: Iterable[Span], world: AuditedSystem) -> Iterator[Line]:
    """Recorders that dropped rows."""
    rows: dict[str, int] = {}
    for span in spans:
        if span.kind == GAP:
            rows[span.incarnation] = rows.get(span.incarnation, 0) + span.stop - span.first
    for incarnation, count in rows.items():
        yield _line_of_record(DROPPED, world.recorders[incarnation], f"its recorder dropped {count:,} messages",
                              messages=count)


def early_ends(
    spans: Iterable[Span], world: AuditedSystem, mentions: dict[tuple[str, str, str], Mention], settle_ns: int,
) -> Iterator[Line]:
    """Records without `stop` whose members provably ran on."""
    open_ended = [each for each in world.recorders.values() if not each.stopped]
    if not open_ended:
        return
    by_key: dict[tuple[str, Stream], list[Span]] = {}
    views: dict[str, list[Span]] = {}
    for span in spans:
        if span.kind in MESSAGES and not span.dest and span.stream not in UNRELIABLE:
            by_key.setdefault((span.incarnation, span.key), []).append(span)
        elif span.kind == VIEW:
            views.setdefault(span.incarnation, []).append(span)
    for recorder in open_ended:
        witnesses = [each for each in world.peers(recorder) if each is not recorder]
        if not witnesses:
            witnesses = [each for each in world.recorders.values() if each.cluster == recorder.cluster
                         and each is not recorder]
        life = RecordedLife(recorder, by_key, views)
        limit_ns = UNNOTICED_NS if any(map(life.noticed, witnesses)) else settle_ns
        sent = {each.incarnation: life.sent_later(each, settle_ns) for each in witnesses}
        later = {each.incarnation: life.later_views(each, settle_ns) for each in witnesses}
        on = {each.incarnation: life.went_on(each, limit_ns) for each in witnesses}
        by = {tag_of(world.recorders[one]): None
              for found in (sent, later, on) for one, shown in found.items() if shown}
        if by:
            numbers, new = max(sent.values()), max(map(len, later.values()))
            why = ([f"{numbers:,} messages of it came later"] if numbers else []) + (
                [f"it was in {new} later view{'s' * (new > 1)}"] if new else []) or [
                f"they went on for {max(on.values()) / NS_PER_S:.1f} s with it in their view"]
            yield _line_of_record(ENDS_EARLY, recorder, f"its record ends before it did ({' and '.join(why)}, at "
                                  f"{', '.join(sorted(by))})", by, new, numbers)


@attrs.frozen(eq=False)
class RecordedLife:
    """A member whose record has no `stop`, and what the others recorded.

    by_key: (recorder, numbering) -> its spans. views: recorder -> its views. A witness is another recorder.
    """

    recorder: AuditedRecorder
    by_key: dict[tuple[str, Stream], list[Span]]
    views: dict[str, list[Span]]

    def sent_later(self, witness: AuditedRecorder, settle_ns: int) -> int:
        """How many messages of this member from behind the end of its record a witness delivered.

        Only if their deliveries go on for more than `settle_ns`: the last rows may be lost in a crash.
        """
        found, member = 0, self.recorder.incarnation
        for (incarnation, key), got in self.by_key.items():
            if incarnation != witness.incarnation or key[0] != member:
                continue
            stop = max((span.stop for span in self.by_key.get((member, key), ())), default=0)
            behind = [span for span in got if span.stop > stop]
            if behind:
                since_ns = max((time_of(span, stop - 1) for span in got if span.first < stop), default=0)
                latest_ns = max(span.wall_last_ns for span in behind)
                if latest_ns - (since_ns or min(span.wall_ns for span in behind)) > settle_ns:
                    found += sum(span.stop - max(span.first, stop) for span in behind)
        return found

    def later_views(self, witness: AuditedRecorder, settle_ns: int) -> list[str]:
        """Views with this member that are later than the last one in its record, and that a witness had for more than
        `settle_ns`."""
        spans = self.views_of(witness)
        ends = [*(span.wall_ns for span in spans[1:]), witness.end_ns]
        known = {span.view_id: None for span in self.views.get(self.recorder.incarnation, ())}
        last = max(known, default="")
        return [span.view_id for span, end_ns in zip(spans, ends, strict=True)
                if self.is_in(span) and span.view_id not in known and span.view_id > last
                and end_ns - span.wall_ns > settle_ns]

    def noticed(self, witness: AuditedRecorder) -> bool:
        """Whether a witness recorded that this member left: the witness had it in a view, and not in its last one."""
        spans = self.views_of(witness)
        return bool(spans) and not self.is_in(spans[-1]) and any(map(self.is_in, spans))

    def went_on(self, witness: AuditedRecorder, limit_ns: int) -> int:
        """How long (ns) a witness, with this member in its view, went on delivering multicasts after the end of this
        record; 0: not longer than the limit."""
        seen_ns = 0
        for (incarnation, key), own in self.by_key.items():
            if incarnation == self.recorder.incarnation:
                stop = max(span.stop for span in own)
                seen_ns = max([seen_ns, *(time_of(span, stop - 1) for span in
                                          self.by_key.get((witness.incarnation, key), ()) if span.first < stop)])
        spans = self.views_of(witness)
        last = max((at for at, span in enumerate(spans) if self.is_in(span)), default=-1)
        if not seen_ns or last < 0:
            return 0
        until_ns = spans[last + 1].wall_ns if last + 1 < len(spans) else None
        delivered_ns = max((min(span.wall_last_ns, until_ns or span.wall_last_ns)
                            for (incarnation, _), got in self.by_key.items() if incarnation == witness.incarnation
                            for span in got if span.kind == "delivered" and span.wall_ns <= (until_ns or span.wall_ns)),
                           default=0)
        longer_ns = delivered_ns - seen_ns
        return longer_ns if longer_ns > limit_ns else 0

    def views_of(self, witness: AuditedRecorder) -> list[Span]:
        """The views of a witness, in order."""
        return sorted(self.views.get(witness.incarnation, ()), key=attrgetter("row"))

    def is_in(self, view: Span) -> bool:
        """Whether this member is in a view."""
        return self.recorder.incarnation in members_of(view)


def time_of(span: Span, number: int) -> int:
    """When (ns, clock of the recorder) a number of a span was recorded, if the span's messages were even in time."""
    count = span.stop - span.first
    share = min(1.0, max(0.0, (number - span.first) / (count - 1))) if count > 1 else 1.0
    return span.wall_ns + int(share * (span.wall_last_ns - span.wall_ns))
