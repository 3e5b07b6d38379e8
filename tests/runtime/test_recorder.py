"""The recorder: writes what it is given, in order, whatever the disk does, and records what it could not write."""
import errno
import json
import os
import stat
from pathlib import Path
from time import time

import pytest

pytest.importorskip("pyarrow")

from jgroups_py.archive import recorder as recorder_module
from jgroups_py.archive import segment as segment_module
from jgroups_py.archive.gaps import RecorderGaps
from jgroups_py.archive.layout import recorders, segments
from jgroups_py.archive.reading import next_row
from jgroups_py.model.address import Address
from jgroups_py.model.events import ArchiveBusy, ArchiveFailed, ArchiveOpened
from jgroups_py.model.outputs import Record
from tests.runtime.recorders import A, closed, message, numbers, open_recorder, rows, until

KINDS_AT_ENDS = ["start", "stop"]


class BadDisk:
    """Stands in for `write_all`: refuses to write while it is full, after half of the bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._write_all = segment_module.write_all
        monkeypatch.setattr(segment_module, "write_all", self)

    def __call__(self, descriptor, buffers) -> None:
        if self.full:
            data = b"".join(buffers)
            self._write_all(descriptor, [data[:len(data) // 2]])
            raise OSError(errno.ENOSPC, "No space left on device")
        self._write_all(descriptor, buffers)


@pytest.fixture
def disk(monkeypatch) -> BadDisk:
    monkeypatch.setattr(recorder_module, "RETRY_NS", 1_000_000)
    return BadDisk(monkeypatch)


class SlowDisk:
    """Holds every write up until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import threading
        self.free = threading.Event()
        self._lines_of = recorder_module.lines_of
        monkeypatch.setattr(recorder_module, "lines_of", self)

    def __call__(self, records, first_row, offset):
        if any(record.kind == "delivered" for record in records):
            assert self.free.wait(20)
        return self._lines_of(records, first_row, offset)


# --- the ordinary course -------------------------------------------------------------------------------------------

def test_what_is_put_is_in_the_archive_in_order_between_start_and_stop(tmp_path):
    recorder, _ = open_recorder(tmp_path)
    for first in range(1, 1001, 10):
        recorder.put(message(first))
    closed(recorder)
    found = rows(tmp_path)
    assert [row["row"] for row in found] == list(range(1002))
    assert [found[0]["kind"], found[-1]["kind"]] == KINDS_AT_ENDS
    assert numbers(tmp_path) == list(range(1, 1001))


def test_start_and_stop_have_a_pair_of_clocks_that_fits_the_rows(tmp_path):
    recorder, _ = open_recorder(tmp_path)
    recorder.put(message(1))
    closed(recorder)
    start, *_, stop = rows(tmp_path)
    for row in (start, stop):
        pair = json.loads(row["detail"])
        assert abs((pair["wall_ns"] - pair["mono_ns"]) - (row["wall_ns"] - row["mono_ns"])) < 50_000_000
    assert json.loads(stop["detail"])["reason"] == "left"
    assert abs(start["wall_ns"] / 1e9 - time()) < 60


def test_after_the_end_everything_is_sealed(tmp_path):
    recorder, _ = open_recorder(tmp_path)
    closed(recorder)
    assert [segment.sealed for segment in segments(tmp_path, recorder.identity)] == [True]


def test_a_segment_is_sealed_when_it_is_large(tmp_path):
    recorder, _ = open_recorder(tmp_path, segment_bytes="64K")
    for first in range(1, 41):
        recorder.put(message(first, 1, size=8000))
        until(lambda first=first: recorder.stats()["rows"] > first)
    closed(recorder)
    found = segments(tmp_path, recorder.identity)
    assert len(found) >= 5
    assert [segment.stop for segment in found[:-1]] == [segment.first for segment in found[1:]]
    assert numbers(tmp_path) == list(range(1, 41))


def test_a_segment_is_sealed_when_it_is_old_though_nothing_comes(tmp_path):
    recorder, _ = open_recorder(tmp_path, segment_age_ns="1s")
    until(lambda: recorder.stats()["segments"] == 1)
    recorder.put(message(1))
    closed(recorder)
    assert [segment.first for segment in segments(tmp_path, recorder.identity)] == [0, 1]


def test_a_segment_ends_with_its_hour(tmp_path, monkeypatch):
    recorder, _ = open_recorder(tmp_path)
    monkeypatch.setattr(recorder_module, "hour_folder", lambda wall_ns: "date=2100-01-01/hour=00")
    recorder.put(message(1))
    closed(recorder)
    assert len(segments(tmp_path, recorder.identity)) >= 2


@pytest.mark.parametrize(("fsync", "synced"), [("every", True), ("none", False)])
def test_every_brings_each_row_to_the_disk_and_none_none(tmp_path, fsync, synced):
    recorder, _ = open_recorder(tmp_path, fsync=fsync)
    recorder.put(message(1))
    until(lambda: recorder.stats()["rows"] == 11 and recorder.stats()["waiting_bytes"] == 0)
    assert (recorder.stats()["synced_rows"] == 11) is synced
    closed(recorder)


def test_interval_brings_rows_to_the_disk_after_a_while(tmp_path):
    recorder, _ = open_recorder(tmp_path, fsync="interval", fsync_interval_ns="5ms")
    recorder.put(message(1))
    until(lambda: recorder.stats()["synced_rows"] == 11)
    closed(recorder)


def test_a_reader_follows_a_recorder_that_writes(tmp_path):
    recorder, _ = open_recorder(tmp_path)
    recorder.put(message(1))
    until(lambda: next_row(tmp_path, recorder.identity) == 11)
    assert numbers(tmp_path) == list(range(1, 11))
    closed(recorder)


# --- a disk that is slow ---------------------------------------------------------------------------------------------

def test_drop_records_what_it_dropped(tmp_path, monkeypatch):
    slow = SlowDisk(monkeypatch)
    recorder, _ = open_recorder(tmp_path, queue_bytes="2M", on_slow="drop")
    for first in range(1, 6001, 10):
        recorder.put(message(first, size=1000))
    assert recorder.dropped_rows > 0
    recorder.put(Record("view", 5, None))
    slow.free.set()
    until(lambda: recorder.stats()["waiting_bytes"] == 0)
    recorder.put(message(6001, size=1000))
    closed(recorder)
    found = rows(tmp_path)
    gaps = [row for row in found if row["kind"] == "gap"]
    dropped = [number for row in gaps for number in range(row["seqno"], row["seqno"] + row["count"])]
    assert sorted([*numbers(tmp_path), *dropped]) == list(range(1, 6011))
    assert len(dropped) == recorder.dropped_rows
    assert [json.loads(row["detail"]) for row in gaps] == [{"of": "delivered", "why": "slow"}] * len(gaps)
    assert [row["kind"] for row in found].count("view") == 1                  # facts are not dropped


def test_block_lets_the_group_wait_and_drops_nothing(tmp_path, monkeypatch):
    slow = SlowDisk(monkeypatch)
    recorder, events = open_recorder(tmp_path, queue_bytes="2M", on_slow="block")
    for first in range(1, 4001, 10):
        recorder.put(message(first, size=1000))
    assert [event.waiting_bytes > 1 << 20 for event in events.of(ArchiveBusy)] == [True]
    slow.free.set()
    events.wait(ArchiveBusy, 2)
    assert [bool(event.waiting_bytes) for event in events.of(ArchiveBusy)] == [True, False]
    closed(recorder)
    assert numbers(tmp_path) == list(range(1, 4001))


# --- a disk that fails -----------------------------------------------------------------------------------------------

def test_a_full_disk_is_reported_and_what_it_did_not_take_is_a_gap(tmp_path, disk):
    recorder, events = open_recorder(tmp_path)
    recorder.put(message(1))
    until(lambda: recorder.stats()["rows"] == 11)
    disk.full = True
    recorder.put(message(11))
    assert "No space left" in events.wait(ArchiveFailed).reason
    recorder.put(message(21))
    until(lambda: recorder.stats()["failed_rows"] == 20)
    disk.full = False
    events.wait(ArchiveOpened, 2)
    recorder.put(message(31))
    closed(recorder)
    assert numbers(tmp_path) == [*range(1, 11), *range(31, 41)]
    assert [(row["seqno"], row["count"], json.loads(row["detail"])) for row in rows(tmp_path) if row["kind"] == "gap"
            ] == [(11, 20, {"of": "delivered", "why": "failed"})]
    assert [row["row"] for row in rows(tmp_path)] == list(range(len(rows(tmp_path))))


def test_a_recorder_that_ends_with_a_full_disk_ends(tmp_path, disk):
    recorder, events = open_recorder(tmp_path)
    disk.full = True
    recorder.put(message(1))
    events.wait(ArchiveFailed)
    closed(recorder)
    assert [row["kind"] for row in rows(tmp_path)] == ["start"]


def test_an_fsync_that_fails_is_reported(tmp_path, disk, monkeypatch):
    recorder, events = open_recorder(tmp_path, fsync="every")

    def refuse(_):
        raise OSError(errno.EIO, "Input/output error")
    with monkeypatch.context() as patch:
        patch.setattr(segment_module.os, "fdatasync", refuse)
        recorder.put(message(1))
        assert "Input/output error" in events.wait(ArchiveFailed).reason
    events.wait(ArchiveOpened, 2)
    closed(recorder)
    assert numbers(tmp_path) == list(range(1, 11))                            # written all the same


def test_a_folder_that_cannot_be_made_is_reported_at_the_beginning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    recorder, events = open_recorder(tmp_path / "file")
    assert "cannot write to" in events.wait(ArchiveFailed).reason
    closed(recorder)


def test_a_bug_in_the_recorder_is_reported_and_ends_the_recorder_not_the_group(tmp_path, monkeypatch, caplog):
    recorder, events = open_recorder(tmp_path)
    monkeypatch.setattr(recorder_module, "lines_of", lambda *_: 1 / 0)
    recorder.put(message(1))
    assert "ZeroDivisionError" in events.wait(ArchiveFailed).reason
    recorder.put(message(2))
    assert recorder.dropped_rows == 10


# --- permissions -----------------------------------------------------------------------------------------------------

def test_files_are_readable_by_the_user_that_records_alone(tmp_path):
    before = os.umask(0o022)
    try:
        archive = tmp_path / "made" / "archive"
        recorder, _ = open_recorder(archive)
        until(lambda: any(path.suffix == ".runs" for path in archive.rglob("*")))
        begun = {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in archive.rglob("*") if path.is_file()}
        recorder.put(message(1))
        closed(recorder)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [archive, *archive.rglob("*")]}
    assert begun == {".runs": 0o600}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700


def test_a_folder_that_its_user_made_for_others_stays_so(tmp_path):
    archive = tmp_path / "archive"
    archive.mkdir()
    archive.chmod(0o755)
    recorder, _ = open_recorder(archive)
    closed(recorder)
    assert stat.S_IMODE(archive.stat().st_mode) == 0o755


# --- earlier incarnations, and what is kept --------------------------------------------------------------------------

def crashed(directory: Path, incarnation: str) -> None:
    """A recorder that died, its last write by half."""
    from jgroups_py.archive.layout import RecorderId
    from jgroups_py.archive.rows import lines_of
    from jgroups_py.archive.segment import OpenFile
    file = OpenFile(directory, RecorderId("demo", "", "A", incarnation), 0, 10**18, 0)
    file.append(lines_of([message(1)], 0, 0).serialize(), 10)
    file.close()
    with file.segment.path.open("ab") as torn:
        torn.write(b"JA half a head")


def test_what_an_earlier_incarnation_left_open_is_sealed_and_its_torn_tail_cut(tmp_path):
    crashed(tmp_path, "1" * 32)
    recorder, _ = open_recorder(tmp_path, incarnation="2" * 32)
    until(lambda: recorder.stats()["torn_bytes"] == 14)
    closed(recorder)
    first, _ = recorders(tmp_path)
    assert first.incarnation == "1" * 32
    assert [(segment.sealed, segment.stop) for segment in segments(tmp_path, first)] == [(True, 10)]


def test_a_living_recorder_of_the_same_name_is_left_alone(tmp_path):
    living, _ = open_recorder(tmp_path, incarnation="1" * 32)
    other, _ = open_recorder(tmp_path, incarnation="2" * 32)
    closed(other)
    living.put(message(1))
    closed(living)
    assert numbers(tmp_path) == list(range(1, 11))


def test_retention_removes_the_oldest_segments_of_this_member_only(tmp_path):
    other, _ = open_recorder(tmp_path, member="B")
    closed(other)
    recorder, _ = open_recorder(tmp_path, segment_bytes="64K", retain_bytes="70K", compression="none")
    for first in range(1, 41):
        recorder.put(Record("delivered", first, None, origin=A, first=first, sizes=16000,
                            payloads=(first.to_bytes(2, "big") * 8000,)))
        until(lambda first=first: recorder.stats()["rows"] > first)
    closed(recorder)
    kept = numbers(tmp_path)
    assert recorder.stats()["segments_removed"] > 0
    assert kept == list(range(kept[0], 41))
    assert kept[0] > 20
    assert [found.member for found in recorders(tmp_path)] == ["A", "B"]


# --- gaps -------------------------------------------------------------------------------------------------------------

def test_runs_that_continue_each_other_are_one_gap():
    gaps = RecorderGaps()
    for first in (1, 11, 31):
        gaps.add(message(first), "slow")
    gaps.add(message(1, kind="sent"), "slow")
    gaps.add(Record("view", 5, None), "failed")
    found = [(gap.first, gap.count, gap.detail["of"]) for gap in gaps.take()]
    assert found == [(1, 20, "delivered"), (31, 10, "delivered"), (1, 10, "sent"), (None, 1, "view")]
    assert gaps.take() == []


def test_a_gap_that_is_dropped_itself_is_recorded_again_as_it_was():
    gaps = RecorderGaps()
    gaps.add(message(1), "slow")
    again = RecorderGaps()
    for gap in gaps.take():
        again.add(gap, "failed")
    [gap] = again.take()
    assert (gap.first, gap.count, gap.detail) == (1, 10, {"of": "delivered", "why": "slow"})


def test_gaps_are_bounded_by_telling_too_much(monkeypatch):
    from jgroups_py.archive import gaps as gaps_module
    monkeypatch.setattr(gaps_module, "MAX_RANGES", 3)
    gaps = RecorderGaps()
    for first in range(1, 1001, 20):
        gaps.add(message(first), "slow")
    found = gaps.take()
    assert len(found) == 3
    assert found[-1].first + found[-1].count == 991


def test_names_of_senders_are_recorded(tmp_path):
    recorder, _ = open_recorder(tmp_path)
    recorder.put(Record("delivered", 1, None, origin=Address(bytes(16), "B"), first=1, sizes=0))
    closed(recorder)
    assert rows(tmp_path)[1]["origin_name"] == "B"
