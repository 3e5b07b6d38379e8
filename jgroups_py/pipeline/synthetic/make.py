"""Writes an archive from a plan, in whole columns: twenty million rows of 1 KB take minutes and constant memory.

Time is cut into blocks. In each block every origin's messages are made, then the times at which every receiver delivers
them (lag, FIFO, view changes, outages of relays, faults); deliveries behind the end of the block are carried over to
the next one. Each recorder writes its rows in order of time into sealed segments, as a real one would.
"""
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jgroups_py.archive.layout import RecorderId, hour_folder
from jgroups_py.archive.schema import HEADERS, ROWS
from jgroups_py.archive.sealing import write_segment
from jgroups_py.model.batch import NO_RELIABILITY
from jgroups_py.pipeline.synthetic.plan import START_NS, Fault, PlannedLife, SiteView, SyntheticPlan

Numbers = NDArray[np.int64]
BLOCK_MESSAGES = 120_000
LOCAL_LAG_NS, REMOTE_LAG_NS = 250_000, 4_000_000
SPREAD = 0.45                              # sigma of the lognormal part of a lag
STEP_NS = 10_000                           # between the row of a view and the rows around it
POOL_BYTES = 1 << 24
WORDS = ("kind", "view_id", "origin_site", "origin", "origin_name", "stream", "topic")      # written as dictionaries

Fact = tuple[int, str, dict[str, Any], dict[str, Any]]
"""(time in ns, kind, columns, detail) of a control row."""


@attrs.define(eq=False)
class SyntheticMessages:
    """Columns of messages: true time of the row, number of the origin's life, seqno, and whether it is the row at its
    sender or at a receiver."""

    at_ns: Numbers
    origin: Numbers
    seqno: Numbers
    sent: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: list[SyntheticMessages]) -> SyntheticMessages:
        """The messages of all parts, one part after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in attrs.fields(cls)))

    def pick(self, which: Any) -> SyntheticMessages:
        """The messages at an index or slice, or where a mask is true."""
        return SyntheticMessages(self.at_ns[which], self.origin[which], self.seqno[which], self.sent[which])

    def __len__(self) -> int:
        return len(self.at_ns)


NOTHING = SyntheticMessages(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))


def make(directory: Path, plan: SyntheticPlan, progress: Callable[[int, int], None] | None = None) -> list[Fault]:
    """Write the archive; returns the planted faults. `progress` is called with (messages done, messages in all)."""
    lives, faults = plan.lives(), plan.planted()
    writers = [Writer(directory, plan, life, lives, faults) for life in lives]
    block_ns = max(plan.period_ns, BLOCK_MESSAGES * plan.duration_ns // max(1, plan.messages))
    for first_ns in range(0, plan.duration_ns, block_ns):
        stop_ns = min(plan.duration_ns, first_ns + block_ns)
        sends = {life.number: sends_of(plan, life, first_ns, stop_ns) for life in lives}
        for writer in writers:
            writer.block(sends, stop_ns if stop_ns < plan.duration_ns else 1 << 62)
        if progress is not None:
            progress(min(plan.messages, stop_ns * plan.messages // plan.duration_ns), plan.messages)
    if plan.rows is not None:
        written = sum(writer.row + writer.stops for writer in writers)
        assert written <= plan.rows, f"{written} rows were written instead of {plan.rows}"
        writers[-1].fill(plan.rows - written)
    for writer in writers:
        writer.end()
    return faults


def sends_of(plan: SyntheticPlan, life: PlannedLife, first_ns: int, stop_ns: int) -> SyntheticMessages:
    """The messages that a member sends from `first_ns` to `stop_ns`: one in each period of the plan."""
    born_ns = life.start_ns + (2 * plan.pause_ns if life.start_ns else 0)
    least = max(0, -(-(first_ns - born_ns) // plan.period_ns))
    most = max(least, -(-(min(stop_ns, life.stop_ns) - born_ns) // plan.period_ns))
    numbers = np.arange(least, most, dtype=np.int64)
    return SyntheticMessages(born_ns + numbers * plan.period_ns, np.full(len(numbers), life.number), numbers + 1,
                             np.ones(len(numbers), bool))


class Writer:
    """The recorder of one life: its rows, and the segments into which they are written."""

    def __init__(
        self, directory: Path, plan: SyntheticPlan, life: PlannedLife, lives: list[PlannedLife], faults: list[Fault],
    ) -> None:
        self.directory, self.plan, self.life, self.lives = directory, plan, life, lives
        self.recorder = RecorderId(plan.cluster, life.site, life.name, life.incarnation)
        self.views = [view for view in plan.views(life.site) if life in view.members]
        self.faults = [fault for fault in faults if life in fault.receivers]
        self.rng = np.random.default_rng([plan.seed, life.number])
        self.carried = NOTHING
        self.latest = np.zeros(len(lives), np.int64)         # origin -> time of its last delivery, so that FIFO holds
        self.waiting: list[Any] = []                         # batches for the next segment
        self.row = self.first_row = 0
        self.pool = self.rng.bytes(POOL_BYTES)
        self.facts = list(self.all_facts())

    # --- facts and messages -----------------------------------------------------------------------------------------

    def all_facts(self) -> Iterator[Fact]:
        """The control rows of this recorder, except those at its end."""
        start_ns = max(0, self.views[0].at_ns - STEP_NS)
        yield start_ns - 1, "start", {}, {"version": 1, "host": f"host-{self.life.site.lower()}",
                                          "site": self.life.site, "member": self.life.name}
        previous = None
        for view in self.views:
            yield view.at_ns, "view", {"view_id": view.id}, self.view_detail(view, previous)
            previous = view
        for site, _ in self.plan.sites:
            if site != self.life.site:
                yield start_ns + STEP_NS, "site", {}, {"site": site, "status": "UP"}
        for first_ns, stop_ns in self.plan.outages():
            if self.views[0].at_ns <= first_ns and stop_ns < self.life.stop_ns:
                crashed = next(life for life in self.lives if life.crashed and life.stop_ns == first_ns)
                relay = next(view for view in self.plan.views(crashed.site) if view.cut_ns == first_ns).members[0]
                yield stop_ns - STEP_NS, "relay", {}, {"site": crashed.site, "relay": relay.incarnation, "epoch": 2}
        for fault in self.faults:
            if fault.kind == "declared_lost":
                origin = fault.origin
                yield (fault.stop + APART_OF_LOSS) * self.plan.period_ns, "lost", {
                    "origin_site": origin.site, "origin": origin.incarnation, "origin_name": origin.name,
                    "stream": "all", "seqno": fault.first, "count": fault.stop - fault.first}, {"dest_site": None}

    def view_detail(self, view: SiteView, previous: SiteView | None) -> dict[str, Any]:
        """The detail of a row `view`, as ARCHIVE writes it."""
        before = previous.members if previous is not None else ()
        return {"members": [[life.incarnation, life.name] for life in view.members],
                "previous": previous.id if previous is not None else None,
                "joined": [life.incarnation for life in view.members if life not in before],
                "left": [life.incarnation for life in before if life not in view.members], "subgroups": [],
                "missed": {}}

    def block(self, sends: dict[int, SyntheticMessages], stop_ns: int) -> None:
        """Make the deliveries of what was sent in a block, and write the rows before its end."""
        found = [self.carried, sends[self.life.number]]
        for number, sent in sends.items():
            if len(sent):
                found.append(self.deliveries(self.lives[number], sent))
        every = SyntheticMessages.joined(found)
        now = every.at_ns < stop_ns
        self.carried = every.pick(~now)
        due = every.pick(now)
        self.write(due.pick(np.argsort(due.at_ns, kind="stable")), stop_ns)

    def deliveries(self, origin: PlannedLife, sent: SyntheticMessages) -> SyntheticMessages:
        """The deliveries at this member of what an origin sent, with their times."""
        local = origin.site == self.life.site
        lag = (LOCAL_LAG_NS if local else REMOTE_LAG_NS) * self.rng.lognormal(0, SPREAD, len(sent))
        at = sent.at_ns + lag.astype(np.int64)
        for first_ns, stop_ns in () if local else self.plan.outages():
            inside = (at >= first_ns) & (at < stop_ns)
            at[inside] = stop_ns + (at[inside] - first_ns) // 50
        turn = np.arange(len(at))                            # each at a time of its own, so that faults fit between
        at = np.maximum.accumulate(np.maximum(at, self.latest[origin.number] + 1) - turn) + turn
        at, keep = self.in_views(sent.at_ns, at)
        self.latest[origin.number] = max(self.latest[origin.number], int(at.max(initial=0)))
        found = SyntheticMessages(at, sent.origin, sent.seqno, np.zeros(len(sent), bool)).pick(keep)
        for fault in self.faults:
            if fault.origin == origin:
                found = planted(fault, found, self.views)
                if fault.kind in ("skipped", "skipped_relayed"):
                    self.facts += switches(fault, found, self.views)
        return found

    def in_views(self, sent_ns: Numbers, at: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """(times of delivery, which messages are delivered). What was sent before a view's cut comes before the view.
        """
        at = at.copy()
        for view in self.plan.views(self.life.site):
            if view.cut_ns:
                older = sent_ns < view.cut_ns
                at[older] = np.minimum(at[older], view.at_ns - STEP_NS)
                at[~older] = np.maximum(at[~older], view.at_ns + STEP_NS)
        keep = sent_ns >= self.views[0].cut_ns
        if self.life.stop_ns < self.plan.duration_ns:
            keep &= (at <= self.life.stop_ns) if self.life.crashed else (sent_ns < self.life.stop_ns)
        return at, keep

    # --- rows -------------------------------------------------------------------------------------------------------

    def write(self, messages: SyntheticMessages, stop_ns: int) -> None:
        """Write messages and, between them, the facts that are due."""
        self.facts.sort(key=lambda fact: fact[0])
        due = [fact for fact in self.facts if fact[0] < stop_ns]
        self.facts = self.facts[len(due):]
        at = 0
        for fact in due:
            upto = int(np.searchsorted(messages.at_ns, fact[0]))
            self.add(self.message_rows(messages.pick(slice(at, upto))))
            self.add(self.fact_row(*fact))
            at = upto
        self.add(self.message_rows(messages.pick(slice(at, None))))

    def add(self, batch: Any) -> None:
        """Add rows to the segment; write it when it is full."""
        self.row += len(batch)
        if len(batch):
            self.waiting.append(batch)
        if self.row - self.first_row >= self.plan.segment_rows:
            self.flush()

    def flush(self) -> None:
        """Write the segment that was begun."""
        if self.waiting:
            wall_ns = self.waiting[0].column("wall_ns")[0].as_py()
            folder = self.directory / self.recorder.folder / hour_folder(wall_ns)
            write_segment(folder, self.first_row, self.row, self.waiting)
        self.waiting, self.first_row = [], self.row

    @property
    def stops(self) -> bool:
        """Whether the record ends with a row `stop`."""
        return not self.life.crashed and not self.plan.open_end

    def fill(self, size: int) -> None:
        """Add `size` rows: unreliable messages that were sent and reached no member."""
        at_ns = self.life.stop_ns + self.plan.pause_ns + np.arange(size)
        self.add(self.message_rows(SyntheticMessages(at_ns, np.full(size, self.life.number), np.arange(1, size + 1),
                                                     np.ones(size, bool)), "unreliable", NO_RELIABILITY))

    def end(self) -> None:
        """Write the last row and the last segment."""
        if self.stops:
            self.add(self.fact_row(self.life.stop_ns + 2 * self.plan.pause_ns, "stop", {}, {"reason": "disconnected"}))
        self.flush()

    def message_rows(self, messages: SyntheticMessages, stream: str = "all", flags: int = 0) -> Any:
        """The rows of messages, as a record batch."""
        size = len(messages)
        names = list(dict.fromkeys(ROWS.names))
        numbers = np.searchsorted([view.at_ns for view in self.views], messages.at_ns) - 1
        topics = self.plan.topics
        columns = self.times(messages.at_ns) | {
            "kind": _words(["delivered", "sent"], messages.sent),
            "view_id": _words([view.id for view in self.views], np.maximum(numbers, 0)),
            "origin_site": _words([life.site for life in self.lives], messages.origin),
            "origin": _words([life.incarnation for life in self.lives], messages.origin),
            "origin_name": _words([life.name for life in self.lives], messages.origin),
            "stream": _words([stream], np.zeros(size, np.int64)),
            "seqno": pa.array(messages.seqno),
            "count": pa.array(np.ones(size, np.int64)), "dest": pa.nulls(size, pa.string()),
            "flags": pa.array(np.full(size, flags, np.int32)), "headers": pa.nulls(size, HEADERS),
            "topic": _words(list(topics), messages.seqno % len(topics)),
            "size": pa.array(np.full(size, self.plan.payload_bytes, np.int32)),
            "payload": self.payloads(messages), "detail": pa.nulls(size, pa.string()),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)

    def times(self, at_ns: Numbers) -> dict[str, Any]:
        """The columns of row numbers and of both clocks. at_ns: true times."""
        wall = START_NS + self.plan.clocks.get(self.life.site, 0)
        return {"row": pa.array(np.arange(self.row, self.row + len(at_ns))), "wall_ns": pa.array(at_ns + wall),
                "mono_ns": pa.array(at_ns + (self.life.number + 1) * 10**12)}

    def payloads(self, messages: SyntheticMessages) -> Any:
        """The column of payloads: random bytes for delivered messages, null for sent ones."""
        size, width = len(messages), self.plan.payload_bytes
        if not width or not size:
            return pa.nulls(size, pa.binary())
        offsets = np.zeros(size + 1, np.int32)
        np.cumsum(np.where(messages.sent, 0, width), out=offsets[1:])
        repeats = int(offsets[-1]) // POOL_BYTES + 1
        data = pa.py_buffer(self.pool * repeats if repeats > 1 else self.pool)
        return pa.Array.from_buffers(pa.binary(), size, [pa.array(~messages.sent).buffers()[1],
                                                         pa.py_buffer(offsets), data])

    def fact_row(self, at_ns: int, kind: str, columns: dict[str, Any], detail: dict[str, Any]) -> Any:
        """A control row, as a record batch."""
        times = self.times(np.array([at_ns], np.int64))
        values = {"kind": kind, "count": 1, "detail": json.dumps(detail), **columns}
        arrays = [times[field.name] if field.name in times else pa.array([values.get(field.name)], field.type)
                  for field in ROWS]
        arrays = [array.dictionary_encode() if name in WORDS else array
                  for name, array in zip(ROWS.names, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=ROWS.names)


APART_OF_LOSS = 10                         # a loss is declared so many periods later


def planted(fault: Fault, found: SyntheticMessages, views: list[SiteView]) -> SyntheticMessages:
    """The deliveries of one origin, with a fault planted in them."""
    hit = (found.seqno >= fault.first) & (found.seqno < fault.stop)
    if not hit.any():
        return found
    if fault.kind in ("lost", "r3_lost", "declared_lost"):
        return found.pick(~hit)
    if fault.kind in ("doubled", "r3_doubled"):
        again = found.pick(hit)
        again.at_ns = again.at_ns + 1
        return SyntheticMessages.joined([found, again])
    if fault.kind in ("skipped", "skipped_relayed"):
        return found
    if fault.kind == "other_set":
        view = next(view for view in views if view.at_ns > int(found.at_ns[hit][0]))
        found.at_ns[hit] = view.at_ns + STEP_NS // 2
        return found
    found.at_ns[found.seqno == fault.first] = found.at_ns[hit].max() + 1     # the first comes behind the others
    return found


def switches(fault: Fault, found: SyntheticMessages, views: list[SiteView]) -> Iterator[Fact]:
    """The rows `skipping` just before and just after the messages of a fault, if those are in `found`."""
    for seqno, behind_ns, on in ((fault.first, 0, True), (fault.stop - 1, 1, False)):
        for at_ns in found.at_ns[found.seqno == seqno].tolist():
            view = max((view for view in views if view.at_ns <= at_ns), key=lambda view: view.at_ns)
            sender = fault.origin if fault.kind == "skipped" else view.members[0]
            yield at_ns + behind_ns, "skipping", {"origin": sender.incarnation, "view_id": view.id}, {"on": on}


def _words(words: list[str], index: Any) -> Any:
    """A column of few values, as a dictionary. index: position in `words`, for each row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.asarray(index, np.int32)), pa.array(words, pa.string()))
