"""Measures how long a group takes to form, and to notice that a member was killed or has left."""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from jgroups_py.cli.bench.figures import figure
from jgroups_py.cli.bench.group import START_TIMEOUT_S, BenchGroup, BenchMember, letters, properties_for

VIEW_TIMEOUT_S = 60.0


def membership(
    stack: str, members: int, repeat: int, properties: dict[str, str], progress: Callable[[str], None],
) -> dict[str, Any]:
    """Rounds with new processes: all connect at once; then one leaves, one is killed, the coordinator is killed."""
    rounds = []
    for number in range(repeat):
        found = _round(stack, members, properties_for(stack, members, properties))
        rounds.append(found)
        progress(f"round {number + 1}: " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()))
    return {**{name: figure([found[name] for found in rounds]) for name in rounds[0]}, "faults": []}


def _round(stack: str, members: int, properties: dict[str, str]) -> dict[str, float]:
    with BenchGroup() as group:
        crowd = [group.start(name, "", stack=stack, cluster="bench", properties=properties)
                 for name in letters(members)]
        group.wait("all processes started", crowd, "loaded", START_TIMEOUT_S)
        found = {"form_s": _until_view(group, crowd, lambda: group.command(crowd, "connect"))}
        if len(crowd) > 3:
            leaver = crowd.pop(_last_but_coordinator(crowd))
            leaver.state = "killed"                          # it will end by itself
            found["leave_s"] = _until_view(group, crowd, lambda: leaver.command("leave"))
        if len(crowd) > 2:
            victim = crowd.pop(_last_but_coordinator(crowd))
            found["kill_member_s"] = _until_view(group, crowd, lambda: group.processes.kill(victim))
        if len(crowd) > 1:
            victim = crowd.pop(_coordinator(crowd))
            found["kill_coordinator_s"] = _until_view(group, crowd, lambda: group.processes.kill(victim))
        return found


def _until_view(group: BenchGroup, crowd: Sequence[BenchMember], act: Callable[[], object]) -> float:
    """Seconds from `act` until all members of the crowd have the view of exactly this crowd."""
    names = sorted(member.tag for member in crowd)
    began_ns = time.monotonic_ns()
    act()
    group.wait_until(f"the view of {', '.join(names)}", VIEW_TIMEOUT_S, lambda: all(
        sorted(member.latest.get("view", {}).get("members", ())) == names for member in crowd))
    return (max(int(member.latest["view"]["at_ns"]) for member in crowd) - began_ns) / 1e9


def _coordinator(crowd: Sequence[BenchMember]) -> int:
    first = crowd[0].latest["view"]["members"][0]
    return [member.tag for member in crowd].index(first)


def _last_but_coordinator(crowd: Sequence[BenchMember]) -> int:
    at = len(crowd) - 1
    return at - 1 if _coordinator(crowd) == at else at
