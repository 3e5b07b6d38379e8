"""The workflows of a forge are right as far as actionlint sees, and check what .ci/run checks, no more and no less."""
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.site.actionlint import ensure

FORGE = Path(__file__).parents[2] / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))

pytestmark = pytest.mark.site


def judged(*paths: Path) -> subprocess.CompletedProcess[str]:
    """What actionlint says."""
    return subprocess.run([str(ensure()), "-no-color", *map(str, paths)], capture_output=True, text=True)


def test_actionlint_finds_nothing_in_ours_and_a_planted_error(tmp_path: Path) -> None:
    assert WORKFLOWS
    assert (judged(*WORKFLOWS).returncode, judged(*WORKFLOWS).stdout) == (0, "")
    planted = tmp_path / "planted.yml"
    planted.write_text(WORKFLOWS[0].read_text(encoding="utf-8").replace("runs-on:", "run-on:"))
    assert judged(planted).returncode == 1
    assert 'unexpected key "run-on"' in judged(planted).stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_job_ends_with_ci_run_and_uses_no_program_of_others(path: Path) -> None:
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        assert job["steps"][-1]["run"].strip() == ".ci/run"
        assert [step for step in job["steps"] if "uses" in step] == []
