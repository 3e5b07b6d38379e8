"""The journal (`hold_dir`): RELAY's hold on disk, so that it survives the crash of a whole site.

What enters the hold is appended to the newest of a member's segments before it is delivered; so is the site table
whenever it changes. A segment of which nothing is held any more is removed; what is left of a mostly dead one is moved
to the newest. With `hold_sync=every` the relay sends only what a finished sync covers. If the disk fails or is full,
that is reported to the application, RELAY goes on in memory, and what the disk missed is written when it works again.
restore.py reads the journal. The reasons for all this: design/decisions/0005-the-hold-on-disk.md.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import JournalFailed, SegmentsSynced, ViewChange
from jgroups_py.model.outputs import AppendSegment, HoldDurability, LogEntry, NodeFailed, RemoveSegment, SyncSegments
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.announcements import DiskCaughtUp
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Numbers
from jgroups_py.protocols.relay.journal.clock import TICK_NS
from jgroups_py.protocols.relay.journal.records import HEAD_BYTES as RECORD_HEAD_BYTES
from jgroups_py.protocols.relay.journal.records import (
    StateRecord,
    Written,
    batch_record,
    clock_record,
    owner_record,
    state_record,
)
from jgroups_py.protocols.relay.journal.segments import JournalSegment, Span, segment_name, segment_number
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.part import RelayPart, RelayPort
from jgroups_py.protocols.relay.ports import ClockPort, JournalPort, RestorePort, SealsPort
from jgroups_py.protocols.relay.sites.table import SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, timer

SEGMENT_BYTES = 16 << 20
SEALED_TO_KEEP = 4              # so many full segments may be mostly dead: TRIM is likely to empty them soon
DEAD_RATIO = 0.5                # a segment of which a smaller part is held is given up, and that part moved
MOVE_BYTES = 2 << 20            # moved at once, so that a round of the loop stays short
MOVE_PAUSE_NS = millis(5)
RETRY_NS = seconds(10)


@attrs.define(eq=False)
class Unsynced:
    """What no finished sync covers. lowest: origin -> lowest number, for hold_sync=every only."""

    lowest: Numbers = attrs.Factory(dict)
    segments: dict[str, JournalSegment] = attrs.Factory(dict)


class HoldJournal(RelayPart, JournalPort):
    """See the module. Does nothing without `hold_dir`."""

    group: LocalGroup = needs(LocalGroup)
    hold: Hold = needs(Hold)
    table: SiteTable = needs(SiteTable)
    clock: ClockPort = needs(ClockPort)
    restore: RestorePort = needs(RestorePort)
    seals: SealsPort = needs(SealsPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        config = self.config
        self.is_open = False                             # it was read: from now on what enters the hold is written
        self.writing = False                             # it is open, and the disk takes what is written
        self.number = 0                                  # of the newest segment
        self.segments: list[JournalSegment] = []                # oldest first; the last one is appended to
        self.state = StateRecord((), {}, ())                   # as last written
        self.absent: dict[str, None] = {}                # holders of before the last crash that have not come back
        self.has_holders = False                         # `absent` has a source: an earlier journal, here or elsewhere
        self.sync_delay_ns = {"none": None, "interval": config.hold_sync_interval_ns, "every": 0}[config.hold_sync]
        self.gated = config.hold_sync == "every"
        self.written = Unsynced()                        # since the last sync began
        self.in_sync = Unsynced()                        # before the sync that is under way
        self.sync_number = 0
        self.syncing = self.sync_again = False
        self.moving: deque[Span] = deque()               # held batches to be appended once more
        self.moved_from: list[JournalSegment] = []              # to be removed when that is done (and synced)
        self.removable: list[JournalSegment] = []               # to be removed when the sync that is under way is done
        self.failing = False                             # that the disk fails was reported, and not yet that it works
        self.missed = JournalSegment("")                        # what the disk did not take, or perhaps not

    def begin(self, segments: list[JournalSegment], holders: tuple[str, ...] | None) -> None:
        self.segments = segments
        self.number = segment_number(segments[-1].name) if segments else 0
        if holders is not None:
            self.has_holders, self.absent = True, dict.fromkeys(holders)
        self.is_open = self.writing = True
        self.state = self.current_state()
        self.roll()
        self.tick()
        self.trimmed()

    # --- what enters the hold ---------------------------------------------------------------------------------------

    def added(self, origin: Address, first: int, batch: Batch, since_ns: int) -> None:
        """A batch entered the hold: write it, or note that the disk misses it."""
        if not self.is_open:
            return
        stop = first + batch.count
        self.set_timer_once("journal_clock", TICK_NS)
        if not self.writing:
            return self.missed.cover(origin, first, stop)
        if self.gated:
            self.written.lowest[origin] = min(first, self.written.lowest.get(origin, first))
        return self.write_batch(origin, first, batch, since_ns)

    def write_batch(self, origin: Address, first: int, batch: Batch, since_ns: int) -> None:
        data = batch_record(origin, first, since_ns + self.clock.offset_ns, batch)
        newest = self.segments[-1]
        if newest.nbytes + RECORD_HEAD_BYTES + len(data.body) > SEGMENT_BYTES and newest.spans:
            self.roll()
        self.append(data)
        self.segments[-1].cover(origin, first, first + batch.count)

    def append(self, record: Written, *, sync: bool = True) -> None:
        """Append to the newest segment. sync: what is written is worth one."""
        if not self.seals.fits(self.segments[-1]):
            self.roll()
        newest = self.segments[-1]
        if newest.cipher is None:
            self.write(newest, bytes(record), sync)
        else:
            self.write(newest, record.sealed(newest.cipher, newest.nbytes), sync)

    def write(self, newest: JournalSegment, data: bytes, sync: bool) -> None:
        """Append bytes to the newest segment."""
        newest.grow(len(data))
        self.emit(AppendSegment(newest.name, data))
        if sync and self.sync_delay_ns is not None:
            self.sync_again = True
            self.written.segments[newest.name] = newest
            if not self.syncing:
                self.set_timer_once("journal_sync", self.sync_delay_ns)

    def roll(self) -> None:
        """Begin a segment with its key, its owner, the site table and the clock, so that older segments are not needed
        for these."""
        self.number += 1
        if self.segments:
            self.segments[-1].end()
        segment = JournalSegment(segment_name(self.number))
        self.segments.append(segment)
        head = self.seals.begin(segment)
        if head:
            self.write(segment, head, sync=True)
        self.append(owner_record(self.restore.cluster, self.config.site))
        self.append(state_record(self.state))
        self.append(clock_record(self.clock.shown_ns))

    @timer("journal_clock")
    def tick(self) -> None:
        """On a timer while anything is held: write what the hold's clock shows. That alone is not worth a sync."""
        if self.hold.batches:
            self.set_timer("journal_clock", TICK_NS)
            if self.writing:
                self.append(clock_record(self.clock.shown_ns), sync=False)

    def leaving(self) -> None:
        """The member stops as planned, and what it holds stays on disk: write the table and the time."""
        if self.writing:
            self.trimmed()
            self.append(clock_record(self.clock.shown_ns))

    def current_state(self) -> StateRecord:
        """What has to survive a crash besides the batches."""
        here = dict.fromkeys(member.name for member in self.group.view.members) if self.group.has_view else {}
        self.mark_present(here)
        return StateRecord(self.table.rows(), dict(self.hold.trimmed), (*here, *self.absent))

    def mark_present(self, names: Iterable[str]) -> None:
        """These holders are in the group: they are not awaited any more."""
        for name in names:
            self.absent.pop(name, None)

    def holders(self) -> tuple[str, ...]:
        """For HAVE: the holders of this view and the absent ones, if an earlier journal names any."""
        return self.current_state().holders if self.has_holders else ()

    def add_holders(self, names: tuple[str, ...]) -> None:
        if names:
            self.has_holders = True
            self.absent.update(dict.fromkeys(names))
            self.mark_present(member.name for member in self.group.view.members)

    # --- what leaves it ---------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """Holders that had not restarted may be members now."""
        self.trimmed()

    def trimmed(self) -> None:
        if not self.is_open:
            return
        state = self.current_state()
        if state != self.state:
            self.state = state
            if self.writing:
                self.append(state_record(state))
        busy = [*self.moved_from, *self.removable]
        for segment in self.segments[:-1]:
            if segment not in busy and next(segment.live(self.hold), None) is None:
                self.remove(segment)
        if self.writing and not busy and len(self.segments) > SEALED_TO_KEEP + 1:
            self.give_up_one()

    def remove(self, segment: JournalSegment) -> None:
        self.segments.remove(segment)
        self.written.segments.pop(segment.name, None)
        self.in_sync.segments.pop(segment.name, None)
        self.emit(RemoveSegment(segment.name))

    def give_up_one(self) -> None:
        """Move what is left of a mostly dead segment, so that the files have about twice the size of the hold at
        most."""
        hold = self.hold
        segment = next((each for each in self.segments[:-1] if each.live_ratio(hold) < DEAD_RATIO), None)
        if segment is not None:
            self.moving.extend(segment.live(hold))
            self.moved_from.append(segment)
            self.move()

    @timer("journal_move")
    def move(self) -> None:
        """Append held batches once more, MOVE_BYTES at a time."""
        room = MOVE_BYTES
        while self.moving and self.writing:
            if room <= 0:
                return self.set_timer("journal_move", MOVE_PAUSE_NS)
            origin, first, stop = self.moving.popleft()
            for held in self.hold.pieces(origin, first, stop):
                self.write_batch(origin, held.first, held.batch, held.since_ns)
                room -= held.nbytes
                if room <= 0 and held.stop < stop:
                    self.moving.appendleft((origin, held.stop, stop))
                    break
        if self.writing:
            self.moved()
        return None

    def moved(self) -> None:
        """Everything was moved: remove its segments, after a sync if syncs are configured or a failure is being
        repaired."""
        if self.failing:
            return self.sync()
        if self.sync_delay_ns is None:
            self.remove_all(self.moved_from)
        return None

    def remove_all(self, segments: list[JournalSegment]) -> None:
        for segment in list(segments):
            self.remove(segment)
        segments.clear()

    # --- syncs ------------------------------------------------------------------------------------------------------

    @timer("journal_sync")
    def sync(self) -> None:
        """Request a sync, unless one is under way: then another one follows it."""
        if self.syncing or not self.writing:
            return
        self.syncing, self.sync_again = True, False
        self.sync_number += 1
        self.in_sync, self.written = self.written, Unsynced()
        if not self.moving:
            self.removable, self.moved_from = self.moved_from, []
        self.emit(SyncSegments(self.sync_number))

    @on(SegmentsSynced)
    def synced(self, event: SegmentsSynced) -> None:
        """A sync is done: what was appended before it began is on disk."""
        if not self.syncing or event.number != self.sync_number:
            return
        self.syncing, self.in_sync = False, Unsynced()
        self.remove_all(self.removable)
        if self.failing and not self.moving:
            self.failing, self.missed = False, JournalSegment("")
            self.emit(LogEntry("info", "the hold is written to disk again"))
            self.emit(HoldDurability(""))
        if self.sync_again and self.sync_delay_ns is not None:
            self.set_timer_once("journal_sync", self.sync_delay_ns)
        if self.gated:
            self.announce(DiskCaughtUp())

    def unsynced(self, origin: Address) -> int | None:
        """hold_sync=every: the lowest number of an origin that no finished sync covers; it is not sent before."""
        if not self.gated:
            return None
        waiting = [part.lowest[origin] for part in (self.written, self.in_sync) if origin in part.lowest]
        return min(waiting, default=None)

    # --- failures ---------------------------------------------------------------------------------------------------

    @on(JournalFailed)
    def failed(self, event: JournalFailed) -> None:
        """Before the journal is open: the member cannot start. Later: go on without the disk, and try again."""
        if not self.is_open:
            return self.emit(NodeFailed(f"hold_dir: {event.reason}"))
        if not self.writing:
            return None                                  # writes that were under way at the failure
        self.writing = self.syncing = False
        newest = self.segments[-1]
        for segment in ({newest.name: newest} | self.in_sync.segments | self.written.segments).values():
            for origin, (first, stop) in segment.spans.items():
                self.missed.cover(origin, first, stop)
        self.written, self.in_sync = Unsynced(), Unsynced()
        self.moving.clear()
        self.moved_from, self.removable = [], []
        self.set_timer("journal_retry", RETRY_NS)
        if not self.failing:
            self.failing = True
            self.count("journal_failures")
            self.emit(LogEntry("error", f"what is held for other sites is not written to disk: {event.reason}"))
            self.emit(HoldDurability(event.reason))
        return self.announce(DiskCaughtUp())

    @timer("journal_retry")
    def retry(self) -> None:
        """On a timer: write all that the disk missed to a new segment. If a sync confirms it, the failure is over."""
        self.writing = True
        self.roll()
        self.moving.extend((origin, first, stop) for origin, (first, stop) in self.missed.spans.items())
        self.move()

    # --- holes -----------------------------------------------------------------------------------------------------

    def may_fill(self, origin: Address, number: int) -> bool:
        """Whether a holder that has not restarted yet may have what is missing below `number` (relay rule 18).

        So while one is absent, or no earlier journal says which there were, and as long as what waits behind the hole
        is not too old to be sent.
        """
        config = self.config
        held = self.hold.batch_from(origin, number, 1)
        if not self.is_open or held is None or (self.has_holders and not self.absent):
            return False
        return self.now_ns - held.since_ns < config.hold_age_ns - config.lost_after_ns

    # --- figures ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, float]:
        """The figures of the journal for `ch.stats()`; none without `hold_dir`."""
        if not self.is_open:
            return {}
        return {"journal_bytes": sum(segment.nbytes for segment in self.segments), "journal_files": len(self.segments),
                "journal_former_keys": self.seals.former_keys(self.segments), "journal_fails": int(self.failing)}
