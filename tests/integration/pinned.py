"""The sources of an earlier commit, which speaks the same wire format as this one (design/wire.md, "Versions")."""
from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.unpack import unpack

PINNED = "9605bb658d17d0b2ecfbaf1e3f572c1f6ec091d6"
"""The newest commit before this one whose wire format is this one's. Where a change of the format moves it,
design/wire.md has from then on which members may run beside each other."""
ROOT = Path(__file__).resolve().parents[2]
PARTS = ("jgroups_py", "stacks")


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)


def last_release() -> str:
    """The newest tag of a release that this commit contains; while there is none, the pinned commit."""
    found = git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^")
    return found.stdout.decode().strip() if found.returncode == 0 else PINNED


def fetch(folder: Path, commit: str = PINNED) -> Path:
    """Unpack the package and its stacks, as of the commit, into `folder`; the test fails without such a history."""
    if git("cat-file", "-e", f"{commit}^{{commit}}").returncode:
        if git("rev-parse", "--git-dir").returncode:
            pytest.fail(f"{ROOT} is no git repository, and the sources of {commit[:7]} come from its history")
        shallow = git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        pytest.fail(f"commit {commit[:7]} is not in this repository" +
                    (", which is shallow; run: git fetch --unshallow" if shallow else "; run: git fetch"))
    archive = git("archive", commit, *PARTS)
    assert archive.returncode == 0, archive.stderr.decode()
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        unpack(tar, folder)
    return folder
