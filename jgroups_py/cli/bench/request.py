"""Measures requests a second and their latency; answers have the size of the requests."""
from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from jgroups_py.cli.bench.figures import figure, percentile
from jgroups_py.cli.bench.group import START_TIMEOUT_S, BenchGroup, letters, properties_for
from jgroups_py.model.errors import ConfigError

WARM_SECONDS = 0.5
SLACK_S = 60.0
EVENT_LOOPS = ("asyncio", "uvloop")
MODES = ("threads", *EVENT_LOOPS, "one")


def request(
    stack: str, members: int, requesters: int, mode: str, size: int, seconds: float, repeat: int,
    properties: dict[str, str], progress: Callable[[str], None],
) -> dict[str, Any]:
    """Every member sends requests to the others in turn, from `requesters` threads or coroutines; with mode "one" only
    one thread of one member does.

    Raises:
        ConfigError: mode "uvloop", and it is not installed.
    """
    if mode == "uvloop" and find_spec("uvloop") is None:
        raise ConfigError("--mode uvloop: that event loop is not installed; pip install 'jgroups_py[uvloop]'")
    options = {"stack": stack, "properties": properties_for(stack, members, properties), "cluster": "bench",
               "event_loop": mode if mode in EVENT_LOOPS else ""}
    number = 1 if mode == "one" else requesters
    with BenchGroup() as group:
        crowd = [group.start(name, "", **options) for name in letters(members)]
        group.connect(crowd)
        asking = crowd[:1] if mode == "one" else crowd
        faults: list[str] = []
        rounds = []
        for at in range(repeat + 1):
            warm = not at
            took = WARM_SECONDS if warm else seconds
            group.command(crowd, "expect", messages=0)           # CPU time counts from here, also of answering members
            group.wait("all members are armed", crowd, "armed", START_TIMEOUT_S)
            group.command(asking, "ask", requesters=number, size=size, seconds=took)
            asked = group.wait("all requests answered", asking, "asked", took + SLACK_S)
            group.command(crowd, "report")
            reports = group.wait("all reports", crowd, "report", START_TIMEOUT_S)
            faults += [f"{member.tag}: {error}" for member, event in zip(asking, asked, strict=True)
                       for error in event["errors"]]
            found = _round(asked, reports)
            if not warm:
                rounds.append(found)
                progress(f"round {at}: {found['requests_per_s']:,.0f} requests/s, p50 {found['p50_us']:.0f} us")
        return {**{name: figure([found[name] for found in rounds]) for name in rounds[0]}, "faults": faults}


def _round(asked: list[dict[str, Any]], reports: list[dict[str, Any]]) -> dict[str, float]:
    samples = sorted(sample for event in asked for sample in event["samples_us"])
    requests = sum(event["requests"] for event in asked)
    return {
        "requests_per_s": sum(event["requests"] / event["seconds"] for event in asked),
        "p50_us": percentile(samples, 0.5), "p99_us": percentile(samples, 0.99),
        "cpu_us_per_request": sum(report["cpu_s"] for report in reports) / max(1, requests) * 1e6,
        "rss_mb": max(report["rss_mb"] for report in reports),
    }
