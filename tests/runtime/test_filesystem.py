"""What is written is for this user alone, and nothing that others put in its way is followed."""
from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jgroups_py.runtime.disk import shared_folder as files
from jgroups_py.runtime.disk.shared_folder import read_folder, store_entry
from jgroups_py.system.filesystem import make_folder, new_file, private_folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The usual one, so that a mode is what we asked for."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_folders_that_are_made_are_the_users_alone_and_others_stay_as_they_are(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    make_folder(shared / "a" / "b")
    make_folder(shared / "a" / "b")
    assert [mode(folder) for folder in (shared, shared / "a", shared / "a" / "b")] == [0o775, 0o700, 0o700]


def test_a_new_file_takes_the_place_of_a_link_and_does_not_follow_it(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "draft"
    victim.write_bytes(b"precious")
    path.symlink_to(victim)
    new_file(path)
    assert (victim.read_bytes(), path.read_bytes(), path.is_symlink(), mode(path)) == (b"precious", b"", False, 0o600)


def test_the_folder_of_a_user_is_the_same_each_time_unless_its_name_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = private_folder("jobs")
    assert (private_folder("jobs"), mode(first)) == (first, 0o700)
    first.chmod(0o755)
    assert private_folder("jobs") != first
    first.rmdir()
    first.symlink_to(tmp_path)
    taken = private_folder("jobs")
    assert taken != first
    assert mode(taken) == 0o700


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = private_folder("jobs")
    uid = os.getuid()
    first.rename(tmp_path / f"jobs-{uid + 1}")
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert private_folder("jobs").name != f"jobs-{uid + 1}"


def test_no_link_makes_a_member_overwrite_another_file(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = tmp_path / "entries"
    folder.mkdir()
    for name in (f"a.node.{os.getpid()}.tmp", "a.node.00.tmp"):
        (folder / name).symlink_to(victim)
    store_entry(str(folder), "a.node", b"entry")
    assert (victim.read_bytes(), read_folder(str(folder))) == (b"precious", (b"entry",))
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "00")        # even if the name were known
    with pytest.raises(FileExistsError):
        store_entry(str(folder), "a.node", b"again")
    assert victim.read_bytes() == b"precious"


def test_an_entry_that_cannot_be_finished_leaves_nothing_behind(tmp_path):
    (tmp_path / "a.node").mkdir()
    with pytest.raises(OSError, match=r"a\.node"):
        store_entry(str(tmp_path), "a.node", b"entry")
    assert [path.name for path in tmp_path.iterdir()] == ["a.node"]
