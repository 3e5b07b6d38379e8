"""`python -m benchmarks.mqtt`: one broker of ours beside mosquitto, in turn: processor time a message.

Rows: pattern and QoS. mosquitto is that of the PATH; without it there are our figures alone. The process id of each is
known here, so the processor time is the broker's own, from /proc.
"""
from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from jgroups_py.cli.mqtt.bench import PATTERNS, Cost, measure
from jgroups_py.model.errors import ConfigError
from jgroups_py.system.child_processes import end_with_parent

HOST = "127.0.0.1"


@attrs.frozen
class Running:
    """A broker's process."""

    name: str
    port: int
    pid: int


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
        yield Running(f"ours, {loop}", int(line.rpartition(":")[2]), process.pid)
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
                measure(HOST, port, "batched", 0, 10, 1, None)
                break
            except ConfigError:
                if process.poll() is not None:
                    raise
                subprocess.run(["sleep", "0.05"], check=True)
        yield Running("mosquitto", port, process.pid)
    finally:
        process.terminate()
        process.wait()


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks.mqtt", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mosquitto-port", type=int, default=18_830)
    args = parser.parse_args()
    has_mosquitto = bool(shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for pattern in PATTERNS:
            for qos in (0, 1):
                found: dict[str, list[Cost]] = {}
                for _ in range(args.rounds):
                    brokers = [ours("uvloop", folder), ours("asyncio", folder)]
                    brokers += [mosquitto(args.mosquitto_port, folder)] if has_mosquitto else []
                    for each in brokers:
                        with each as broker:
                            cost = measure(HOST, broker.port, pattern, qos, args.size, args.messages, broker.pid)
                            found.setdefault(broker.name, []).append(cost)
                show(f"{pattern}, QoS {qos}, {args.size} B", found)
    return 0


def show(what: str, found: dict[str, list[Cost]]) -> None:
    """A line for each broker: medians, and how many times mosquitto's."""
    anchor = statistics.median(cost.cpu_us or 0 for cost in found["mosquitto"]) if "mosquitto" in found else 0.0
    for name, costs in found.items():
        cpu = statistics.median(cost.cpu_us or 0 for cost in costs)
        rate = statistics.median(cost.messages / cost.seconds for cost in costs)
        times = f"  {cpu / anchor:.2f}x" if anchor else ""
        print(f"{what:26}  {name:14}  {cpu:6.1f} us  {rate:9,.0f}/s{times}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
