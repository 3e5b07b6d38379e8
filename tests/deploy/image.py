"""The image of deploy/Containerfile, built by buildah without a registry: its base is made by debootstrap.

Needs root, buildah, debootstrap, and Debian's and Python's package indexes. Containers have the isolation "chroot", so
that all of it works within another container; their network is that of the process that runs them.
"""
from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

from tests.unpack import unpack

ROOT = Path(__file__).parents[2]
DEBIAN, ITS_PYTHON = "bookworm", "3.11"
BASE, IMAGE = "localhost/jgroups-base", "localhost/jgroups_py"
PLATFORMS = "manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64"
BUILDING_SECONDS = 900.0


def run(*words: object, cwd: Path | None = None, seconds: float = BUILDING_SECONDS) -> str:
    """Output of a command that has to succeed."""
    ended = subprocess.run([str(word) for word in words], cwd=cwd, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, check=False, timeout=seconds)
    assert ended.returncode == 0, f"{words} ended with {ended.returncode}:\n{ended.stdout[-4000:]}"
    return ended.stdout


class Builder:
    """A store of images below `folder`, apart from all others on the machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words = ("buildah", "--storage-driver", "vfs", "--root", str(folder / "store"), "--runroot",
                      str(folder / "run"))

    def buildah(self, *words: object) -> str:
        """Its output."""
        return run(*self.words, *words).strip()

    def build(self) -> None:
        """The base from Debian's packages, then the image from what is committed."""
        run("debootstrap", "--variant=minbase", "--include=python3,python3-venv", DEBIAN, self.folder / "base")
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, self.folder / "base", "/")
        self.buildah("commit", "--quiet", container, BASE)
        self.buildah("rm", container)
        self.buildah("bud", "--isolation", "chroot", "--format", "docker", "--build-arg", f"BASE={BASE}", "--tag",
                     IMAGE, self.context())

    def context(self) -> Path:
        """The folder that docs/how-to/deploy.md has users make: Containerfile, stacks, wheels."""
        context = self.folder / "context"
        shutil.copytree(ROOT / "deploy" / "stacks", context / "stacks")
        shutil.copy(ROOT / "deploy" / "Containerfile", context)
        run("git", "-C", ROOT, "archive", "--output", self.folder / "committed.tar", "HEAD")
        with tarfile.open(self.folder / "committed.tar") as archive:
            unpack(archive, self.folder / "committed")
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", context / "wheels",
            self.folder / "committed")
        wheel, = (context / "wheels").glob("*.whl")
        platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
        run(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version", ITS_PYTHON,
            "--implementation", "cp", *platforms, "--dest", context / "wheels", f"{wheel}[http,security]")
        return context

    def container(self) -> str:
        """A new container of the image."""
        return self.buildah("from", IMAGE)

    def command(self, container: str, words: Iterable[object], mounts: Iterable[str] = ()) -> list[str]:
        """The command that runs another one in a container. Its /etc/hosts is the image's, or a mounted one: buildah
        mounts one of its own too, before or after that by chance, without --no-hosts."""
        volumes = [word for mount in mounts for word in ("--volume", mount)]
        return [*self.words, "run", "--isolation", "chroot", "--no-hosts", *volumes, container, "--", *map(str, words)]

    def remove(self) -> None:
        """All containers and images."""
        self.buildah("rm", "--all")
        self.buildah("rmi", "--all", "--force")
