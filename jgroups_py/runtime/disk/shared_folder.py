"""The shared folder of FILE_PING: small files, written atomically, read all at once.

A reader must never see half an entry, so an entry is written under another name and then renamed. What is read from
the folder is bounded: files larger than an entry, and files beyond MAX_ENTRIES, are left out. The temporary name is
random and the file is created exclusively: a symbolic link planted under a predictable name would make the member
overwrite its target.
"""
from __future__ import annotations

import os
import secrets
from pathlib import Path

MAX_ENTRY_BYTES = 65536
MAX_ENTRIES = 10_000
UNFINISHED = ".tmp"
ENTRY_MODE = 0o644                          # less what the umask takes: members of other users may share the folder


def store_entry(folder: str, name: str, data: bytes | None) -> None:
    """Write `data` as file `name` of `folder`, or remove the file if None.

    Raises:
        OSError: the folder or file cannot be written.
    """
    if not name or Path(name).name != name or name.startswith("."):
        raise OSError(f"{name!r} is not a plain file name")
    place = Path(folder).expanduser()
    if data is None:
        (place / name).unlink(missing_ok=True)
        return
    place.mkdir(parents=True, exist_ok=True)
    unfinished = place / f"{name}.{secrets.token_hex(8)}{UNFINISHED}"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, ENTRY_MODE)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        unfinished.replace(place / name)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def read_folder(folder: str) -> tuple[bytes, ...]:
    """The contents of all entries in `folder`, in order of their names; empty if there is no such folder.

    Raises:
        OSError: the folder is there and cannot be read.
    """
    place = Path(folder).expanduser()
    if not place.exists():
        return ()
    names = sorted(entry.name for entry in os.scandir(place) if entry.is_file())
    wanted = [name for name in names if not name.endswith(UNFINISHED)][:MAX_ENTRIES]
    found = (_read_entry(place / name) for name in wanted)
    return tuple(data for data in found if data is not None)


def _read_entry(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ENTRY_BYTES + 1)
    except OSError:
        return None                         # removed between listing and reading
    return data if len(data) <= MAX_ENTRY_BYTES else None
