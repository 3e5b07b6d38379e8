"""A recorder without a group: tests put records, and wait for what it does, not for time to pass."""
from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, monotonic_ns

from jgroups_py.archive.reading import read_all
from jgroups_py.archive.recorder import Recorder
from jgroups_py.model.address import Address
from jgroups_py.model.events import ArchiveFailed, ArchiveOpened, Event
from jgroups_py.model.outputs import OpenArchive, Record
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.archive import ArchiveConfig

WAIT_SECONDS = 120.0
A = Address(bytes(range(16)), "A")
VIEW = ViewId(1, A)


class Events:
    """The events from a recorder to its node."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait(self, kind: type[Event], number: int = 1) -> Event:
        """The `number`-th event of a kind, once it came."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.of(kind)) >= number, WAIT_SECONDS), self.events
        return self.of(kind)[number - 1]

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def open_recorder(directory: Path, member: str = "A", incarnation: str = "0" * 32, **settings) -> tuple[Recorder,
                                                                                                        Events]:
    """A recorder that is ready, or has failed."""
    events = Events()
    config = ArchiveConfig(directory=str(directory), **{"flush_interval_ns": "1ms", **settings})
    recorder = Recorder(OpenArchive(config, "demo", "", member, incarnation), events)
    recorder.start()
    until(lambda: bool(events.of(ArchiveOpened) or events.of(ArchiveFailed)))
    return recorder, events


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end, pause = monotonic() + WAIT_SECONDS, threading.Event()
    while not holds():
        assert monotonic() < end, "waited in vain"
        pause.wait(0.002)


def message(first: int, count: int = 10, size: int = 0, kind: str = "delivered") -> Record:
    """A run of messages of A, numbered from `first`."""
    return Record(kind, monotonic_ns(), VIEW, count, 1, A, None, "all", first, None, 0, (), size,
                  (bytes(size),) * count if size else ())


def closed(recorder: Recorder) -> None:
    recorder.close("left")
    assert recorder.join(WAIT_SECONDS)


def rows(directory: Path) -> list[dict]:
    return read_all(directory).to_pylist()


def numbers(directory: Path, kind: str = "delivered") -> list[int]:
    """The numbers of the messages of a kind that the archive has."""
    return [row["seqno"] for row in rows(directory) if row["kind"] == kind]
