"""The files of RELAY's journal, on a real disk."""
from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from jgroups_py.model.events import Event, JournalFailed, JournalOpened, SegmentRead, SegmentsSynced
from jgroups_py.model.outputs import AppendSegment, Frame, OpenJournal, Output
from jgroups_py.runtime.disk import journal
from jgroups_py.runtime.disk.disk import Durable
from jgroups_py.runtime.disk.journal import Journal, write_all
from tests.runtime.helpers import PATIENCE_SECONDS, eventually

NAME = "0000000000000001.hold"


class Events(Queue[Event]):
    """The events from a journal to its node."""

    def next(self, kind: type[Event]) -> Event:
        event = self.get(timeout=PATIENCE_SECONDS)
        assert isinstance(event, kind), event
        return event


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def opened(tmp_path: Path, events: Events) -> Iterator[Journal]:
    made = Journal(str(tmp_path / "hold" / "A"), events.put)
    events.next(JournalOpened)
    yield made
    made.close()


def test_what_is_appended_is_read_back_by_the_next_one(tmp_path, events, opened):
    opened.append(NAME, b"one,")
    opened.append(NAME, b"two")
    opened.append("0000000000000002.hold", b"three")
    opened.close()
    again = Journal(str(tmp_path / "hold" / "A"), events.put)
    names = events.next(JournalOpened).names
    assert names == (NAME, "0000000000000002.hold")
    again.read(NAME)
    assert events.next(SegmentRead) == SegmentRead(NAME, b"one,two")
    again.close()


def test_what_goes_out_in_a_step_goes_after_what_the_step_appends(tmp_path, events):
    """Else another site may get what no disk of its own site has, when the process is killed in between."""
    handlers: dict[type[Output], Callable[[Any], None]] = {}
    files = Durable(events.put, handlers)
    handlers[OpenJournal](OpenJournal(str(tmp_path / "hold" / "A")))
    events.next(JournalOpened)
    first, last = Frame(0, None, [b"before"]), Frame(0, None, [b"after"])
    assert files.write_ahead([first, AppendSegment(NAME, b"one,"), last, AppendSegment(NAME, b"two")]) == [first, last]
    assert (tmp_path / "hold" / "A" / NAME).read_bytes() == b"one,two"
    files.close("the test ends")


def test_only_its_owner_may_look_into_it(tmp_path, opened):
    opened.append(NAME, b"secret")
    opened.flush()
    folder = tmp_path / "hold" / "A"
    assert [stat.S_IMODE(made.stat().st_mode) for made in (folder, folder.parent)] == [0o700, 0o700]
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in ("lock", NAME)} == {0o600}


def test_a_second_member_of_the_same_name_is_refused(tmp_path, events, opened, monkeypatch):
    monkeypatch.setattr(journal, "LOCK_SECONDS", 0.1)
    second = Journal(str(tmp_path / "hold" / "A"), events.put)
    assert "is in use by another member of this name" in events.next(JournalFailed).reason
    lock = str(tmp_path / "hold" / "A" / "lock")
    opened_files = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert opened_files.count(lock) == 1, "the refused member still has the lock file open"
    second.close()


def test_a_member_that_comes_back_at_once_waits_for_the_lock(tmp_path, events, opened):
    again = Journal(str(tmp_path / "hold" / "A"), events.put)
    opened.close()
    events.next(JournalOpened)
    again.close()


def test_a_sync_is_reported_with_its_number(events, opened):
    opened.append(NAME, b"one")
    opened.sync(17)
    assert events.next(SegmentsSynced) == SegmentsSynced(17)
    opened.append("0000000000000002.hold", b"two")
    opened.append(NAME + "x", b"three")
    opened.sync(18)
    assert events.next(SegmentsSynced) == SegmentsSynced(18)


def test_only_the_newest_file_stays_open_and_nothing_after_close(tmp_path, events, opened):
    def open_files() -> int:
        links = (os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if os.path.lexists(entry))
        return sum(str(tmp_path) in link for link in links)

    for number in range(5):
        opened.append(f"{number:016x}.hold", b"x")
    opened.flush()
    eventually(lambda: open_files() == 2, "closing all but the lock and the newest file")
    opened.close()
    eventually(lambda: open_files() == 0, "closing all files")


def test_a_removed_file_is_gone_and_may_never_have_been(tmp_path, opened):
    opened.append(NAME, b"one")
    opened.flush()
    opened.remove(NAME)
    opened.remove("0000000000000009.hold")
    eventually(lambda: not (tmp_path / "hold" / "A" / NAME).exists(), "removing a file")


def test_a_full_disk_is_reported_once_a_file(tmp_path, events, opened):
    (tmp_path / "hold" / "A" / NAME).symlink_to("/dev/full")
    opened.append(NAME, b"one")
    opened.flush()
    assert "No space left on device" in events.next(JournalFailed).reason
    opened.append(NAME, b"two")
    opened.flush()
    opened.append("0000000000000002.hold", b"three")
    opened.flush()
    assert events.empty()
    assert (tmp_path / "hold" / "A" / "0000000000000002.hold").read_bytes() == b"three"


def test_a_folder_that_cannot_be_made_is_reported(tmp_path, events):
    (tmp_path / "file").write_bytes(b"")
    Journal(str(tmp_path / "file" / "A"), events.put).close()
    assert "Not a directory" in events.next(JournalFailed).reason


def test_a_file_that_cannot_be_read_is_reported(events, opened):
    opened.read(NAME)
    assert "No such file" in events.next(JournalFailed).reason


def test_short_writes_are_gone_on_with(tmp_path, monkeypatch):
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda descriptor, buffers: real(descriptor, [b"".join(buffers)[:7]]))
    buffers = [bytes([number % 256]) * (number % 97) for number in range(1500)]
    descriptor = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)
    write_all(descriptor, buffers)
    os.close(descriptor)
    assert (tmp_path / "f").read_bytes() == b"".join(buffers)
