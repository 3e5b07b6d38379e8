"""The recorder: one thread per member that writes what ARCHIVE emits, so that the loop never waits for the disk.

`put` queues a record and returns. The thread waits `flush_interval` for more, appends all queued records to the open
segment as one Arrow record batch, and syncs according to `fsync`. Another thread makes Parquet files of full segments
(sealer.py). When the disk is slower than the group, the queue fills up: then, according to `on_slow`, the group waits
or messages are dropped. When the disk fails, everything is dropped until it works again. Dropped records become rows of
kind gap.

Needs pyarrow, so it is imported only where something is recorded.
"""
from __future__ import annotations

import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic, monotonic_ns, time_ns
from typing import Any

from jgroups_py.archive.encryption import ArchiveKeys
from jgroups_py.archive.gaps import FAILED, SLOW, RecorderGaps
from jgroups_py.archive.layout import RecorderId as Identity
from jgroups_py.archive.layout import hour_folder
from jgroups_py.archive.rows import lines_of
from jgroups_py.archive.schema import GAP, MESSAGES, START, STOP, VERSION
from jgroups_py.archive.sealer import Sealer
from jgroups_py.archive.segment import OpenFile
from jgroups_py.model.counters import declare, figure
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import ArchiveBusy, ArchiveFailed, ArchiveOpened, Event
from jgroups_py.model.outputs import OpenArchive, Record
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.protocols.archive.config import BLOCK, EVERY, INTERVAL, NONE, ArchiveConfig

log = logging.getLogger("jgroups_py")

RECORD_COST = 256                            # bytes that a record takes in the queue besides its payloads
BATCH_ROWS = 64 << 10                        # an Arrow record batch is ended when it has about so many rows
BATCH_BYTES = 8 << 20                        # or bytes
HURRY_RATIO = 4                              # a queue that is 1/HURRY_RATIO full is written at once
RETRY_NS = seconds(1)
IDLE_NS = seconds(60)                        # the longest sleep of a thread that has nothing to do
CLOCK_READS = 5


class Recorder:
    """One member's recorder. `inject` passes an event to the node and may be called from any thread."""

    COUNTERS = declare(
        figure("rows", "Rows recorded."),
        figure("synced_rows", "Recorded rows that were synced to the disk."),
        figure("written_bytes", "Bytes written."),
        figure("waiting_bytes", "Bytes that wait to be written."),
        figure("dropped_rows", "Rows that were not recorded: the disk was too slow. The archive has a row with their "
                               "number."),
        figure("failed_rows", "Rows lost because they could not be written."),
        figure("failures", "How often writing failed."),
        figure("fails", "1 while writing fails, else 0."),
    )

    def __init__(self, wanted: OpenArchive, inject: Callable[[Event], None]) -> None:
        config = wanted.config
        assert isinstance(config, ArchiveConfig), "ARCHIVE passes its own configuration"
        self.identity = Identity(wanted.cluster, wanted.site, wanted.member, wanted.incarnation)
        self._config = config
        self._directory = Path(config.directory).expanduser()
        self._inject = inject
        self._hurry_bytes = config.queue_bytes // HURRY_RATIO
        self._keys = ArchiveKeys(str(Path(config.archive_keyring).expanduser())) if config.archive_keyring else None
        self._sealer = Sealer(self._directory, self.identity, config, self._keys)
        # Written by the thread that runs the round:
        self._put_bytes = 0
        self._busy = False                                   # ArchiveBusy was injected, so the group waits
        self._dropping = False
        self._dropped = RecorderGaps()
        self.dropped_rows = 0
        # Written by the recorder's thread:
        self._taken_bytes = 0
        self._file: OpenFile | None = None
        self._next_row = 0
        self._synced_row = 0
        self._sync_due_ns: int | None = None
        self._failed = RecorderGaps()                        # records that could not be written
        self._failing = False
        self._retry_ns = 0
        self.failed_rows = self.written_bytes = self.failures = 0
        # Shared:
        self._queue: deque[Record] = deque()
        self._asleep = self._gathering = False               # which wait the thread is in; `_wake` ends both
        self._closing: str | None = None                     # the reason, once `close` was called
        self._dead = False                                   # the thread ended because of a bug
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._work, name="jgroups-archive", daemon=True)

    def start(self) -> None:
        """Start the thread, which injects ArchiveOpened or ArchiveFailed."""
        self._thread.start()

    # --- inside a round ---------------------------------------------------------------------------------------------

    def put(self, record: Record) -> None:
        """Queue a record, or count it as dropped; never waits."""
        if self._dead:
            self.dropped_rows += record.rows
            return
        cost = cost_of(record) if record.payloads else RECORD_COST
        waiting = self._put_bytes - self._taken_bytes
        if (self._dropping or waiting + cost > self._config.queue_bytes) and self._refuses(record, waiting):
            return
        self._append(record, cost)
        if self._asleep or (self._gathering and waiting + cost > self._hurry_bytes):
            self._asleep = self._gathering = False
            self._wake.set()

    def _append(self, record: Record, cost: int) -> None:
        self._put_bytes += cost
        self._queue.append(record)

    def _refuses(self, record: Record, waiting_bytes: int) -> bool:
        """Whether a record is dropped. Called if the queue is full, or was and has not been half empty since.

        Only messages are dropped: facts are few, and an audit without them proves nothing.
        """
        if self._config.on_slow == BLOCK:
            if not self._busy:
                # Injected before the flag is set: the thread injects ArchiveBusy(0) once it sees the flag.
                self._inject(ArchiveBusy(waiting_bytes))
                self._busy = True
            return False
        if waiting_bytes <= self._config.queue_bytes // 2:
            self._dropping = False
            self._append_gaps()
            return False
        self._dropping = True
        if record.kind not in MESSAGES:
            return False
        self.dropped_rows += record.rows
        self._dropped.add(record, SLOW)
        return True

    def _append_gaps(self) -> None:
        for gap in self._dropped.take():
            self._append(gap, RECORD_COST)

    def close(self, reason: str) -> None:
        """Let the thread write what is queued, seal the segment and end; `join` waits for it."""
        if self._closing is None:
            self._append_gaps()
            self._closing = reason
            self._wake.set()

    # --- from any thread --------------------------------------------------------------------------------------------

    def join(self, timeout: float) -> bool:
        """After `close`: wait until everything is written and sealed. Returns whether it is."""
        until = monotonic() + timeout
        self._thread.join(timeout)
        return not self._thread.is_alive() and self._sealer.join(max(0.0, until - monotonic()))

    def stats(self) -> dict[str, float]:
        """The recorder's part of ARCHIVE's figures in `ch.stats()`."""
        return {"rows": self._next_row, "synced_rows": self._synced_row, "written_bytes": self.written_bytes,
                "waiting_bytes": self._put_bytes - self._taken_bytes, "dropped_rows": self.dropped_rows,
                "failed_rows": self.failed_rows, "failures": self.failures, "fails": int(self._failing),
                **self._sealer.stats()}

    # --- on the recorder's thread -----------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._begin()
        except OSError as error:
            self._sealer.close()
            return self._inject(ArchiveFailed(f"cannot write to {self._directory}: {error.strerror or error}"))
        except ConfigError as error:
            self._sealer.close()
            return self._inject(ArchiveFailed(str(error)))
        self._inject(ArchiveOpened())
        try:
            while self._closing is None:
                self._gather()
                self._write_queued()
                self._run_due()
            self._end(self._closing)
        except BaseException as error:           # a bug here must not end the group: report it and stop recording
            log.exception("the recorder of %s ends because of a bug", self.identity.member)
            self._inject(ArchiveFailed(f"{type(error).__name__}: {error}"))
            self._dead = True
            self._inject(ArchiveBusy(0))         # the group must not wait for a thread that has ended
        finally:
            self._sealer.close()
        return None

    def _begin(self) -> None:
        self._open_file()
        details = {"version": VERSION, "host": socket.gethostname(), "pid": os.getpid(),
                   "payload": self._config.payload, "fsync": self._config.fsync, "cluster": self.identity.cluster,
                   "site": self.identity.site or None, "member": self.identity.member,
                   "address": self.identity.incarnation}
        self._write([clock_record(START, details)])

    def _gather(self) -> None:
        """Sleep until there is something to do, then `flush_interval` longer, so that one write takes many records."""
        self._asleep = True
        if not self._queue and self._closing is None:
            self._wake.wait(max(0, self._next_due_ns() - monotonic_ns()) / NS_PER_S)
        self._asleep = False
        self._wake.clear()
        self._gathering = True
        if self._queue and self._closing is None and self._put_bytes - self._taken_bytes <= self._hurry_bytes:
            self._wake.wait(self._config.flush_interval_ns / NS_PER_S)
        self._gathering = False
        self._wake.clear()

    def _next_due_ns(self) -> int:
        due = [monotonic_ns() + IDLE_NS]
        if self._sync_due_ns is not None:
            due.append(self._sync_due_ns)
        if self._failing:
            due.append(self._retry_ns)
        elif self._file is not None:
            due.append(self._file.began_ns + self._config.segment_age_ns)
        return min(due)

    def _run_due(self) -> None:
        """Retry, sync, or end the segment, if one of these is due."""
        now_ns = monotonic_ns()
        if self._failing:
            if now_ns >= self._retry_ns:
                self._retry()
            return
        try:
            if self._sync_due_ns is not None and now_ns >= self._sync_due_ns:
                self._sync()
            self._roll_if_due()
        except OSError as error:
            self._fail(error)

    # --- writing ----------------------------------------------------------------------------------------------------

    def _write_queued(self) -> None:
        """Write all that is queued; a group that waits continues when the queue is half empty."""
        while self._queue:
            records, cost = self._take()
            if self._failing:
                self._declare_failed(records)
            else:
                self._write(records)
            self._taken_bytes += cost
            if self._busy and self._put_bytes - self._taken_bytes <= self._config.queue_bytes // 2:
                self._inject(ArchiveBusy(0))
                self._busy = False
            self._run_due()

    def _take(self) -> tuple[list[Record], int]:
        """(the next records for one Arrow record batch, their bytes in the queue)."""
        records, rows, cost, queue = list[Record](), 0, 0, self._queue
        while queue and rows < BATCH_ROWS and cost < BATCH_BYTES:
            record = queue.popleft()
            records.append(record)
            rows += record.rows
            cost += cost_of(record)
        return records, cost

    def _write(self, records: list[Record]) -> bool:
        """Append records. Returns whether they were written; if not, they become gaps."""
        try:
            self._roll_if_due()
            file = self._file if self._file is not None else self._open_file()
            body = lines_of(records, self._next_row, time_ns() - monotonic_ns()).serialize()
            file.append(body, sum(record.rows for record in records))
        except OSError as error:
            self._declare_failed(records)
            self._fail(error)
            return False
        self._next_row = file.next_row
        self.written_bytes += len(body)
        try:
            if self._config.fsync == EVERY:
                self._sync()
            elif self._config.fsync == INTERVAL and self._sync_due_ns is None:
                self._sync_due_ns = monotonic_ns() + self._config.fsync_interval_ns
        except OSError as error:
            self._fail(error)
        return True

    def _open_file(self) -> OpenFile:
        self._file = OpenFile(self._directory, self.identity, self._next_row, time_ns(), monotonic_ns(), self._keys)
        return self._file

    def _sync(self) -> None:
        self._sync_due_ns = None
        if self._file is not None:
            self._file.sync()
            self._synced_row = self._next_row

    def _roll_if_due(self) -> None:
        """End the segment if it is large or old, or its hour is over."""
        file = self._file
        if file is not None and (file.nbytes >= self._config.segment_bytes or hour_folder(time_ns()) != file.hour
                                 or monotonic_ns() >= file.began_ns + self._config.segment_age_ns):
            self._roll()

    def _roll(self) -> None:
        """End the segment; the next write begins another one."""
        if self._config.fsync != NONE:
            self._sync()
        file, self._file = self._file, None
        if file is not None:
            self._sealer.put(file)

    # --- failures ---------------------------------------------------------------------------------------------------

    def _declare_failed(self, records: list[Record]) -> None:
        """Count records that could not be written, and remember them as gaps."""
        for record in records:
            self.failed_rows += record.rows if record.kind != GAP else 0
            self._failed.add(record, FAILED)

    def _fail(self, error: OSError) -> None:
        """Record nothing for RETRY_NS, then try a new segment: after an error it is unknown where this one ends."""
        self.failures += 1
        self._retry_ns = monotonic_ns() + RETRY_NS
        file, self._file, self._sync_due_ns = self._file, None, None
        if file is not None:
            self._sealer.put(file)
        if not self._failing:
            self._failing = True
            self._inject(ArchiveFailed(f"{error.filename or self._directory}: {error.strerror or error}"))

    def _retry(self) -> None:
        """Try to write the gaps; if that succeeds, recording continues."""
        if self._write(self._failed.take()):
            self._failing = False
            self._inject(ArchiveOpened())

    def _end(self, reason: str) -> None:
        self._write_queued()
        if self._failing:
            self._retry()
        if not self._failing and self._write([clock_record(STOP, {"reason": reason})]):
            try:
                self._roll()
            except OSError as error:
                self._fail(error)


def cost_of(record: Record) -> int:
    """The bytes that a record counts for in the queue."""
    if not record.payloads:
        return RECORD_COST
    sizes = record.sizes
    assert sizes is not None, "payloads have sizes"
    return RECORD_COST + (sizes * record.rows if isinstance(sizes, int) else sum(sizes))


def clock_record(kind: str, detail: dict[str, Any]) -> Record:
    """A record with both clocks of this host at one instant: the closest pair of several readings."""
    readings = []
    for _ in range(CLOCK_READS):
        before_ns, wall_ns, after_ns = monotonic_ns(), time_ns(), monotonic_ns()
        readings.append((after_ns - before_ns, before_ns + (after_ns - before_ns) // 2, wall_ns))
    _, mono_ns, wall_ns = min(readings)
    return Record(kind, mono_ns, None, detail={**detail, "wall_ns": wall_ns, "mono_ns": mono_ns})
