"""Two sites of three members: C of NYC multicasts, F of SFO and B of NYC receive; and the relay of NYC is killed."""
from __future__ import annotations

from collections.abc import Mapping
from time import monotonic, sleep
from typing import Any

from benchmarks.versus_jgroups.children import Child, Stalled
from benchmarks.versus_jgroups.table import Row
from benchmarks.versus_jgroups.trials import START_TIMEOUT_S, Groups, arrived, ask, counting, faults, guarded

SIZE = 1000
WARMUP_PART = 4                     # of a trial's messages: what is sent at once to warm up
PROBE_S = 0.5
SETTLE_S = 1.0
QUIET_S = 4.0                       # after a failover: how long nothing comes until we take it that nothing will
FAILOVER_RATE = 1000
FAR = Row("two sites, C to F, 1 KB", "msgs/s")
NEAR = Row("two sites, C to B of the same site, 1 KB", "msgs/s")
FAILOVER = "relay killed (-9) at 1000 msgs/s"
LOST, DOUBLED, LATE, GAP = (Row(f"{FAILOVER}: {what}", unit, more_is_better=False) for what, unit in (
    ("lost at F", "messages"), ("twice at F", "messages"), ("out of order at F", "messages"),
    ("longest gap at F", "s")))


def run(groups: Groups) -> None:
    """Flat out."""
    guarded(groups, (FAR, NEAR), "two sites", lambda: throughput(groups))


def run_failover(groups: Groups) -> None:
    """The relay of the sending site dies in mid-stream."""
    guarded(groups, (LOST, DOUBLED, LATE, GAP), FAILOVER, lambda: failover(groups))


def bridged(groups: Groups, sender: Child, far: Child) -> None:
    """Wait until something that is sent at one site arrives at the other, and a little longer."""
    deadline = monotonic() + START_TIMEOUT_S
    while True:
        number = groups.trial()
        counting([far], number, 1, 1)
        sender.say("flood", number, 1, SIZE, 0, 1)
        try:
            far.wait("counted", monotonic() + PROBE_S, trial=number)
        except Stalled:
            if monotonic() > deadline or not far.running:
                raise
        else:
            break
    sleep(SETTLE_S)


def throughput(groups: Groups) -> None:
    """A warm-up, then the trial."""
    with groups.group(relay=True) as children:
        near, sender, far = children[1], children[2], children[5]
        bridged(groups, sender, far)
        warm = monotonic() + groups.plan.warmup_s
        while monotonic() < warm:
            flood(groups, sender, [near, far], groups.plan.relay_messages // WARMUP_PART)
        rates = flood(groups, sender, [near, far], groups.plan.relay_messages)
        for row, rate in zip((NEAR, FAR), rates, strict=True):
            groups.add(row, rate)
        faults(groups, "two sites", [near, far])


def flood(groups: Groups, sender: Child, receivers: list[Child], count: int) -> list[float]:
    """Messages a second at each of the receivers."""
    number = groups.trial()
    counting(receivers, number, 1, count)
    sender.say("flood", number, count, SIZE, 0, 1)
    deadline = monotonic() + groups.plan.timeout_s
    done = [arrived(child, number, deadline, count) for child in receivers]
    start = sender.wait("flooded", deadline, trial=number)["start_ns"]
    return [count / (at - start) * 1e9 for at in done]


def failover(groups: Groups) -> None:
    """Lost, doubled, out of order, and the longest time that nothing arrived."""
    plan = groups.plan
    count = int(FAILOVER_RATE * plan.failover_s)
    with groups.group(relay=True) as children:
        relay, near, sender, far = children[0], children[1], children[2], children[5]
        bridged(groups, sender, far)
        number = groups.trial()
        counting([near, far], number, 1, count, gaps=True)
        sender.say("flood", number, count, SIZE, FAILOVER_RATE, 1)
        sleep(plan.kill_after_s)
        relay.kill()
        flooded = sender.wait("flooded", monotonic() + plan.failover_s + plan.timeout_s, trial=number)
        tally = settled(far, count)
        for row, value in zip((LOST, DOUBLED, LATE, GAP), outcome(tally, count, flooded), strict=True):
            groups.add(row, value)
        if missing := count - settled(near, count)["distinct"]:
            groups.remark(f"{FAILOVER}: {missing} messages were lost inside the sender's site")


def settled(child: Child, count: int) -> dict[str, Any]:
    """The tally once everything is there, or nothing came for a while."""
    tally, since = ask(child, "tally", "tally"), monotonic()
    while tally["distinct"] < count and monotonic() - since < QUIET_S:
        sleep(PROBE_S)
        latest = ask(child, "tally", "tally")
        if latest["messages"] != tally["messages"]:
            since = monotonic()
        tally = latest
    return tally


def outcome(tally: Mapping[str, int], count: int, flooded: Mapping[str, int]) -> tuple[int, int, int, float]:
    """(lost, doubled, out of order, longest gap in seconds); a stream that never came back has a gap to its end.

    >>> tally = {"distinct": 7, "duplicates": 1, "out_of_order": 0, "gap_ns": 10**9, "last_ns": 5}
    >>> outcome(tally, 9, {"start_ns": 0, "end_ns": 2 * 10**9 + 5})
    (2, 1, 0, 2.0)
    """
    lost = count - tally["distinct"]
    silent_ns = flooded["end_ns"] - (tally["last_ns"] or flooded["start_ns"])
    gap_ns = max(tally["gap_ns"], silent_ns if lost else 0)
    return lost, tally["duplicates"], tally["out_of_order"], gap_ns / 1e9
