"""send(until=...) in a group without RELAY: threads and asyncio, on real sockets."""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic

import pytest

import jgroups_py as jg
from jgroups_py import aio
from jgroups_py.system.free_ports import free_range
from tests.runtime.helpers import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.real


class Gate(jg.Receiver):
    """A receiver that returns from b"slow" when it is let through, and raises for b"bad"."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.open = threading.Event()

    def receive(self, message: jg.Message) -> None:
        if message.payload == b"slow":
            self.open.wait(PATIENCE_SECONDS)
        self.got.append(message.payload)
        if message.payload == b"bad":
            raise ValueError("a planted bug")


class Trio:
    """A, B and C in one group; `gates` are their receivers."""

    def __init__(self, stack: ExitStack) -> None:
        properties = {"bind_addr": "127.0.0.1", "mcast_port": free_range()}
        self.gates = {name: Gate() for name in "ABC"}
        self.a, self.b, self.c = [
            stack.enter_context(jg.join("receipts", name=name, properties=properties, receiver=gate))
            for name, gate in self.gates.items()]
        for channel in (self.a, self.b, self.c):
            channel.wait_for(members=3, timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def trio() -> Iterator[Trio]:
    with ExitStack() as stack:
        made = Trio(stack)
        yield made
        for gate in made.gates.values():
            gate.open.set()


def test_a_stable_message_is_at_all_members(trio):
    receipt = trio.a.send(b"stable", until="stable")
    assert (receipt.done, receipt.members, receipt.left, receipt.failed) == (True, trio.a.members, (), ())


def test_handled_waits_for_the_last_receiver_and_stable_does_not(trio):
    gate = trio.gates["C"] = trio.c.receiver = Gate()
    called: list[object] = []
    handled = trio.a.send(b"slow", until="handled", wait=False)
    handled.when_done(called.append)
    for other in "AB":
        trio.gates[other].open.set()
    assert trio.a.send(b"next", until="stable", timeout=PATIENCE_SECONDS).done
    with pytest.raises(jg.ReceiptTimeoutError):
        handled.result(timeout=0.01)
    assert (handled.done, called, gate.got) == (False, [], [])
    gate.open.set()
    assert handled.result(timeout=PATIENCE_SECONDS).members == trio.a.members
    assert (called, gate.got[0]) == ([handled], b"slow")


def test_a_member_whose_receiver_raised_is_named_and_only_for_that_message(trio):
    trio.a.receiver = trio.b.receiver = jg.Receiver()
    trio.c.receiver = Gate()
    bad, good = [trio.a.send(payload, flags=jg.Flag.RSVP, until="stable", wait=False) for payload in (b"bad", b"good")]
    assert bad.result(PATIENCE_SECONDS).failed == (trio.c.me,)
    assert good.result(PATIENCE_SECONDS).failed == ()
    assert trio.a.send(b"bad2", until="handled").failed == ()


def test_a_timeout_says_that_nothing_is_known(trio):
    gate = trio.c.receiver = Gate()
    started = monotonic()
    with pytest.raises(jg.ReceiptTimeoutError, match=r"not known within 0.05 s whether the message is handled"):
        trio.a.send(b"slow", until="handled", timeout=0.05)
    assert monotonic() - started < PATIENCE_SECONDS / 2
    gate.open.set()
    assert trio.a.send(b"later", until="handled").done


def test_inside_a_callback_stable_may_be_waited_for_and_handled_may_not(trio):
    found: list[object] = []

    def receive(message: jg.Message) -> None:
        if message.payload == b"go":
            found.append(trio.b.send(b"inside", until="stable", timeout=PATIENCE_SECONDS).done)
            with pytest.raises(jg.ChannelError, match="inside a callback"):
                trio.b.send(b"never", until="handled")
            found.append(trio.b.send(b"soon", until="handled", wait=False))

    trio.b.receiver = receive
    trio.a.send(b"go")
    eventually(lambda: len(found) == 2 and found[1].done)                         # type: ignore[attr-defined]
    assert found[0] is True


@pytest.mark.parametrize(("arguments", "options", "text"), [
    ((b"x",), {"until": "ordered"}, "needs TOTAL in the stack"),
    ((b"x",), {"until": "stable@SFO"}, "needs RELAY in the stack"),
    ((b"x",), {"until": "delivered"}, "until is 'stable'"),
    ((b"x",), {"until": ()}, "until is 'stable'"),
    ((b"x",), {"until": "stable", "flags": jg.Flag.NO_RELIABILITY}, "NO_RELIABILITY"),
])
def test_what_no_receipt_is_for_is_refused_and_not_sent(trio, arguments, options, text):
    with pytest.raises(ValueError, match=text):
        trio.a.send(*arguments, **options)


def test_unicasts_and_batches_have_no_receipts(trio):
    for options in ({"until": "stable"}, {"flags": jg.Flag.RSVP}):
        with pytest.raises(ValueError, match="send one member a request"):
            trio.a.send(trio.b.me, b"x", **options)
    with pytest.raises(ValueError, match="last message by itself"):
        trio.a.send_batch(None, [b"x"], jg.Flag.RSVP)


def test_who_leaves_while_others_wait_is_named_and_a_closed_channel_ends_its_waits():
    with ExitStack() as stack:
        trio = Trio(stack)
        c = trio.c.me
        trio.gates["A"].open.set()
        handled = trio.a.send(b"slow", until="handled", wait=False)
        trio.gates["B"].open.set()
        trio.c.close()                                       # its receiver has not returned
        receipt = handled.result(timeout=PATIENCE_SECONDS)
        assert (receipt.members, receipt.left) == ((trio.a.me, trio.b.me), (c,))
        trio.b.receiver = Gate()
        waits = trio.a.send(b"slow", until="handled", wait=False)
        trio.a.close()
        with pytest.raises(jg.ReceiptError, match="the channel was closed"):
            waits.result(timeout=PATIENCE_SECONDS)
        for gate in (trio.b.receiver, trio.gates["C"]):      # let their threads go
            gate.open.set()                                                       # type: ignore[union-attr]


def test_a_thousand_coroutines_wait_at_once_for_a_few_polls():
    async def test() -> None:
        properties = {"bind_addr": "127.0.0.1", "mcast_port": free_range()}
        async with aio.join("many", name="A", properties=properties, receiver=jg.Receiver()) as a, \
                aio.join("many", name="B", properties=properties, receiver=jg.Receiver()) as b:
            await a.wait_for(members=2)
            receipts = await asyncio.gather(*(a.send(b"%d" % number, until="handled") for number in range(1000)))
            assert {receipt.members for receipt in receipts} == {(a.me, b.me)}
            polls = (await a.stats())["channel"]["receipt_polls_sent"]
            assert polls < 100
            pending = await a.send(b"x", until="stable", wait=False)
            assert (await pending).members == (a.me, b.me)
            let_through = asyncio.Event()
            b.receiver = lambda message: let_through.wait()
            with pytest.raises(jg.ReceiptTimeoutError):
                await a.send(b"x", until="handled", timeout=0.01)
            let_through.set()
    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS))
