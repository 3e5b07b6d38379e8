"""Multicast: messages a second, processor time and memory, for one sender and for all."""
from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import attrs

from benchmarks.versus_jgroups.children import Child
from benchmarks.versus_jgroups.table import Row
from benchmarks.versus_jgroups.trials import Groups, arrived, counting, faults, guarded

WAYS = {"one": "one by one", "batch": "in batches"}
WARMUP_SIZE = 1_000                    # if that is among those of the run
WARMUP_PART = 2                     # of a trial's messages: its warm-up at the same size


@attrs.frozen
class Multicast:
    """One kind of multicast trial."""

    size: int
    everybody: bool
    singly: bool = False                # sent and received one by one; otherwise in batches, where there are such calls

    @property
    def what(self) -> str:
        """First column."""
        size = f"{self.size} B" if self.size < 1000 else f"{self.size // 1000} KB"
        senders = "all send" if self.everybody else "one sender"
        return f"multicast {size}, {senders}, {WAYS['one' if self.singly else 'batch']}"

    @property
    def rows(self) -> tuple[Row, Row, Row]:
        """Rate, processor time, memory."""
        return (Row(self.what, "msgs/s"), Row(self.what, "CPU us/msg", more_is_better=False),
                Row(self.what, "RSS MB/member", more_is_better=False))


def run(groups: Groups) -> None:
    """All sizes, one sender and all, in one group as long as nothing stalls."""
    ways = [way for way in groups.plan.ways if way == "one" or groups.contender.batches]
    todo = [Multicast(size, everybody, way == "one") for way in ways for size in groups.plan.messages
            for everybody in (False, True)]
    while todo:
        if not guarded(groups, todo[0].rows, todo[0].what, lambda: some(groups, todo)):
            todo.pop(0)                                         # the rest in a new group: nothing is under way there


def some(groups: Groups, todo: list[Multicast]) -> None:
    """Start a group, warm it up, and do what is to do; what is done is taken out of the list."""
    with groups.group() as children:
        warm_up(groups, children, todo[0].singly)
        while todo:
            trial(groups, todo[0], children)
            todo.pop(0)


def warm_up(groups: Groups, children: Sequence[Child], singly: bool = False) -> None:
    """What makes the just-in-time compiler compile: traffic, one sender and all in turn, for `warmup_s`."""
    messages = groups.plan.messages
    size = WARMUP_SIZE if WARMUP_SIZE in messages else next(iter(messages))
    until = monotonic() + groups.plan.warmup_s
    while monotonic() < until:
        for senders in (children, children[:1]):
            flood(groups, children, senders, size, messages[size] // WARMUP_PART, singly)


def trial(groups: Groups, kind: Multicast, children: list[Child]) -> None:
    """A warm-up at this size, then the trial."""
    senders = children if kind.everybody else children[:1]
    total = groups.plan.messages[kind.size]
    flood(groups, children, senders, kind.size, total // WARMUP_PART, kind.singly)
    rate, cpu_us = flood(groups, children, senders, kind.size, total, kind.singly)
    rss = sum(child.rss_mb() for child in children) / len(children)
    for row, value in zip(kind.rows, (rate, cpu_us, rss), strict=True):
        groups.add(row, value)
    faults(groups, kind.what, children)


def flood(
    groups: Groups, children: Sequence[Child], senders: Sequence[Child], size: int, total: int, singly: bool,
) -> tuple[float, float]:
    """(messages a second at the slowest member, processor microseconds of all members for one message)."""
    number, threads = groups.trial(), groups.plan.sender_threads
    streams = len(senders) * threads
    each = max(1, total // streams)
    counting(children, number, streams, each, singly=singly)
    before = sum(child.cpu_s() for child in children)
    for sender in senders:
        sender.say("flood", number, each, size, 0, threads, int(singly))
    deadline = monotonic() + groups.plan.timeout_s
    done = max(arrived(child, number, deadline, streams * each) for child in children)
    cpu_s = sum(child.cpu_s() for child in children) - before
    start = min(sender.wait("flooded", deadline, trial=number)["start_ns"] for sender in senders)
    return streams * each / (done - start) * 1e9, cpu_s / (streams * each) * 1e6
