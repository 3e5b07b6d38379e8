"""`jgroups sim` finds what it needs in a process that has imported nothing else."""
from __future__ import annotations

import json
import subprocess
import sys

import pytest

from jgroups_py.simulator.profiles import PROFILES

WITH_APPLICATION = sorted(name for name, profile in PROFILES.items() if profile.application)


@pytest.mark.parametrize("profile", WITH_APPLICATION)
def test_a_profile_with_an_application_runs_from_the_command_line(profile: str) -> None:
    command = [sys.executable, "-m", "jgroups_py", "sim", "--profile", profile, "--seed", "1", "--json"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    outcome = json.loads(lines[0])
    assert outcome["violations"] == []
