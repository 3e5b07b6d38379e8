"""The files of RELAY's journal, on a real disk."""
from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from jgroups_py.disk import JournalFailed, JournalOpened, SegmentRead, SegmentsSynced
from jgroups_py.events import Event
from jgroups_py.runtime import journal
from jgroups_py.runtime.journal import Journal, write_all
from tests.unit.runtime.helpers import PATIENCE_SECONDS, eventually

NAME = "0000000000000001.hold"


class Told(Queue[Event]):
    """What a journal told its node."""

    def next(self, kind: type[Event]) -> Event:
        event = self.get(timeout=PATIENCE_SECONDS)
        assert isinstance(event, kind), event
        return event


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def opened(tmp_path: Path, told: Told) -> Iterator[Journal]:
    made = Journal(str(tmp_path / "hold" / "A"), told.put)
    told.next(JournalOpened)
    yield made
    made.close()


def test_what_is_appended_is_read_back_by_the_next_one(tmp_path, told, opened):
    opened.append(NAME, b"one,")
    opened.append(NAME, b"two")
    opened.append("0000000000000002.hold", b"three")
    opened.close()
    again = Journal(str(tmp_path / "hold" / "A"), told.put)
    names = told.next(JournalOpened).names
    assert names == (NAME, "0000000000000002.hold")
    again.read(NAME)
    assert told.next(SegmentRead) == SegmentRead(NAME, b"one,two")
    again.close()


def test_only_its_owner_may_look_into_it(tmp_path, opened):
    opened.append(NAME, b"secret")
    opened.flush()
    folder = tmp_path / "hold" / "A"
    assert [stat.S_IMODE(made.stat().st_mode) for made in (folder, folder.parent)] == [0o700, 0o700]
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in ("lock", NAME)} == {0o600}


def test_a_second_member_of_the_same_name_is_refused(tmp_path, told, opened, monkeypatch):
    monkeypatch.setattr(journal, "LOCK_SECONDS", 0.1)
    Journal(str(tmp_path / "hold" / "A"), told.put).close()
    assert "is in use by another member of this name" in told.next(JournalFailed).reason


def test_a_member_that_comes_back_at_once_waits_for_the_lock(tmp_path, told, opened):
    again = Journal(str(tmp_path / "hold" / "A"), told.put)
    opened.close()
    told.next(JournalOpened)
    again.close()


def test_a_sync_is_told_with_its_number(told, opened):
    opened.append(NAME, b"one")
    opened.sync(17)
    assert told.next(SegmentsSynced) == SegmentsSynced(17)
    opened.append("0000000000000002.hold", b"two")
    opened.append(NAME + "x", b"three")
    opened.sync(18)
    assert told.next(SegmentsSynced) == SegmentsSynced(18)


def test_only_the_newest_file_stays_open_and_nothing_after_close(tmp_path, told, opened):
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


def test_a_full_disk_is_told_once_a_file(tmp_path, told, opened):
    (tmp_path / "hold" / "A" / NAME).symlink_to("/dev/full")
    opened.append(NAME, b"one")
    opened.flush()
    assert "No space left on device" in told.next(JournalFailed).reason
    opened.append(NAME, b"two")
    opened.flush()
    opened.append("0000000000000002.hold", b"three")
    opened.flush()
    assert told.empty()
    assert (tmp_path / "hold" / "A" / "0000000000000002.hold").read_bytes() == b"three"


def test_a_folder_that_cannot_be_made_is_told(tmp_path, told):
    (tmp_path / "file").write_bytes(b"")
    Journal(str(tmp_path / "file" / "A"), told.put).close()
    assert "Not a directory" in told.next(JournalFailed).reason


def test_a_file_that_cannot_be_read_is_told(told, opened):
    opened.read(NAME)
    assert "No such file" in told.next(JournalFailed).reason


def test_short_writes_are_gone_on_with(tmp_path, monkeypatch):
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda descriptor, buffers: real(descriptor, [b"".join(buffers)[:7]]))
    buffers = [bytes([number % 256]) * (number % 97) for number in range(1500)]
    descriptor = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)
    write_all(descriptor, buffers)
    os.close(descriptor)
    assert (tmp_path / "f").read_bytes() == b"".join(buffers)
