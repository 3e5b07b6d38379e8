"""Messages of QoS 1 across two sites while the relay of the sender's site is killed: python -m benchmarks.mqtt_sites.

Two sites of two brokers, as processes. One connection publishes at nyc2 and keeps `--window` messages without PUBACK;
one subscribes at sfo2, and is at most `--ahead` messages behind: no PUBACK waits for another site, and a queue that is
full drops. After a third of the time nyc1, the relay of the site, gets SIGKILL. At the end every message
that was acknowledged must have come, once and in order.
"""
from __future__ import annotations

import argparse
import os
import socket
import struct
import tempfile
import threading
import urllib.request
from pathlib import Path
from time import monotonic, sleep

from jgroups_py.blocks.mqtt.codec.encoder import PublishFrames, encode
from jgroups_py.blocks.mqtt.codec.packets import ConnectPacket, ProtocolVersion, SubscribePacket, Subscription
from jgroups_py.cli.demo.mqtt import SITES, site_properties
from jgroups_py.cli.demo.mqtt_brokers import BrokerSites, SiteBroker, wait
from jgroups_py.system.free_ports import free_ports

VERSION = ProtocolVersion.MQTT_3_1_1
TOPIC, SIZE, MAX_ID = "bench", 100, 60_000
HEAD = 2 + 2 + len(TOPIC) + 2                            # of a PUBLISH with a payload of SIZE
ID_AT, FRAME = HEAD - 2, HEAD + SIZE
PIECE = 200


def connected(broker: SiteBroker, name: str) -> socket.socket:
    """A client's connection after CONNACK."""
    made = socket.create_connection(("127.0.0.1", broker.port))
    made.sendall(encode(ConnectPacket(name, VERSION), VERSION))
    answer = made.recv(4)
    assert answer[:1] == b"\x20", answer
    return made


class Receiver(threading.Thread):
    """Takes and acknowledges. first, last: when messages came; longest: seconds without one."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(daemon=True)
        self.sock = sock
        self.next = 0
        self.twice = self.missing = 0
        self.last = 0.0
        self.longest = 0.0
        self.start()

    def run(self) -> None:
        rest = b""
        while data := self.sock.recv(1 << 18):
            data = rest + data
            stop = len(data) - len(data) % FRAME
            answers = []
            for at in range(0, stop, FRAME):
                number = int.from_bytes(data[at + HEAD:at + HEAD + 8], "big")
                if number == self.next:
                    self.next += 1
                elif number < self.next:
                    self.twice += 1
                else:
                    self.missing += number - self.next
                    self.next = number + 1
                answers.append(b"\x40\x02" + data[at + ID_AT:at + HEAD])
            rest = data[stop:]
            if answers:
                now = monotonic()
                if self.last:
                    self.longest = max(self.longest, now - self.last)
                self.last = now
                self.sock.sendall(b"".join(answers))


class Acknowledged(threading.Thread):
    """Counts PUBACKs, which come in order."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(daemon=True)
        self.sock = sock
        self.number = 0
        self.last = 0.0
        self.longest = 0.0
        self.start()

    def run(self) -> None:
        rest = 0
        while data := self.sock.recv(1 << 16):
            rest += len(data)
            self.number += rest // 4
            rest %= 4
            now = monotonic()
            if self.last:
                self.longest = max(self.longest, now - self.last)
            self.last = now


def dropped(broker: SiteBroker) -> dict[str, int]:
    """What a broker counted as dropped, by name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.rest}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = {name: int(float(number)) for name, _, number in (line.rpartition(" ") for line in lines)
             if "dropped" in name and not name.startswith("#")}
    return {name: number for name, number in found.items() if number}


def cpu_seconds(brokers: list[SiteBroker]) -> float:
    """Of processes that run: user and system."""
    found = 0.0
    for broker in brokers:
        if broker.process is not None and broker.is_up:
            fields = Path(f"/proc/{broker.process.pid}/stat").read_text().rpartition(")")[2].split()
            found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--window", type=int, default=4_000)
    parser.add_argument("--ahead", type=int, default=50_000,
                        help="of the subscriber, whose queue is bounded (default: 50,000)")
    parser.add_argument("--no-kill", action="store_true")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="jgroups-mqtt-sites-"))
    ports = free_ports(14)
    common, more = site_properties(folder, ports[8:])
    with BrokerSites(folder, SITES, ports[:8], common, more) as sites:
        sites.start("nyc1", "sfo1")
        sites.start("nyc2", "sfo2")
        sites.wait_for_all()
        subscriber = connected(sites["sfo2"], "sub")
        subscriber.sendall(encode(SubscribePacket(1, (Subscription(TOPIC, 1),)), VERSION))
        assert subscriber.recv(5)[:1] == b"\x90"
        receiver = Receiver(subscriber)
        wait(lambda: sites["nyc2"].has_interest(TOPIC), "interest")
        publisher = connected(sites["nyc2"], "pub")
        acknowledged = Acknowledged(publisher)
        alive = [sites["nyc2"], sites["sfo1"], sites["sfo2"]]
        before, began, sent, killed = cpu_seconds(alive), monotonic(), 0, args.no_kill
        template = PublishFrames(TOPIC, bytes(SIZE), VERSION).frame(1, 1)
        head = template[:ID_AT]
        assert len(template) == FRAME, "the frame that is taken apart"
        pad = bytes(SIZE - 8)
        while monotonic() - began < args.seconds:
            if not killed and monotonic() - began > args.seconds / 3:
                assert sites.relay("NYC") == "nyc1"
                sites["nyc1"].end()
                killed = True
            if sent - acknowledged.number > args.window - PIECE or sent - receiver.next > args.ahead:
                sleep(0.0005)
                continue
            publisher.sendall(b"".join([head + struct.pack(">HQ", number % MAX_ID + 1, number) + pad
                                        for number in range(sent, sent + PIECE)]))
            sent += PIECE
        wait(lambda: acknowledged.number == sent, "all are acknowledged")
        wait(lambda: receiver.next >= sent, "all have come")
        took = receiver.last - began
        cpu = cpu_seconds(alive) - before
        sleep(1)
        relay = sites.relay("NYC")
        wait(lambda: not sites.ledger(relay, "SFO")["held"], "nothing is held")
        ledger = sites.ledger(relay, "SFO")
        print(f"{sent} messages of QoS 1 in {took:.1f} s: {sent / took:,.0f} a second; "
              f"lost {sent - receiver.next + receiver.missing}, twice {receiver.twice}; longest gap "
              f"{receiver.longest:.2f} s at the subscriber, {acknowledged.longest:.2f} s of PUBACK; "
              f"{1e6 * cpu / sent:.1f} us of the processor a message at three brokers")
        print(f"ledger NYC to SFO: {ledger}")
        for broker in alive:
            print(f"dropped at {broker.name}: {dropped(broker)}")


if __name__ == "__main__":
    main()
