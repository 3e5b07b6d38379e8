"""What simulated members record: kept in memory, for tests to compare with the history, and written to their disks.

A model of the recorder (archive/recorder.py) as ARCHIVE and the group see it: a queue, a disk that takes a batch in the
time of a sync, gaps for what it does not take, and news of both. A disk may be slow or full (disk_faults.py), as those
of the journals are.
"""
from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs

from jgroups_py.address import Address
from jgroups_py.archive.gaps import FAILED, SLOW, Gaps
from jgroups_py.disk import ArchiveBusy, ArchiveDurability, ArchiveFailed, ArchiveOpened, OpenArchive, Record
from jgroups_py.events import Event
from jgroups_py.outputs import LOCAL
from jgroups_py.protocols.archive.config import BLOCK, ArchiveConfig
from jgroups_py.sim.process import Process
from jgroups_py.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from jgroups_py.sim.engine import Engine

OPEN_NS = 5 * NS_PER_MS                  # how long opening takes
FLUSH_NS = 20 * NS_PER_MS                # how long records gather
RETRY_NS = NS_PER_S
QUEUE_RECORDS = 16                       # that may wait; few, so that a slow disk is felt by the little that is said
MESSAGES = ("sent", "delivered")


@attrs.define(eq=False)
class Archive:
    """One recorder."""

    process: Process
    blocks: bool
    given: list[Record] = attrs.Factory(list)            # what it was given, in order
    written: list[Record] = attrs.Factory(list)          # what is on the disk, gaps among it
    queue: deque[Record] = attrs.Factory(deque)
    writing: bool = False                                # a batch is on its way to the disk, or gathers
    busy: bool = False                                   # the group was told to wait
    dropping: bool = False
    failing: bool = False
    dropped: Gaps = attrs.Factory(Gaps)
    failed: Gaps = attrs.Factory(Gaps)


class Archives:
    """All archives of a world: carries out what ARCHIVE asks."""

    def __init__(self, world: Engine) -> None:
        self.world = world
        self.by_recorder: dict[Address, Archive] = {}

    @property
    def records(self) -> dict[Address, list[Record]]:
        """Recorder -> what it was given, in order."""
        return {who: archive.given for who, archive in self.by_recorder.items()}

    def open(self, process: Process, asked: OpenArchive) -> None:
        """Begin to record."""
        assert isinstance(asked.config, ArchiveConfig), "ARCHIVE asks with its own configuration"
        self.by_recorder[process.me] = Archive(process, asked.config.on_slow == BLOCK)
        self.world.after(OPEN_NS, self._tell, process, ArchiveOpened())

    def record(self, process: Process, record: Record) -> None:
        """Queue it, or drop it and say so later; or let the group wait."""
        archive = self.by_recorder[process.me]
        archive.given.append(record)
        if archive.blocks:
            if len(archive.queue) >= QUEUE_RECORDS and not archive.busy:
                archive.busy = True
                self._tell(process, ArchiveBusy(len(archive.queue)))
        elif self._drops(archive, record):
            return
        archive.queue.append(record)
        self._write_soon(archive)

    def _drops(self, archive: Archive, record: Record) -> bool:
        """From a full queue until a half empty one messages are dropped; facts never are."""
        if archive.dropping and len(archive.queue) <= QUEUE_RECORDS // 2:
            archive.dropping = False
            archive.queue += archive.dropped.take()
        archive.dropping = archive.dropping or len(archive.queue) >= QUEUE_RECORDS
        if not archive.dropping or record.kind not in MESSAGES:
            return False
        archive.dropped.add(record, SLOW)
        return True

    def _write_soon(self, archive: Archive) -> None:
        if not archive.writing:
            archive.writing = True
            self.world.after(FLUSH_NS, self._write, archive)

    def _write(self, archive: Archive) -> None:
        """What is queued goes to the disk as one batch."""
        batch = list(archive.queue)[:QUEUE_RECORDS]
        self.world.after(self.world.disks.of(archive.process.name).sync_ns, self._written, archive, batch)

    def _written(self, archive: Archive, batch: list[Record]) -> None:
        if not archive.process.alive:
            return
        for _ in batch:
            archive.queue.popleft()
        if self.world.disks.of(archive.process.name).full:
            for record in batch:
                archive.failed.add(record, FAILED)
            self._fail(archive)
        else:
            archive.written += batch
        if archive.busy and len(archive.queue) <= QUEUE_RECORDS // 2:
            archive.busy = False
            self._tell(archive.process, ArchiveBusy(0))
        if not archive.queue:
            archive.queue += archive.dropped.take()
            archive.dropping = False
        archive.writing = bool(archive.queue)
        if archive.queue:
            self._write(archive)

    def _fail(self, archive: Archive) -> None:
        if not archive.failing:
            archive.failing = True
            self._tell(archive.process, ArchiveFailed("no space left on device"))
            self.world.after(RETRY_NS, self._retry, archive)

    def _retry(self, archive: Archive) -> None:
        """Write down what was given up, if the disk takes it."""
        if not archive.process.alive:
            return
        if self.world.disks.of(archive.process.name).full:
            self.world.after(RETRY_NS, self._retry, archive)
            return
        archive.failing = False
        archive.written += archive.failed.take()
        self._tell(archive.process, ArchiveOpened())

    def _tell(self, process: Process, event: Event) -> None:
        if process.running:
            self.world.tell(process, event, LOCAL)

    def durability(self, process: Process, output: ArchiveDurability) -> None:
        """The application is told."""
        self.world.remark(f"{process.incarnation} records again" if not output.reason else
                          f"{process.incarnation} does not record: {output.reason}")
