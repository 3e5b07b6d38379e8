"""Results of the simulator belong to the sources that made them, and to no others."""
from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jgroups_py
from jgroups_py.sim import sources

IMPORTED = """
import sys
from jgroups_py.sim.profiles import PROFILES
from jgroups_py.sim.runner import run_seed

def rooms():
    return ",".join({name.split(".")[1] for name in sys.modules if name.startswith("jgroups_py.")})

for profile in PROFILES:
    if not PROFILES[profile].application:
        run_seed(profile, 0)
print(rooms())
import jgroups_py.simulation.replicas
for profile in PROFILES:
    run_seed(profile, 0)
print(rooms())
"""


@pytest.mark.slow
def test_no_seed_imports_what_its_result_is_said_not_to_depend_on() -> None:
    said = subprocess.run([sys.executable, "-c", IMPORTED], check=True, capture_output=True, text=True).stdout
    alone, every = (set(line.split(",")) for line in said.splitlines())
    assert {"protocols", "sim"} <= alone
    assert not alone & (sources.NEVER_SIMULATED | sources.OF_APPLICATIONS)
    assert "blocks" in every
    assert not every & sources.NEVER_SIMULATED


def test_a_change_counts_for_the_profiles_that_may_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "jgroups_py"
    shutil.copytree(Path(jgroups_py.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "__file__", str(package / "sim" / "sources.py"))

    def changed_by(path: str) -> set[str]:
        before = {profile: sources.digest_of_sources(profile) for profile in ("relay", "replicas")}
        with (package / path).open("a") as file:
            file.write("# more\n")
        return {profile for profile, digest in before.items() if sources.digest_of_sources(profile) != digest}

    assert changed_by("pipeline/farm.py") == set()
    assert changed_by("control.py") == set()
    assert changed_by("blocks/replicas/log.py") == {"replicas"}
    assert changed_by("runtime/loop.py") == {"replicas"}
    assert changed_by("channel.py") == {"replicas"}
    assert changed_by("node.py") == {"relay", "replicas"}
