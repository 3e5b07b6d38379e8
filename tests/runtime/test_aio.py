"""AsyncChannel on the event loops of asyncio and of uvloop, on real sockets but in a group of its own (see solo.py)."""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from time import monotonic
from typing import Any

import pytest
import uvloop

import jgroups_py as jg
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.units import millis
from jgroups_py.stack.protocol import Protocol
from jgroups_py.system.free_ports import free_range
from tests.runtime import helpers, solo
from tests.runtime.helpers import PATIENCE_SECONDS
from tests.runtime.test_callbacks import Echo, Keeper
from tests.runtime.test_io_thread import Ticking, compute, ticking

pytestmark = pytest.mark.real
EVENT_LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


Test = Callable[[], Awaitable[None]]


@pytest.fixture(params=EVENT_LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Test], None]]:
    """Runs a coroutine on either event loop, and closes that; an exception in one of its callbacks fails the test."""
    faults: list[dict[str, Any]] = []

    def run_it(test: Test) -> None:
        async def bounded() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
            async with asyncio.timeout(PATIENCE_SECONDS):
                await test()

        with asyncio.Runner(loop_factory=EVENT_LOOPS[request.param]) as runner:
            runner.run(bounded())

    yield run_it
    assert faults == []


def open_channel(*more: type[Protocol], receiver: object = None) -> AsyncChannel:
    return AsyncChannel(solo.udp(*more, mcast_port=free_range()), name="A", receiver=receiver)


async def eventually(holds: Callable[[], object]) -> None:
    until = monotonic() + PATIENCE_SECONDS
    while not holds():
        assert monotonic() < until, "it did not happen"
        await asyncio.sleep(0.002)


def test_messages_come_by_async_for_until_the_channel_is_disconnected(run):
    async def test() -> None:
        got: list[bytes] = []
        async with open_channel() as channel:
            await channel.connect("chat")
            for number in range(500):
                await channel.send(None, str(number).encode())

            async for message in channel:
                got.append(message.payload)
                if len(got) == 500:
                    break
        assert got == [str(number).encode() for number in range(500)]
        assert channel.state == "CLOSED"

    run(test)


@pytest.mark.parametrize("error", [ValueError("wrong"), asyncio.CancelledError(), pytest.fail.Exception("no test's")])
def test_whatever_a_coroutine_of_the_receiver_raises_the_next_message_is_delivered(error, run):
    async def test() -> None:
        got: list[bytes] = []

        async def receive(message: jg.Message) -> None:
            got.append(message.payload)
            if len(got) == 1:
                raise error

        async with open_channel(receiver=receive) as channel:
            await channel.connect("chat")
            await channel.send(None, b"1")
            await channel.send(None, b"2")
            await eventually(lambda: got == [b"1", b"2"])

    run(test)


def test_a_channel_whose_event_loop_was_closed_leaves_its_group(caplog, run):
    channel = open_channel(Ticking)
    run(lambda: channel.connect("chat"))
    helpers.eventually(lambda: channel.state == "CLOSED")
    helpers.eventually(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("jgroups-A")])
    assert "its event loop was closed" in caplog.text
    with pytest.raises(jg.ChannelClosedError, match="event loop"):
        run(lambda: channel.send(None, b"x"))


def test_a_loop_over_messages_ends_when_another_task_disconnects(run):
    async def test() -> None:
        channel = open_channel()
        await channel.connect("chat")

        async def read() -> int:
            return len([message async for message in channel])

        reader = asyncio.create_task(read())
        await channel.send(None, b"one")
        await asyncio.sleep(0.05)
        await channel.close()
        assert await reader == 1

    run(test)


def test_coroutines_may_be_callbacks_and_are_called_one_at_a_time_in_order(run):
    calls: list[object] = []

    class Slow:
        async def receive(self, message: jg.Message) -> None:
            calls.append("begin")
            await asyncio.sleep(0.001)
            calls.append(message.payload)

        def view_accepted(self, view: jg.View) -> None:
            calls.append("view")

    async def test() -> None:
        async with open_channel(receiver=Slow()) as channel:
            await channel.connect("chat")
            assert calls == ["view"]
            await channel.send_batch(None, [b"1", b"2"])
            await eventually(lambda: len(calls) == 5)
        assert calls == ["view", "begin", b"1", "begin", b"2"]

    run(test)


def test_a_callback_may_close_its_channel(run):
    closed: list[str] = []

    async def test() -> None:
        channel = open_channel()

        async def receive(message: jg.Message) -> None:
            await channel.close()
            closed.append(channel.state)

        channel.receiver = receive
        await channel.connect("chat")
        await channel.send(None, b"go")
        await eventually(lambda: closed)
        await channel.close()

    run(test)
    assert closed == ["CLOSED"]


def test_a_receiver_that_does_not_read_slows_the_sender_and_loses_nothing(run):
    async def test() -> None:
        async with open_channel() as channel:
            await channel.connect("chat")
            for _ in range(600):
                await channel.send(None, bytes(50_000))
            number = 0
            async for _ in channel:
                number += 1
                if number == 600:
                    break

    run(test)


def test_errors_are_those_of_jchannel(run):
    class Loner(Protocol):
        """Never finds a group."""

    async def test() -> None:
        channel = open_channel(Loner)
        with pytest.raises(jg.NotConnectedError):
            await channel.send(None, b"")
        with pytest.raises(jg.JoinTimeoutError):
            await channel.connect("chat", timeout=0.05)
        assert channel.state == "OPEN"
        await channel.close()
        with pytest.raises(jg.ChannelClosedError):
            await channel.send(None, b"")

    run(test)


def test_a_connect_that_is_cancelled_leaves_the_channel_open(run):
    class Loner(Protocol):
        """Never finds a group."""

    async def test() -> None:
        channel = open_channel(Loner)
        task = asyncio.create_task(channel.connect("chat", timeout=30))
        await eventually(lambda: channel.address)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert channel.state == "OPEN"
        await channel.close()

    run(test)


def test_a_state_travels_whole_while_the_event_loop_runs_on(run):
    async def test() -> None:
        keeper = Keeper(bytes(range(256)) * 4000)
        async with open_channel(Echo, receiver=keeper) as channel:
            await channel.connect("chat", state_from=jg.COORDINATOR)
            assert keeper.got == keeper.state
            assert (await channel.stats())["UDP"] is not None

    run(test)


def test_a_callback_that_raises_is_counted_and_the_channel_goes_on(run):
    got: list[bytes] = []

    async def receive(message: jg.Message) -> None:
        got.append(message.payload)
        raise RuntimeError("the application's bug")

    async def test() -> None:
        async with open_channel(receiver=receive) as channel:
            await channel.connect("chat")
            await channel.send_batch(None, [b"1", b"2"])
            await eventually(lambda: len(got) == 2)
            assert (await channel.stats())["channel"]["receiver_exceptions"] == 2

    run(test)


def test_a_blocked_event_loop_does_not_silence_its_member(run):
    async def test() -> None:
        got: list[bytes] = []
        channel = open_channel(Ticking, receiver=lambda message: got.append(message.payload))
        async with channel:
            await channel.connect("chat")
            for number in range(3):
                assert compute(ticking(channel))             # which the event loop does not survive without help
                await channel.send(None, bytes([number]))
                await eventually(lambda number=number: len(got) == number + 1)

    run(test)


def test_what_coroutines_send_in_one_turn_travels_together(run):
    async def test() -> None:
        got: list[bytes] = []
        channel = open_channel(receiver=lambda message: got.append(message.payload))
        async with channel:
            await channel.connect("chat")
            await asyncio.gather(*[channel.send(None, b"x") for _ in range(1000)])
            await eventually(lambda: len(got) == 1000)
            assert (await channel.stats())["UDP"]["frames_sent"] < 10

    run(test)


def test_timers_that_are_due_in_a_moment_fire(run):
    """For less than half a millisecond uvloop gives a handle without its time."""
    class Hasty(Ticking):
        INTERVAL_NS = millis(0.1)

    async def test() -> None:
        async with open_channel(Hasty) as channel:
            await channel.connect("chat")
            hasty = ticking(channel)
            until = hasty.ticks + 200
            await eventually(lambda: hasty.ticks > until)

    run(test)
