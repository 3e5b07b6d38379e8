"""The open segment of a recorder: appends records, syncs them, and cuts off a record that was written only in part."""
from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jgroups_py.archive import framing
from jgroups_py.archive.encryption import ArchiveKeys, place_of
from jgroups_py.archive.layout import ArchiveSegment, RecorderId, hour_folder, open_name
from jgroups_py.sealing.files import FileCipher
from jgroups_py.system.filesystem import FILE_MODE, make_folder, sync_path

MAX_BUFFERS = 512                # in one call of writev; Linux accepts 1024


class OpenFile:
    """An open segment that is being written. Its file is locked until `close`. keys: with which it is encrypted.

    Raises:
        OSError: the folder or the file cannot be made.
    """

    def __init__(
        self, directory: Path, recorder: RecorderId, first: int, wall_ns: int, mono_ns: int,
        keys: ArchiveKeys | None = None,
    ) -> None:
        self.hour = hour_folder(wall_ns)
        folder = directory / recorder.folder / self.hour
        make_folder(folder)
        path = folder / open_name(first, encrypted=keys is not None)
        self.segment = ArchiveSegment(recorder, first, path, None, keys)
        self.began_ns = mono_ns
        self.first = self.next_row = first
        self.nbytes = 0
        self._name_synced = False
        self._failed = False
        self._cipher: FileCipher | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self.segment.path, flags, FILE_MODE)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        owner = {"cluster": recorder.cluster, "site": recorder.site, "member": recorder.member,
                 "incarnation": recorder.incarnation}
        try:
            if keys is not None:
                head, self._cipher = keys.new_file(place_of(recorder, first, None))
                self._append(framing.record(framing.SEAL, head, 0, first))
            self._append(self._record(framing.OWNER, framing.owner_body(owner), 0, first))
        except OSError:
            self.close()
            self.segment.path.unlink(missing_ok=True)
            raise

    def append(self, body: Any, rows: int) -> None:
        """Append lines that unfold to `rows` rows.

        Raises:
            OSError: writing failed; the file ends where it did before.
        """
        self._append(self._record(framing.BATCH, body, rows, self.next_row))
        self.next_row += rows

    def _record(self, kind: int, body: Any, rows: int, first: int) -> list[Any]:
        """A record for the end of the file, sealed if the file is: its offset is the nonce."""
        if self._cipher is not None:
            clear = framing.clear_head(kind, rows, first)
            body = self._cipher.seal(self.nbytes, memoryview(body).tobytes(), clear)
        return framing.record(kind, body, rows, first)

    def _append(self, buffers: Sequence[Any]) -> None:
        if self._failed:
            raise OSError(errno.EIO, "given up after a write that failed", str(self.segment.path))
        try:
            write_all(self._descriptor, buffers)
        except OSError:
            self._failed = True                  # another record at this offset would have the same nonce
            os.ftruncate(self._descriptor, self.nbytes)
            raise
        self.nbytes += sum(memoryview(buffer).nbytes for buffer in buffers)

    def sync(self) -> None:
        """Sync the appended records to the disk.

        Raises:
            OSError: syncing failed; it is unknown which records are on the disk.
        """
        os.fdatasync(self._descriptor)
        if not self._name_synced:
            sync_path(self.segment.path.parent)
            self._name_synced = True

    def close(self) -> None:
        """Close the file, which releases its lock."""
        os.close(self._descriptor)


def write_all(descriptor: int, buffers: Sequence[Any]) -> None:
    """Write all buffers, also if a system call writes only a part of them.

    Raises:
        OSError: writing failed; a part may have been written.
    """
    for at in range(0, len(buffers), MAX_BUFFERS):
        some = [memoryview(buffer) for buffer in buffers[at:at + MAX_BUFFERS]]
        written = os.writev(descriptor, some)
        for buffer in some:
            taken = min(written, buffer.nbytes)
            written -= taken
            rest = buffer[taken:]
            while rest:
                rest = rest[os.write(descriptor, rest):]
