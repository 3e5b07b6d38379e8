"""Claim: a typed call costs at most 1.15 of the processor time of a call of bytes with the same work, at 0.85 its rate.

`python -m benchmarks.services [--calls 3000] [--pairs 9] [--callers 50]`: two AsyncChannels of one group in this
process; A calls B, with so many calls under way, by turns, so that what else the machine does meets all alike:

  bytes    blocks/rpc; the handler gives back the bytes that it got
  by hand  the same, and both members encode and decode a record of three fields, as an application of bytes does
  raw      blocks/service, a method of bytes
  typed    blocks/service, a method that takes and gives the record

Handlers are plain functions, then coroutines. Processor time is that of both members. Ratios are medians of pairs: raw
to bytes, typed to by hand (the claim), and typed to bytes, which has the work of the codec on one side alone; by hand
to bytes is that work. Exits with 1 if functions miss the claim.
"""
from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable
from statistics import median
from time import monotonic, process_time

import attrs
import msgspec

from jgroups_py import aio
from jgroups_py.blocks.rpc import AsyncRpc, Request
from jgroups_py.blocks.service import AsyncServices, Service, method
from jgroups_py.model.address import Address

MOST_CPU, LEAST_RATE = 1.15, 0.85
RATIOS = (("raw", "bytes"), ("typed", "by hand"), ("typed", "bytes"), ("by hand", "bytes"))


@attrs.frozen
class Order:
    """What travels each way."""

    id: int
    lines: list[tuple[str, int]]
    note: str | None = None


ORDER = Order(7, [("apple", 2), ("pear", 5), ("fig", 1)])
ENCODE, DECODE = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Order).decode
DATA = ENCODE(ORDER)


class Orders(Service, name="orders"):
    """The interface, and the server with coroutines."""

    @method()
    async def echo(self, order: Order) -> Order:
        """Give it back."""
        return order

    @method()
    async def raw(self, data: bytes) -> bytes:
        """Give it back."""
        return data


class OrdersAtOnce(Service, name="orders"):
    """The server with functions."""

    @method()
    def echo(self, order: Order) -> Order:
        """Give it back."""
        return order

    @method()
    def raw(self, data: bytes) -> bytes:
        """Give it back."""
        return data


def echo(request: Request) -> bytes:
    """The handler of `bytes`."""
    return request.payload


def by_hand(request: Request) -> bytes:
    """The handler of `by hand`."""
    return ENCODE(DECODE(request.payload))


async def later_echo(request: Request) -> bytes:
    """The same as a coroutine."""
    return request.payload


async def later_by_hand(request: Request) -> bytes:
    """The same as a coroutine."""
    return ENCODE(DECODE(request.payload))


Call = Callable[[], Awaitable[object]]


async def calls(call: Call, number: int, callers: int) -> tuple[float, float]:
    """Calls a second, and microseconds of processor time a call."""
    async def some() -> None:
        for _ in range(number // callers):
            await call()
    began, cpu = monotonic(), process_time()
    await asyncio.gather(*(some() for _ in range(callers)))
    made = number // callers * callers
    return made / (monotonic() - began), 1e6 * (process_time() - cpu) / made


def sides(rpc: AsyncRpc, hand_rpc: AsyncRpc, services: AsyncServices, dest: Address) -> dict[str, Call]:
    """What is measured."""
    stub = services.at(dest, Orders)

    async def hand() -> Order:
        return DECODE(await hand_rpc.request(dest, ENCODE(ORDER)))
    return {"bytes": lambda: rpc.request(dest, DATA), "by hand": hand, "raw": lambda: stub.raw(DATA),
            "typed": lambda: stub.echo(ORDER)}


def show(name: str, found: dict[str, list[tuple[float, float]]]) -> bool:
    """Print the figures; whether typed calls meet the claim."""
    for side, runs in found.items():
        rate, cpu_us = (median(one[figure] for one in runs) for figure in (0, 1))
        print(f"{name:10} {side:8} {rate:8,.0f} calls/s {cpu_us:6.1f} us of processor time a call")
    holds = True
    for one, other in RATIOS:
        pairs = list(zip(found[one], found[other], strict=True))
        rate, cpu = (median(mine[figure] / its[figure] for mine, its in pairs) for figure in (0, 1))
        print(f"{name:10} {one} to {other}: processor time {cpu:.3f}, rate {rate:.3f}")
        if (one, other) == RATIOS[1]:
            holds = cpu <= MOST_CPU and rate >= LEAST_RATE
    return holds


async def measure(number: int, pairs: int, callers: int, port: int) -> bool:
    """Whether the claim holds for functions."""
    properties = {"bind_addr": "127.0.0.1", "mcast_port": port}
    async with aio.join("bench", name="A", properties=properties) as a, \
            aio.join("bench", name="B", properties=properties) as b:
        await a.wait_for(members=2, timeout=30)
        services, typed, holds = AsyncServices(a), AsyncServices(b), {}
        handlers = (echo, by_hand, later_echo, later_by_hand)
        ours = [AsyncRpc(a, service=service) for service in range(len(handlers))]
        for service, handler in enumerate(handlers):
            AsyncRpc(b, handler, service)
        for kind, (name, server) in enumerate((("functions", OrdersAtOnce()), ("coroutines", Orders()))):
            typed.serve(server)
            measured = sides(ours[2 * kind], ours[2 * kind + 1], services, b.me)
            for call in measured.values():
                await calls(call, number, callers)
            found: dict[str, list[tuple[float, float]]] = {side: [] for side in measured}
            for pair in range(pairs):
                for side in list(measured)[::-1] if pair % 2 else list(measured):
                    found[side].append(await calls(measured[side], number, callers))
            typed.withdraw(server)
            holds[name] = show(name, found)
    return holds["functions"]


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--callers", type=int, default=50)
    parser.add_argument("--port", type=int, default=46401)
    options = parser.parse_args(words)
    return 0 if asyncio.run(measure(options.calls, options.pairs, options.callers, options.port)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
