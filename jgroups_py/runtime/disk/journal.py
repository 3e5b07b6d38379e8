"""The files of RELAY's journal (`hold_dir`): locks the folder, reads, appends, syncs, removes.

What to write where is decided in the core. The thread that runs the node appends, to the system's page cache, which
survives the end of the process. What waits for the disk itself (reading, syncs, closing, removing) is done by a thread
of this journal, so that the node never does. Errors are reported as JournalFailed; nothing raises.
"""
from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from time import monotonic, sleep

from jgroups_py.model.events import Event, JournalFailed, JournalOpened, SegmentRead, SegmentsSynced
from jgroups_py.system.filesystem import make_folder, sync_path

LOCK_NAME = "lock"
LOCK_SECONDS = 2.0              # a member that leaves and connects again may still be closing its files
LOCK_PAUSE_SECONDS = 0.02
MAX_BUFFERS = 512               # gathered by one system call; Linux takes 1024
FILE_MODE = 0o600

Task = Callable[[], None]


class Journal:
    """One member's journal. `notify` passes an event to the node and may be called from any thread."""

    def __init__(self, folder: str, notify: Callable[[Event], None]) -> None:
        self._folder = Path(folder).expanduser()
        self._notify = notify
        self._lock: int | None = None
        self._newest = ""                                    # the file that is appended to
        self._descriptor: int | None = None                  # of that file, once something was written
        self._unwritten: list[bytes] = []                    # for that file
        self._unsynced: dict[str, None] = {}                 # files written to since the last sync
        self._broken: dict[str, None] = {}                   # files that could not be written
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        threading.Thread(target=self._work, name="jgroups-journal", daemon=True).start()
        self._tasks.put(self._open)

    # --- inside a round ---------------------------------------------------------------------------------------------

    def read(self, name: str) -> None:
        """Read a file; SegmentRead follows."""
        self._tasks.put(lambda: self._read(name))

    def append(self, name: str, data: bytes) -> None:
        """Append to a file; written by the next `flush`."""
        if name != self._newest:
            self.flush()
            self._seal()
            self._newest = name
        self._unwritten.append(data)

    def flush(self) -> None:
        """Write what was appended."""
        buffers, self._unwritten = self._unwritten, []
        if not buffers or self._newest in self._broken:
            return
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                self._descriptor = os.open(self._folder / self._newest, flags, FILE_MODE)
            self._unsynced[self._newest] = None
            write_all(self._descriptor, buffers)
        except OSError as error:
            self._broken[self._newest] = None
            self._notify(JournalFailed(f"cannot write {self._folder / self._newest}: {error.strerror}"))

    def sync(self, number: int) -> None:
        """Bring everything appended so far to the disk."""
        self.flush()
        names, self._unsynced = list(self._unsynced), {}
        self._tasks.put(lambda: self._sync(names, number))

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._broken.pop(name, None)
        self._unsynced.pop(name, None)
        self._tasks.put(lambda: (self._folder / name).unlink(missing_ok=True))

    def close(self) -> None:
        """Close all files, then release the lock of the folder."""
        self.flush()
        self._seal()
        self._tasks.put(self._unlock)
        self._tasks.put(None)

    def _seal(self) -> None:
        """Nothing more comes into the newest file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._tasks.put(lambda: os.close(descriptor))

    # --- on its own thread ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except OSError as error:
                self._notify(JournalFailed(f"{error.filename or self._folder}: {error.strerror}"))

    def _open(self) -> None:
        make_folder(self._folder)
        sync_path(self._folder.parent)
        lock = os.open(self._folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        until = monotonic() + LOCK_SECONDS
        while not locked(lock):
            if monotonic() > until:
                os.close(lock)
                return self._notify(JournalFailed(f"{self._folder} is in use by another member of this name"))
            sleep(LOCK_PAUSE_SECONDS)
        self._lock = lock
        names = sorted(entry.name for entry in os.scandir(self._folder) if entry.name != LOCK_NAME)
        return self._notify(JournalOpened(tuple(names)))

    def _read(self, name: str) -> None:
        with (self._folder / name).open("rb") as file:
            data = file.read()
            os.fsync(file.fileno())                          # what is restored is not lost by a power cut now
        self._notify(SegmentRead(name, data))

    def _sync(self, names: list[str], number: int) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):     # removed since
                sync_path(self._folder / name)
        sync_path(self._folder)                              # the names of new files too
        self._notify(SegmentsSynced(number))

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)


def locked(descriptor: int) -> bool:
    """Lock the file if it is free; whether it is locked now. The lock ends with the descriptor, or the process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_all(descriptor: int, buffers: list[bytes]) -> None:
    """Write all buffers; a system call may take fewer bytes than it is given.

    Raises:
        OSError: the disk is full, or worse.
    """
    for at in range(0, len(buffers), MAX_BUFFERS):
        some = buffers[at:at + MAX_BUFFERS]
        written = os.writev(descriptor, some)
        if written < sum(map(len, some)):
            rest = memoryview(b"".join(some))[written:]
            while rest:
                rest = rest[os.write(descriptor, rest):]
