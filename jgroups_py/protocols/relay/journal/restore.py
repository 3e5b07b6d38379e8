"""Reading the journal: before a member connects, its hold becomes what it was when the process ended.

RELAY keeps `Connect` back until the last segment is read: HAVE, by which the relay finds out what the member holds,
must be complete (relay rule 17). Of damaged segments the records with a correct checksum are used. Segments are not
changed, and new records go to a new one; so a crash while reading changes nothing.
"""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Connect, JournalOpened, SegmentRead
from jgroups_py.model.outputs import LogEntry, NodeFailed, OpenJournal, ReadSegment
from jgroups_py.protocols.relay.announcements import OriginForgotten, OriginsRestored
from jgroups_py.protocols.relay.journal.records import (
    VERSION,
    BatchRecord,
    ClockRecord,
    JournalDamage,
    OwnerRecord,
    StateRecord,
    read_records,
)
from jgroups_py.protocols.relay.journal.segments import JournalSegment, folder_name, segment_number
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.protocols.relay.part import RelayPart, RelayPort
from jgroups_py.protocols.relay.ports import ClockPort, JournalPort, LeaverPort, NumberingPort, RestorePort, SealsPort
from jgroups_py.protocols.relay.sites.table import SiteTable
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import STOP, on

MOST_PLACES = 5                          # of damage that the log names


class HoldRestore(RelayPart, RestorePort):
    """See the module."""

    hold: Hold = needs(Hold)
    table: SiteTable = needs(SiteTable)
    clock: ClockPort = needs(ClockPort)
    journal: JournalPort = needs(JournalPort)
    seals: SealsPort = needs(SealsPort)
    leaver: LeaverPort = needs(LeaverPort)
    numbering: NumberingPort = needs(NumberingPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.connect: Connect | None = None              # kept back
        self.cluster = ""
        self.unread: list[str] = []
        self.segments: list[JournalSegment] = []                # read, oldest first
        self.batches: list[BatchRecord] = []                   # read, not yet held
        self.origins: dict[Address, None] = {}           # of the restored batches
        self.over_ns = self.now_ns                       # when reading ended: what is held since later was not restored
        self.clock_ns = 0                                # the latest date read
        self.state: StateRecord | None = None                  # the last one read
        self.damage = JournalDamage()
        self.places: list[str] = []                      # of the damage
        self.addresses = wire.Interner()

    @on(Connect)
    def begin(self, connect: Connect) -> object:
        """The application connects: with `hold_dir`, read the journal first."""
        if not self.config.hold_dir:
            return None
        self.connect, self.cluster = connect, connect.cluster
        self.emit(OpenJournal(f"{self.config.hold_dir}/{folder_name(self.me.name)}"))
        return STOP

    @on(JournalOpened)
    def opened(self, event: JournalOpened) -> None:
        """The folder is open, for this member alone: read its segments, oldest first."""
        self.unread = sorted(name for name in event.names if segment_number(name))
        self.read_next()

    def read_next(self) -> None:
        if self.unread:
            self.emit(ReadSegment(self.unread[0]))
        else:
            self.finish()

    @on(SegmentRead)
    def segment_read(self, event: SegmentRead) -> None:
        """Take the records of a segment."""
        segment, damage = JournalSegment(event.name, len(event.data)), JournalDamage()
        try:
            cipher = self.seals.opener(segment, event.data)
        except ConfigError as error:
            return self.refuse(str(error))
        if self.config.hold_keyring and cipher is None:
            damage = JournalDamage(cut_bytes=len(event.data), places=[0])        # its key cannot be read
        else:
            for record in read_records(event.data, self.addresses, damage, cipher):
                if isinstance(record, BatchRecord):
                    self.take_batch(record, segment)
                elif isinstance(record, StateRecord):
                    self.state = record
                elif isinstance(record, ClockRecord):
                    self.clock_ns = max(self.clock_ns, record.now_ns)
                elif not self.is_of_this_site(record, event.name):
                    return None
        self.damage.add(damage)
        self.places += [f"{event.name} at {at}" for at in damage.places]
        self.segments.append(segment)
        self.unread.remove(event.name)
        return self.read_next()

    def is_of_this_site(self, owner: OwnerRecord, name: str) -> bool:
        """Whether a segment belongs to this site of this cluster; if not, the member does not start."""
        site = self.config.site
        if owner.version != VERSION:
            reason = f"is of format {owner.version}, this program writes format {VERSION}"
        elif (owner.cluster, owner.site) != (self.cluster, site):
            reason = (f"belongs to site {owner.site} of cluster {owner.cluster}, not to site {site} of cluster "
                      f"{self.cluster}")
        else:
            return True
        self.refuse(f"{name} {reason}")
        return False

    def refuse(self, reason: str) -> None:
        """The member does not start. reason: begins with the segment's name."""
        self.emit(NodeFailed(f"hold_dir: {self.config.hold_dir}/{folder_name(self.me.name)}/{reason}"))

    def take_batch(self, record: BatchRecord, segment: JournalSegment) -> None:
        """Keep a batch until all segments are read: only then the time at the end, and so its age, is known."""
        segment.cover(record.origin, record.first, record.first + record.batch.count)
        self.clock_ns = max(self.clock_ns, record.since_ns)
        self.batches.append(record)

    def finish(self) -> None:
        """Everything is read: take the last site table, begin to write, join."""
        clock = self.clock
        clock.resume(self.clock_ns)
        self.over_ns = self.now_ns
        for record in self.batches:
            age_ns = max(0, clock.shown_ns - record.since_ns)
            self.hold.add(record.origin, record.first, record.batch, self.now_ns - age_ns)
        self.batches.clear()
        if self.state is not None:
            self.table.combine([attrs.evolve(row, epoch=None, members=()) for row in self.state.table], {}, {})
            for site in self.table:
                site.take_unreported()                # they were reported before the restart
            for origin, number in self.state.trimmed.items():
                self.hold.drop_below(origin, number)
        for origin in list(self.hold.batches):
            self.origins[origin] = None
            self.numbering.expect(origin, self.hold.end(origin))
        self.announce(OriginsRestored(tuple(self.origins)))
        self.report()
        self.journal.begin(self.segments, None if self.state is None else self.state.holders)
        connect, self.connect = self.connect, None
        if connect is not None and not self.leaver.leaving:
            self.pass_down(connect)

    def report(self) -> None:
        """Count and log what was read, and what was damaged."""
        damage, messages = self.damage, self.hold.messages
        self.count("restored_messages", messages)
        if messages:
            self.emit(LogEntry("info", f"{messages} messages held for other sites were read from "
                                       f"{self.config.hold_dir}"))
        if damage.files:
            self.count("journal_damaged_files", damage.files)
            self.count("journal_cut_bytes", damage.cut_bytes)
            self.count("journal_records_skipped", damage.skipped)
            self.count("journal_records_not_opened", damage.unopened)
            named = ", ".join(self.places[:MOST_PLACES]) + (", ..." if len(self.places) > MOST_PLACES else "")
            forged = f" ({damage.unopened} did not open: changed by another process)" if damage.unopened else ""
            self.emit(LogEntry("warning", f"of the hold on disk {damage.cut_bytes} bytes at ends of files were "
                                       f"incomplete and {damage.skipped} records damaged{forged}; they were left out: "
                                       f"{named}"))

    def aged(self) -> None:
        self.origins.clear()

    def older(self, by_ns: int) -> None:
        """The site ran on for so long without this member: drop what is too old by that to be sent.

        The members that stayed have sent it or declared it lost, and other sites may have forgotten its origin, so
        they would take it for new (relay rule 19).
        """
        hold = self.hold
        left: list[str] = []
        count = 0
        for origin in list(self.origins):
            hold.older(origin, self.over_ns, by_ns)
            if origin in hold.batches and self.now_ns - hold.batches[origin][-1].since_ns >= self.config.hold_age_ns:
                ranges = hold.ranges(origin)
                count += sum(stop - first for first, stop in ranges)
                left.append(f"{origin} " + " ".join(f"{first}..{stop - 1}" for first, stop in ranges))
                self.announce(OriginForgotten(origin))
                del self.origins[origin]
        if left:
            self.drop("journal_messages_expired", None, "the site went on without this member for longer than hold_age",
                      number=count)
            self.emit(LogEntry("warning", f"{count} messages held on disk are not sent: the site went on without this "
                            f"member for longer than hold_age, and has settled them ({'; '.join(left)})"))
