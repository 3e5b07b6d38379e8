"""Encrypted archives: the same rows, nothing in clear, and what was changed, cut off or moved is named, not read."""
from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from random import Random

import attrs
import pytest

from jgroups_py.archive import framing
from jgroups_py.archive.encryption import PIECE, SEALED_PIECE, ArchiveKeys, NotOpenedError, keys_of
from jgroups_py.archive.layout import ArchiveSegment, segments
from jgroups_py.archive.reading import next_row, read_all, read_segment
from jgroups_py.archive.rows import lines_of
from jgroups_py.archive.sealing import OpenSegment, seal, seal_abandoned
from jgroups_py.archive.segment import OpenFile
from jgroups_py.archive.verifying import verify
from jgroups_py.cli import main
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.outputs import Record
from jgroups_py.sealing.files import PREAMBLE_BYTES
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.secrets import read_keyring, write_keyring
from tests.unit.archive.test_format import RECORDER, WALL_NS, A, some_records

SECRET = b"a payload that nobody may read"


@pytest.fixture
def keys(tmp_path: Path) -> ArchiveKeys:
    path = tmp_path / "archive.keys"
    write_keyring(path, new_keyring(b"1" * 32), new=True)
    found = keys_of(path)
    assert found is not None
    return found


def records() -> list[Record]:
    return [*some_records(), Record("delivered", 9, None, origin=A, stream="all", first=1, sizes=len(SECRET),
                                    payloads=(SECRET,))]


def write_open(directory: Path, keys: ArchiveKeys | None, first: int = 0, times: int = 2) -> ArchiveSegment:
    """An open segment with eleven rows in each of `times` records, whose writer has ended."""
    file = OpenFile(directory, RECORDER, first, WALL_NS, 0, keys)
    for _ in range(times):
        file.append(lines_of(records(), file.next_row, WALL_NS).serialize(), 11)
    file.close()
    return file.segment


def write_sealed(directory: Path, keys: ArchiveKeys | None, first: int = 0, times: int = 2) -> ArchiveSegment:
    sealed, damage = seal(write_open(directory, keys, first, times))
    assert sealed is not None
    assert not damage
    return sealed


def rows(directory: Path, keys: ArchiveKeys | None) -> list[int]:
    return read_all(directory, ["row"], keys).column("row").to_pylist()


@pytest.mark.parametrize("write", [write_open, write_sealed])
def test_an_encrypted_segment_has_the_same_rows_and_shows_none_of_them(write, tmp_path, keys):
    clear, shut = tmp_path / "clear", tmp_path / "shut"
    write(clear, None)
    segment = write(shut, keys)
    assert read_all(shut, keys=keys) == read_all(clear)
    data = segment.path.read_bytes()
    assert not any(word in data for word in (SECRET, b"delivered", b"SFO", b"member", b"PAR1", b"trades"))
    assert SECRET in b"".join(path.read_bytes() for path in clear.rglob("*") if path.is_file())
    assert segment.path.name.startswith("_"), "Spark's own reader must not take it for Parquet"
    assert stat.S_IMODE(segment.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(segment.path.parent.stat().st_mode) == 0o700
    assert next_row(shut, RECORDER) == 22, "positions need no keys"
    assert verify(shut, RECORDER, keys).whole


def test_an_open_segment_cut_at_any_byte_gives_the_rows_and_the_torn_tail_of_one_in_clear(tmp_path, keys):
    segment = write_open(tmp_path / "a", keys)
    data = segment.path.read_bytes()
    with OpenSegment(segment.path) as source:
        stops = [head.stop for head in source.heads()]
    for cut in range(0, len(data), 7):
        segment.path.unlink()
        segment.path.write_bytes(data[:cut])
        number = 11 * sum(stop <= cut for stop in stops)
        assert rows(tmp_path / "a", keys) == list(range(number)), f"cut at {cut}"
    [damage] = seal_abandoned(tmp_path / "a", [RECORDER], keys=keys)
    assert damage.cut_bytes == cut - stops[0]
    assert rows(tmp_path / "a", keys) == list(range(11))


@pytest.mark.parametrize("write", [write_open, write_sealed])
def test_any_changed_byte_is_named_with_its_file_and_place_and_gives_no_wrong_row(write, tmp_path, keys):
    segment = write(tmp_path / "a", keys)
    data = segment.path.read_bytes()
    whole = {row["row"]: row for row in read_all(tmp_path / "a", keys=keys).to_pylist()}
    refused: list[bool] = []                                 # for the preamble
    for at in range(0, len(data), 41):
        segment.path.unlink()
        segment.path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        try:
            report = verify(tmp_path / "a", RECORDER, keys)
        except ConfigError as error:
            refused.append(str(segment.path) in str(error))
            continue
        assert not report.whole or report.cut_bytes, f"byte {at}"
        assert report.cut_bytes or any(segment.path.name in problem and "byte" in problem
                                       for problem in report.problems), f"byte {at}: {report}"
        try:
            found = read_all(tmp_path / "a", keys=keys).to_pylist()
        except NotOpenedError:
            continue
        assert all(whole[row["row"]] == row for row in found), f"byte {at}"
    assert all(refused)
    assert len(refused) <= 2


def test_a_large_sealed_file_opens_by_pieces_and_not_without_its_end_or_in_another_order(tmp_path, keys):
    file = OpenFile(tmp_path / "a", RECORDER, 0, WALL_NS, 0, keys)
    rng = Random(1)
    for first in range(100):
        text = rng.randbytes(3000)                           # so that it is not compressed
        some = Record("delivered", 9, None, origin=A, stream="all", first=first + 1, sizes=3000, payloads=(text,))
        file.append(lines_of([some], file.next_row, WALL_NS).serialize(), 1)
    file.close()
    segment, _ = seal(file.segment)
    assert segment is not None
    data = segment.path.read_bytes()
    pieces = [data[at:at + SEALED_PIECE] for at in range(PREAMBLE_BYTES, len(data), SEALED_PIECE)]
    assert len(pieces) > 3
    assert rows(tmp_path / "a", keys) == list(range(100))
    head = data[:PREAMBLE_BYTES]
    for made in (pieces[:-1], pieces[:1], [], [pieces[1], pieces[0], *pieces[2:]], [*pieces, pieces[0]]):
        segment.path.write_bytes(head + b"".join(made))
        with pytest.raises(NotOpenedError, match=r"_seg-.*aes: bytes \d+ to \d+ do not open"):
            rows(tmp_path / "a", keys)
    changed = bytearray(data)
    changed[PREAMBLE_BYTES + SEALED_PIECE + 5] ^= 1
    segment.path.write_bytes(changed)
    problems = verify(tmp_path / "a", RECORDER, keys).problems
    assert any(f"bytes {PREAMBLE_BYTES + SEALED_PIECE} to" in problem for problem in problems), problems
    assert PIECE == 65536


def test_a_file_opens_in_its_own_place_only(tmp_path, keys):
    segment = write_sealed(tmp_path / "a", keys)
    other = attrs.evolve(RECORDER, member="B")
    path = tmp_path / "a" / other.folder / segment.path.relative_to(tmp_path / "a" / RECORDER.folder)
    path.parent.mkdir(parents=True)
    shutil.copy(segment.path, path)
    moved = attrs.evolve(segment, recorder=other, path=path)
    with pytest.raises(NotOpenedError):
        list(read_segment(moved))
    shutil.copytree(tmp_path / "a", tmp_path / "copy", ignore=lambda folder, names: [
        name for name in names if name == "member=B"])
    assert rows(tmp_path / "copy", keys) == list(range(22)), "an archive as a whole may be moved"


def test_missing_and_wrong_keys_and_files_in_clear_are_errors_that_say_what_to_do(tmp_path, keys):
    segment = write_sealed(tmp_path / "shut", keys)
    write_sealed(tmp_path / "clear", None)
    with pytest.raises(ConfigError, match=r"encrypted; give the keyring with its key \(--key-file\)"):
        rows(tmp_path / "shut", None)
    with pytest.raises(ConfigError, match=r"not encrypted, so it is not believed while keys are given.*encrypt"):
        rows(tmp_path / "clear", keys)
    wrong = tmp_path / "wrong.keys"
    write_keyring(wrong, new_keyring(b"2" * 32), new=True)
    mine = keys.keyring().active.name
    with pytest.raises(ConfigError, match=f"{segment.path}: encrypted with key {mine}, which is not in the keyring"):
        rows(tmp_path / "shut", keys_of(wrong))
    os.chmod(wrong, 0o644)
    with pytest.raises(ConfigError, match="mode must be 0600"):
        keys_of(wrong)
    with pytest.raises(ConfigError, match="No such file"):
        keys_of(tmp_path / "none.keys")


def change(keys: ArchiveKeys) -> None:
    """One more key, which is active."""
    path = Path(keys.path)
    ring = read_keyring(path)[0].with_key(b"3" * 32)
    write_keyring(path, ring.activated(ring.keys[-1].name))


def test_after_a_change_of_keys_all_segments_are_read_and_encrypt_leaves_the_active_key_only(tmp_path, keys, capsys):
    directory = tmp_path / "a"
    write_sealed(directory, keys)
    change(keys)
    write_sealed(directory, keys, 22)
    write_open(directory, keys, 44, 1)
    assert rows(directory, keys) == list(range(55))
    assert main(["archive", "encrypt", str(directory), "--key-file", keys.path]) == 0
    assert "1 segments encrypted" in capsys.readouterr().out
    ring = keys.keyring()
    write_keyring(Path(keys.path), ring.without(ring.keys[0].name))
    assert rows(directory, keys) == list(range(55))


def test_a_recorder_goes_on_with_its_keys_when_their_file_is_gone_and_a_reader_does_not_begin(tmp_path, keys, caplog):
    write_sealed(tmp_path / "a", keys)
    kept = Path(keys.path).read_bytes()
    Path(keys.path).unlink()
    write_sealed(tmp_path / "a", keys, 22)
    assert "goes on with its former keys" in caplog.text
    with pytest.raises(ConfigError, match="No such file"):
        keys_of(keys.path)
    Path(keys.path).touch(0o600)
    Path(keys.path).write_bytes(kept)
    assert rows(tmp_path / "a", keys_of(keys.path)) == list(range(44))


def test_what_was_recorded_in_clear_is_encrypted_by_the_command(tmp_path, keys, capsys):
    directory = tmp_path / "a"
    write_sealed(directory, None)
    write_open(directory, None, 22)
    assert main(["archive", "encrypt", str(directory)]) == 2
    assert main(["archive", "encrypt", str(directory), "--key-file", keys.path]) == 0
    assert not any(SECRET in path.read_bytes() for path in directory.rglob("*") if path.is_file())
    assert rows(directory, keys) == list(range(44))
    assert main(["archive", "verify", str(directory), "--key-file", keys.path, "--complete"]) == 0
    assert main(["archive", "cat", str(directory), "--key-file", keys.path, "--limit", "1"]) == 0
    assert main(["archive", "ls", str(directory), "--key-file", keys.path]) == 0
    capsys.readouterr()
    assert main(["archive", "verify", str(directory)]) == 2
    assert "--key-file" in capsys.readouterr().err


def test_between_a_segment_in_clear_and_the_same_encrypted_the_encrypted_one_counts(tmp_path, keys):
    directory = tmp_path / "a"
    segment = write_sealed(directory, None)
    data = segment.path.read_bytes()
    assert main(["archive", "encrypt", str(directory), "--key-file", keys.path]) == 0
    segment.path.write_bytes(data)
    assert [found.encrypted for found in segments(directory, RECORDER)] == [True]


def test_a_segment_whose_write_failed_is_not_written_to_again(tmp_path, keys, monkeypatch):
    """Else a record at the same offset would have the same nonce."""
    file = OpenFile(tmp_path, RECORDER, 0, WALL_NS, 0, keys)
    body = lines_of(records(), 0, WALL_NS).serialize()
    real = os.writev

    def half(descriptor: int, buffers: list) -> int:
        real(descriptor, [memoryview(buffers[0])[:10]])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", half)
    with pytest.raises(OSError, match="No space"):
        file.append(body, 11)
    monkeypatch.undo()
    with pytest.raises(OSError, match="given up"):
        file.append(body, 11)
    file.close()
    assert rows(tmp_path, keys) == []


def test_a_record_whose_head_was_changed_with_its_checksum_does_not_open(tmp_path, keys):
    segment = write_open(tmp_path, keys)
    data = segment.path.read_bytes()
    with OpenSegment(segment.path) as source:
        one, two = source.heads()
    sealed = data[two.at:two.stop]
    for kind, count, first in ((framing.BATCH, 11, 100), (framing.BATCH, 12, 11), (framing.OWNER, 11, 11)):
        made = b"".join(map(bytes, framing.record(kind, sealed, count, first)))
        segment.path.write_bytes(data[:one.stop] + made)
        assert rows(tmp_path, keys) == list(range(11)), "it is at other rows than it was written for"


def test_each_file_has_random_bytes_of_its_own_also_if_it_takes_the_place_of_another_one(tmp_path, keys):
    """After a crash before its first sync a recorder's folder is as before; a restored folder goes on twice."""
    heads = []
    for _ in range(3):
        heads.append(write_open(tmp_path, keys).path.read_bytes()[framing.HEAD_BYTES:][:PREAMBLE_BYTES])
        heads.append(write_sealed(tmp_path, keys).path.read_bytes()[:PREAMBLE_BYTES])
    assert len(set(heads)) == len(heads)
