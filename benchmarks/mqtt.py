"""`python -m benchmarks.mqtt`: one broker of ours beside mosquitto and gmqttd, and node to node beside two gmqttd, in
turn: processor time a message.

Rows: pattern and QoS; "node to node": published at one node of a federation, subscribed at another one, the cost of
both. mosquitto is that of the PATH, gmqttd what `python -m tests.gmqtt.gmqttd` builds; what is missing is left out. The
process ids are known here, so the processor time is the brokers' own, from /proc.
"""
from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import yaml

from jgroups_py.cli.mqtt.bench import PATTERNS, Cost, measure
from jgroups_py.model.errors import ConfigError
from jgroups_py.system.child_processes import end_with_parent
from tests.gmqtt.gmqttd import Gmqttd, program_path, statuses
from tests.integration.serf_agent import until
from tests.runtime.mqtt.federated import GROUP, nodes
from tests.runtime.mqtt.processes import serving

HOST = "127.0.0.1"


@attrs.frozen
class Running:
    """A broker's process."""

    name: str
    port: int
    pids: tuple[int, ...]
    to: int | None = None                                # the port of the other node


@contextmanager
def ours(loop: str, folder: Path) -> Iterator[Running]:
    """`jgroups mqtt serve`."""
    file = folder / "node.yml"
    file.write_text(f"listeners: [{{address: '{HOST}:0'}}]\nlog: {{level: error}}\n"
                    "mqtt: {server_receive_maximum: 1000, max_inflight: 1000, sys_interval: 0}\n")
    process = subprocess.Popen([sys.executable, "-m", "jgroups_py", "mqtt", "serve", "-c", str(file), "--loop", loop],
                               stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield Running(f"ours, {loop}", int(line.rpartition(":")[2]), (process.pid,))
    finally:
        process.terminate()
        process.wait()


@contextmanager
def mosquitto(port: int, folder: Path) -> Iterator[Running]:
    """mosquitto with its defaults, but for the bound of what is in flight."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    assert program is not None
    file = folder / "mosquitto.conf"
    file.write_text(f"listener {port} {HOST}\nallow_anonymous true\nmax_inflight_messages 1000\nlog_type none\n")
    process = subprocess.Popen([program, "-c", str(file)], stderr=subprocess.DEVNULL, preexec_fn=end_with_parent)
    try:
        for _ in range(100):
            try:
                measure(HOST, port, "batched", 0, 10, 1, ())
                break
            except ConfigError:
                if process.poll() is not None:
                    raise
                subprocess.run(["sleep", "0.05"], check=True)
        yield Running("mosquitto", port, (process.pid,))
    finally:
        process.terminate()
        process.wait()


@contextmanager
def gmqttds(number: int, folder: Path) -> Iterator[Running]:
    """One gmqttd, or two in a federation."""
    with ExitStack() as stack:
        made = [stack.enter_context(Gmqttd("node1", folder))]
        if number == 2:
            made.append(stack.enter_context(Gmqttd("node2", folder, join=[made[0].gossip])))
            until(lambda: all(len(statuses(node.rest)) == 2 for node in made), "both see both")
        pids = tuple(node.process.pid for node in made if node.process is not None)
        yield Running("gmqttd", made[0].port, pids, made[-1].port if number == 2 else None)


@contextmanager
def our_nodes(loop: str, folder: Path, ack: str = "peers") -> Iterator[Running]:
    """Two in a group, with queues as long as those of `gmqttds`."""
    with ExitStack() as stack:
        made = nodes(folder, 2, {**GROUP, "ack": ack})
        for node in made:
            found = yaml.safe_load(node.file.read_text())
            found["mqtt"] = {"server_receive_maximum": 1000, "max_inflight": 1000, "sys_interval": 0,
                             "max_queued_messages": 100_000}
            node.file.write_text(yaml.safe_dump(found))
        running = [stack.enter_context(serving("-c", str(node.file), "--loop", loop, listeners=2)) for node in made]
        until(lambda: all(len(node.statuses()) == 2 for node in made), "both see both")
        yield Running(f"ours, {loop}", made[0].port, tuple(each.process.pid for each in running), made[1].port)


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks.mqtt", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--where", action="append", choices=("one broker", "node to node"),
                        help="one of them (default: both)")
    parser.add_argument("--mosquitto-port", type=int, default=18_830)
    args = parser.parse_args()
    args.where = args.where or ["one broker", "node to node"]
    has_mosquitto = bool(shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin"))
    has_gmqttd = program_path().exists()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for where in ("one broker", "node to node"):
            if where not in args.where:
                continue
            for pattern in PATTERNS if where == "one broker" else PATTERNS[:2]:
                for qos in (0, 1):
                    found: dict[str, list[Cost]] = {}
                    for _ in range(args.rounds):
                        if where == "one broker":
                            brokers = [ours("uvloop", folder), ours("asyncio", folder)]
                            brokers += [mosquitto(args.mosquitto_port, folder)] if has_mosquitto else []
                            brokers += [gmqttds(1, folder)] if has_gmqttd else []
                        else:
                            brokers = [our_nodes("uvloop", folder)] + ([gmqttds(2, folder)] if has_gmqttd else [])
                        for each in brokers:
                            with each as broker:
                                cost = measure(HOST, broker.port, pattern, qos, args.size, args.messages, broker.pids,
                                               broker.to)
                                found.setdefault(broker.name, []).append(cost)
                    show(f"{where}, {pattern}, QoS {qos}, {args.size} B", found)
    return 0


def show(what: str, found: dict[str, list[Cost]]) -> None:
    """A line for each broker: medians, and how many times the others'."""
    medians = {name: statistics.median(cost.cpu_us or 0 for cost in costs) for name, costs in found.items()}
    for name, costs in found.items():
        rate = statistics.median(cost.messages / cost.seconds for cost in costs)
        times = "".join(f"  {medians[name] / medians[other]:.2f}x {other}" for other in ("mosquitto", "gmqttd")
                        if medians.get(other) and name != other)
        print(f"{what:38}  {name:14}  {medians[name]:6.1f} us  {rate:9,.0f}/s{times}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
