"""What is published: the wheel and the source distribution, built, checked, installed elsewhere, and used."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import jgroups_py
from tests.unpack import unpack

pytestmark = pytest.mark.release
ROOT = Path(__file__).parents[2]


def run(*words: object, cwd: Path | None = None) -> str:
    """Output of a command that has to succeed; no PYTHONPATH leads it to the sources here."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run([str(word) for word in words], cwd=cwd, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, check=False, env=clean)
    assert ended.returncode == 0, f"{words} ended with {ended.returncode}:\n{ended.stdout[-4000:]}"
    return ended.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both distributions, built from what is committed."""
    folder = tmp_path_factory.mktemp("release")
    run("git", "-C", ROOT, "archive", "--output", folder / "committed.tar", "HEAD")
    with tarfile.open(folder / "committed.tar") as archive:
        unpack(archive, folder / "committed")
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", folder / "committed")
    return folder / "dist"


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *built.glob("*.whl"))
    return folder / "bin"


def test_an_index_would_take_both(built: Path) -> None:
    assert sorted(path.suffix for path in built.iterdir()) == [".gz", ".whl"]
    run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir())


def test_the_version_is_the_same_everywhere_and_the_changelog_begins_with_it(built: Path) -> None:
    assert all(f"-{jgroups_py.__version__}" in path.name for path in built.iterdir())
    top = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert top is not None
    assert top.group(1) == jgroups_py.__version__


def test_the_page_at_an_index_has_no_link_that_leads_nowhere(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        name = next(each for each in wheel.namelist() if each.endswith("METADATA"))
        text = wheel.read(name).decode()
    assert "RELAY" in text
    assert re.findall(r"\]\((?!https?://)[^)]*\)", text) == []


def test_the_source_distribution_has_every_file_of_the_repository(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as source:
        found = {name.partition("/")[2] for name in source.getnames()}
    wanted = set(run("git", "-C", ROOT, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    assert wanted - found == {".gitignore"}


def test_the_wheel_works_without_the_sources_beside_it(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "jgroups", "--version", cwd=tmp_path) == f"jgroups_py {jgroups_py.__version__}\n"
    for stack in ("udp", "tcp-total", "nyc"):
        run(installed / "jgroups", "lint", stack, cwd=tmp_path)
    shown = run(installed / "jgroups_py", "demo", "--no-archive", "--rate", "4000", cwd=tmp_path)
    assert shown.rstrip().endswith("everything arrived once and in order")


def test_the_unpacked_source_distribution_passes_its_tests_of_formats_and_protocols(
    built: Path, tmp_path: Path,
) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as source:
        unpack(source, tmp_path)
    folder, = tmp_path.iterdir()
    run("env", f"PYTHONPATH={folder}", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/wire",
        "tests/unit/protocols", "tests/unit/relay", cwd=folder)
