"""Flag.RSVP as JGroups' test of its RSVP has it, and what that leaves out (case 12 of the blocks): five members, on
virtual time. A message to one member has no receipt here; test_group_receipts.py has the refusal."""
from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import jgroups_py as jg
from jgroups_py.aio import AsyncChannel
from jgroups_py.model.outputs import LOCAL
from jgroups_py.simulator.network import Weather
from jgroups_py.testing.simulation.refusals import simulated
from tests.simulator.code_bench import Bench

pytestmark = pytest.mark.slow
NAMES = "ABCDE"
LOST_S = 0.5                               # how long nothing of A arrives, from its send on
PROMPT_S = 2.0                             # once it does: the next request for what is missing, and the poll


class Sender:
    """A sends b"value" with Flag.RSVP once all five are there. got: what each member's receiver has returned from."""

    def __init__(self, gated: str = "") -> None:
        self.got: dict[str, list[bytes]] = {name: [] for name in (*NAMES, "F")}
        self.gated = gated                               # a member whose receiver never returns
        self.stage: dict[str, Any] = {}
        self.channels: dict[str, AsyncChannel] = {}
        self.bench = Bench(self.app, NAMES)
        self.bench.until(lambda: len(self.channels) == len(NAMES) and all(
            len(channel.members) == len(NAMES) for channel in self.channels.values()))

    async def app(self, ch: AsyncChannel) -> None:
        loop = asyncio.get_running_loop()

        async def receive(message: jg.Message) -> None:
            if ch.name == self.gated:
                await asyncio.Event().wait()
            self.got[ch.name].append(message.payload)
        ch.receiver = receive
        await ch.connect("rsvp")
        self.channels[ch.name] = ch
        while ch.name != "A" or "send" not in self.stage:
            await asyncio.sleep(0.001)
        self.stage["members"] = ch.members
        closer = asyncio.create_task(self.close_when_told(ch))
        began_s = loop.time()
        try:
            self.stage["receipt"] = await ch.send(None, b"value", jg.Flag.RSVP, timeout=30)
        except jg.ReceiptError as error:
            self.stage["error"] = error
        self.stage["took"] = loop.time() - began_s
        self.stage["had"] = [name for name, got in self.got.items() if got]
        await closer

    async def close_when_told(self, ch: AsyncChannel) -> None:
        while "close" not in self.stage:
            await asyncio.sleep(0.001)
        await ch.close()

    def cut(self, loss_ratio: float) -> None:
        """The share of A's frames to the others that is lost."""
        for name in NAMES[1:]:
            self.bench.stage.network.set_path_weather("A", name, LOCAL, Weather(loss_ratio=loss_ratio))

    def run(self, seconds: float) -> None:
        self.bench.stage.run_for(round(seconds * 1e9))

    def send(self) -> None:
        self.stage["send"] = True
        self.run(LOST_S)

    def end(self) -> Any:
        """Its receipt, once there is one."""
        self.bench.until(lambda: "took" in self.stage, 40)
        return self.stage.get("receipt")

    def addresses(self, names: str) -> tuple[jg.Address, ...]:
        return tuple(member for member in self.stage["members"] if member.name in names)


@contextmanager
def begun(gated: str = "") -> Iterator[Sender]:
    with simulated("rsvp"):
        sender = Sender(gated)
        try:
            yield sender
        finally:
            sender.bench.stage.dispose()


def test_a_multicast_that_is_lost_at_first_returns_once_all_five_have_handled_it() -> None:
    with begun() as sender:
        sender.cut(1.0)
        sender.send()
        assert "took" not in sender.stage, "it returned though nobody else can have the message"
        sender.cut(0.0)
        receipt = sender.end()
    assert sender.stage["had"] == list(NAMES)
    assert (receipt.members, receipt.left, receipt.failed) == (sender.addresses(NAMES), (), ())
    assert LOST_S < sender.stage["took"] < LOST_S + PROMPT_S


def test_a_send_that_reaches_nobody_ends_with_its_channel_and_not_with_a_timeout() -> None:
    with begun() as sender:
        sender.cut(1.0)
        sender.send()
        sender.stage["close"] = True
        sender.end()
    error = sender.stage["error"]
    assert not isinstance(error, jg.ReceiptTimeoutError)
    assert "the channel was closed" in str(error)
    assert sender.stage["had"] == ["A"]


@pytest.mark.parametrize("how", ["leave", "crash"])
def test_a_member_that_goes_before_it_has_handled_the_message_is_named_and_not_waited_for(how: str) -> None:
    with begun(gated="D") as sender:
        sender.send()
        assert "took" not in sender.stage, "it returned before D's receiver"
        getattr(sender.bench.stage, how)("D")
        receipt = sender.end()
    assert sender.stage["had"] == list("ABCE")
    assert (receipt.members, receipt.left, receipt.failed) == (sender.addresses("ABCE"), sender.addresses("D"), ())


def test_a_member_that_joins_while_a_send_waits_is_neither_waited_for_nor_named() -> None:
    with begun(gated="F") as sender:
        sender.cut(1.0)
        sender.send()
        sender.bench.start("F")
        sender.cut(0.0)
        receipt = sender.end()
        sender.bench.until(lambda: len(sender.channels["A"].members) == len(NAMES) + 1)
    assert sender.stage["had"] == list(NAMES)
    assert (receipt.members, receipt.left, receipt.failed) == (sender.addresses(NAMES), (), ())
