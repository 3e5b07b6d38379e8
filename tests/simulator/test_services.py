"""Typed services on the simulator: calls, errors, destinations, retries, deadlines, cancellation, streams."""
from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from random import Random
from typing import Any

import attrs
import pytest

import jgroups_py as jg
from jgroups_py import aio
from jgroups_py.blocks.service import AsyncServices, Mode, Service, caller, method
from jgroups_py.model.errors import (
    ArgumentsError,
    ChannelError,
    MemberLeftError,
    NoMethodError,
    NoServiceError,
    RemoteError,
    RequestTimeoutError,
)
from jgroups_py.model.units import millis, seconds
from jgroups_py.testing.simulation import Trial
from jgroups_py.testing.simulation.refusals import simulated
from tests.simulator.code_bench import Bench


@attrs.frozen
class Order:
    id: int
    lines: list[tuple[str, int]]
    note: str | None = None


class NoSuchOrder(jg.RemoteFault):
    id: int
    near: list[int]


class Orders(Service, name="orders", version="1.2.0"):
    """Every kind of method; `log` has what ran."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.log: list[str] = []

    @method(raises=(NoSuchOrder,), idempotent=True)
    async def find(self, id: int, deep: bool = False) -> Order:
        self.log.append(f"find {id}")
        if id > 100:
            raise NoSuchOrder(id, near=[id - 1])
        if id < 0:
            raise KeyError(id)
        return Order(id, [("apple", 2)], "deep" if deep else None)

    @method()
    async def place(self, order: Order) -> int:
        self.log.append(f"place {order.id}")
        return order.id

    @method()
    async def where(self) -> str:
        return f"{self.name} asked by {caller()}"

    @method()
    async def sleep(self, seconds: float) -> None:
        self.log.append("sleeps")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        self.log.append("slept")

    @method(once=True)
    async def charge(self, amount: int, seconds: float) -> int:
        self.log.append(f"charge {amount}")
        await asyncio.sleep(seconds)
        return amount

    @method()
    async def tail(self, since: int, size: int = 0) -> AsyncIterator[Order]:
        try:
            for id in range(since, 200):
                self.log.append(f"item {id}")
                yield Order(id, [], "x" * size)
            raise NoSuchOrder(200, [])
        finally:
            self.log.append("tail ended")

    @method()
    async def echo(self, data: bytes) -> bytes:
        return data


class OrdersOfOld(Service, name="orders", version="1.0.0"):
    """Without most methods, and with one of other parameters."""

    @method()
    async def find(self, id: int, deep: bool = False) -> Order:
        raise NotImplementedError

    @method()
    async def place(self, order: Order, count: int) -> int:
        raise NotImplementedError


Body = Callable[[AsyncServices, aio.AsyncChannel], Coroutine[Any, Any, Any]]


def run(
    body: Body, names: str = "AB", stack: str = "udp", during: Callable[[Bench], None] | None = None,
) -> dict[str, Orders]:
    """Run `body` at A, the first member; all members serve Orders."""
    made: dict[str, Orders] = {}
    done: list[Any] = []

    async def app(ch: aio.AsyncChannel) -> None:
        services = AsyncServices(ch)
        made[ch.name] = Orders(ch.name)
        services.serve(made[ch.name])
        await ch.connect("orders")
        if ch.name == "A" and not done:
            await ch.wait_for(members=len(names))
            try:
                await body(services, ch)
            finally:
                done.append(True)
    with simulated("test"):
        bench = Bench(app, names, stack)
        if during is not None:
            during(bench)
        bench.until(lambda: done, 90)
        bench.stage.run_for(millis(100))
        bench.until(lambda: True)
        bench.stage.dispose()
    return made


def test_a_call_has_the_types_of_its_method():
    async def body(services: AsyncServices, ch: aio.AsyncChannel) -> None:
        orders = services.at(ch.others[0], Orders)
        assert await orders.find(7) == Order(7, [("apple", 2)])
        assert await orders.find(id=7, deep=True) == Order(7, [("apple", 2)], "deep")
        assert await orders.place(Order(3, [])) == 3
        assert await orders.where() == "B asked by A"
        assert await orders.echo(b"\xc1\0") == b"\xc1\0"
        with pytest.raises(TypeError, match="find takes id, deep"):
            await orders.find()                              # type: ignore[call-arg]
        with pytest.raises(ArgumentsError, match="str"):
            await orders.find("7")                           # type: ignore[arg-type]
        with pytest.raises(ValueError, match="int"):
            await orders.find(1 << 70)
    made = run(body)
    assert "find 7" in made["B"].log


def test_declared_errors_come_back_as_their_classes_and_no_others():
    async def body(services: AsyncServices, ch: aio.AsyncChannel) -> None:
        orders = services.at(ch.others[0], Orders)
        with pytest.raises(NoSuchOrder) as found:
            await orders.find(101)
        assert (found.value.id, found.value.near, found.value.definite) == (101, [100], True)
        with pytest.raises(RemoteError) as other:
            await orders.find(-1)
        assert (other.value.kind, other.value.text) == ("KeyError", "-1")
        undeclared = services.at(ch.others[0], OrdersOfOld)
        with pytest.raises(RemoteError) as unknown:
            await undeclared.find(101)
        assert unknown.value.kind == "NoSuchOrder"
    run(body)


def test_a_method_with_other_parameters_does_not_run():
    async def body(services: AsyncServices, ch: aio.AsyncChannel) -> None:
        old = services.at(ch.others[0], OrdersOfOld, timeout=2)
        with pytest.raises(NoMethodError) as error:
            await old.place(Order(1, []), 5)
        assert error.value.definite
        with pytest.raises(NoServiceError):
            await services.any(OrdersOfOld, timeout=2).place(Order(1, []), 5)
    assert run(body)["B"].log == []


def test_all_members_answer_and_each_failure_is_its_own():
    async def body(services: AsyncServices, ch: aio.AsyncChannel) -> None:
        found = await services.all(Orders.find)(7)
        assert found.complete
        assert found.values == dict.fromkeys(ch.members, Order(7, [("apple", 2)]))
        failed = await services.all(Orders.find, mode=Mode.FIRST)(102)
        assert not failed.complete
        assert all(isinstance(error, NoSuchOrder) for error in failed.errors.values())
    run(body, "ABC")


def test_any_chooses_a_member_for_each_call():
    async def body(services: AsyncServices, ch: aio.AsyncChannel) -> None:
        assert {await services.any(Orders).where() for _ in range(9)} == {f"{name} asked by A" for name in "ABC"}
        assert {await services.any(Orders, prefer="local").where() for _ in range(9)} == {"A asked by A"}
        for key in ("x", "y"):
            assert len({await services.any(Orders, prefer=f"hash:{key}").where() for _ in range(9)}) == 1
        assert len({await services.any(Orders, prefer=f"hash:{key}").where() for key in range(30)}) == 3
    run(body, "ABC")


def test_a_call_that_is_given_up_is_cancelled_there():
    async def body(services: AsyncServices, ch: aio.AsyncChannel) -> None:
        orders = services.at(ch.others[0], Orders)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await orders.sleep(100)
        with pytest.raises(RequestTimeoutError):
            await services.at(ch.others[0], Orders, timeout=0.5).sleep(100)
        await asyncio.sleep(0.1)
        assert services.stats()["waiting"] == 0
    assert sorted(run(body)["B"].log) == ["cancelled", "cancelled", "sleeps", "sleeps"]


def test_a_stream_is_read_to_its_end_and_its_error():
    async def body(services: AsyncServices, ch: aio.AsyncChannel) -> None:
        ids: list[int] = []

        async def read() -> None:
            async for order in services.at(ch.others[0], Orders).tail(0):
                ids.append(order.id)
        with pytest.raises(NoSuchOrder):
            await read()
        assert ids == list(range(200))
    run(body)


def test_a_stream_is_produced_as_far_as_it_is_read():
    async def body(services: AsyncServices, ch: aio.AsyncChannel) -> None:
        stream = services.at(ch.others[0], Orders).tail(0)
        assert (await anext(stream)).id == 0
        await asyncio.sleep(1)
        await stream.aclose()                                # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
    log = run(body)["B"].log
    assert log[-1] == "tail ended"
    assert 64 <= len(log) <= 2 * 64 + 2


def test_a_call_that_runs_once_outlives_that_its_member_was_away():
    async def body(services: AsyncServices, ch: aio.AsyncChannel) -> None:
        orders = services.at(ch.others[0], Orders, timeout=60)
        sleeping, charging = asyncio.create_task(orders.sleep(50)), asyncio.create_task(orders.charge(5, 20))
        with pytest.raises(MemberLeftError) as left:
            await sleeping
        assert not left.value.definite
        assert await charging == 5

    def during(bench: Bench) -> None:
        bench.stage.run_for(seconds(4))
        bench.stage.partition([["A"], ["B"]])
        bench.stage.run_for(seconds(12))
        bench.stage.heal()
    assert sorted(run(body, during=during)["B"].log) == ["cancelled", "charge 5", "sleeps"]


def test_an_idempotent_call_is_tried_at_another_member_and_no_other_one_is():
    async def body(services: AsyncServices, ch: aio.AsyncChannel) -> None:
        orders = services.any(Slow, timeout=30)
        both = await asyncio.gather(orders.again(), orders.never(), return_exceptions=True)
        assert both[0] == "C"
        assert isinstance(both[1], MemberLeftError)
        assert not both[1].definite
        assert sorted(ran) == ["B again", "B never", "C again"]
    ran: list[str] = []

    class Slow(Service, name="slow"):
        def __init__(self, name: str) -> None:
            self.name = name

        @method(idempotent=True)
        async def again(self) -> str:
            ran.append(f"{self.name} again")
            await asyncio.sleep(100 if self.name == "B" else 0)
            return self.name

        @method()
        async def never(self) -> str:
            ran.append(f"{self.name} never")
            await asyncio.sleep(100)
            return self.name
    done: list[bool] = []

    async def app(ch: aio.AsyncChannel) -> None:
        services = AsyncServices(ch)
        await ch.connect("slow")
        if ch.name == "A":
            await ch.wait_for(members=3)
            await body(services, ch)
            done.append(True)
        else:
            await asyncio.sleep(2 if ch.name == "B" else 4)          # C is there when B has the calls
            services.serve(Slow(ch.name))
    with simulated("test"):
        bench = Bench(app, "ABC")
        bench.stage.run_for(seconds(6))
        bench.stage.crash("B")
        bench.until(lambda: done, 60)
        bench.stage.dispose()


def test_services_of_other_sites_are_called_by_site_and_the_nearest_is_the_own_one():
    answered: Counter[str] = Counter()

    class Where(Service, name="where"):
        def __init__(self, site: str) -> None:
            self.site = site

        @method(idempotent=True)
        async def site_of(self) -> str:
            return self.site

    async def start(ch: aio.AsyncChannel) -> AsyncServices:
        services = AsyncServices(ch)
        services.serve(Where(ch.site or ""))
        await ch.connect("sites")
        return services

    async def act(services: AsyncServices, rng: Random) -> None:
        ch = services._async
        for site in ch.sites if ch.state is jg.ChannelState.CONNECTED else ():
            try:
                found = await services.site(site, Where, timeout=20).site_of()
                near = await services.nearest(Where, timeout=20).site_of()
            except ChannelError:
                answered["failed"] += 1
                continue
            assert (found, near) == (site, ch.site)
            answered[f"{ch.site} to {site}"] += 1
    for seed in range(2):
        assert Trial("relay", start, act).run(seed).violations == ()
    assert answered["NYC to SFO"]
    assert answered["SFO to NYC"]
    assert answered.total() > 5 * answered["failed"]
