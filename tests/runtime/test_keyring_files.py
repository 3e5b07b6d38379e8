"""GroupKeyring files on the disk: who may read them, what a member does with one that changes; forks."""
from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from jgroups_py.model.errors import ConfigError
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.secrets import SECRETS, read_checked, read_keyring, stamp_of, write_keyring

KEYS = new_keyring(bytes(range(32)))


def test_a_keyring_is_written_for_this_user_alone_and_read_back(tmp_path):
    path = tmp_path / "group.keys"
    write_keyring(path, KEYS, new=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_keyring(path) == (KEYS, stamp_of(path))
    with pytest.raises(ConfigError, match="is there; it is not overwritten"):
        write_keyring(path, KEYS, new=True)
    write_keyring(path, KEYS.with_key(b"2" * 32))
    assert len(read_keyring(path)[0].keys) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["group.keys"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o660])
def test_a_keyring_that_others_may_use_is_refused(tmp_path, mode):
    path = tmp_path / "group.keys"
    write_keyring(path, KEYS, new=True)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=rf"other users may use it \(mode {mode:04o}\); its mode must be 0600"):
        read_keyring(path)


def test_what_is_no_keyring_is_refused_with_the_path(tmp_path):
    def error(path: Path) -> str:
        with pytest.raises(ConfigError) as caught:
            read_keyring(path)
        return str(caught.value).replace(str(tmp_path), "")
    assert error(tmp_path / "none.keys") == \
        "keyring /none.keys: No such file or directory; jgroups keys generate makes one"
    assert error(tmp_path) == "keyring : not a file"
    (tmp_path / "large.keys").write_bytes(b" " * 70_000)
    (tmp_path / "large.keys").chmod(0o600)
    assert error(tmp_path / "large.keys") == "keyring /large.keys: larger than 65536 bytes"
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert error(tmp_path / "pipe") == "keyring /pipe: not a file"
    (tmp_path / "text.keys").write_text("secret words")
    (tmp_path / "text.keys").chmod(0o600)
    assert error(tmp_path / "text.keys") == \
        "keyring /text.keys: not a keyring: not JSON (jgroups keys generate makes one)"


def test_a_keyring_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        write_keyring(tmp_path / "missing" / "group.keys", KEYS, new=True)


def test_the_child_of_a_fork_has_other_secrets():
    reader, writer = os.pipe()
    before = SECRETS.forks
    child = os.fork()
    if not child:
        os.write(writer, bytes([SECRETS.forks]))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1)[0] == before + 1 == SECRETS.forks + 1
    os.close(reader)
    os.close(writer)


# --- files that are trusted, and may be read --------------------------------------------------------------------------

def test_a_trusted_file_may_be_read_by_others_and_written_by_none(tmp_path):
    path = tmp_path / "sites.trust"
    path.write_bytes(b"sites")
    for mode in (0o600, 0o644, 0o444):
        path.chmod(mode)
        assert read_checked(path, "trust file", 100, private=False) == (b"sites", stamp_of(path))
    for mode in (0o660, 0o602, 0o666):
        path.chmod(mode)
        with pytest.raises(ConfigError, match=rf"other users may write it \(mode {mode:04o}\).*chmod 644"):
            SECRETS.file(str(path), "trust file", private=False)
    with pytest.raises(ConfigError, match=r"trust file .*/none: No such file or directory$"):
        read_checked(tmp_path / "none", "trust file", 100, private=False)
