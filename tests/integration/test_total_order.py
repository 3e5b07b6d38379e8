"""One order of all multicasts among real processes: all flood, the coordinator is killed, the survivors agree."""
from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.members import free_ports

MEMBER = Path(__file__).with_name("ordered_member.py")
NUMBER = 3000


@pytest.mark.real
def test_survivors_of_a_killed_coordinator_delivered_the_same_sequence() -> None:
    port = free_ports("udp")["mcast_port"]
    with ExitStack() as stack:
        members: dict[str, subprocess.Popen[str]] = {}
        for name in "ABC":
            member = stack.enter_context(subprocess.Popen(
                [sys.executable, str(MEMBER), name, str(port), str(NUMBER)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True))
            stack.callback(member.kill)
            members[name] = member
        for member in members.values():
            assert member.stdout is not None
            coordinator = member.stdout.readline().removeprefix("ready ").strip()
        for member in members.values():
            assert member.stdin is not None
            member.stdin.write("go\n")
            member.stdin.flush()
        members.pop(coordinator).kill()
        found = [member.stdout.readline().split() for member in members.values() if member.stdout is not None]
        assert found[0] == found[1]
        assert int(found[0][1]) >= 2 * NUMBER
