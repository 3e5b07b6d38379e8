"""How long a message of QoS 1 takes from node to node, and its PUBACK while the other node is stopped:
`python -m benchmarks.mqtt_latency`, two nodes of ours (with `ack: local` and `ack: peers`) beside two gmqttd v0.5.0, in
turn.

Two clients publish `--rate` messages a second each at node 1: one for a subscriber at node 2, the other one for a
subscriber at node 1. *through*: from the publisher's write to the read of the subscriber at node 2. *PUBACK*: from the
write to the acknowledgement, with node 2 running, and while it has SIGSTOP for `--stopped` seconds, at the end of which
every message must have come; *elsewhere*: of the client whose messages stay at node 1. Milliseconds of wall clock, so
what else the machine does is in them: `--rounds` in turn, and the medians of these at the end.
"""
from __future__ import annotations

import os
import selectors
import signal
import statistics
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, perf_counter, sleep

import attrs

from benchmarks.mqtt import HOST, Running, gmqttds, our_nodes
from jgroups_py.cli.mqtt.bench import LoadClient, _connected, _wait_for_interest
from tests.gmqtt.gmqttd import program_path

SIZE = 100
PATIENCE_SECONDS = 60.0
QUIET_SECONDS = 15.0


class Stopwatch(LoadClient):
    """A client that notes when acknowledgements and messages come."""

    def note(self, sent_at: Sequence[float], found: list[float], is_publisher: bool) -> None:
        """Read what is there; `found` gets a time for each that has come."""
        before = self.acknowledged if is_publisher else self.got
        self.read()
        now = perf_counter()
        after = self.acknowledged if is_publisher else self.got
        found += [now - sent_at[number] for number in range(before, after)]


@attrs.define
class Flow:
    """A publisher and its subscriber, and how many seconds each message took to the one and back to the other."""

    publisher: Stopwatch
    subscriber: Stopwatch
    is_stopped: bool = False                             # the subscriber's node: nothing is expected there
    sent_at: list[float] = attrs.field(factory=list)
    through: list[float] = attrs.field(factory=list)
    acknowledged: list[float] = attrs.field(factory=list)

    def begin(self, is_stopped: bool) -> None:
        """A new measurement."""
        self.is_stopped = is_stopped
        for each in (self.publisher, self.subscriber):
            each.sent = each.got = each.acknowledged = 0
            each.socket.setblocking(False)
        self.sent_at, self.through, self.acknowledged = [], [], []

    def lacks(self, total: int) -> bool:
        """Whether something has not come yet."""
        return len(self.acknowledged) < total or (not self.is_stopped and len(self.through) < total)


def measure(flows: Sequence[Flow], rate: float, seconds: float, is_stopped: bool = False) -> None:
    """Publish at a rate for a time, until all has come. is_stopped: the node of the first flow's subscriber."""
    with selectors.DefaultSelector() as selector:
        for at, flow in enumerate(flows):
            flow.begin(is_stopped and not at)
            selector.register(flow.publisher.socket, selectors.EVENT_READ, (flow, True))
            if not flow.is_stopped:
                selector.register(flow.subscriber.socket, selectors.EVENT_READ, (flow, False))
        began = perf_counter()
        total, until = round(rate * seconds), monotonic() + seconds + PATIENCE_SECONDS
        sent, steps = 0, total * len(flows)
        while any(flow.lacks(total) for flow in flows):
            assert monotonic() < until, [(len(flow.through), len(flow.acknowledged), total) for flow in flows]
            due = began + sent / rate / len(flows)
            if sent < steps and perf_counter() >= due:
                flow = flows[sent % len(flows)]          # they take turns
                sent += 1
                flow.sent_at.append(perf_counter())
                flow.publisher.publish(1)
                continue
            for key, _ in selector.select(max(0.0, due - perf_counter()) if sent < steps else 0.1):
                flow, is_publisher = key.data
                client = flow.publisher if is_publisher else flow.subscriber
                client.note(flow.sent_at, flow.acknowledged if is_publisher else flow.through, is_publisher)


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """p50 and p99, in milliseconds."""
    ranked = sorted(value * 1e3 for value in values)
    return ranked[len(ranked) // 2], ranked[len(ranked) * 99 // 100]


def connected(running: Running) -> list[Flow]:
    """One from node to node, one that stays at the first node."""
    assert running.to is not None, "two nodes"
    flows = []
    for topic, to in (("bench/t", running.to), ("bench/here", running.port)):
        made = [_connected(HOST, port, f"latency-{end}-{topic[6:]}", wanted, 1, bytes(SIZE))
                for end, port, wanted in (("pub", running.port, "bench/none"), ("sub", to, topic))]
        publisher, subscriber = (Stopwatch(each.socket, topic, 1, each.payload) for each in made)
        _wait_for_interest(publisher, [subscriber])
        flows.append(Flow(publisher, subscriber))
    return flows


Found = dict[str, tuple[float, float]]


def trial(running: Running, rate: float, seconds: float, stopped: float) -> Found:
    """One federation: with both nodes, then while the second one is stopped."""
    flows = connected(running)
    first, other = flows
    try:
        measure(flows, rate, 1)
        measure(flows, rate, seconds)
        found = {"through": quantiles(first.through), "PUBACK": quantiles(first.acknowledged),
                 "elsewhere": quantiles(other.acknowledged)}
        pid = running.pids[1]
        os.kill(pid, signal.SIGSTOP)
        try:
            measure(flows, rate, stopped, is_stopped=True)
        finally:
            os.kill(pid, signal.SIGCONT)
        found |= {"stopped: PUBACK": quantiles(first.acknowledged), "stopped: elsewhere": quantiles(other.acknowledged)}
        came = arrived(first.subscriber, first.publisher.sent)
        print(f"{came} of {first.publisher.sent} came afterwards")
    finally:
        for flow in flows:
            flow.publisher.socket.close()
            flow.subscriber.socket.close()
    return found


def arrived(subscriber: Stopwatch, expected: int) -> int:
    """How many messages have come, once all have, or nothing has for a while."""
    quiet_since = monotonic()
    while subscriber.got < expected and monotonic() - quiet_since < QUIET_SECONDS:
        before = subscriber.got
        subscriber.read()
        if subscriber.got != before:
            quiet_since = monotonic()
        else:
            sleep(0.01)
    return subscriber.got


def show(what: str, found: Found) -> None:
    """A line."""
    print(f"{what:24}" + "; ".join(f"{name} {p50:.2f}, {p99:.2f}" for name, (p50, p99) in found.items()), flush=True)


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks.mqtt_latency", description=__doc__)
    parser.add_argument("--rate", type=float, default=250.0)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--stopped", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ack", action="append", choices=("peers", "local"), help="of ours (default: both)")
    args = parser.parse_args()
    all_found: dict[str, list[Found]] = {}
    print("milliseconds, p50 and p99")
    with tempfile.TemporaryDirectory() as name:
        for _ in range(args.rounds):
            federations = {f"ours, ack={ack}": our_nodes("uvloop", Path(name), ack)
                           for ack in args.ack or ("local", "peers")}
            if program_path().exists():
                federations["gmqttd"] = gmqttds(2, Path(name))
            for what, each in federations.items():
                with each as running:
                    found = trial(running, args.rate, args.seconds, args.stopped)
                show(what, found)
                all_found.setdefault(what, []).append(found)
    for what, rounds in all_found.items():
        show(f"median, {what}", {key: middle([each[key] for each in rounds]) for key in rounds[0]})
    return 0


def middle(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The median of each of the two."""
    return statistics.median(p50 for p50, _ in found), statistics.median(p99 for _, p99 in found)


if __name__ == "__main__":
    sys.exit(main())
