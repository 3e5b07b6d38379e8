"""Applications that are coroutines: the AsyncChannel of production on the simulated event loop."""
from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

import jgroups_py as jg
from jgroups_py import aio
from jgroups_py.blocks.dicts.replicated import ReplicatedDict
from jgroups_py.blocks.rpc.aio import AsyncRpc
from jgroups_py.model.units import seconds
from jgroups_py.testing.simulation import Trial
from jgroups_py.testing.simulation.refusals import simulated
from tests.simulator.accounts import Account, add, add_together, all_is_there, open_account, open_shared, shared_sum
from tests.simulator.code_bench import App, Bench


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(app: App, *arguments: Any, **options: Any) -> Bench:
        made.append(Bench(app, *arguments, **options))
        return made[-1]
    with simulated("test"):
        yield make
        for one in made:
            one.stage.dispose()


# --- the channel is that of production --------------------------------------------------------------------------------

def test_everything_of_a_channel_works_in_one_program(bench: Callable[..., Bench]) -> None:
    done: dict[str, list[object]] = {}

    async def app(ch: aio.AsyncChannel) -> None:
        assert type(ch) is aio.AsyncChannel
        found = done[ch.name] = []
        rpc = AsyncRpc(ch, lambda request: b"re: " + request.payload)
        async with ch:
            await ch.connect("x")
            view = await ch.wait_for(members=2, timeout=10)
            receipt = await ch.send(b"from " + ch.name.encode(), until="handled@*" if ch.site else "handled")
            found.append(set(receipt.members) == set(view.members))
            found.append(await rpc.request(ch.others[0], b"hello", timeout=2))
            async for message in ch.messages(timeout=1.0):
                found.append(message.payload)
            found.append((await ch.stats())["channel"]["messages_queued"] > 0)
        found.append(str(ch.state))
    made = bench(app)
    made.until(lambda: len(done) == 2 and all(found[-1:] == ["CLOSED"] for found in done.values()))
    for found in done.values():
        assert found[:2] == [True, b"re: hello"]
        assert sorted(found[2:4]) == [b"from A", b"from B"]          # type: ignore[type-var]
        assert found[-2:] == [True, "CLOSED"]


def test_a_state_is_fetched_with_all_messages_around_it(bench: Callable[..., Bench]) -> None:
    class Log(jg.Receiver):
        def __init__(self) -> None:
            self.lines: list[bytes] = []

        def receive(self, message: jg.Message) -> None:
            self.lines.append(message.payload)

        def get_state(self, stream: Any) -> None:
            stream.write(b"\n".join(self.lines))

        def set_state(self, stream: Any) -> None:
            self.lines = stream.read().split(b"\n")

    async def app(ch: aio.AsyncChannel) -> Log:
        ch.receiver = kept = Log()
        await ch.connect("x", state_from=jg.COORDINATOR if ch.name == "B" else None)

        async def write() -> None:
            for number in range(200):
                await ch.send(b"%s %d" % (ch.name.encode(), number) + b"." * 500)
                await asyncio.sleep(0.01)
        if ch.name == "A":
            kept.writer = asyncio.create_task(write())               # type: ignore[attr-defined]
        return kept
    made = bench(app, "A")
    made.stage.run_for(seconds(2))
    made.start("B")
    made.until(lambda: made.member("B").ready)
    made.stage.run_for(seconds(4))
    first, second = (made.member(name).application.lines for name in "AB")
    assert len(first) == 200
    assert second == first


def test_a_channel_connects_again_under_another_address(bench: Callable[..., Bench]) -> None:
    found: list[object] = []

    async def app(ch: aio.AsyncChannel) -> None:
        await ch.connect("x")
        found.append(ch.me)
        await ch.disconnect()
        await ch.connect("x")
        await ch.send(b"again", until="stable")
        found.append(ch.me)
    bench(app, "A").until(lambda: len(found) == 2)
    assert found[0] != found[1]


def test_another_channel_is_refused(bench: Callable[..., Bench]) -> None:
    async def app(ch: aio.AsyncChannel) -> None:
        await aio.join("x", name="mine")
    made = bench(app, "A")
    made.stage.run_for(seconds(1))
    assert "connecting another channel ('mine')" in str(made.stage.refusal)


# --- time and chance --------------------------------------------------------------------------------------------------

def test_clocks_are_virtual_and_a_loop_without_a_pause_lets_time_pass(bench: Callable[..., Bench]) -> None:
    found: list[float] = []

    async def app(ch: aio.AsyncChannel) -> None:
        began, wall, loop = time.monotonic(), time.time(), asyncio.get_running_loop().time()
        await asyncio.sleep(1000)
        found.extend([time.monotonic() - began, time.time() - wall, asyncio.get_running_loop().time() - loop])
        while time.monotonic() < began + 1001:
            await asyncio.sleep(0)
        found.append(time.monotonic() - began)
    real = time.monotonic()
    bench(app, "A").until(lambda: len(found) == 4, 1100)
    assert all(abs(passed - 1000) < 0.01 for passed in found[:3])
    assert 1001 <= found[3] < 1001.1
    assert time.monotonic() - real < 60


def test_clocks_drift_apart_if_that_is_asked_for(bench: Callable[..., Bench]) -> None:
    async def app(ch: aio.AsyncChannel) -> float:
        await asyncio.sleep(100)
        return 0.0
    made = bench(app, clock_drift=0.1)
    ends: dict[str, int] = {}

    def over() -> bool:
        for name in "AB":
            if made.member(name).ready:
                ends.setdefault(name, made.stage.now_ns)
        return len(ends) == 2
    made.until(over, 200)
    assert abs(ends["A"] - ends["B"]) > seconds(0.5)
    assert all(seconds(90) < at < seconds(112) for at in ends.values())


def test_the_order_of_tasks_is_drawn_and_that_of_callbacks_is_kept(bench: Callable[..., Bench]) -> None:
    orders: set[tuple[int, ...]] = set()
    kept: list[int] = []

    async def app(ch: aio.AsyncChannel) -> None:
        for _ in range(20):
            order: list[int] = []

            async def step(number: int, order: list[int] = order) -> None:
                order.append(number)
            await asyncio.gather(*map(step, range(4)))
            orders.add(tuple(order))
        for number in range(50):
            asyncio.get_running_loop().call_soon(kept.append, number)
        await asyncio.sleep(0.1)
    made = bench(app, "A")
    made.until(lambda: made.member("A").ready)
    assert len(orders) > 5
    assert kept == list(range(50))


def test_random_numbers_outside_are_what_they_would_have_been() -> None:
    random.seed(4)
    wanted = random.random()
    random.seed(4)
    Trial("group", open_account, add).run(2)
    assert random.random() == wanted


# --- the life of a process --------------------------------------------------------------------------------------------

def test_a_crash_runs_no_finally_and_a_leave_does(bench: Callable[..., Bench]) -> None:
    ended: list[str] = []

    async def app(ch: aio.AsyncChannel) -> None:
        async with ch:
            await ch.connect("x")
            try:
                await asyncio.Event().wait()
            finally:
                await ch.send(b"goodbye")
                ended.append(ch.name)
    made = bench(app, "ABC")
    made.until(lambda: made.stage.agreed("ABC"))
    made.stage.crash("A")
    made.stage.leave("B")
    made.until(lambda: made.stage.agreed("C"))
    assert ended == ["B"]
    assert [payload.partition(b"|")[2] for payload in made.stage.delivered("C")] == [b"goodbye"]


def test_a_paused_process_runs_nothing_until_it_goes_on(bench: Callable[..., Bench]) -> None:
    async def app(ch: aio.AsyncChannel) -> list[float]:
        await ch.connect("x")
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                ticks.append(time.monotonic())
                await asyncio.sleep(0.01)
        app.tasks = asyncio.create_task(tick())              # type: ignore[attr-defined]
        return ticks
    made = bench(app)
    made.until(lambda: made.stage.agreed("AB") and made.member("B").ready)
    made.stage.pause("B")
    made.stage.run_for(seconds(1))
    ticks = len(made.member("B").application)
    made.stage.run_for(seconds(1))
    assert len(made.member("B").application) == ticks
    made.stage.resume("B")
    made.stage.run_for(seconds(1))
    assert ticks + 50 < len(made.member("B").application) < ticks + 200


def test_an_application_that_ends_with_a_channel_error_is_started_again(bench: Callable[..., Bench]) -> None:
    starts: list[int] = []

    async def app(ch: aio.AsyncChannel) -> None:
        starts.append(1)
        await ch.connect("x", timeout=0.001 if len(starts) == 1 else 10)
    made = bench(app, "A")
    made.until(lambda: len(starts) == 2 and made.stage.agreed("A"))


# --- what is found ----------------------------------------------------------------------------------------------------

async def forgets_a_task(ch: aio.AsyncChannel) -> Account:
    account = await open_account(ch)

    async def fails() -> None:
        await asyncio.sleep(1)
        raise KeyError("of a task that nothing awaits")
    account.task = asyncio.create_task(fails())              # type: ignore[attr-defined]
    return account


async def raises_in_a_callback(ch: aio.AsyncChannel) -> None:
    @ch.on_view
    async def changed(view: jg.View) -> None:
        await asyncio.sleep(0.01)
        raise KeyError("of a callback")
    await ch.connect("x")


async def does_not_start(ch: aio.AsyncChannel) -> None:
    await ch.connect("x")
    raise KeyError("of the application")


async def never_connects(ch: aio.AsyncChannel) -> None:
    raise jg.ChannelError("each time")


async def hangs(account: Account, rng: Random) -> None:
    await asyncio.Event().wait()


async def raises(account: Account, rng: Random) -> None:
    await asyncio.sleep(0.01)
    raise KeyError("of an operation")


@pytest.mark.parametrize(("app", "act", "guarantee", "text"), [
    (forgets_a_task, None, "task", "of a task that nothing awaits"),
    (raises_in_a_callback, None, "view_accepted", "of a callback"),
    (does_not_start, None, "start", "of the application"),
    (never_connects, None, "start", "each time"),
    (open_account, raises, "act", "of an operation"),
    (open_account, hangs, "L", "operations do not end, although all faults healed long ago: hangs of "),
])
def test_it_is_found(app: App, act: Any, guarantee: str, text: str) -> None:
    outcome = Trial("group", app, act).run(2)
    assert outcome.guarantees[0].partition(" ")[0] == guarantee
    assert text in outcome.violations[0]


def test_a_read_modify_write_over_await_is_found_and_shrunk_to_four_actions() -> None:
    trial = Trial("group", open_account, add, at_end=all_is_there)
    outcome = next(outcome for outcome in map(trial.run, range(200)) if outcome.violations)
    assert outcome.guarantees == ("all_is_there",)
    least = trial.shrunk(outcome, 60)
    assert len(least.faults) + len(least.traffic) <= 4
    again = trial.run(outcome.seed, least.part)
    assert (again.digest, again.violations) == (least.digest, least.violations)


def test_a_read_modify_write_of_two_members_is_found_and_shrunk_to_two_operations() -> None:
    trial = Trial("dict", open_shared, add_together, at_end=shared_sum)
    outcome = next(outcome for outcome in map(trial.run, range(200)) if outcome.violations)
    assert outcome.guarantees == ("shared_sum",)
    least = trial.shrunk(outcome, 60)
    assert not least.faults
    assert len([action for action in least.traffic if "operation" in action]) == 2


@pytest.mark.long
@pytest.mark.slow
def test_operations_of_a_dict_that_are_atomic_lose_nothing_untold() -> None:
    told: list[object] = []                                  # what a merge took back, as it may

    async def start(ch: aio.AsyncChannel) -> Account:
        account = Account(ch)
        account.prices = ReplicatedDict(ch, "accounts", str, int)
        account.prices.on_conflict(told.append)
        await ch.connect("bank")
        return account

    async def increment(account: Account, rng: Random) -> None:
        amount = rng.randint(1, 9)
        assert account.prices is not None
        await account.prices.aincrement(str(account.ch.me.raw.hex()), amount)
        account.added += amount

    def at_end(accounts: list[Account]) -> None:
        for account in [] if told else accounts:
            assert account.prices is not None
            assert account.prices.get(str(account.ch.me.raw.hex()), 0) >= account.added
    complete = 0
    for seed in range(40):
        told.clear()
        assert Trial("dict", start, increment, at_end=at_end).run(seed).violations == ()
        complete += not told
    assert complete > 20


def test_a_member_waits_for_its_copy_of_a_dict_without_stopping_its_loop(bench: Callable[..., Bench]) -> None:
    found: list[tuple[bool, dict[str, int]]] = []
    ticks: list[int] = []

    async def app(ch: aio.AsyncChannel) -> None:
        prices = ReplicatedDict(ch, "prices", str, int)
        assert not await prices.await_ready(0.1), "it is not connected"
        await ch.connect("x")

        async def tick() -> None:
            while True:
                await asyncio.sleep(0.001)
                ticks.append(1)
        ticking = asyncio.create_task(tick())
        assert await prices.await_ready()
        ticking.cancel()
        found.append((prices.ready, prices.copy()))
        await prices.aput(f"of {len(found)}", 1)
    made = bench(app, "A", "udp-total")
    made.until(lambda: len(found) == 1)
    made.start("B")
    made.until(lambda: len(found) == 2)
    assert [one for one, _ in found] == [True, True]
    assert found[1][1] == {"of 1": 1}, "B has what was written before it came"
    assert ticks
