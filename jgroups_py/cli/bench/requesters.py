"""Requesters: threads or coroutines that send requests for a given time, each one request after the other."""
from __future__ import annotations

import asyncio
import threading
from array import array
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any

from jgroups_py.blocks.rpc import AsyncRpc, Rpc
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.units import NS_PER_US, seconds

TIMEOUT_SECONDS = 30.0
SAMPLES = 4000                              # latencies in a report, evenly chosen from all sorted ones


class Requesters:
    """Threads that send requests to the members in turn. When the last one has ended, `done` is called with figures."""

    def __init__(self, number: int, done: Callable[..., None]) -> None:
        self._done = done
        self._running = number
        self._lock = threading.Lock()
        self._latencies = array("q")
        self._errors: list[str] = []

    def run(
        self, rpc: Rpc, members: Sequence[Address], first: int, payload: bytes, seconds_: float, flags: int,
    ) -> None:
        """Send requests on this thread until the time is over."""
        latencies = array("q")
        started_ns = then_ns = monotonic_ns()
        until_ns = started_ns + seconds(seconds_)
        at, error = first, ""
        try:
            while then_ns < until_ns:
                answer = rpc.request(members[at % len(members)], payload, TIMEOUT_SECONDS, flags)
                now_ns = monotonic_ns()
                latencies.append(now_ns - then_ns)
                then_ns = now_ns
                at += 1
                if len(answer) != len(payload):
                    error = f"an answer of {len(answer)} bytes"
                    break
        except ChannelError as raised:
            error = f"{type(raised).__name__}: {raised}"
        self._finished(latencies, error, started_ns)

    def _finished(self, latencies: array[int], error: str, started_ns: int) -> None:
        with self._lock:
            self._latencies += latencies
            self._errors += [error] if error else []
            self._running -= 1
            last = not self._running
        if last:
            self._done(**figures(self._latencies, self._errors, started_ns))


def of_threads(
    rpc: Rpc, members: Sequence[Address], number: int, size: int, seconds_: float, done: Callable[..., None],
    flags: int = 0,
) -> Requesters:
    """Start `number` threads that send requests; see Requesters."""
    made = Requesters(number, done)
    for first in range(number):
        threading.Thread(target=made.run, args=(rpc, members, first, bytes(size), seconds_, flags),
                         daemon=True).start()
    return made


async def of_coroutines(
    rpc: AsyncRpc, members: Sequence[Address], number: int, size: int, seconds_: float, flags: int = 0,
) -> dict[str, Any]:
    """As `of_threads`, with `number` coroutines; returns the figures."""
    latencies, errors, payload = array("q"), [], bytes(size)
    started_ns = monotonic_ns()
    until_ns = started_ns + seconds(seconds_)

    async def run(at: int) -> None:
        then_ns = monotonic_ns()
        try:
            while then_ns < until_ns:
                answer = await rpc.request(members[at % len(members)], payload, TIMEOUT_SECONDS, flags)
                now_ns = monotonic_ns()
                latencies.append(now_ns - then_ns)
                then_ns = now_ns
                at += 1
                if len(answer) != size:
                    raise ChannelError(f"an answer of {len(answer)} bytes")
        except ChannelError as raised:
            errors.append(f"{type(raised).__name__}: {raised}")
    await asyncio.gather(*[run(first) for first in range(number)])
    return figures(latencies, errors, started_ns)


def figures(latencies: array[int], errors: list[str], started_ns: int) -> dict[str, Any]:
    """The figures of one member: requests, seconds, errors, and samples of latency in us."""
    ordered, ended_ns = sorted(latencies), monotonic_ns()
    step = max(1, len(ordered) // SAMPLES)
    return {"requests": len(ordered), "seconds": (ended_ns - started_ns) / 1e9, "errors": errors,
            "start_ns": started_ns, "end_ns": ended_ns,
            "samples_us": [round(value / NS_PER_US, 1) for value in ordered[step // 2::step]]}
