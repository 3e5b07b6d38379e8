"""What the journal and the archive ask of the file system alike."""
from __future__ import annotations

import os
from pathlib import Path


def sync_path(path: Path) -> None:
    """Bring a file to the disk, whoever wrote it, or the names of the files in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
