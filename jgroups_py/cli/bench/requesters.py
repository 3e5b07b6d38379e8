"""What asks: threads or coroutines, each with one request under way at a time, until the time is over."""
from __future__ import annotations

import asyncio
import threading
from array import array
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any

from jgroups_py.address import Address
from jgroups_py.blocks.rpc import AsyncRpc, Rpc
from jgroups_py.errors import ChannelError
from jgroups_py.units import NS_PER_US, seconds

TIMEOUT_SECONDS = 30.0
SAMPLES = 4000                              # latencies that travel to the director; evenly taken from all


class Requesters:
    """Threads that ask the members in turn; `told` gets the figures when the last one is done."""

    def __init__(self, number: int, told: Callable[..., None]) -> None:
        self._told = told
        self._running = number
        self._lock = threading.Lock()
        self._latencies = array("q")
        self._errors: list[str] = []

    def run(
        self, rpc: Rpc, members: Sequence[Address], first: int, payload: bytes, seconds_: float, flags: int,
    ) -> None:
        """One thread."""
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
            self._told(**figures(self._latencies, self._errors, started_ns))


def of_threads(
    rpc: Rpc, members: Sequence[Address], number: int, size: int, seconds_: float, told: Callable[..., None],
    flags: int = 0,
) -> Requesters:
    """Start `number` threads."""
    made = Requesters(number, told)
    for first in range(number):
        threading.Thread(target=made.run, args=(rpc, members, first, bytes(size), seconds_, flags),
                         daemon=True).start()
    return made


async def of_coroutines(
    rpc: AsyncRpc, members: Sequence[Address], number: int, size: int, seconds_: float, flags: int = 0,
) -> dict[str, Any]:
    """The same with `number` coroutines; the figures."""
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
    """What one member found."""
    ordered, ended_ns = sorted(latencies), monotonic_ns()
    step = max(1, len(ordered) // SAMPLES)
    return {"requests": len(ordered), "seconds": (ended_ns - started_ns) / 1e9, "errors": errors,
            "start_ns": started_ns, "end_ns": ended_ns,
            "samples_us": [round(value / NS_PER_US, 1) for value in ordered[step // 2::step]]}
