"""Every text scenario prints the lines that it has. JGROUPS_REWRITE=1 replaces them by what it prints now."""
from __future__ import annotations

import os
from pathlib import Path

import pytest

from jgroups_py.simulator.scenario import parse, rewrite, run

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_scenario_prints_what_its_text_shows(file: Path) -> None:
    text = file.read_text()
    if os.environ.get("JGROUPS_REWRITE"):
        file.write_text(rewrite(text))
        return
    for printed, scripted in zip(run(text), parse(text), strict=True):
        assert printed.expected == scripted.expected, f"{file.name}, after: {' / '.join(scripted.commands)}"
