"""What the journal, the archive and the jobs ask of the file system alike: what is written is for this user alone."""
from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone; those that are there stay as they are.

    Raises:
        OSError: it cannot be made.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def new_file(path: Path) -> None:
    """Make an empty file for this user alone, in place of one that may be there; nothing is followed.

    Raises:
        OSError: it cannot be made, or another process makes it at the same time.
    """
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE))


def private_folder(name: str) -> Path:
    """A folder of this user in the system's temporary folder: the same each time, unless another user has taken its
    name; then a new one."""
    path = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    try:
        path.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & OTHERS:
            return Path(tempfile.mkdtemp(prefix=f"{name}-"))
    return path


def sync_path(path: Path) -> None:
    """Bring a file, or the names of the files in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
