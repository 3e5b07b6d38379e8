"""How long a message of QoS 1 takes from node to node, and its PUBACK while the other node is stopped:
`python -m benchmarks.mqtt_latency`, two nodes of ours beside two gmqttd v0.5.0, in turn.

One client publishes `--rate` messages a second at node 1, one has subscribed at node 2. *through*: from the publisher's
write to the subscriber's read. *PUBACK*: from the write to the acknowledgement, with node 2 running, and while it has
SIGSTOP for `--stopped` seconds, at the end of which every message must have come. Milliseconds of wall clock, so what
else the machine does is in them.
"""
from __future__ import annotations

import os
import selectors
import signal
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, perf_counter, sleep

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


def measure(
    publisher: Stopwatch, subscriber: Stopwatch | None, rate: float, seconds: float,
) -> tuple[list[float], list[float]]:
    """(seconds to the subscriber, seconds to PUBACK) of what is published in a time; all of it, once it has come.
    subscriber: None if its node is stopped."""
    clients = [publisher] if subscriber is None else [publisher, subscriber]
    for each in clients:
        each.sent = each.got = each.acknowledged = 0
    sent_at: list[float] = []
    through: list[float] = []
    acknowledged: list[float] = []
    with selectors.DefaultSelector() as selector:
        for each in clients:
            each.socket.setblocking(False)
            selector.register(each.socket, selectors.EVENT_READ, each)
        began = perf_counter()
        total, until = round(rate * seconds), monotonic() + seconds + PATIENCE_SECONDS
        while (subscriber is not None and len(through) < total) or len(acknowledged) < total:
            assert monotonic() < until, f"{len(through)} messages and {len(acknowledged)} PUBACKs of {total} came"
            due = began + len(sent_at) / rate
            if len(sent_at) < total and perf_counter() >= due:
                sent_at.append(perf_counter())
                publisher.publish(1)
                continue
            wait = due - perf_counter() if len(sent_at) < total else 0.1
            for key, _ in selector.select(max(0.0, wait)):
                is_publisher = key.data is publisher
                key.data.note(sent_at, acknowledged if is_publisher else through, is_publisher)
    return through, acknowledged


def quantiles(name: str, values: list[float]) -> str:
    """p50, p99 and the most, in milliseconds."""
    ranked = sorted(value * 1e3 for value in values)
    return (f"{name} p50 {ranked[len(ranked) // 2]:.2f} p99 {ranked[len(ranked) * 99 // 100]:.2f} "
            f"most {ranked[-1]:.1f}")


def trial(running: Running, rate: float, seconds: float, stopped: float) -> None:
    """One federation: with both nodes, then while the second one is stopped."""
    assert running.to is not None, "two nodes"
    clients = []
    for port, name, topic in ((running.port, "pub", "bench/none"), (running.to, "sub", "bench/t")):
        made = _connected(HOST, port, f"latency-{name}-{os.getpid()}", topic, 1, bytes(SIZE))
        clients.append(Stopwatch(made.socket, "bench/t", 1, made.payload))
    publisher, subscriber = clients
    try:
        _wait_for_interest(publisher, [subscriber])
        measure(publisher, subscriber, rate, 1)
        through, baseline = measure(publisher, subscriber, rate, seconds)
        print(f"{running.name:14}  {quantiles('through', through)}; {quantiles('PUBACK', baseline)}", flush=True)
        pid = running.pids[1]
        os.kill(pid, signal.SIGSTOP)
        subscriber.got = 0
        try:
            _, acknowledged = measure(publisher, None, rate, stopped)
        finally:
            os.kill(pid, signal.SIGCONT)
        print(f"{running.name:14}  node 2 is stopped: {quantiles('PUBACK', acknowledged)}; afterwards "
              f"{arrived(subscriber, publisher.sent)} of {publisher.sent} come", flush=True)
    finally:
        for each in clients:
            each.socket.close()


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


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks.mqtt_latency", description=__doc__)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--stopped", type=float, default=10.0)
    parser.add_argument("--ack", choices=("peers", "local"), default="peers", help="of ours (default: peers)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        federations = [our_nodes("uvloop", Path(name), args.ack)]
        if program_path().exists():
            federations.append(gmqttds(2, Path(name)))
        for each in federations:
            with each as running:
                trial(running, args.rate, args.seconds, args.stopped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
