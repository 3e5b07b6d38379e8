"""A link of bad quality in user space: frames between pairs of TAP devices, lost, late, doubled, reordered, damaged.

For kernels without netem. Each direction of each pair draws from a generator of its own, seeded by words, so the same
frames meet the same fate. Commands come from stdin, a JSON object a line, {"pair": name, "weather": {...}}; the end of
input ends it, and with it the devices.
"""
from __future__ import annotations

import fcntl
import heapq
import json
import os
import select
import struct
import sys
import time
from random import Random
from typing import Any

import attrs

from jgroups_py.system.child_processes import end_with_parent

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
FRAME_BYTES = 65536
HEADER_BYTES = 34                    # Ethernet and IP: damage begins behind them, else the frame is merely lost


@attrs.frozen
class Weather:
    """What happens to frames. Times in ms, the rest ratios; a reordered frame overtakes by having no delay."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0


class Direction:
    """One way of a pair."""

    def __init__(self, seed: str, out: int) -> None:
        self.rng = Random(seed)
        self.out = out
        self.weather = Weather()

    def fate(self, frame: bytes) -> list[tuple[float, bytes]]:
        """(delay in seconds, frame) for each copy that arrives."""
        weather, rng = self.weather, self.rng
        copies = 2 if rng.random() < weather.duplicate else 1
        found = []
        for _ in range(copies):
            lost, damaged, overtakes = (rng.random() < ratio for ratio in
                                        (weather.loss, weather.corrupt, weather.reorder))
            delay_ms = 0.0 if overtakes else weather.delay_ms + rng.uniform(-1, 1) * weather.jitter_ms
            if not lost:
                found.append((max(0.0, delay_ms) / 1000, self.damage(frame) if damaged else frame))
        return found

    def damage(self, frame: bytes) -> bytes:
        """One bit of it flipped."""
        if len(frame) <= HEADER_BYTES:
            return frame
        at = self.rng.randrange(HEADER_BYTES, len(frame))
        flipped = frame[at] ^ (1 << self.rng.randrange(8))
        return frame[:at] + bytes([flipped]) + frame[at + 1:]


class Forwarder:
    """All pairs of one process."""

    def __init__(self, seed: str, pairs: dict[str, tuple[str, str]]) -> None:
        self.directions: dict[int, Direction] = {}           # descriptor that is read -> where it goes
        self.pairs: dict[str, list[Direction]] = {}
        self.late: list[tuple[float, int, int, bytes]] = []  # (when, order, to which descriptor, frame)
        self.order = 0
        for name, (one, other) in pairs.items():
            left, right = open_tap(one), open_tap(other)
            there, back = Direction(f"{seed}/{name}/there", right), Direction(f"{seed}/{name}/back", left)
            self.directions[left], self.directions[right] = there, back
            self.pairs[name] = [there, back]

    def run(self) -> None:
        """Until the end of input."""
        readable = [sys.stdin.fileno(), *self.directions]
        commands = b""
        while True:
            wait_s = max(0.0, self.late[0][0] - time.monotonic()) if self.late else None
            ready, _, _ = select.select(readable, [], [], wait_s)
            for descriptor in ready:
                if descriptor in self.directions:
                    self.take(self.directions[descriptor], os.read(descriptor, FRAME_BYTES))
                    continue
                received = os.read(descriptor, FRAME_BYTES)
                if not received:
                    return
                *lines, commands = (commands + received).split(b"\n")
                for line in lines:
                    self.command(**json.loads(line))
            self.deliver()

    def command(self, pair: str, weather: dict[str, Any]) -> None:
        """New weather, both ways."""
        for direction in self.pairs[pair]:
            direction.weather = Weather(**weather)

    def take(self, direction: Direction, frame: bytes) -> None:
        """A frame came."""
        now = time.monotonic()
        for delay_s, copy in direction.fate(frame):
            self.order += 1
            heapq.heappush(self.late, (now + delay_s, self.order, direction.out, copy))

    def deliver(self) -> None:
        """Write what is due."""
        now = time.monotonic()
        while self.late and self.late[0][0] <= now:
            _, _, out, frame = heapq.heappop(self.late)
            try:
                os.write(out, frame)
            except OSError:                                  # the device is down just now: lost, as on any link
                continue


def open_tap(name: str) -> int:
    """A TAP device of this name; it lasts as long as this process."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


def main() -> None:
    """Forward between the pairs that the first argument names."""
    end_with_parent()
    options = json.loads(sys.argv[1])
    forwarder = Forwarder(options["seed"], options["pairs"])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    forwarder.run()


if __name__ == "__main__":
    main()
