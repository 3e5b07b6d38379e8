"""The version stands in one place; the changelog and the tags agree with it."""
from __future__ import annotations

import re
import subprocess
from configparser import ConfigParser
from pathlib import Path

import jgroups_py
from jgroups_py.model.version import OLDEST, OWN

ROOT = Path(__file__).parents[1]
RELEASED = re.compile(r"^## (\d+\.\d+\.\d+)(?: \(unreleased\)| \(\d{4}-\d{2}-\d{2}\))$", re.MULTILINE)


def git(*arguments: str) -> list[str]:
    """Lines of git's output; none where there is no repository, as in an unpacked source distribution."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else []


def test_the_changelog_begins_with_this_version() -> None:
    heads = RELEASED.findall((ROOT / "CHANGELOG.md").read_text())
    assert heads
    assert heads[0] == jgroups_py.__version__, "CHANGELOG.md has another version at its top"


def test_setup_takes_the_version_from_the_one_place() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["metadata"]["version"] == "attr: jgroups_py.model.version.__version__"
    found = [path.relative_to(ROOT).as_posix() for path in (ROOT / "jgroups_py").rglob("*.py")
             if re.search(r"^__version__ =", path.read_text(), re.MULTILINE)]
    assert found == ["jgroups_py/model/version.py"]


def test_a_tag_of_this_commit_is_this_version_and_the_changelog_has_its_date() -> None:
    tags = [tag for tag in git("tag", "--points-at", "HEAD") if re.fullmatch(r"v\d.*", tag)]
    if tags:
        assert tags == [f"v{jgroups_py.__version__}"]
        head = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
        assert "unreleased" not in head, "a release has a date in CHANGELOG.md"


def test_no_tag_is_of_a_later_version() -> None:
    for tag in git("tag", "--merged", "HEAD", "--list", "v[0-9]*"):
        found = re.match(r"v(\d+)\.(\d+)\.(\d+)", tag)
        assert found, f"{tag} is no version"
        assert tuple(map(int, found.groups())) <= OWN.version


def test_the_oldest_release_beside_which_members_may_run_is_the_last_minor_one_or_this() -> None:
    major, minor, _ = OWN.version
    assert OLDEST in ((major, minor), (major, minor - 1))
