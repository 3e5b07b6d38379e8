"""messages(), events(), wait_for, functions and join: on real sockets, in a group of one (see solo.py) or two."""
from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest

import jgroups_py as jg
from jgroups_py import aio
from jgroups_py.aio import AsyncChannel
from jgroups_py.channel.functions import Functions
from jgroups_py.channel.message import MessageBatch
from jgroups_py.channel.receiver import callbacks
from jgroups_py.channel.streams import KEPT_BYTES, KEPT_EVENTS, DeliveryStream
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.system.free_ports import free_range
from jgroups_py.testing.bench import address, view_of
from tests.runtime import solo
from tests.runtime.helpers import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.real
B = address("B")


def stack() -> StackSpec:
    return solo.udp(mcast_port=free_range())


@pytest.fixture
def channel() -> Iterator[jg.JChannel]:
    made = jg.JChannel(stack(), name="A")
    yield made
    made.close()


# --- threads ----------------------------------------------------------------------------------------------------------

def test_a_loop_over_messages_goes_on_where_it_was_left_and_ends_with_the_channel(channel):
    loop = channel.messages(timeout=PATIENCE_SECONDS)        # before connecting: it misses nothing
    channel.connect("chat")
    for number in range(300):
        channel.send(b"%d" % number)
    got = [next(loop).payload for _ in range(10)]
    for message in channel.messages(timeout=PATIENCE_SECONDS):
        got.append(message.payload)
        if len(got) == 299:
            channel.close()
    assert got == [b"%d" % number for number in range(300)]


def test_events_are_messages_and_views_and_functions_for_views_are_called_besides(channel):
    views: list[jg.View] = []
    channel.on_view(views.append)
    events = channel.events(timeout=PATIENCE_SECONDS)
    channel.connect("chat")
    channel.send(b"1")
    view, message = next(events), next(events)
    assert isinstance(view, jg.View)
    assert isinstance(message, jg.Message)
    assert (view.members, message.payload, views) == (channel.members, b"1", [view])
    with pytest.raises(jg.ChannelError, match="exclude each other"):
        channel.messages()


def test_a_loop_that_starts_later_begins_with_the_present_view_and_ends_when_nothing_comes(channel):
    channel.connect("chat")
    assert list(channel.events(timeout=0.01)) == [channel.view]
    channel.receiver = None                                  # the stream is over, and a function may take the messages
    got: list[bytes] = []
    channel.on_message(lambda message: got.append(message.payload))
    channel.send(b"1")
    eventually(lambda: got == [b"1"])


def test_waiting_for_members_ends_with_them_in_time_or_with_the_connection(channel):
    with pytest.raises(jg.NotConnectedError):
        channel.wait_for(members=1)
    channel.connect("chat")
    assert channel.wait_for(members=1, timeout=0) == channel.view
    with pytest.raises(jg.MembersTimeoutError, match=r"1 of 3 members .* after 0.01 s: A"):
        channel.wait_for(members=3, timeout=0.01)
    for wrong, kind in ((0, ValueError), ("3", TypeError)):
        with pytest.raises(kind):
            channel.wait_for(members=wrong)                                       # type: ignore[arg-type]
    threading.Timer(0.05, channel.close).start()
    with pytest.raises(jg.ChannelClosedError):
        channel.wait_for(members=3, timeout=PATIENCE_SECONDS)


def test_waiting_inside_a_callback_is_refused(channel):
    refused: list[str] = []

    @channel.on_message
    def heard(message: jg.Message) -> None:
        with pytest.raises(jg.ChannelError) as error:
            channel.wait_for(members=2)
        refused.append(str(error.value))

    channel.connect("chat")
    channel.send(b"x")
    eventually(lambda: refused)
    assert "inside a callback" in refused[0]


def test_join_connects_and_closes_and_a_channel_that_cannot_join_is_closed():
    with jg.join("chat", stack=stack(), name="A", receiver=print) as ch:
        assert (ch.name, ch.cluster, ch.members) == ("A", "chat", (ch.me,))
    assert ch.state == "CLOSED"
    with pytest.raises(jg.ConfigError):
        jg.join("chat", stack="no-such-stack")
    with pytest.raises(TypeError, match="a cluster's name is a str"):
        jg.join(42, stack=stack())                                                # type: ignore[arg-type]


def test_two_members_find_each_other_and_talk():
    properties = {"bind_addr": "127.0.0.1", "mcast_port": free_range()}
    with jg.join("chat", name="A", properties=properties) as a, jg.join("chat", name="B", properties=properties) as b:
        assert a.wait_for(members=2, timeout=PATIENCE_SECONDS) == b.wait_for(members=2, timeout=PATIENCE_SECONDS)
        assert (a.others, b.others, b.coordinator) == ((b.me,), (a.me,), a.me)
        heard = b.messages(timeout=PATIENCE_SECONDS)
        a.send(b"hello")
        message = next(heard)
        assert (message.src, message.payload) == (a.me, b"hello")


def test_a_loop_that_does_not_read_slows_the_senders_of_its_group_and_loses_nothing():
    properties = {"bind_addr": "127.0.0.1", "mcast_port": free_range()}
    with jg.join("chat", name="A", properties=properties) as a, jg.join("chat", name="B", properties=properties) as b:
        a.wait_for(members=2, timeout=PATIENCE_SECONDS)
        loop, sent = b.messages(timeout=PATIENCE_SECONDS), 0
        with contextlib.suppress(jg.SendTimeoutError):
            for sent in range(1000):
                a.send(b"%5d" % sent + bytes(60_000), timeout=0.1)
        assert 10 < sent < 999, "the sender was slowed"
        assert [int(next(loop).payload[:5]) for _ in range(sent)] == list(range(sent))


# --- asyncio ----------------------------------------------------------------------------------------------------------

def run(test) -> None:
    """Run a coroutine, bounded."""
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await test()
    asyncio.run(bounded())


def test_coroutines_iterate_over_events_and_go_on_where_they_left():
    async def test() -> None:
        async with aio.join("chat", stack=stack(), name="A") as ch:
            await ch.send(b"1")
            got: list[object] = []
            async for event in ch.events(timeout=0.05):
                got.append(event.payload if isinstance(event, jg.Message) else event)
            await ch.send(b"2")
            async for event in ch.events():
                assert isinstance(event, jg.Message)
                assert event.payload == b"2"
                break
            assert sorted(got, key=str) == sorted([ch.view, b"1"], key=str)
            with pytest.raises(jg.ChannelError, match="exclude each other"):
                ch.messages()
            assert await ch.wait_for(members=1) == ch.view
            with pytest.raises(jg.MembersTimeoutError):
                await ch.wait_for(members=2, timeout=0.01)
        assert ch.state == "CLOSED"
    run(test)


def test_a_function_that_is_registered_late_gets_what_waited():
    async def test() -> None:
        ch = await aio.join("chat", stack=stack(), name="A")
        for number in range(3):
            await ch.send(b"%d" % number)
        while len(ch._waiting) < 3:
            await asyncio.sleep(0.001)
        got: list[bytes] = []
        all_there = asyncio.Event()

        @ch.on_message
        async def heard(message: jg.Message) -> None:
            await asyncio.sleep(0)
            got.append(message.payload)
            if len(got) == 4:
                all_there.set()

        await ch.send(b"3")
        await all_there.wait()
        assert got == [b"0", b"1", b"2", b"3"]
        with pytest.raises(jg.ChannelError, match="on_message"):
            ch.messages()
        await ch.close()
    run(test)


def test_a_coroutine_that_waits_for_members_hears_of_the_end():
    async def test() -> None:
        ch = AsyncChannel(stack(), name="A")
        with pytest.raises(jg.NotConnectedError):
            await ch.wait_for(members=2)
        await ch.connect("chat")
        waits = asyncio.create_task(ch.wait_for(members=2))
        await asyncio.sleep(0.01)
        await ch.close()
        with pytest.raises(jg.ChannelClosedError):
            await waits
    run(test)


def test_a_join_that_fails_leaves_nothing_open():
    async def test() -> None:
        joining = aio.join(42, stack=stack(), name="A")                           # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a cluster's name"):
            await joining
        assert joining._channel.state == "CLOSED"
    run(test)


# --- streams without a channel ---------------------------------------------------------------------------------------

def batch(*payloads: bytes) -> MessageBatch:
    return MessageBatch(Batch(B, None, payloads))


@pytest.mark.parametrize(("name", "filling", "more"), [
    ("receive_batch", [batch(bytes(KEPT_BYTES))], batch(b"last")),
    ("view_accepted", [view_of("A", counter=number) for number in range(1, KEPT_EVENTS + 1)], view_of("B"))])
def test_a_full_stream_makes_its_channel_wait_and_loses_nothing(name, filling, more):
    stream = DeliveryStream(events=True)
    put = stream.calls()[name]
    for item in filling:
        put(item)
    waiting = threading.Thread(target=put, args=(more,))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    loop = stream.iterate(PATIENCE_SECONDS, lambda: False)
    assert len([next(loop) for _ in range(len(filling) + 1)]) == len(filling) + 1
    waiting.join(PATIENCE_SECONDS)
    assert not waiting.is_alive()


def test_the_end_of_a_connection_releases_a_channel_that_waits_and_the_rest_is_still_read():
    stream = DeliveryStream(events=False)
    put = stream.calls()["receive_batch"]
    put(batch(bytes(KEPT_BYTES)))
    waiting = threading.Thread(target=put, args=(batch(b"last"),))
    waiting.start()
    stream.release()
    waiting.join(PATIENCE_SECONDS)
    stream.finish()
    found = [message.payload for message in stream.iterate(PATIENCE_SECONDS, lambda: False)]
    assert found == [bytes(KEPT_BYTES), b"last"]


def taken(stream: DeliveryStream, timeout: float = 0.0) -> list[object]:
    """What waits in a stream."""
    return [item.payload if isinstance(item, jg.Message) else item for item in stream.iterate(timeout, lambda: False)]


def opened(events: bool, functions: Functions | None = None, view: jg.View | None = None):
    """A stream, and the callbacks that its channel calls."""
    functions, stream = functions or Functions(), DeliveryStream(events)
    functions.open_stream(stream.calls())
    stream.begin(lambda: None, lambda: view)
    return stream, callbacks(functions)


def test_a_stream_of_events_begins_with_the_view_and_has_each_view_once():
    first, second = view_of("A"), view_of("A", "B", counter=2)
    stream, calls = opened(True, view=first)
    lost = MessagesLost("SFO", B, 1, 3)
    calls["view_accepted"](first)                            # the one that it began with, from the channel's thread
    calls["receive_batch"](batch(b"1", b"2"))
    calls["view_accepted"](second)
    calls["messages_lost"](lost)
    calls["site_status"]("SFO", "DOWN")
    found = taken(stream)
    assert found[:5] == [first, b"1", b"2", second, lost]
    assert (found[5].site, found[5].status) == ("SFO", "DOWN")                    # type: ignore[attr-defined]


def test_a_stream_of_messages_leaves_the_views_to_the_function_for_them():
    views: list[jg.View] = []
    functions = Functions()
    functions.add("view_accepted", views.append)
    stream, calls = opened(False, functions)
    calls["view_accepted"](view_of("A"))
    calls["receive_batch"](batch(b"1"))
    assert (taken(stream), views) == ([b"1"], [view_of("A")])


def test_a_function_for_views_is_called_beside_a_stream_of_events():
    views: list[jg.View] = []
    functions = Functions()
    stream, _ = opened(True, functions)
    functions.add("view_accepted", views.append)
    callbacks(functions)["view_accepted"](view_of("A"))
    assert (taken(stream), views) == ([view_of("A")], [view_of("A")])


def test_messages_go_to_a_function_or_to_a_stream():
    functions = Functions()
    functions.add("receive", print)
    with pytest.raises(jg.ChannelError, match="on_message takes the messages"):
        opened(False, functions)
    functions = Functions()
    opened(False, functions)
    with pytest.raises(jg.ChannelError, match="takes the messages"):
        functions.add("receive", print)


def test_a_loop_inside_a_callback_is_refused_instead_of_waiting_for_itself():
    stream, calls = opened(False)
    calls["receive_batch"](batch(b"1"))
    loop = stream.iterate(None, lambda: True)
    assert next(loop).payload == b"1"
    with pytest.raises(jg.ChannelError, match="inside a callback"):
        next(loop)
