"""A long path between two sites, as a process: a TCP proxy whose bytes arrive late, at a bandwidth, and with losses.

The first argument is a JSON object: `sites`, site -> list of (port that is listened on, port it leads to), all of
loopback; `delay_s`, one way; `bytes_per_s`, into each site and out of it, 0: no limit; `loss`, the ratio of packets
that are lost. Prints `ready`; the end of input ends it.

What it does is what connections make of a long path: data is late by the delay and never overtakes, a new connection
takes a round trip, what exceeds the bandwidth waits, and the sender with it once a queue of QUEUE_S stands. A lost
packet costs its connection a round trip, as its retransmission does. It does not make senders slower, as the congestion
control of some systems does at a loss; that needs real packets.
"""
from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import sys
from collections import deque
from random import Random
from typing import Any

from jgroups_py.system.child_processes import end_with_parent

PACKET_BYTES = 1448
QUEUE_S = 0.05                       # a router's queue: beyond that, the sender is not read


class SharedLine:
    """One direction of the path of a site: what all its connections share."""

    def __init__(self, delay_s: float, bytes_per_s: float, loss: float, rng: Random) -> None:
        self.delay_s, self.bytes_per_s, self.loss, self.rng = delay_s, bytes_per_s, loss, rng
        self.free_s = 0.0

    def arrival_s(self, now_s: float, nbytes: int) -> float:
        """When bytes that are sent now arrive."""
        if self.bytes_per_s:
            self.free_s = max(self.free_s, now_s) + nbytes / self.bytes_per_s
        lost = self.loss and self.rng.random() < 1 - (1 - self.loss) ** (1 + nbytes // PACKET_BYTES)
        return max(self.free_s, now_s) + self.delay_s * (3 if lost else 1)

    def queue_s(self, now_s: float) -> float:
        """How long the bytes that wait for the bandwidth take."""
        return max(0.0, self.free_s - now_s)


class ProxiedEnd(asyncio.Protocol):
    """One end of a proxied connection; what it reads arrives at `other` later. line: in that direction."""

    def __init__(self, loop: asyncio.AbstractEventLoop, line: SharedLine) -> None:
        self.loop, self.line = loop, line
        self.other: ProxiedEnd | None = None
        self.transport: Any = None
        self.under_way: deque[tuple[float, bytes]] = deque()         # (when it arrives, data; empty: the end)
        self.last_s = 0.0                                            # when the latest of it arrives
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Data of this end begins its way."""
        now_s = self.loop.time()
        self._depart(now_s, data)
        queue_s = self.line.queue_s(now_s)
        if queue_s > QUEUE_S and self.transport is not None:
            self.transport.pause_reading()
            self.loop.call_later(queue_s - QUEUE_S / 2, self._read_on)

    def _read_on(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """The end of this end begins its way."""
        self._depart(self.loop.time(), b"")

    def _depart(self, now_s: float, data: bytes) -> None:
        self.last_s = max(self.last_s, self.line.arrival_s(now_s, len(data)))
        self.under_way.append((self.last_s, data))
        self._arm()

    def _arm(self) -> None:
        if self.timer is None and self.under_way and self.other is not None:
            self.timer = self.loop.call_at(self.under_way[0][0], self._arrive)

    def meet(self, other: ProxiedEnd) -> None:
        """The other end is connected: what waits for it goes on."""
        self.other = other
        self._arm()

    def _arrive(self) -> None:
        self.timer = None
        assert self.other is not None, "only armed with one"
        now_s, transport = self.loop.time(), self.other.transport
        while self.under_way and self.under_way[0][0] <= now_s:
            _, data = self.under_way.popleft()
            if transport is None or transport.is_closing():
                self.under_way.clear()
            elif data:
                transport.write(data)
            else:
                transport.close()
        self._arm()

    def pause_writing(self) -> None:
        """This end takes no more: stop reading the other one."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """It takes more."""
        if self.other is not None:
            self.other._read_on()


class LongPath:
    """All proxies."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.rng = Random(0)
        self.tasks: set[asyncio.Task[None]] = set()

    def line(self) -> SharedLine:
        """A line with the properties of the path."""
        options = self.options
        return SharedLine(options["delay_s"], options["bytes_per_s"], options["loss"], self.rng)

    async def run(self) -> None:
        """Listen, and forward until the end of input."""
        loop = asyncio.get_running_loop()
        for ports in self.options["sites"].values():
            into, out = self.line(), self.line()
            for port, to in ports:
                await loop.create_server(functools.partial(self.accept, loop, to, into, out), "127.0.0.1", port)
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)

    def accept(self, loop: asyncio.AbstractEventLoop, to: int, into: SharedLine, out: SharedLine) -> ProxiedEnd:
        """Somebody connects to a proxy."""
        near, far = ProxiedEnd(loop, into), ProxiedEnd(loop, out)
        near.last_s = loop.time() + 3 * into.delay_s                 # the connection itself takes a round trip
        far.meet(near)
        task = loop.create_task(self.connect(loop, near, far, to))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return near

    async def connect(self, loop: asyncio.AbstractEventLoop, near: ProxiedEnd, far: ProxiedEnd, to: int) -> None:
        """Connect to the port behind the proxy, as late as a request to connect gets there."""
        await asyncio.sleep(near.line.delay_s)
        try:
            await loop.create_connection(lambda: far, "127.0.0.1", to)
        except OSError:                                              # nobody listens: to the other end, closed
            far.connection_lost(None)
            return
        near.meet(far)


def main() -> None:
    """Run the path that the first argument describes."""
    end_with_parent()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(LongPath(json.loads(sys.argv[1])).run())


if __name__ == "__main__":
    main()
