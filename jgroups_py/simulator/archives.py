"""The recorders of simulated members: records stay in memory, for tests to compare with the history, and go to disks.

A model of the recorder (archive/recorder.py) as ARCHIVE and the group see it: a queue, a disk that takes a batch in the
time of a sync, gaps for records that it drops, and events about both. Disks may be slow or full (disk_faults.py), as
those of journals.
"""
from __future__ import annotations

from collections import deque

import attrs

from jgroups_py.archive.gaps import FAILED, SLOW, RecorderGaps
from jgroups_py.model.address import Address
from jgroups_py.model.events import ArchiveBusy, ArchiveFailed, ArchiveOpened, Event
from jgroups_py.model.outputs import LOCAL, ArchiveDurability, OpenArchive, Record
from jgroups_py.model.units import NS_PER_MS, NS_PER_S
from jgroups_py.protocols.archive.config import BLOCK, ArchiveConfig
from jgroups_py.simulator.disks import Disks
from jgroups_py.simulator.ports import DevicePort
from jgroups_py.simulator.process import Process

OPEN_NS = 5 * NS_PER_MS                  # how long opening takes
FLUSH_NS = 20 * NS_PER_MS                # how long records are collected for a batch
RETRY_NS = NS_PER_S
QUEUE_RECORDS = 16                       # few, so that a slow disk fills the queue under the light traffic of a profile
MESSAGES = ("sent", "delivered")


@attrs.define(eq=False)
class SimulatedRecorder:
    """The recorder of one incarnation. blocks: a full queue makes the group wait, else records are dropped."""

    process: Process
    blocks: bool
    given: list[Record] = attrs.Factory(list)            # all records of ARCHIVE, in order
    written: list[Record] = attrs.Factory(list)          # records on the disk, gaps included
    queue: deque[Record] = attrs.Factory(deque)
    writing: bool = False                                # a batch is being collected or written
    busy: bool = False                                   # ArchiveBusy was emitted: the group waits
    dropping: bool = False
    failing: bool = False
    dropped: RecorderGaps = attrs.Factory(RecorderGaps)
    failed: RecorderGaps = attrs.Factory(RecorderGaps)


class Archives:
    """All archives of a world: carries out the outputs of ARCHIVE."""

    def __init__(self, world: DevicePort, disks: Disks) -> None:
        self.world = world
        self.disks = disks
        self.by_recorder: dict[Address, SimulatedRecorder] = {}

    @property
    def records(self) -> dict[Address, list[Record]]:
        """Member -> all its records, in order."""
        return {member: archive.given for member, archive in self.by_recorder.items()}

    def open(self, process: Process, asked: OpenArchive) -> None:
        """Open the archive of a process."""
        assert isinstance(asked.config, ArchiveConfig), "OpenArchive carries the configuration of ARCHIVE"
        self.by_recorder[process.me] = SimulatedRecorder(process, asked.config.on_slow == BLOCK)
        self.world.after(OPEN_NS, self._notify, process, ArchiveOpened())

    def record(self, process: Process, record: Record) -> None:
        """Queue a record; if the queue is full, drop it and record the gap later, or make the group wait."""
        archive = self.by_recorder[process.me]
        archive.given.append(record)
        if archive.blocks:
            if len(archive.queue) >= QUEUE_RECORDS and not archive.busy:
                archive.busy = True
                self._notify(process, ArchiveBusy(len(archive.queue)))
        elif self._drops(archive, record):
            return
        archive.queue.append(record)
        self._write_soon(archive)

    def _drops(self, archive: SimulatedRecorder, record: Record) -> bool:
        """Whether a record is dropped: messages are, from a full queue until a half empty one; views, losses and other
        facts never are."""
        if archive.dropping and len(archive.queue) <= QUEUE_RECORDS // 2:
            archive.dropping = False
            archive.queue += archive.dropped.take()
        archive.dropping = archive.dropping or len(archive.queue) >= QUEUE_RECORDS
        if not archive.dropping or record.kind not in MESSAGES:
            return False
        archive.dropped.add(record, SLOW)
        return True

    def _write_soon(self, archive: SimulatedRecorder) -> None:
        if not archive.writing:
            archive.writing = True
            self.world.after(FLUSH_NS, self._write, archive)

    def _write(self, archive: SimulatedRecorder) -> None:
        """Write the queued records as one batch."""
        batch = list(archive.queue)[:QUEUE_RECORDS]
        self.world.after(self.disks.of(archive.process.name).sync_ns, self._written, archive, batch)

    def _written(self, archive: SimulatedRecorder, batch: list[Record]) -> None:
        if not archive.process.alive:
            return
        for _ in batch:
            archive.queue.popleft()
        if self.disks.of(archive.process.name).full:
            for record in batch:
                archive.failed.add(record, FAILED)
            self._fail(archive)
        else:
            archive.written += batch
        if archive.busy and len(archive.queue) <= QUEUE_RECORDS // 2:
            archive.busy = False
            self._notify(archive.process, ArchiveBusy(0))
        if not archive.queue:
            archive.queue += archive.dropped.take()
            archive.dropping = False
        archive.writing = bool(archive.queue)
        if archive.queue:
            self._write(archive)

    def _fail(self, archive: SimulatedRecorder) -> None:
        if not archive.failing:
            archive.failing = True
            self._notify(archive.process, ArchiveFailed("no space left on device"))
            self.world.after(RETRY_NS, self._retry, archive)

    def _retry(self, archive: SimulatedRecorder) -> None:
        """Record the gap of what could not be written, if the disk has room again."""
        if not archive.process.alive:
            return
        if self.disks.of(archive.process.name).full:
            self.world.after(RETRY_NS, self._retry, archive)
            return
        archive.failing = False
        archive.written += archive.failed.take()
        self._notify(archive.process, ArchiveOpened())

    def _notify(self, process: Process, event: Event) -> None:
        if process.running:
            self.world.notify(process, event, LOCAL)

    def durability(self, process: Process, output: ArchiveDurability) -> None:
        """Note in the history that recording stopped or resumed."""
        self.world.remark(f"{process.incarnation} records again" if not output.reason else
                          f"{process.incarnation} does not record: {output.reason}")
