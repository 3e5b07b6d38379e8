"""`jgroups mqtt bench`: what one message costs a broker, of any make, in processor time.

batched: one publisher keeps so many messages under way, one subscriber gets them, so the broker has many in one read.
fan-out: the same with ten subscribers; a message is counted once, and its cost is that of all ten deliveries.
single: 50 clients send a message each, get it back, and send the next one: one message a read.

Subscribers may connect to another broker of a federation (`--to`); the processor time is then that of all `--pid`s.

The processor time of the broker's process (user and system, from /proc) hardly depends on what else the machine does;
the rate does.
"""
from __future__ import annotations

import os
import selectors
import socket
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter, sleep

import attrs

from jgroups_py.blocks.mqtt.codec.encoder import PublishFrames, encode
from jgroups_py.blocks.mqtt.codec.packets import (
    ConnectPacket,
    ProtocolVersion,
    SubscribePacket,
    Subscription,
)
from jgroups_py.model.errors import ConfigError

VERSION = ProtocolVersion.MQTT_3_1_1
CLIENTS = 50
WINDOW, WINDOW_1 = 1_000, 90
"""Messages under way: of QoS 0, and of QoS 1, where brokers allow some hundred at most."""
READ_BYTES = 1 << 18
STALLED_SECONDS = 20.0
PATTERNS = ("batched", "fan-out", "single")
SUBSCRIBERS = {"batched": 1, "fan-out": 10}
MAX_ID = 60_000
LOOK_SECONDS, QUIET_SECONDS = 0.05, 0.5


@attrs.frozen
class Cost:
    """What was measured. cpu_us: of the broker a message, None without its process id."""

    messages: int
    seconds: float
    cpu_us: float | None

    def __str__(self) -> str:
        cpu = "" if self.cpu_us is None else f", {self.cpu_us:.1f} us of the broker's processor a message"
        return f"{self.messages} messages, {self.messages / self.seconds:,.0f} a second{cpu}"


@attrs.define
class LoadClient:
    """One client: its socket, and a part of a packet that came. sent, got: messages."""

    socket: socket.socket
    topic: str
    qos: int
    payload: bytes
    rest: bytes = b""
    unsent: bytes = b""
    sent: int = 0
    got: int = 0
    acknowledged: int = 0

    def publish(self, number: int) -> None:
        """Send so many messages."""
        frames = PublishFrames(self.topic, self.payload, VERSION)
        data = []
        for _ in range(number):
            data.append(frames.frame(self.qos, self.sent % MAX_ID + 1))
            self.sent += 1
        self.write(b"".join(data))

    def write(self, data: bytes) -> None:
        """Send, or keep what the socket does not take."""
        self.unsent += data
        if self.unsent:
            with suppress(BlockingIOError):
                self.unsent = self.unsent[self.socket.send(self.unsent):]

    def read(self) -> None:
        """Count what came: messages, which are acknowledged, and acknowledgements."""
        try:
            data = self.rest + self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise ConfigError("the broker closed the connection")
        at, acks = 0, []
        while len(data) - at >= 2:
            length, body = _length(data, at)
            if length < 0 or body + length > len(data):
                break
            if data[at] & 0xF0 == 0x30:
                self.got += 1
                if data[at] & 6:
                    start = body + 2 + int.from_bytes(data[body:body + 2], "big")
                    acks.append(b"\x40\x02" + data[start:start + 2])
            elif data[at] == 0x40:
                self.acknowledged += 1
            at = body + length
        self.rest = data[at:]
        if acks:
            self.write(b"".join(acks))


def _length(data: bytes, at: int) -> tuple[int, int]:
    """(Remaining Length, where the body begins), (-1, 0) if it is not complete."""
    value = 0
    for index in range(1, 5):
        if at + index >= len(data):
            return -1, 0
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * (index - 1)
        if byte < 0x80:
            return value, at + index + 1
    raise ConfigError("what the broker sends is no MQTT")


def run(args: Namespace) -> int:
    """Measure, and print a line for each round. Raises ConfigError."""
    for _ in range(args.rounds):
        print(measure(args.host, args.port, args.pattern, args.qos, args.size, args.messages, args.pids, args.to),
              flush=True)
    return 0


def measure(
    host: str, port: int, pattern: str, qos: int, size: int, messages: int, pids: Sequence[int], to: int | None = None,
) -> Cost:
    """One round. pids: the brokers' processes; to: the port where subscribers connect, with a pattern but "single"."""
    if to is not None and pattern == "single":
        raise ConfigError("--to is for batched and fan-out: with single, each client gets its own messages")
    name = f"bench-{os.getpid()}"
    if pattern == "single":
        peers = [_connected(host, port, f"{name}-{at}", f"bench/{at}", qos, bytes(size)) for at in range(CLIENTS)]
        first, subscribers = None, peers
    else:
        subscribers = [_connected(host, to or port, f"{name}-{at}", "bench/t", qos, bytes(size))
                       for at in range(SUBSCRIBERS[pattern])]
        first = _connected(host, port, name, "bench/none", qos, bytes(size))
        first.topic = "bench/t"
        peers = [first, *subscribers]
    try:
        if first is None:
            step, finished = _single(peers, messages)
        else:
            if to is not None:
                _wait_for_interest(first, subscribers)
            step, finished = _batched(first, subscribers, messages)
        before, began = _cpu_seconds(pids), perf_counter()
        _drive(peers, step, finished)
        seconds, after = perf_counter() - began, _cpu_seconds(pids)
    finally:
        for peer in peers:
            peer.socket.close()
    done = sum(peer.got for peer in subscribers) // SUBSCRIBERS.get(pattern, 1)
    return Cost(done, seconds, None if before is None or after is None else (after - before) / done * 1e6)


Step = Callable[[LoadClient | None], None]


def _wait_for_interest(publisher: LoadClient, subscribers: list[LoadClient]) -> None:
    """Until messages come to all subscribers at the other broker; then the counts begin again."""
    qos, publisher.qos = publisher.qos, 0
    until = perf_counter() + STALLED_SECONDS
    while any(not each.got for each in subscribers):
        if perf_counter() > until:
            raise ConfigError(f"nothing came to subscribers at the other broker in {STALLED_SECONDS:g} s")
        publisher.publish(1)
        sleep(LOOK_SECONDS)
        for each in subscribers:
            each.socket.setblocking(False)
            each.read()
    sleep(QUIET_SECONDS)                                 # what is still under way
    for each in subscribers:
        each.read()
    publisher.qos = qos
    for each in (publisher, *subscribers):
        each.sent = each.got = each.acknowledged = 0


def _batched(publisher: LoadClient, subscribers: list[LoadClient], messages: int) -> tuple[Step, Callable[[], bool]]:
    window = WINDOW_1 if publisher.qos else WINDOW

    def step(_: LoadClient | None) -> None:
        behind = min(each.got for each in subscribers)
        if publisher.qos:
            behind = min(publisher.acknowledged, behind)
        room = min(window - (publisher.sent - behind), messages - publisher.sent)
        if room > window // 4 or 0 < room == messages - publisher.sent:
            publisher.publish(room)
    return step, lambda: all(each.got >= messages for each in subscribers)


def _single(peers: list[LoadClient], messages: int) -> tuple[Step, Callable[[], bool]]:
    def step(peer: LoadClient | None) -> None:
        for each in peers if peer is None else (peer,):
            if each.got == each.sent and (not each.qos or each.acknowledged == each.sent):
                each.publish(1)
    return step, lambda: sum(peer.got for peer in peers) >= messages


def _drive(peers: list[LoadClient], step: Step, finished: Callable[[], bool]) -> None:
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            peer.socket.setblocking(False)
            selector.register(peer.socket, selectors.EVENT_READ, peer)
        step(None)
        while not finished():
            ready = selector.select(0.001 if any(peer.unsent for peer in peers) else STALLED_SECONDS)
            for key, _ in ready:
                key.data.read()
                step(key.data)
            for peer in peers:
                if peer.unsent:
                    peer.write(b"")
            if not ready and not any(peer.unsent for peer in peers):
                raise ConfigError(f"nothing came in {STALLED_SECONDS:g} s")


def _connected(host: str, port: int, client_id: str, topic: str, qos: int, payload: bytes) -> LoadClient:
    """A client that has subscribed to its topic."""
    try:
        made = socket.create_connection((host, port), STALLED_SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.sendall(encode(ConnectPacket(client_id, VERSION), VERSION))
        _expect(made, 4, 0x20)
        made.sendall(encode(SubscribePacket(1, (Subscription(topic, qos),)), VERSION))
        _expect(made, 5, 0x90)
    except OSError as error:
        raise ConfigError(f"{host}:{port}: {error}") from None
    return LoadClient(made, topic, qos, payload)


def _expect(made: socket.socket, size: int, first: int) -> None:
    data = b""
    while len(data) < size:
        part = made.recv(size - len(data))
        if not part:
            raise ConfigError("the broker closed the connection")
        data += part
    if data[0] != first or data[-1] > 2:
        raise ConfigError(f"the broker answers {data.hex()}: CONNECT or SUBSCRIBE is refused")


def _cpu_seconds(pids: Sequence[int]) -> float | None:
    """User and system time of processes so far, None without any."""
    found = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError as error:
            raise ConfigError(f"process {pid}: {error.strerror}") from None
        found += int(fields[11]) + int(fields[12])
    return found / os.sysconf("SC_CLK_TCK") if pids else None
