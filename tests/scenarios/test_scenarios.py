"""Every text scenario prints what it says it prints. JGROUPS_REWRITE=1 puts in what it prints now."""
from __future__ import annotations

import os
from pathlib import Path

import pytest

from jgroups_py.sim.scenario import parse, rewrite, run

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_scenario_prints_what_it_says(file: Path) -> None:
    text = file.read_text()
    if os.environ.get("JGROUPS_REWRITE"):
        file.write_text(rewrite(text))
        return
    for told, wanted in zip(run(text), parse(text), strict=True):
        assert told.expected == wanted.expected, f"{file.name}, after: {' / '.join(wanted.commands)}"
