"""Results of the simulator belong to the sources that made them, and to no others."""
from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jgroups_py
from jgroups_py.simulator import sources
from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.simulator.runner import APPLICATIONS
from jgroups_py.testing.simulation import applications as applications

IMPORTED = """
import sys
from jgroups_py.simulator.profiles import PROFILES
from jgroups_py.simulator.runner import run_seed

def rooms():
    return ",".join({name.split(".")[1] for name in sys.modules if name.startswith("jgroups_py.")})

for profile in PROFILES:
    if not PROFILES[profile].application:
        run_seed(profile, 0)
print(rooms())
import jgroups_py.testing.simulation.applications
for profile in PROFILES:
    if PROFILES[profile].application:                        # the others have run; their rooms stay imported
        run_seed(profile, 0)
print(rooms())
"""


def test_every_profile_of_an_application_has_it() -> None:
    assert set(APPLICATIONS) == {name for name, profile in PROFILES.items() if profile.application}


@pytest.mark.long
@pytest.mark.slow
def test_no_seed_imports_what_its_digest_leaves_out() -> None:
    printed = subprocess.run([sys.executable, "-c", IMPORTED], check=True, capture_output=True, text=True).stdout
    alone, every = (set(line.split(",")) for line in printed.splitlines())
    assert {"protocols", "simulator"} <= alone
    assert not alone & (sources.NEVER_SIMULATED | sources.OF_APPLICATIONS)
    assert "blocks" in every
    assert not every & sources.NEVER_SIMULATED


def test_a_change_counts_for_the_profiles_that_may_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "jgroups_py"
    shutil.copytree(Path(jgroups_py.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "__file__", str(package / "simulator" / "sources.py"))

    def changed_by(path: str) -> set[str]:
        before = {profile: sources.digest_of_sources(profile) for profile in ("relay", "replicas")}
        with (package / path).open("a") as file:
            file.write("MORE = 1\n")
        return {profile for profile, digest in before.items() if sources.digest_of_sources(profile) != digest}

    assert changed_by("pipeline/farm.py") == set()
    assert changed_by("ops/control.py") == set()
    assert changed_by("blocks/replication/log.py") == {"replicas"}
    assert changed_by("runtime/loop.py") == {"replicas"}
    assert changed_by("channel/sync.py") == {"replicas"}
    assert changed_by("node/node.py") == {"relay", "replicas"}


SOURCE = '''"""A module."""

LIMIT = 3
"""What it is."""


def double(number):  # of two
    """Twice the number."""
    # by addition
    text = """# not a comment

    """
    return number + number, text
'''


def test_what_changes_no_run_changes_no_digest() -> None:
    rewritten = SOURCE.replace("A module.", "Another\n\ntext.").replace("What it is.", "Its unit: metres.")
    rewritten = rewritten.replace("Twice the", "The double of a").replace("  # of two", "").replace("# by addition", "")
    assert rewritten != SOURCE
    assert sources.code_of(rewritten) == sources.code_of(SOURCE)


@pytest.mark.parametrize(("before", "after"), [
    ("LIMIT = 3", "LIMIT = 4"), ("number + number", "number * number"), ("# not a comment", "# not one"),
    ("def double", "def twice")])
def test_what_may_change_a_run_changes_the_digest(before: str, after: str) -> None:
    assert before in SOURCE
    assert sources.code_of(SOURCE.replace(before, after)) != sources.code_of(SOURCE)
