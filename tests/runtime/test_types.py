"""What mypy --strict says about programs that use a channel: it accepts the right ones, and names the wrong lines."""
from __future__ import annotations

import pytest

from tests.runtime.strict_types import check_wrong_lines

PROGRAM = '''\
import asyncio
from typing import BinaryIO

import jgroups_py as jg
from jgroups_py import aio
from jgroups_py.aio import AsyncChannel


class OnlyReceives:
    def receive(self, message: jg.Message) -> None: ...


class Awaits:
    async def receive(self, message: jg.Message) -> None: ...
    def view_accepted(self, view: jg.View) -> None: ...


class TakesText:
    def receive(self, message: str) -> None: ...


def use() -> None:
    with jg.join("orders", name="A", receiver=OnlyReceives()) as ch:
        ch.send(b"x")
        ch.send(None, bytearray(b"x"), flags=jg.Flag.OOB)
        ch.send(ch.me, memoryview(b"x"))
        ch.send(jg.Message(payload=b"x"), timeout=1.0)
        ch.send(ch.coordinator, b"x")
        view: jg.View = ch.wait_for(members=3, timeout=10)
        print(view, ch.members, ch.others)
        for message in ch.messages(timeout=1.0):
            print(message.payload)
        for event in ch.events():
            match event:
                case jg.Message():
                    print(event.src)
                case jg.MergeView() | jg.View():
                    print(event.members)
        receipt: jg.Receipt = ch.send(b"y", until="stable")
        print(receipt.members, receipt.left, receipt.failed)
        ch.send(None, b"w", until=["stable", "handled"], wait=False).when_done(lambda done: print(done.error))
        print(ch.send(b"w", until="handled", wait=False).result(timeout=1.0).members)
        print(ch.send(b"plain").members)  # wrong
        ch.send(None, "str")  # wrong
        ch.send("str")  # wrong
        ch.send("A", b"x")  # wrong
        ch.send(b"x", b"y")  # wrong
        ch.wait_for(members="3")  # wrong
    jg.JChannel(receiver=print)
    jg.JChannel(receiver=jg.Receiver())
    jg.JChannel(receiver=42)  # wrong
    jg.JChannel(receiver=TakesText())  # wrong
    jg.join("orders", receiver="A")  # wrong
    ch.receiver = 42  # wrong


def register(ch: jg.JChannel) -> None:
    @ch.on_message
    def heard(message: jg.Message) -> None: ...

    @ch.on_view
    def changed(view: jg.View) -> None: ...

    @ch.on_state
    def save(stream: BinaryIO) -> None: ...

    @save.setter
    def load(stream: BinaryIO) -> None: ...

    @ch.on_message  # wrong
    def bad(message: str) -> None: ...

    heard(jg.Message())


async def talk() -> None:
    async with aio.join("orders", name="A", receiver=Awaits()) as ch:
        await ch.send(b"x")
        await ch.send(ch.me, b"x")
        await ch.wait_for(members=2)
        pending = await ch.send(b"x", until="handled", wait=False)
        print((await pending).members)
        async for message in ch.messages():
            print(message.payload)
        async for event in ch.events():
            print(event)
        await ch.send(None, "str")  # wrong
    other: AsyncChannel = await aio.join("orders")
    other.receiver = 42  # wrong
    AsyncChannel(receiver=42)  # wrong


asyncio.run(talk())
'''


@pytest.mark.real
def test_mypy_accepts_right_programs_and_refuses_wrong_payloads_receivers_and_destinations(tmp_path):
    check_wrong_lines(PROGRAM, tmp_path / "program.py")
