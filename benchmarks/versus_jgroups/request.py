"""Requests and their answers by unicast, 1 KB each way: how many a second, and how long a lone one takes."""
from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

import attrs

from benchmarks.versus_jgroups.children import Child
from benchmarks.versus_jgroups.table import Row
from benchmarks.versus_jgroups.trials import MEMBERS, Groups, guarded

SIZE = 1000
ANSWER_SLACK_S = 15.0
ALONE_WARMUP = 0.3                  # of the warm-up: most of what it runs is warm by then


@attrs.frozen
class Mode:
    """Ordinary messages, or out of band."""

    label: str
    flag: int


MODES = (Mode("regular", 0), Mode("OOB", 1))


def rows_at_once(mode: Mode, requesters: int) -> tuple[Row, ...]:
    """When everybody asks."""
    return (Row(f"requests, {MEMBERS} x {requesters} requesters, {mode.label}", "requests/s"),)


def rows_alone(mode: Mode) -> tuple[Row, Row]:
    """When one member asks another, one request at a time."""
    what = f"one request at a time, {mode.label}"
    return Row(f"{what}, p50", "us", more_is_better=False), Row(f"{what}, p99", "us", more_is_better=False)


def run(groups: Groups) -> None:
    """Both kinds in both modes; a group that stalled is not used again."""
    for mode in MODES:
        rows = rows_at_once(mode, groups.plan.requesters) + rows_alone(mode)
        guarded(groups, rows, f"requests, {mode.label}", lambda: trial(groups, mode))       # noqa: B023


def trial(groups: Groups, mode: Mode) -> None:
    """In a group of its own: warm-up and trial of both kinds."""
    plan = groups.plan
    with groups.group() as children:
        for seconds in (plan.warmup_s, plan.request_s):
            told = asked(groups, children, plan.requesters, seconds, mode, "others")
        took_s = (max(event["end_ns"] for event in told) - min(event["start_ns"] for event in told)) / 1e9
        rate = sum(event["requests"] for event in told) / took_s
        for seconds in (plan.warmup_s * ALONE_WARMUP, plan.request_s):
            alone = asked(groups, children[:1], 1, seconds, mode, "1")[0]
    values = (rate, alone["p50_ns"] / 1e3, alone["p99_ns"] / 1e3)
    for row, value in zip(rows_at_once(mode, plan.requesters) + rows_alone(mode), values, strict=True):
        groups.add(row, value)


def asked(
    groups: Groups, children: Sequence[Child], requesters: int, seconds: float, mode: Mode, target: str,
) -> list[dict[str, Any]]:
    """What the members told of their requests."""
    number = groups.trial()
    for child in children:
        child.say("request", number, requesters, seconds, SIZE, mode.flag, target)
    deadline = monotonic() + seconds + ANSWER_SLACK_S
    told = [child.wait("requested", deadline, trial=number) for child in children]
    if timeouts := sum(event["timeouts"] for event in told):
        groups.remark(f"requests, {mode.label}: {timeouts} requests had no answer in time")
    return told
