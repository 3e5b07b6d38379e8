"""A flood takes its memory from what it gave back before, not from the system."""
from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

FLOOD = """
import resource, sys
from jgroups_py.runtime.memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def flood(rounds):
    for _ in range(rounds):
        datagrams = [b"x" * 60_000 for _ in range(64)]
        del datagrams
flood(10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
flood(20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
MANY = 20 * 64                              # one a datagram; there are 15 pages in each


def page_faults(how: str, **variables: str) -> int:
    """Of 20 rounds of 64 datagrams, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    run = subprocess.run([sys.executable, "-c", FLOOD, how], env={**environment, **variables}, check=True,
                         capture_output=True, text=True)
    return int(run.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a rule of glibc")
def test_a_flood_of_large_messages_does_not_fault_for_memory_it_had_before() -> None:
    without = page_faults("returned")
    assert without > MANY, "the flood of this test makes glibc return memory, else it shows nothing"
    assert page_faults("kept") < without / 50


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a rule of glibc")
def test_what_the_operator_set_stays_set() -> None:
    assert page_faults("kept", MALLOC_TRIM_THRESHOLD_="131072") > MANY
