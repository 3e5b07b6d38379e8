"""The thread that makes Parquet files of full segments and removes expired ones, while recording continues.

When it starts, it also seals the segments that earlier incarnations of this member left open when they crashed. A
segment that cannot be sealed (the disk is full) stays open, can still be read, and is tried again with the next one.
"""
from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import time

import attrs

from jgroups_py.archive.encryption import ArchiveKeys
from jgroups_py.archive.layout import ArchiveSegment, RecorderId, recorders, segments
from jgroups_py.archive.sealing import SegmentDamage, seal, seal_abandoned
from jgroups_py.archive.segment import OpenFile
from jgroups_py.model.counters import declare, figure
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import NS_PER_S
from jgroups_py.protocols.archive.config import ArchiveConfig

log = logging.getLogger("jgroups_py")


class Sealer:
    """Seals the segments of one recorder, and removes old ones of its member. Methods may be called from any thread."""

    COUNTERS = declare(
        figure("segments", "Segments sealed."),
        figure("segments_not_sealed", "Segments that could not be sealed; they are tried again."),
        figure("segments_removed", "Segments removed because of their age or the space that they took."),
        figure("torn_bytes", "Bytes of unfinished rows cut off after a crash."),
    )

    def __init__(self, directory: Path, recorder: RecorderId, config: ArchiveConfig, keys: ArchiveKeys | None) -> None:
        self._keys = keys
        self._directory = directory
        self._recorder = recorder
        self._config = config
        self._counts = {"segments": 0, "segments_not_sealed": 0, "segments_removed": 0, "torn_bytes": 0}
        self._full: SimpleQueue[OpenFile | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="jgroups-archive-seal", daemon=True)
        self._thread.start()

    def put(self, file: OpenFile) -> None:
        """Queue a full segment to be sealed."""
        self._full.put(file)

    def close(self) -> None:
        """Let the thread end when everything is sealed; `join` waits for it."""
        self._full.put(None)

    def join(self, timeout: float) -> bool:
        """After `close`: wait for the thread. Returns whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stats(self) -> dict[str, float]:
        """The figures of COUNTERS."""
        return dict(self._counts)

    # --- on the sealer's thread -------------------------------------------------------------------------------------

    def _work(self) -> None:
        self._attempt(self._recover)
        unsealed: list[OpenFile] = []
        while (file := self._full.get()) is not None:
            unsealed = [full for full in [*unsealed, file] if not self._attempt(partial(self._seal, full))]
            self._attempt(self._retain)
        for file in unsealed:
            file.close()

    def _seal(self, file: OpenFile) -> None:
        seal(file.segment, self._config.compression)
        file.close()
        self._counts["segments"] += 1

    def _attempt(self, work: Callable[[], None]) -> bool:
        """Run `work` and log an OSError that it raises. Returns whether it raised none."""
        try:
            work()
        except OSError as error:
            self._counts["segments_not_sealed"] += 1
            log.warning("archive: %s: %s", error.filename or self._directory, error.strerror or error)
            return False
        except ConfigError as error:             # a key is missing
            self._counts["segments_not_sealed"] += 1
            log.warning("archive: %s", error)
            return False
        return True

    def _recover(self) -> None:
        """Seal the segments that earlier incarnations of this member left open."""
        member = attrs.evolve(self._recorder, incarnation="")
        earlier = [found for found in recorders(self._directory) if attrs.evolve(found, incarnation="") == member
                   and found != self._recorder]
        for damage in seal_abandoned(self._directory, earlier, self._config.compression, self._keys):
            self._report(damage)

    def _report(self, damage: SegmentDamage) -> None:
        self._counts["torn_bytes"] += damage.cut_bytes
        if damage:
            log.warning("archive of %s: after a crash, %d bytes of an unfinished row were cut off; damaged rows: %s, "
                        "at bytes: %s", self._recorder.member, damage.cut_bytes, damage.missing or "none",
                        damage.places or "none")

    def _retain(self) -> None:
        """Remove the oldest sealed segments of this member that exceed retain_bytes or retain_age."""
        config = self._config
        if not (config.retain_bytes or config.retain_age_ns):
            return
        sealed = sorted(self._sealed(), key=lambda found: found[1])
        total = sum(nbytes for _, _, nbytes in sealed)
        oldest = time() - config.retain_age_ns / NS_PER_S
        for segment, modified, nbytes in sealed:
            too_much = config.retain_bytes and total > config.retain_bytes
            too_old = config.retain_age_ns and modified < oldest
            if not (too_much or too_old):
                return
            segment.path.unlink(missing_ok=True)
            total -= nbytes
            self._counts["segments_removed"] += 1
            remove_empty(segment.path.parent, self._directory)

    def _sealed(self) -> list[tuple[ArchiveSegment, float, int]]:
        """(segment, time of its last change, bytes) of the sealed segments of all incarnations of this member."""
        found = []
        for recorder in recorders(self._directory):
            if attrs.evolve(recorder, incarnation="") == attrs.evolve(self._recorder, incarnation=""):
                for segment in segments(self._directory, recorder):
                    if segment.sealed:
                        status = segment.path.stat()
                        found.append((segment, status.st_mtime, status.st_size))
        return found


def remove_empty(folder: Path, directory: Path) -> None:
    """Remove a folder if it is empty, then its parents below `directory` likewise."""
    with contextlib.suppress(OSError):
        while folder != directory:
            folder.rmdir()
            folder = folder.parent
