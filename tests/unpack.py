"""Archives that git makes, and those of a release, unpacked."""
from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """All of it into a folder. Pythons before 3.11.4 have no filters, and unpack the same."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)
