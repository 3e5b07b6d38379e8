"""Placement in other processes: a client that has nothing but a list of members computes the same map."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from jgroups_py.blocks.placement import Candidate, Placement

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys, types
for name, folder in (("jgroups_py", "jgroups_py"), ("jgroups_py.blocks", "jgroups_py/blocks")):
    module = sys.modules[name] = types.ModuleType(name)      # a client that has nothing but the placement
    module.__path__ = [sys.argv[1] + "/" + folder]
from jgroups_py.blocks.placement import Candidate, Placement
place = Placement(Candidate(*one) for one in json.loads(sys.argv[2]))
print(json.dumps([place.place(f"orders/{number}", 3, spread=number % 2 > 0).ids for number in range(2000)]))
"""


def pythons() -> list[str]:
    """This Python, and those of pyenv that can run the package."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [sys.executable, *sorted(str(path) for path in versions.glob("3.1[1-9]*/bin/python"))]


@pytest.mark.slow
def test_accept_3_11_a_client_with_a_list_only_computes_the_same_map() -> None:
    members = [(f"m{number}", 1 + number % 4, f"z{number % 3}") for number in range(12)]
    found = Placement(Candidate(*member) for member in members)
    wanted = [list(found.place(f"orders/{number}", 3, spread=number % 2 > 0).ids) for number in range(2000)]
    Random(3).shuffle(members)                               # nor does the order of the list matter
    running = [subprocess.Popen([python, "-c", PROGRAM, str(ROOT), json.dumps(members)], text=True,
                                stdout=subprocess.PIPE, env={"PYTHONHASHSEED": seed})
               for python in pythons() for seed in ("0", "1", "4294967295")[:1 if python != sys.executable else 3]]
    for process in running:
        assert json.loads(process.communicate(timeout=60)[0]) == wanted, process.args
