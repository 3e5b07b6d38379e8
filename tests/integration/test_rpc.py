"""Requests over real channels: threads and asyncio, errors, late answers, members that go."""
from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack

import pytest
import uvloop

import jgroups_py as jg
from jgroups_py.blocks.rpc import (
    ALL,
    FIRST,
    LATER,
    MAJORITY,
    AsyncRpc,
    MemberLeftError,
    RemoteError,
    Request,
    RequestTimeoutError,
    Rpc,
)
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.system.free_ports import free_range
from tests.runtime.helpers import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]


class Member(jg.Receiver):
    """Answers requests in several ways; keeps what its receiver gets."""

    def __init__(self, name: str, properties: dict[str, object]) -> None:
        self.messages: list[bytes] = []
        self.kept: list[Request] = []
        self.one_way: list[bytes] = []
        self.channel = jg.JChannel("udp", name, properties, self)
        self.rpc = Rpc(self.channel, self.handle)
        self.channel.connect("rpc")

    def receive(self, message: jg.Message) -> None:
        self.messages.append(message.payload)

    def handle(self, request: Request) -> object:
        verb, _, rest = request.payload.partition(b" ")
        if verb == b"echo":
            return rest
        if verb == b"keep":
            self.kept.append(request)
            return LATER
        if verb == b"ask":                                   # a request inside a handler
            return self.rpc.request(request.src, b"echo nested", 5.0)
        if verb == b"tell":
            self.one_way.append(rest)
            return None
        raise KeyError(rest.decode())

    @property
    def address(self) -> jg.Address:
        assert self.channel.address is not None
        return self.channel.address


@pytest.fixture(scope="module")
def group() -> Iterator[list[Member]]:
    with ExitStack() as stack:
        properties: dict[str, object] = {"mcast_port": free_range()}
        members = [Member(name, properties) for name in "ABC"]
        for member in members:
            stack.enter_context(member.channel)
        eventually(lambda: len(members[0].channel.view or ()) == 3)
        yield members


def test_one_member_answers(group):
    a, b, _ = group
    assert a.rpc.request(b.address, b"echo hello") == b"hello"
    assert a.rpc.request(a.address, b"echo to myself") == b"to myself"
    large = bytes(1 << 20)
    assert a.rpc.request(b.address, b"echo " + large) == large


def test_many_requests_at_once_get_their_own_answers(group):
    a, b, c = group
    replies = [(n, a.rpc.start((b if n % 2 else c).address, b"echo %d" % n)) for n in range(3000)]
    assert all(reply.result(10) == b"%d" % n for n, reply in replies)


def test_threads_get_their_own_answers(group):
    _, b, c = group
    wrong: list[bytes] = []

    def ask(name: bytes) -> None:
        for number in range(100):
            text = b"%s %d" % (name, number)
            if b.rpc.request(c.address, b"echo " + text) != text:
                wrong.append(text)
    threads = [threading.Thread(target=ask, args=(b"%d" % number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_all_answer_one_multicast(group):
    addresses = {member.address for member in group}
    for mode, least in ((ALL, 3), (MAJORITY, 2), (FIRST, 1)):
        found = group[1].rpc.request_many(None, b"echo x", mode)
        assert found.complete
        assert len(found) >= least
        assert found.values.keys() <= addresses
    assert group[1].rpc.request_many([group[0].address, group[2].address], b"echo y").values == {
        group[0].address: b"y", group[2].address: b"y"}


def test_a_handler_that_raises_and_a_service_that_does_not_exist(group, caplog):
    a, b, _ = group
    with caplog.at_level(logging.ERROR), pytest.raises(RemoteError, match="B answered KeyError: 'sesame'") as raised:
        a.rpc.request(b.address, b"open sesame")
    assert raised.value.kind == "KeyError"
    assert raised.value.definite
    other = Rpc(a.channel, service=9)
    with pytest.raises(RemoteError, match="service 9 has no handler here"):
        other.request(b.address, b"echo x")
    other.close()


def test_an_answer_may_come_later_and_too_late(group):
    a, b, _ = group
    reply = a.rpc.start(b.address, b"keep it")
    eventually(lambda: b.kept)
    b.kept.pop().answer(b"at last")
    assert reply.result(5) == b"at last"
    with pytest.raises(RequestTimeoutError):
        a.rpc.request(b.address, b"keep it", timeout=0.05)
    b.kept.pop().answer(b"too late")
    eventually(lambda: a.rpc.stats.get("answers_too_late"))


def test_a_reply_calls_back_when_it_is_over_and_at_once_if_it_is(group):
    a, b, _ = group
    reply, called = a.rpc.start(b.address, b"keep it"), list[bytes]()
    reply.when_done(lambda reply: called.append(reply.result(0)))
    eventually(lambda: b.kept)
    assert not called
    b.kept.pop().answer(b"now")
    eventually(lambda: called == [b"now"])
    reply.when_done(lambda reply: called.append(reply.result(0)))
    assert called == [b"now", b"now"]


def test_a_handler_may_send_requests_and_messages_still_reach_the_receiver(group):
    a, b, _ = group
    assert a.rpc.request(b.address, b"echo x") == b"x"
    b.channel.send(None, b"plain")
    eventually(lambda: b"plain" in a.messages)
    a.rpc.notify(None, b"tell all")
    eventually(lambda: all(member.one_way == [b"all"] for member in group))
    assert all(member.messages in ([], [b"plain"]) for member in group)
    assert b.rpc.request(a.address, b"ask back") == b"nested"


def test_a_request_fails_when_its_destination_or_its_own_member_leaves():
    properties: dict[str, object] = {"mcast_port": free_range()}
    a, b = (Member(name, properties) for name in "AB")
    eventually(lambda: len(a.channel.view.members) == 2)     # its view may change later than that of B
    reply, many = a.rpc.start(b.address, b"keep it", timeout=None), a.rpc.start_many(None, b"keep it", timeout=None)
    eventually(lambda: len(b.kept) == 2)
    b_address = b.address
    b.channel.close()
    with pytest.raises(MemberLeftError):
        reply.result(5)
    with pytest.raises(MemberLeftError):
        a.rpc.request(b_address, b"echo x")
    a.kept.pop().answer(b"mine")
    assert many.result(5).left == (b_address,)
    reply = a.rpc.start(a.address, b"keep it", timeout=None)
    a.channel.disconnect()
    with pytest.raises(jg.NotConnectedError):
        reply.result(5)
    a.channel.connect("again")                               # a service lives as long as its channel
    assert a.rpc.request(a.address, b"echo x") == b"x"
    a.channel.close()


@pytest.mark.parametrize("new_event_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_asyncio_asks_and_answers(new_event_loop):
    async def handler(request: Request) -> bytes:
        await asyncio.sleep(0)
        if request.payload == b"fail":
            raise ValueError("as you wish")
        return request.payload.upper()

    async def play() -> None:
        properties: dict[str, object] = {"mcast_port": free_range()}
        async with AsyncExitStack() as stack:
            channels = [await stack.enter_async_context(AsyncChannel("udp", name, properties)) for name in "AB"]
            a, b = (AsyncRpc(channels[0]), AsyncRpc(channels[1], handler))
            for channel in channels:
                await channel.connect("async-rpc")
            dest = channels[1].address
            assert dest is not None
            answers = await asyncio.gather(*[a.request(dest, b"x%d" % n) for n in range(500)])
            assert answers == [b"X%d" % n for n in range(500)]
            assert (await a.request_many(None, b"y")).values == {dest: b"Y"}        # A has no handler
            with pytest.raises(RemoteError, match="as you wish"):
                await a.request(dest, b"fail")
            b.handler = lambda _: LATER
            with pytest.raises(RequestTimeoutError):
                await a.request(dest, b"x", timeout=0.05)
            waiting = asyncio.create_task(a.request(dest, b"x", timeout=None))
            await asyncio.sleep(0.05)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert a.stats["waiting"] == 0

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(play())
