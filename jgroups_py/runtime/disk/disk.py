"""A member's files: RELAY's journal and the archive. Carries out the node's outputs for both."""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import ArchiveFailed, Event
from jgroups_py.model.outputs import (
    AppendSegment,
    OpenArchive,
    OpenJournal,
    Output,
    ReadSegment,
    Record,
    RemoveSegment,
    SyncSegments,
)
from jgroups_py.runtime.disk.journal import Journal

if TYPE_CHECKING:
    from jgroups_py.archive.recorder import Recorder

CLOSE_SECONDS = 10.0             # how long the end of a channel waits for its archive to be written


class Durable:
    """One member's files. `notify` passes an event to the node and may be called from any thread; the functions that
    carry out its outputs are entered into `handlers`."""

    def __init__(self, notify: Callable[[Event], None], handlers: dict[type[Output], Callable[[Any], None]]) -> None:
        self._notify = notify
        self._handlers = handlers
        self._journal: Journal | None = None
        self._recorder: Recorder | None = None
        self._starter: threading.Thread | None = None
        self._ended: str | None = None                       # why
        handlers.update({
            OpenJournal: self._open_journal, OpenArchive: self._open_archive,
            ReadSegment: lambda request: self._journal_of().read(request.name),
            SyncSegments: lambda request: self._journal_of().sync(request.number),
            RemoveSegment: lambda request: self._journal_of().remove(request.name),
        })

    def write_ahead(self, outputs: list[Output]) -> list[Output]:
        """Write what these outputs append to the journal, and return the others.

        Called before any of them is carried out: what another member, another site or the application has got is on
        the disk of its holder, whenever this process is killed.
        """
        journal = self._journal
        if journal is None:
            return outputs
        others = []
        for output in outputs:
            if isinstance(output, AppendSegment):
                journal.append(output.name, output.data)
            else:
                others.append(output)
        journal.flush()
        return others

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

    def _open_journal(self, request: OpenJournal) -> None:
        self._journal = Journal(request.folder, self._notify)

    def _journal_of(self) -> Journal:
        assert self._journal is not None, "a journal is opened before it is used"
        return self._journal

    def _open_archive(self, request: OpenArchive) -> None:
        self._starter = threading.Thread(target=self._start_archive, args=(request,), name="jgroups-archive-start",
                                         daemon=True)
        self._starter.start()

    def _start_archive(self, request: OpenArchive) -> None:
        """On a thread of its own: importing pyarrow takes a third of a second."""
        try:
            from jgroups_py.archive.recorder import Recorder
        except ConfigError as error:             # its text names the missing extra
            return self._notify(ArchiveFailed(str(error)))
        recorder = self._recorder = Recorder(request, self._notify)
        self._handlers[Record] = recorder.put
        if self._ended is not None:              # the channel was closed meanwhile
            recorder.close(self._ended)
        return recorder.start()
