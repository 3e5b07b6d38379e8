"""Reading the journal back: before a member connects, its hold becomes what it was when the process ended.

RELAY keeps `Connect` back until the last segment is read. Of damaged segments everything is taken that its checksums
vouch for. Segments stay as they are, new records go to a new one; so a crash while reading changes nothing.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.disk import JournalOpened, OpenJournal, ReadSegment, SegmentRead
from jgroups_py.events import Connect
from jgroups_py.outputs import NodeFailed, Note
from jgroups_py.protocol import STOP
from jgroups_py.protocols.relay.records import VERSION, Clock, Damage, Owner, Run, State, read_records
from jgroups_py.protocols.relay.segments import Segment, folder_name, segment_number

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.journal import Journal


class Restore:
    """See the module."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.relay = journal.relay
        self.connect: Connect | None = None              # kept back
        self.cluster = ""
        self.unread: list[str] = []
        self.runs: list[Run] = []                       # read, not yet held
        self.origins: dict[Address, None] = {}           # whose runs were restored
        self.over_ns = self.relay.now_ns                 # when that was done: what is held since later is our own
        self.clock_ns = 0                                # the latest date read
        self.state: State | None = None                  # the last one read
        self.damage = Damage()
        self.addresses = wire.Interner()

    def begin(self, connect: Connect) -> object:
        """The member wants to join: with `hold_dir` it is kept back until all is read."""
        relay = self.relay
        if not relay.config.hold_dir:
            return None
        self.connect, self.cluster = connect, connect.cluster
        relay.emit(OpenJournal(f"{relay.config.hold_dir}/{folder_name(relay.me.name)}"))
        return STOP

    def opened(self, event: JournalOpened) -> None:
        """The folder is ours."""
        journal = self.journal
        self.unread = sorted(name for name in event.names if segment_number(name))
        journal.number = segment_number(self.unread[-1]) if self.unread else 0
        self.read_next()

    def read_next(self) -> None:
        if self.unread:
            self.relay.emit(ReadSegment(self.unread[0]))
        else:
            self.finish()

    def segment_read(self, event: SegmentRead) -> None:
        """Take what a segment has."""
        segment, damage = Segment(event.name, len(event.data)), Damage()
        for record in read_records(event.data, self.addresses, damage):
            if isinstance(record, Run):
                self.take_run(record, segment)
            elif isinstance(record, State):
                self.state = record
            elif isinstance(record, Clock):
                self.clock_ns = max(self.clock_ns, record.now_ns)
            elif not self.is_ours(record, event.name):
                return
        self.damage.add(damage)
        self.journal.segments.append(segment)
        self.unread.remove(event.name)
        self.read_next()

    def is_ours(self, owner: Owner, name: str) -> bool:
        """Whether a segment belongs to this site of this cluster; if not, the member does not start."""
        site, folder = self.relay.config.site, folder_name(self.relay.me.name)
        if owner.version != VERSION:
            reason = f"is of format {owner.version}, this program writes format {VERSION}"
        elif (owner.cluster, owner.site) != (self.cluster, site):
            reason = (f"belongs to site {owner.site} of cluster {owner.cluster}, not to site {site} of cluster "
                      f"{self.cluster}")
        else:
            return True
        self.relay.emit(NodeFailed(f"hold_dir: {self.relay.config.hold_dir}/{folder}/{name} {reason}"))
        return False

    def take_run(self, run: Run, segment: Segment) -> None:
        """A run will be held again, once all are read and it is clear how old it is."""
        segment.cover(run.origin, run.first, run.first + run.batch.count)
        self.clock_ns = max(self.clock_ns, run.since_ns)
        self.runs.append(run)

    def finish(self) -> None:
        """Everything is read: take the last site table, begin to write, join."""
        relay, clock = self.relay, self.journal.clock
        clock.resume(self.clock_ns)
        self.over_ns = relay.now_ns
        for run in self.runs:
            relay.hold.add(run.origin, run.first, run.batch, relay.now_ns - max(0, clock.now_ns - run.since_ns))
        self.runs.clear()
        if self.state is not None:
            self.journal.knows_holders, self.journal.absent = True, dict.fromkeys(self.state.holders)
            relay.table.learn([attrs.evolve(row, epoch=None, members=()) for row in self.state.table], {}, {})
            for site in relay.table:
                site.untold.clear()                   # its application heard of them in its last life
            for origin, number in self.state.trimmed.items():
                relay.hold.drop_below(origin, number)
        for origin in list(relay.hold.runs):
            self.origins[origin] = None
            relay.numbers[origin] = relay.hold.end(origin)
            relay.divergence.from_disk[origin] = None
        self.report()
        self.journal.begin()
        connect, self.connect = self.connect, None
        if connect is not None and not relay.leaving:
            relay.pass_down(connect)

    def report(self) -> None:
        """Say what was found."""
        relay, damage, messages = self.relay, self.damage, self.relay.hold.messages
        relay.count("restored_messages", messages)
        if messages:
            relay.emit(Note("info", f"{messages} messages held for other sites were read from {relay.config.hold_dir}"))
        if damage.files:
            relay.count("journal_damaged_files", damage.files)
            relay.count("journal_cut_bytes", damage.cut_bytes)
            relay.count("journal_records_skipped", damage.skipped)
            relay.emit(Note("warning", f"of the hold on disk {damage.cut_bytes} bytes at ends of files were incomplete "
                            f"and {damage.skipped} records damaged; they were left out"))

    def older(self, by_ns: int) -> None:
        """Our site ran on for so long without us. What became too old by that is no longer ours to send: those who
        stayed have sent it, or declared it lost, and other sites may have forgotten its origin (rule 19).
        """
        relay, hold = self.relay, self.relay.hold
        left: list[str] = []
        count = 0
        for origin in list(self.origins):
            hold.older(origin, self.over_ns, by_ns)
            if origin in hold.runs and relay.now_ns - hold.runs[origin][-1].since_ns >= relay.config.hold_age_ns:
                ranges = hold.ranges(origin)
                count += sum(stop - first for first, stop in ranges)
                left.append(f"{origin} " + " ".join(f"{first}..{stop - 1}" for first, stop in ranges))
                relay.memory.forget_origin(origin)
                del self.origins[origin]
        if left:
            relay.count("journal_messages_expired", count)
            relay.emit(Note("warning", f"{count} messages held on disk are not sent: the site went on without this "
                            f"member for longer than hold_age, and has settled them ({'; '.join(left)})"))
