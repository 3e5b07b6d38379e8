"""What copies of sessions cost a publisher: python -m benchmarks.mqtt_copies.

Three brokers of a group, as processes, with `sessions: local`, then `replicated` with 2 and 3 nodes a session. A client
at node1 with a session subscribes and stays connected; another one publishes 100 B with QoS 1 at node2: one message
after the other, for the time of PUBACK, then with a window, for the rate. Processor time is that of all three
brokers, from /proc.
"""
from __future__ import annotations

import argparse
import os
import socket
import statistics
import struct
import tempfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep

import yaml

from benchmarks.mqtt_sites import FRAME, ID_AT, MAX_ID, SIZE, TOPIC, VERSION, Acknowledged, Receiver
from jgroups_py.blocks.mqtt.codec.encoder import PublishFrames, encode
from jgroups_py.blocks.mqtt.codec.packets import ConnectPacket, SubscribePacket, Subscription
from jgroups_py.system.free_ports import free_ports
from tests.runtime.mqtt.processes import BrokerProcess, serving

KINDS = {"local": {"sessions": "local"}, "replicated, 2": {"sessions": "replicated"},
         "replicated, 3": {"sessions": "replicated", "session_replicas": 3}}
WINDOW, PIECE = 800, 100


def cpu_seconds(processes: list[BrokerProcess]) -> float:
    """User and system."""
    found = 0.0
    for each in processes:
        fields = Path(f"/proc/{each.process.pid}/stat").read_text().rpartition(")")[2].split()
        found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def connected(port: int, name: str, clean: bool) -> socket.socket:
    """A client's connection after CONNACK."""
    made = socket.create_connection(("127.0.0.1", port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(encode(ConnectPacket(name, VERSION, clean), VERSION))
    assert made.recv(4)[:1] == b"\x20"
    return made


def files(folder: Path, more: dict[str, object]) -> tuple[list[Path], list[int]]:
    """(files of three nodes, ports of their clients; that of REST is the next one)."""
    ports = free_ports(9)
    found = []
    for at in range(3):
        federation = {"node_name": f"node{at + 1}", "stack": "tcp", "gossip_addr": f"127.0.0.1:{ports[3 * at + 2]}",
                      "retry_join": [f"127.0.0.1:{ports[3 * other + 2]}" for other in range(3) if other != at], **more}
        path = folder / f"node{at + 1}.yml"
        path.write_text(yaml.safe_dump({
            "listeners": [{"address": f"127.0.0.1:{ports[3 * at]}"}],
            "mqtt": {"server_receive_maximum": 1000, "max_inflight": 1000, "max_queued_messages": 100_000},
            "api": {"http": [{"address": f"tcp://127.0.0.1:{ports[3 * at + 1]}"}]},
            "plugins": {"federation": federation}, "plugin_order": ["federation"], "log": {"level": "warn"}}))
        found.append(path)
    return found, [*ports[::3], *ports[1::3]]


def until_wanted(rest: int) -> None:
    """Until the publisher's node knows that the topic is wanted."""
    until = monotonic() + 30
    while b"node1" not in urllib.request.urlopen(f"http://127.0.0.1:{rest}/v1/federation/interest?topic={TOPIC}").read():
        assert monotonic() < until, "no interest"
        sleep(0.05)


def measure(more: dict[str, object], singles: int, number: int) -> str:
    """One kind."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        paths, ports = files(folder, more)
        processes = [stack.enter_context(serving("-c", str(path), listeners=2)) for path in paths]
        subscriber = connected(ports[0], "subscriber", clean=False)
        subscriber.sendall(encode(SubscribePacket(1, (Subscription(TOPIC, 1),)), VERSION))
        assert subscriber.recv(5)[:1] == b"\x90"
        receiver = Receiver(subscriber)
        until_wanted(ports[4])
        publisher = connected(ports[1], "publisher", clean=True)
        template = PublishFrames(TOPIC, bytes(SIZE), VERSION).frame(1, 1)
        assert len(template) == FRAME
        head, pad = template[:ID_AT], bytes(SIZE - 8)

        def frame(number: int) -> bytes:
            return head + struct.pack(">HQ", number % MAX_ID + 1, number) + pad
        times = []
        for at in range(singles):
            began = monotonic()
            publisher.sendall(frame(at))
            assert publisher.recv(4)[:1] == b"\x40"
            times.append(1e3 * (monotonic() - began))
        acknowledged = Acknowledged(publisher)
        before, began, sent = cpu_seconds(processes), monotonic(), 0
        while sent < number:
            if sent - acknowledged.number > WINDOW - PIECE:
                sleep(0.0005)
                continue
            publisher.sendall(b"".join(frame(singles + sent + at) for at in range(PIECE)))
            sent += PIECE
        while receiver.next < singles + sent or acknowledged.number < sent:
            sleep(0.001)
        took, cpu = monotonic() - began, cpu_seconds(processes) - before
        times.sort()
        return (f"PUBACK {statistics.median(times):5.2f} ms p50, {times[int(0.95 * len(times))]:6.2f} ms p95; "
                f"{sent / took:7,.0f} a second, {1e6 * cpu / sent:6.1f} us of the processor a message")


def main() -> None:
    """Measure each kind in turn."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--singles", type=int, default=500)
    parser.add_argument("--messages", type=int, default=20_000)
    args = parser.parse_args()
    for _ in range(args.rounds):
        for name, more in KINDS.items():
            print(f"{name:<14} {measure(more, args.singles, args.messages)}", flush=True)


if __name__ == "__main__":
    main()
