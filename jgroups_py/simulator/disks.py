"""Virtual disks, to which simulated members write their journals, and their faults.

A file has the bytes that the process wrote (the page cache) and the length that was synced to the disk. The crash of a
process leaves both; a power cut truncates each file somewhere behind its synced length, may flip bits there, and
removes files whose names were never synced. A disk can be slow to sync, and full.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

import attrs

from jgroups_py.model.events import JournalFailed, JournalOpened, SegmentRead, SegmentsSynced
from jgroups_py.model.outputs import LOCAL, AppendSegment, OpenJournal, ReadSegment, RemoveSegment, SyncSegments
from jgroups_py.model.units import NS_PER_MS
from jgroups_py.protocols.relay.journal.records import (
    BatchRecord,
    JournalDamage,
    Record,
    read_records,
    seal_of,
)
from jgroups_py.protocols.relay.journal.seals import place
from jgroups_py.sealing.files import FileCipher, key_of
from jgroups_py.sealing.keyring import GroupKey
from jgroups_py.simulator.ports import DevicePort
from jgroups_py.simulator.process import Process
from jgroups_py.wire.codec import Interner

READ_NS = NS_PER_MS
SYNC_NS = 2 * NS_PER_MS
FLIP_RATIO = 0.3                         # of the files that a power cut tears


@attrs.define(eq=False)
class File:
    """One file. synced_bytes: None until its directory entry is synced."""

    data: bytearray = attrs.Factory(bytearray)
    synced_bytes: int | None = None


class Disk:
    """The folder of one member's journal."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.owner: Process | None = None
        self.sync_ns = SYNC_NS
        self.full = False
        self.failed: Process | None = None               # the last one that could not write, if it knows it or not

    def cut_power(self, rng: Random) -> None:
        """Keep the synced part of each file, and a random part of the rest."""
        for name, file in list(self.files.items()):
            synced = file.synced_bytes
            if synced is None and rng.random() < 0.5:
                del self.files[name]
                continue
            kept = rng.randint(synced or 0, len(file.data))
            del file.data[kept:]
            if kept > (synced or 0) and rng.random() < FLIP_RATIO:
                file.data[rng.randrange(synced or 0, kept)] ^= 1 << rng.randrange(8)
            file.synced_bytes = kept


class Disks:
    """All disks of a world: carries out the journal outputs of nodes."""

    def __init__(self, world: DevicePort, seed: str) -> None:
        self.world = world
        self.rng = Random(f"{seed}/disks")
        self.by_name: dict[str, Disk] = {}               # member name -> its disk
        self.watcher: Callable[[Process, AppendSegment], None] | None = None         # sees all that is appended

    def of(self, name: str) -> Disk:
        """The disk of a member."""
        return self.by_name.setdefault(name, Disk())

    def has_journal(self, name: str) -> bool:
        """Whether a member has a journal (its disk may hold an archive only)."""
        return name in self.by_name and self.by_name[name].owner is not None

    def open(self, process: Process, asked: OpenJournal) -> None:
        """Lock the folder and list it."""
        disk = self.of(process.name)
        if disk.owner is not None and disk.owner.running and disk.owner is not process:
            return self._fail(process, f"{asked.folder} is in use")
        disk.owner = process
        event = JournalOpened(tuple(sorted(disk.files)))
        return self.world.after(READ_NS, self.world.notify, process, event, LOCAL)

    def read(self, process: Process, asked: ReadSegment) -> None:
        """Read a whole file, which syncs it, as in the runtime."""
        file = self.of(process.name).files[asked.name]
        file.synced_bytes = len(file.data)
        event = SegmentRead(asked.name, bytes(file.data))
        self.world.after(READ_NS, self.world.notify, process, event, LOCAL)

    def append(self, process: Process, asked: AppendSegment) -> None:
        """Append to the page cache; of a full disk, only half of the data."""
        if self.watcher is not None:
            self.watcher(process, asked)
        disk = self.of(process.name)
        file = disk.files.setdefault(asked.name, File())
        if disk.full:
            file.data += asked.data[:len(asked.data) // 2]
            disk.failed = process
            return self._fail(process, "no space left on device")
        file.data += asked.data
        return None

    def sync(self, process: Process, asked: SyncSegments) -> None:
        """Sync all data appended so far, after the disk's latency."""
        disk = self.of(process.name)
        lengths = {name: len(file.data) for name, file in disk.files.items()}
        self.world.after(disk.sync_ns, self._synced, process, lengths, asked.number)

    def _synced(self, process: Process, lengths: dict[str, int], number: int) -> None:
        disk = self.of(process.name)
        if disk.owner is not process or not process.alive:
            return
        for name, length in lengths.items():
            file = disk.files.get(name)
            if file is not None:
                file.synced_bytes = max(length, file.synced_bytes or 0)
        self.world.notify(process, SegmentsSynced(number), LOCAL)

    def remove(self, process: Process, asked: RemoveSegment) -> None:
        """Remove a file at once; a power cut does not restore it (which would be harmless)."""
        self.of(process.name).files.pop(asked.name, None)

    def power_cut(self, name: str) -> None:
        """Cut the power of a member's host."""
        if name in self.by_name:
            self.by_name[name].cut_power(self.rng)

    def records(self, name: str, keys: Mapping[bytes, GroupKey]) -> Iterator[Record]:
        """The records that can be read from the disk of a member, in order of the files. keys: of sealed ones."""
        files = self.by_name[name].files
        for file in sorted(files):
            data = bytes(files[file].data)
            head = seal_of(data)
            cipher = FileCipher(key_of(head, keys, file, "world"), head, place(file)) if head else None
            if head != b"":
                yield from read_records(data, Interner(), JournalDamage(), cipher)

    def kept(self, name: str, keys: Mapping[bytes, GroupKey]) -> tuple[bytes, ...]:
        """The payloads that can be read from the disk of a member, in order of the files. keys: of sealed ones."""
        batches = (record.batch for record in self.records(name, keys) if isinstance(record, BatchRecord))
        return tuple(payload for batch in batches for payload in batch.payloads)

    def _fail(self, process: Process, reason: str) -> None:
        self.world.after(READ_NS, self.world.notify, process, JournalFailed(reason), LOCAL)
