"""The journal (`hold_dir`): RELAY's hold on disk, so that it survives the crash of a whole site.

What enters the hold is appended to the newest of a member's segments before the application gets it; so is the site
table whenever it changes. A segment none of whose runs is held any more is removed; of one that is mostly dead the
rest is moved to the newest. With `hold_sync=every` the relay sends on only what is on the disk itself. If the disk
fails or is full, the application is told, RELAY goes on in memory, and what the disk missed is written once it works.
Reading back is in `restore`; why all this is so: design/decisions/0005-the-hold-on-disk.md.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.disk import (
    AppendSegment,
    HoldDurability,
    JournalFailed,
    JournalOpened,
    RemoveSegment,
    SegmentRead,
    SegmentsSynced,
    SyncSegments,
)
from jgroups_py.events import Connect
from jgroups_py.outputs import NodeFailed, Note
from jgroups_py.protocol import Protocol, on, timer
from jgroups_py.protocols.relay.clock import STROKE_NS, HoldClock
from jgroups_py.protocols.relay.headers import Have, Numbers
from jgroups_py.protocols.relay.records import State, clock_record, owner_record, run_record, state_record
from jgroups_py.protocols.relay.restore import Restore
from jgroups_py.protocols.relay.segments import Segment, Span, segment_name
from jgroups_py.units import millis, seconds

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

SEGMENT_BYTES = 16 << 20
SEALED_TO_KEEP = 4              # so many full segments may be mostly dead: they are likely to die by themselves
DEAD_RATIO = 0.5                # a segment with a smaller part alive is given up
MOVE_BYTES = 2 << 20            # moved in one step of the loop
MOVE_PAUSE_NS = millis(5)
RETRY_NS = seconds(10)


@attrs.define(eq=False)
class Unsynced:
    """What no finished sync covers. lowest: origin -> lowest number (for `every` only)."""

    lowest: Numbers = attrs.Factory(dict)
    segments: dict[str, Segment] = attrs.Factory(dict)


class JournalTalk(Protocol):
    """The base of Relay that hears of the journal's disk."""

    journal: Journal

    @on(Connect)
    def connect_wanted(self, event: Connect) -> object:
        return self.journal.restore.begin(event)

    @on(JournalOpened)
    def journal_opened(self, event: JournalOpened) -> None:
        self.journal.restore.opened(event)

    @on(SegmentRead)
    def segment_read(self, event: SegmentRead) -> None:
        self.journal.restore.segment_read(event)

    @on(SegmentsSynced)
    def segments_synced(self, event: SegmentsSynced) -> None:
        self.journal.synced(event)

    @on(JournalFailed)
    def journal_failed(self, event: JournalFailed) -> None:
        self.journal.failed(event)

    @timer("journal_sync")
    def sync_journal(self) -> None:
        self.journal.sync()

    @timer("journal_move")
    def move_runs(self) -> None:
        self.journal.move()

    @timer("journal_clock")
    def journal_stroke(self) -> None:
        self.journal.stroke()

    @timer("journal_retry")
    def retry_journal(self) -> None:
        self.journal.retry()


class Journal:
    """See the module. Does nothing without `hold_dir`."""

    def __init__(self, relay: Relay) -> None:
        config = relay.config
        self.relay = relay
        self.restore = Restore(self)
        self.is_open = False                             # it was read: the hold is as it was, and is kept
        self.writing = False                             # open, and the disk does what it should
        self.clock = HoldClock(relay)
        self.number = 0                                  # of the newest segment
        self.segments: list[Segment] = []                # oldest first; the last one is appended to
        self.state = State((), {}, ())                   # as the newest segment has it
        self.absent: dict[str, None] = {}                # holders of before the last crash that have not come back
        self.knows_holders = False                       # from our journal of before, or from another member's
        self.sync_delay_ns = {"none": None, "interval": config.hold_sync_interval_ns, "every": 0}[config.hold_sync]
        self.gated = config.hold_sync == "every"
        self.written = Unsynced()                        # since the last sync began
        self.in_sync = Unsynced()                        # before the sync that is under way
        self.sync_number = 0
        self.syncing = self.sync_again = False
        self.moving: deque[Span] = deque()               # held runs to be appended once more
        self.moved_from: list[Segment] = []              # to be removed when that is done (and synced)
        self.removable: list[Segment] = []               # to be removed when the sync that is under way is done
        self.failing = False                             # the application was told that the disk fails
        self.missed = Segment("")                        # what the disk did not take, or not for sure

    def begin(self) -> None:
        """The hold is as it was: keep it so."""
        self.is_open = self.writing = True
        self.state = self.current_state()
        self.roll()
        self.stroke()
        self.trimmed()

    # --- what enters the hold ---------------------------------------------------------------------------------------

    def added(self, origin: Address, first: int, batch: Batch, since_ns: int) -> None:
        """A run entered the hold."""
        if not self.is_open:
            return
        stop = first + batch.count
        self.relay.set_timer_once("journal_clock", STROKE_NS)
        if not self.writing:
            return self.missed.cover(origin, first, stop)
        if self.gated:
            self.written.lowest[origin] = min(first, self.written.lowest.get(origin, first))
        return self.write_run(origin, first, batch, since_ns)

    def write_run(self, origin: Address, first: int, batch: Batch, since_ns: int) -> None:
        data = run_record(origin, first, since_ns + self.clock.offset_ns, batch)
        newest = self.segments[-1]
        if newest.nbytes + len(data) > SEGMENT_BYTES and newest.spans:
            self.roll()
        self.append(data)
        self.segments[-1].cover(origin, first, first + batch.count)

    def append(self, data: bytes, *, sync: bool = True) -> None:
        """To the newest segment."""
        newest = self.segments[-1]
        newest.nbytes += len(data)
        self.relay.emit(AppendSegment(newest.name, data))
        if sync and self.sync_delay_ns is not None:
            self.sync_again = True
            self.written.segments[newest.name] = newest
            if not self.syncing:
                self.relay.set_timer_once("journal_sync", self.sync_delay_ns)

    def roll(self) -> None:
        """Begin a segment: whose it is, and what is known of the sites."""
        self.number += 1
        self.segments.append(Segment(segment_name(self.number)))
        self.append(owner_record(self.restore.cluster, self.relay.config.site))
        self.append(state_record(self.state))
        self.append(clock_record(self.clock.now_ns))

    def stroke(self) -> None:
        """On a timer while anything is held: write down what the hold's clock shows. No sync is worth it."""
        if self.relay.hold.runs:
            self.relay.set_timer("journal_clock", STROKE_NS)
            if self.writing:
                self.append(clock_record(self.clock.now_ns), sync=False)

    def leaving(self) -> None:
        """The member stops as planned, and keeps what it holds: say up to now for how long."""
        if self.writing:
            self.trimmed()
            self.append(clock_record(self.clock.now_ns))

    def current_state(self) -> State:
        """What is to be known after a crash besides the runs."""
        relay = self.relay
        here = dict.fromkeys(member.name for member in relay.view.members) if relay.has_view else {}
        self.meet(here)
        return State(relay.table.rows(), dict(relay.hold.trimmed), (*here, *self.absent))

    def meet(self, names: Iterable[str]) -> None:
        """These holders are here."""
        for name in names:
            self.absent.pop(name, None)

    def holders(self) -> tuple[str, ...]:
        """For the relay: who holds, as far as is known from before."""
        return self.current_state().holders if self.knows_holders else ()

    def heard(self, header: Have) -> None:
        """As relay, a member's answer to SYNC: how long our site has run, and who held before."""
        self.clock.heard(header.clock_ns)
        self.hear_holders(header.holders)

    def hear_holders(self, names: tuple[str, ...]) -> None:
        """As relay, from another member: who held before the last crash."""
        if names:
            self.knows_holders = True
            self.absent.update(dict.fromkeys(names))
            self.meet(member.name for member in self.relay.view.members)

    # --- what leaves it ---------------------------------------------------------------------------------------------

    def trimmed(self) -> None:
        """The site table or the view changed, or something was dropped from the hold."""
        if not self.is_open:
            return
        relay = self.relay
        state = self.current_state()
        if state != self.state:
            self.state = state
            if self.writing:
                self.append(state_record(state))
        busy = [*self.moved_from, *self.removable]
        for segment in self.segments[:-1]:
            if segment not in busy and next(segment.live(relay.hold), None) is None:
                self.remove(segment)
        if self.writing and not busy and len(self.segments) > SEALED_TO_KEEP + 1:
            self.give_up_one()

    def remove(self, segment: Segment) -> None:
        self.segments.remove(segment)
        self.written.segments.pop(segment.name, None)
        self.in_sync.segments.pop(segment.name, None)
        self.relay.emit(RemoveSegment(segment.name))

    def give_up_one(self) -> None:
        """Move what is left of a mostly dead segment, so that the disk holds twice what is held, and little more."""
        hold = self.relay.hold
        segment = next((each for each in self.segments[:-1] if each.live_ratio(hold) < DEAD_RATIO), None)
        if segment is not None:
            self.moving.extend(segment.live(hold))
            self.moved_from.append(segment)
            self.move()

    def move(self) -> None:
        """Append held runs once more, a step at a time."""
        room = MOVE_BYTES
        while self.moving and self.writing:
            if room <= 0:
                return self.relay.set_timer("journal_move", MOVE_PAUSE_NS)
            origin, first, stop = self.moving.popleft()
            for run in self.relay.hold.pieces(origin, first, stop):
                self.write_run(origin, run.first, run.batch, run.since_ns)
                room -= run.nbytes
                if room <= 0 and run.stop < stop:
                    self.moving.appendleft((origin, run.stop, stop))
                    break
        if self.writing:
            self.moved()
        return None

    def moved(self) -> None:
        """Everything was moved: its segments go, after a sync where syncs are wanted (or a failure is made good)."""
        if self.failing:
            return self.sync()
        if self.sync_delay_ns is None:
            self.remove_all(self.moved_from)
        return None

    def remove_all(self, segments: list[Segment]) -> None:
        for segment in list(segments):
            self.remove(segment)
        segments.clear()

    # --- syncs ------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Ask for a sync unless one is under way; then another follows it."""
        if self.syncing or not self.writing:
            return
        self.syncing, self.sync_again = True, False
        self.sync_number += 1
        self.in_sync, self.written = self.written, Unsynced()
        if not self.moving:
            self.removable, self.moved_from = self.moved_from, []
        self.relay.emit(SyncSegments(self.sync_number))

    def synced(self, event: SegmentsSynced) -> None:
        """What was appended before the sync began is on the disk."""
        if not self.syncing or event.number != self.sync_number:
            return
        self.syncing, self.in_sync = False, Unsynced()
        self.remove_all(self.removable)
        if self.failing and not self.moving:
            self.failing, self.missed = False, Segment("")
            self.relay.emit(Note("info", "the hold is written to disk again"))
            self.relay.emit(HoldDurability(""))
        if self.sync_again and self.sync_delay_ns is not None:
            self.relay.set_timer_once("journal_sync", self.sync_delay_ns)
        if self.gated and self.relay.is_relay:
            self.relay.sending.pump()

    def unsynced(self, origin: Address) -> int | None:
        """The number from which on messages of an origin wait for the disk; None: none does."""
        if not self.gated:
            return None
        waiting = [part.lowest[origin] for part in (self.written, self.in_sync) if origin in part.lowest]
        return min(waiting, default=None)

    # --- failures ---------------------------------------------------------------------------------------------------

    def failed(self, event: JournalFailed) -> None:
        """Before the journal is open: the member cannot start. Later: go on without the disk, and try again."""
        if not self.is_open:
            return self.relay.emit(NodeFailed(f"hold_dir: {event.reason}"))
        if not self.writing:
            return None                                  # what was under way when it failed failed too
        self.writing = self.syncing = False
        newest = self.segments[-1]
        for segment in ({newest.name: newest} | self.in_sync.segments | self.written.segments).values():
            for origin, (first, stop) in segment.spans.items():
                self.missed.cover(origin, first, stop)
        self.written, self.in_sync = Unsynced(), Unsynced()
        self.moving.clear()
        self.moved_from, self.removable = [], []
        self.relay.set_timer("journal_retry", RETRY_NS)
        if not self.failing:
            self.failing = True
            self.relay.count("journal_failures")
            self.relay.emit(Note("error", f"what is held for other sites is not written to disk: {event.reason}"))
            self.relay.emit(HoldDurability(event.reason))
        return self.relay.sending.pump() if self.relay.is_relay else None

    def retry(self) -> None:
        """Begin a new segment with all that the disk missed; if it takes it, all is well again."""
        self.writing = True
        self.roll()
        self.moving.extend((origin, first, stop) for origin, (first, stop) in self.missed.spans.items())
        self.move()

    # --- holes -----------------------------------------------------------------------------------------------------

    def may_fill(self, origin: Address, number: int) -> bool:
        """Whether a holder that starts late may still bring what is missing before `number`: while one is absent (or
        we do not know of any, having no journal of before), and what waits behind the hole is not too old to be sent.
        """
        config = self.relay.config
        run = self.relay.hold.run_from(origin, number, 1)
        if not self.is_open or run is None or (self.knows_holders and not self.absent):
            return False
        return self.relay.now_ns - run.since_ns < config.hold_age_ns - config.lost_after_ns

    # --- figures ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, float]:
        """What `ch.stats()` shows; nothing without `hold_dir`."""
        if not self.is_open:
            return {}
        return {"journal_bytes": sum(segment.nbytes for segment in self.segments), "journal_files": len(self.segments),
                "journal_fails": int(self.failing)}
