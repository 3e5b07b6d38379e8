"""What the operating system has of secrets: random bytes, and files of keys and identities that are checked first."""
from __future__ import annotations

import os
import stat
from pathlib import Path

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.secrets import MAX_TRUST_BYTES, Secrets
from jgroups_py.sealing.keyring import MAX_FILE_BYTES, GroupKeyring, parse_keyring
from jgroups_py.system.filesystem import FILE_MODE, OTHERS, sync_path

PUBLIC_MODE = 0o644
"""Of a file that holds nothing secret: others may read it, only this user writes it."""
Stamp = tuple[int, int, int, int]
"""Device, inode, size, time of change: what shows that a file is not the one that was read."""


class SystemSecrets(Secrets):
    """Of this process. Its `forks` counts in the child of each fork, so that child and parent seal with other keys."""

    def __init__(self) -> None:
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.forks += 1

    def draw(self, nbytes: int) -> bytes:
        return os.urandom(nbytes)

    def keyring(self, path: str) -> GroupKeyring:
        return read_keyring(Path(path))[0]

    def file(self, path: str, what: str, *, private: bool) -> bytes:
        return read_checked(Path(path), what, MAX_TRUST_BYTES, private=private)[0]


SECRETS = SystemSecrets()
"""The one of this process: what is registered for forks stays until the process ends."""


def stamp_of(path: Path) -> Stamp | None:
    """What shows whether the file has changed; None: it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def read_keyring(path: Path) -> tuple[GroupKeyring, Stamp]:
    """The keyring in a file, and the file's stamp.

    Raises:
        ConfigError: there is no such file, other users may read or write it, it is too large or malformed.
    """
    data, stamp = read_checked(path, "keyring", MAX_FILE_BYTES, private=True, makes="jgroups keys generate")
    try:
        return parse_keyring(data), stamp
    except ConfigError as error:
        raise ConfigError(f"keyring {path}: {error}") from None


def read_checked(path: Path, what: str, most: int, *, private: bool, makes: str = "") -> tuple[bytes, Stamp]:
    """The contents of a file on which the safety of a group depends, and its stamp.

    what: what it is, for errors; most: bytes; private: no other user may read it; makes: the command that makes one.

    Raises:
        ConfigError: there is no such file, it is of another user, others may write or (if private) read it, it is too
            large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        hint = f"; {makes} makes one" if makes else ""
        raise ConfigError(f"{what} {path}: {error.strerror}{hint}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{what} {path}: not a file")
        if private and found.st_mode & OTHERS:
            raise ConfigError(f"{what} {path}: other users may use it (mode {stat.S_IMODE(found.st_mode):04o}); its "
                              "mode must be 0600 (chmod 600)")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(f"{what} {path}: other users may write it (mode {stat.S_IMODE(found.st_mode):04o}); its "
                              "mode must be 0644 or less (chmod 644)")
        if found.st_uid not in (os.geteuid(), 0):
            raise ConfigError(f"{what} {path}: it belongs to user {found.st_uid}; it must be this user's, or root's")
        if found.st_size > most:
            raise ConfigError(f"{what} {path}: larger than {most} bytes")
        return os.read(descriptor, most + 1), (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    finally:
        os.close(descriptor)


def write_keyring(path: Path, keyring: GroupKeyring, *, new: bool = False) -> None:
    """Write a keyring, as `write_checked`."""
    write_checked(path, keyring.as_text(), "keyring", new=new)


def write_checked(path: Path, text: str, what: str, *, new: bool = False, mode: int = FILE_MODE) -> None:
    """Write a file on which the safety of a group depends, atomically. what: what it is, for errors; new: there must be
    no such file; mode: by default for this user alone.

    Raises:
        ConfigError: it cannot be written, or is there.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if new:
                os.link(beside, path)                        # fails if it is there; a rename would replace it
            else:
                os.replace(beside, path)
                beside = path
            sync_path(path.parent)
        finally:
            if beside != path:
                beside.unlink(missing_ok=True)
    except FileExistsError:
        raise ConfigError(f"{path} is there; it is not overwritten, since what depends on its keys could no longer be "
                          "opened or proven") from None
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be written: {error.strerror}") from None
