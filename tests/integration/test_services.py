"""Typed services over real sockets: a server that is killed between effect and answer; threads that call coroutines."""
from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import jgroups_py as jg
from jgroups_py import aio
from jgroups_py.blocks.service import AsyncServices, Service, Services, method
from jgroups_py.model.errors import MemberLeftError
from tests.integration.members import free_ports
from tests.integration.service_member import Till

pytestmark = [pytest.mark.real, pytest.mark.slow]
MEMBER = Path(__file__).with_name("service_member.py")
CALLS = 40


def test_a_killed_server_runs_a_call_once_and_idempotent_ones_end_at_another_member(tmp_path: Path):
    port, file = free_ports("udp")["mcast_port"], tmp_path / "effects"

    async def body(members: dict[str, subprocess.Popen[str]]) -> None:
        async with aio.AsyncChannel("udp", "A", {"mcast_port": port, "bind_addr": "127.0.0.1"}) as ch:
            services = AsyncServices(ch)
            await ch.connect("till")
            for member in members.values():
                assert member.stdout is not None
                assert await asyncio.to_thread(member.stdout.readline) == "ready\n"
            till = services.any(Till, timeout=60)
            assert {await till.look(0, 0) for _ in range(10)} == {"B", "C"}
            calls = [asyncio.ensure_future(till.look(number, 3 if number % 4 < 2 else 0.1) if number < CALLS
                                           else till.pay(number, 3)) for number in range(1, 2 * CALLS)]
            await asyncio.sleep(1)
            members["B"].kill()
            found = await asyncio.gather(*calls, return_exceptions=True)
        assert all(found[number - 1] in ("B", "C") for number in range(1, CALLS))
        failed = [error for error in found[CALLS - 1:] if isinstance(error, BaseException)]
        assert failed
        assert all(isinstance(error, MemberLeftError) and not error.definite for error in failed)
    with ExitStack() as stack:
        members = {}
        for name in "BC":
            members[name] = stack.enter_context(subprocess.Popen(
                [sys.executable, str(MEMBER), name, str(port), str(file)], stdout=subprocess.PIPE, text=True))
            stack.callback(members[name].kill)
        asyncio.run(body(members))
    effects = Counter(int(line.split()[0]) for line in file.read_text().splitlines())
    assert all(effects[number] == 1 for number in range(CALLS, 2 * CALLS))
    assert any(effects[number] == 2 for number in range(1, CALLS))


class Counting(Service, name="counting"):
    @method()
    async def add(self, one: int, other: int) -> int:
        return one + other

    @method()
    async def wait(self) -> None:
        await asyncio.sleep(60)


class CountingOfThreads(Service, name="counting"):
    @method()
    def add(self, one: int, other: int) -> int:
        return one + other

    @method()
    def wait(self) -> None: ...


class Numbers(Service, name="numbers"):
    @method()
    def upto(self, end: int) -> Iterator[int]:
        yield from range(end)


def test_threads_and_coroutines_call_one_another():
    properties = {"mcast_port": free_ports("udp")["mcast_port"], "bind_addr": "127.0.0.1"}

    def threads(ch: jg.JChannel) -> None:
        services = Services(ch)
        services.serve(Numbers())
        ch.connect("both")
        counting = services.any(CountingOfThreads)
        assert [counting.add(number, 1) for number in range(20)] == list(range(1, 21))
        assert list(services.any(Numbers, prefer="local").upto(1000)) == list(range(1000))
        with pytest.raises(jg.ChannelError):
            services.any(CountingOfThreads, timeout=0.3).wait()
        answers = services.all(CountingOfThreads.add)(1, 2)
        assert list(answers.values.values()) == [3]
        assert list(answers.errors) == [ch.me]

    async def body() -> None:
        async with aio.AsyncChannel("udp", "A", properties) as a:
            services = AsyncServices(a)
            services.serve(Counting())
            await a.connect("both")
            with jg.JChannel("udp", "B", properties) as b:
                await asyncio.to_thread(threads, b)
            assert services.stats()["running"] == 0
    asyncio.run(body())
