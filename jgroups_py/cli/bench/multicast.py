"""Measures multicast throughput, in one group or from one site to another.

Throughput of a round: messages delivered at each member (a sender's own included) over the time from the first send to
the last delivery at the slowest member. Every receiver checks every number: a message that is lost, duplicated or out
of order is a fault, and the benchmark fails.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from jgroups_py.cli.bench.figures import figure
from jgroups_py.cli.bench.group import START_TIMEOUT_S, BenchError, BenchGroup, BenchMember, letters, properties_for
from jgroups_py.system.free_ports import free_range

PIECE = 64                                  # messages that a sender hands to the channel at once, by default
FIRST_COUNT = 500                           # messages of the first warm-up round
WARM_SECONDS = 0.3                          # warm-up rounds get larger until one takes so long
LEAST_ROUND_S = 60.0                        # a round that takes longer than this, and SLOWEST times longer than the
SLOWEST = 20.0                              # warm-up predicts, counts as stuck


@attrs.frozen
class Way:
    """How an application sends and receives.

    piece: messages that it hands to the channel at once, 1: by `send`. singly: it gets them by `receive`. event_loop:
    on an AsyncChannel, with the event loop of this package.
    """

    label: str
    piece: int = PIECE
    singly: bool = False
    event_loop: str = ""

    def options(self) -> dict[str, Any]:
        """Of a worker."""
        return {"singly": self.singly, "event_loop": self.event_loop}


WAYS = {
    "one": Way("one by one: send, receive", 1, True),
    "batch": Way("in batches: send_batch, receive_batch"),
    "asyncio": Way("one by one on an AsyncChannel", 1, True, "asyncio"),
    "uvloop": Way("one by one on an AsyncChannel with uvloop", 1, True, "uvloop"),
}


@attrs.frozen
class Load:
    """The messages of the rounds. size: bytes of a message; piece: messages passed to the channel at once; count:
    messages of each sender in a round, None: as many as take about `seconds`; repeat: measured rounds."""

    size: int
    way: Way
    count: int | None
    seconds: float
    repeat: int


@attrs.frozen
class Round:
    """The measurements of one round."""

    messages: int
    rates: dict[str, float]                                  # site -> messages/s at its slowest member
    cpu_s: float
    rss_mb: float
    retransmitted: int

    @property
    def seconds(self) -> float:
        """The time until the slowest site had all messages."""
        return self.messages / min(self.rates.values())


class Flood:
    """Sends rounds of messages in a connected group."""

    def __init__(self, group: BenchGroup, senders: Sequence[BenchMember], load: Load) -> None:
        self.group = group
        self.senders = senders
        self.load = load
        self.sent = 0                                        # by each sender, in all rounds
        self.faults: list[str] = []

    def run(self, progress: Callable[[str], None]) -> list[Round]:
        """Warm up; returns the measured rounds."""
        count, seconds = FIRST_COUNT, 0.0
        while seconds < WARM_SECONDS:
            warm = self.round(count, LEAST_ROUND_S)
            seconds = warm.seconds
            count = round(count * max(1.5, min(8.0, WARM_SECONDS * 1.2 / seconds)))
        rate = warm.messages / len(self.senders) / seconds
        count = self.load.count or max(1, round(rate * self.load.seconds))
        progress(f"warm: {rate * len(self.senders):,.0f} messages/s; {self.load.repeat} rounds of "
                 f"{count * len(self.senders):,} messages")
        limit = max(LEAST_ROUND_S, SLOWEST * count / rate)
        found = []
        for number in range(self.load.repeat):
            found.append(self.round(count, limit))
            rates = ", ".join(f"{rate:,.0f}" for rate in found[-1].rates.values())
            progress(f"round {number + 1}: {rates} messages/s")
        return found

    def round(self, count: int, timeout: float) -> Round:
        """Every sender sends `count` messages; returns when every member has received all."""
        group, members = self.group, self.group.members
        messages = count * len(self.senders)
        group.command(members, "expect", messages=messages)
        group.wait("all members are armed", members, "armed", START_TIMEOUT_S)
        group.command(self.senders, "send", count=count, size=self.load.size, piece=self.load.way.piece)
        self.sent += count
        try:
            received = group.wait("all messages received", members, "received", timeout)
            began_ns = min(event["at_ns"] for event in group.wait("all sent", self.senders, "sent", timeout))
        except BenchError as error:
            raise BenchError(f"{error}{self._progress()}") from None
        rates: dict[str, float] = {}
        for member, event in zip(members, received, strict=True):
            rate = messages / (event["at_ns"] - began_ns) * 1e9
            rates[member.site] = min(rate, rates.get(member.site, rate))
        reports = self.reports()
        for member, report in zip(members, reports, strict=True):
            self._check(member, report)
        return Round(messages, rates, sum(report["cpu_s"] for report in reports),
                     max(report["rss_mb"] for report in reports), sum(report["retransmitted"] for report in reports))

    def reports(self) -> list[dict[str, Any]]:
        """The counts of every member."""
        self.group.command(self.group.members, "report")
        return self.group.wait("all reports", self.group.members, "report", START_TIMEOUT_S)

    def _check(self, member: BenchMember, report: dict[str, Any]) -> None:
        counted = report["received"]
        for sender in self.senders:
            got = counted.get(sender.tag, {"count": 0, "next": 0, "duplicates": 0, "out_of_order": 0})
            if (got["count"], got["next"], got["duplicates"], got["out_of_order"]) != (self.sent, self.sent, 0, 0):
                self.faults.append(f"{member.tag} received from {sender.tag}: {got}; {self.sent} were sent")

    def _progress(self) -> str:
        """What each member has received, for the error about a round that is stuck."""
        try:
            reports = self.reports()
        except BenchError as error:
            return f"; {error}"
        lines = [f"\n  {member.tag} received {report['received']}"
                 for member, report in zip(self.group.members, reports, strict=True)]
        return "".join(lines)


def document(rounds: Sequence[Round], flood: Flood, site: str) -> dict[str, Any]:
    """The figures of the rounds, with the rates at `site`."""
    rates = [found.rates[site] for found in rounds]
    sent = flood.sent * len(flood.senders)
    return {
        "msgs_per_s": figure(rates), "mb_per_s": figure([rate * flood.load.size / 1e6 for rate in rates]),
        "cpu_us_per_msg": figure([found.cpu_s / found.messages * 1e6 for found in rounds]),
        "rss_mb": figure([found.rss_mb for found in rounds]),
        "retransmitted_ratio": figure([rounds[-1].retransmitted / sent]),
        "messages_per_round": rounds[-1].messages, "faults": flood.faults,
    }


def multicast(
    stack: str, members: int, senders: str, loads: Sequence[Load], properties: dict[str, str],
    progress: Callable[[str], None], slow_us: float = 0.0,
) -> dict[str, Any]:
    """Measure in one group for each load; the first member or all send. slow_us: the time that the last member sleeps
    for each message.

    The figures are those of the first load; if there are more, all of them stand in `ways`, label -> figures.
    """
    ways = {}
    for load in loads:
        if len(loads) > 1:
            progress(load.way.label)
        ways[load.way.label] = _multicast(stack, members, senders, load, properties, progress, slow_us)
    first, *others = ways.values()
    if not others:
        return first
    return {**first, "faults": [fault for figures in ways.values() for fault in figures["faults"]], "ways": ways}


def _multicast(
    stack: str, members: int, senders: str, load: Load, properties: dict[str, str],
    progress: Callable[[str], None], slow_us: float,
) -> dict[str, Any]:
    options = {"stack": stack, "properties": properties_for(stack, members, properties), "cluster": "bench",
               **load.way.options()}
    with BenchGroup() as group:
        *others, last = letters(members)
        crowd = [group.start(name, "", **options) for name in others]
        crowd.append(group.start(last, "", slow_us=slow_us, **options))
        group.connect(crowd)
        flood = Flood(group, crowd if senders == "all" else crowd[:1], load)
        return document(flood.run(progress), flood, "")


def relay(members: int, load: Load, progress: Callable[[str], None]) -> dict[str, Any]:
    """Measure between two sites. The last member of the first site sends; the figures are those of the other site's
    slowest member, with the rate in the sender's own site."""
    sites, size = ("NYC", "SFO"), 2 * members + 2
    port = free_range(size)
    bridge = {"bridge_port": str(port), "bridge_port_range": str(size), "bridge_hosts": f"127.0.0.1[{port}]",
              "bridge_name": "bench-bridge"}
    with BenchGroup() as group:
        crowds = []
        for at, site in enumerate(sites):
            options = {"stack": site.lower(), "cluster": f"bench-{site}", **load.way.options(),
                       "properties": {**bridge, "site": site, "mcast_port": str(free_range())}}
            crowds.append([group.start(name, site, **options) for name in letters(members, at * members)])
        for crowd in crowds:
            group.connect(crowd)
        group.wait_until("every member sees both sites", START_TIMEOUT_S, lambda: all(
            member.latest.get("global_view", {}).get("members") == 2 * members for member in group.members))
        flood = Flood(group, crowds[0][-1:], load)
        rounds = flood.run(progress)
        return {**document(rounds, flood, "SFO"), "local_msgs_per_s": figure([found.rates["NYC"] for found in rounds])}
