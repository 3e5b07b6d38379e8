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
import jgroups_py.simulation.replicas
from jgroups_py.sim.profiles import PROFILES
from jgroups_py.sim.runner import run_seed
for profile in PROFILES:
    run_seed(profile, 0)
print(*{name.split(".")[1] for name in sys.modules if name.startswith("jgroups_py.")})
"""


@pytest.mark.slow
def test_no_seed_imports_what_its_result_is_said_not_to_depend_on() -> None:
    said = subprocess.run([sys.executable, "-c", IMPORTED], check=True, capture_output=True, text=True).stdout.split()
    assert {"protocols", "sim", "blocks"} <= set(said)
    assert not set(said) & set(sources.NEVER_SIMULATED)


def test_a_change_counts_where_a_seed_may_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "jgroups_py"
    shutil.copytree(Path(jgroups_py.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "__file__", str(package / "sim" / "sources.py"))
    before = sources.digest_of_sources()
    with (package / "pipeline" / "farm.py").open("a") as file:
        file.write("# more\n")
    assert sources.digest_of_sources() == before
    with (package / "node.py").open("a") as file:
        file.write("# more\n")
    assert sources.digest_of_sources() != before
