"""What a member keeps on disk: RELAY's journal and the archive. Carries out what the node asks of both."""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jgroups_py.disk import (
    AppendSegment,
    ArchiveFailed,
    OpenArchive,
    OpenJournal,
    ReadSegment,
    Record,
    RemoveSegment,
    SyncSegments,
)
from jgroups_py.errors import ConfigError
from jgroups_py.events import Event
from jgroups_py.outputs import Output
from jgroups_py.runtime.journal import Journal

if TYPE_CHECKING:
    from jgroups_py.archive.recorder import Recorder

CLOSE_SECONDS = 10.0             # how long the end of a channel waits for its archive to be written


class Durable:
    """One member's files. `tell` passes an event to the node and may be called from any thread; `carriers` is told who
    carries out what."""

    def __init__(self, tell: Callable[[Event], None], carriers: dict[type[Output], Callable[[Any], None]]) -> None:
        self._tell = tell
        self._carriers = carriers
        self._journal: Journal | None = None
        self._recorder: Recorder | None = None
        self._starter: threading.Thread | None = None
        self._ended: str | None = None                       # why
        carriers.update({
            OpenJournal: self._open_journal, OpenArchive: self._open_archive,
            ReadSegment: lambda asked: self._journal_of().read(asked.name),
            AppendSegment: lambda asked: self._journal_of().append(asked.name, asked.data),
            SyncSegments: lambda asked: self._journal_of().sync(asked.number),
            RemoveSegment: lambda asked: self._journal_of().remove(asked.name),
        })

    def flush(self) -> None:
        """Write what the application must not get before it is written."""
        if self._journal is not None:
            self._journal.flush()

    def close(self, reason: str) -> None:
        """The node is done, for `reason`."""
        if self._journal is not None:
            self._journal.close()
        self._ended = reason
        if self._recorder is not None:
            self._recorder.close(reason)

    def join(self) -> None:
        """After `close`, on any thread: wait until the archive is written."""
        if self._starter is not None:
            self._starter.join(CLOSE_SECONDS)
        if self._recorder is not None:
            self._recorder.join(CLOSE_SECONDS)

    def stats(self) -> dict[str, float]:
        """The recorder's figures; empty without one."""
        return {} if self._recorder is None else self._recorder.stats()

    def _open_journal(self, asked: OpenJournal) -> None:
        self._journal = Journal(asked.folder, self._tell)

    def _journal_of(self) -> Journal:
        assert self._journal is not None, "a journal is opened before it is used"
        return self._journal

    def _open_archive(self, asked: OpenArchive) -> None:
        self._starter = threading.Thread(target=self._start_archive, args=(asked,), name="jgroups-archive-start",
                                         daemon=True)
        self._starter.start()

    def _start_archive(self, asked: OpenArchive) -> None:
        """On a thread of its own: importing pyarrow takes a third of a second."""
        try:
            from jgroups_py.archive.recorder import Recorder
        except ConfigError as error:             # it says which extra is missing
            return self._tell(ArchiveFailed(str(error)))
        recorder = self._recorder = Recorder(asked, self._tell)
        self._carriers[Record] = recorder.put
        if self._ended is not None:              # the channel was closed meanwhile
            recorder.close(self._ended)
        return recorder.start()
