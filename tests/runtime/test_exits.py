"""SystemExit and KeyboardInterrupt in an application's callback: the channel closes, and the exception goes on."""
from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import Callable
from typing import Any

import pytest

import jgroups_py as jg
from jgroups_py.blocks.rpc import Rpc
from jgroups_py.blocks.standalone import Standalone
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.errors import ChannelClosedError, RequestError
from jgroups_py.model.outputs import Output, ProvideState
from jgroups_py.system.free_ports import free_range
from tests.runtime import solo
from tests.runtime.helpers import PATIENCE_SECONDS, OnLoop, eventually

pytestmark = pytest.mark.real

both = pytest.mark.parametrize("exits", [SystemExit, KeyboardInterrupt])
Hooked = list[threading.ExceptHookArgs]


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Hooked:
    """What threading.excepthook gets."""
    found: Hooked = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


def channel(receiver: object = None) -> jg.JChannel:
    return jg.JChannel(solo.udp(mcast_port=free_range()), name="A", receiver=receiver)


def raiser(error: BaseException, number: int = 1) -> Callable[..., Any]:
    """A function that raises on its `number`th call; `calls` has how often it was called."""
    def function(*arguments: Any) -> None:
        function.calls += 1                                  # type: ignore[attr-defined]
        if function.calls == number:                         # type: ignore[attr-defined]
            raise error
    function.calls = 0                                       # type: ignore[attr-defined]
    return function


def closed_by(hooked: Hooked, ch: jg.JChannel, error: BaseException, reason: str) -> None:
    """The channel is closed for this reason, its node is gone, and the error came out of its I/O thread."""
    eventually(lambda: hooked)
    assert [args.exc_value for args in hooked] == [error]
    assert hooked[0].thread is not None
    assert hooked[0].thread.name == "jgroups-A"
    assert ch.state == jg.ChannelState.CLOSED
    with pytest.raises(jg.ChannelClosedError, match=reason):
        ch.send(None, b"more")
    assert ch._session is not None
    assert ch._session.ended
    ch.close()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("jgroups-A")] == []


@both
def test_an_exit_in_a_callback_closes_the_channel_and_leaves_by_its_thread(
    exits: type[BaseException], hooked: Hooked, caplog: pytest.LogCaptureFixture,
) -> None:
    error = exits("now")
    receive = raiser(error, 2)
    ch = channel(receive).connect("chat")
    ch.send_batch(None, [b"1", b"2", b"3", b"4"])
    closed_by(hooked, ch, error, f"the receiver's receive raised {exits.__name__}")
    assert receive.calls == 2                                # type: ignore[attr-defined]
    assert "the receiver's receive raised" in caplog.text


def test_a_callback_that_exits_after_closing_its_channel_exits_too(hooked: Hooked) -> None:
    def receive(message: jg.Message) -> None:
        ch.close()
        raise SystemExit
    ch = channel(receive).connect("chat")
    ch.send(None, b"1")
    eventually(lambda: hooked)
    assert hooked[0].exc_type is SystemExit
    assert ch._session is None


def test_an_exit_before_the_first_view_is_handled_fails_the_connect_with_the_reason(hooked: Hooked) -> None:
    class Impatient(jg.Receiver):
        def view_accepted(self, view: jg.View) -> None:
            raise SystemExit
    ch = channel(Impatient())
    with pytest.raises(jg.ChannelClosedError, match="view_accepted raised SystemExit"):
        ch.connect("chat")
    eventually(lambda: hooked)


@both
def test_an_exit_in_a_handler_of_requests_closes_the_channel_and_fails_the_request(
    exits: type[BaseException], hooked: Hooked,
) -> None:
    error = exits("now")
    ch = channel()
    rpc = Rpc(ch, raiser(error))
    ch.connect("chat")
    with pytest.raises((RequestError, jg.NotConnectedError)):
        rpc.request(ch.address, b"?")                        # type: ignore[arg-type]
    closed_by(hooked, ch, error, f"a handler raised {exits.__name__}")


def test_an_exit_in_the_callback_of_a_reply_leaves_no_node_in_the_middle_of_a_round(hooked: Hooked) -> None:
    error = SystemExit("now")
    ch = channel()
    ch.connect("chat")
    rpc = Rpc(ch, lambda request: b"!")
    reply = rpc.start(ch.address, b"?")                      # type: ignore[arg-type]
    reply.when_done(raiser(error))
    eventually(lambda: hooked)
    closed_by(hooked, ch, error, "a callback of a reply raised SystemExit")


def test_what_comes_out_of_a_round_or_a_turn_fails_the_guest_and_goes_on() -> None:
    made = OnLoop()
    made.close()                                             # the thread is gone: rounds are this one's
    loop, host = made.loop, made.host

    def interrupted(now_ns: int) -> int | None:
        raise KeyboardInterrupt
    host.needs_round = True                                 # type: ignore[misc]
    host.step = host.send_queued = interrupted             # type: ignore[method-assign]
    for act in (loop.run_queued, loop.combine):
        with pytest.raises(KeyboardInterrupt):
            act()
    assert list(map(type, host.errors)) == [KeyboardInterrupt] * 2


def test_a_standalone_stack_whose_application_exits_ends(hooked: Hooked) -> None:
    class Failing(Standalone):
        begins, leave_seconds = "join", 5.0

        def _call(self, output: Output) -> None:
            raise SystemExit

    member = Failing(solo.udp(mcast_port=free_range()), None, "A")
    with contextlib.suppress(ChannelClosedError):            # it may have ended before `_begin` returns
        member._begin("chat")
    eventually(lambda: hooked)
    assert member._ended.wait(PATIENCE_SECONDS)
    assert hooked[0].exc_type is SystemExit


@pytest.mark.parametrize("coroutine", [True, False])
@both
def test_an_exit_in_a_callback_of_an_async_channel_ends_the_event_loop(
    exits: type[BaseException], coroutine: bool,
) -> None:
    receive = raiser(exits(3))

    async def awaiting(message: jg.Message) -> None:
        await asyncio.sleep(0)
        receive(message)

    ch = AsyncChannel(solo.udp(mcast_port=free_range()), name="A", receiver=awaiting if coroutine else receive)
    states: list[str] = []

    async def application() -> None:
        await ch.connect("chat")
        try:
            await ch.send(None, b"1")
            await ch.send(None, b"2")
            await asyncio.sleep(PATIENCE_SECONDS)
        finally:
            states.append(ch.state)
            await ch.close()

    with pytest.raises(exits):
        asyncio.run(application())
    assert states == ["CLOSED"]
    assert receive.calls == 1                                # type: ignore[attr-defined]
    assert ch._session is None


def test_an_exit_while_an_async_channel_provides_a_state_ends_the_event_loop() -> None:
    class Keeper:
        def get_state(self, stream: io.BufferedIOBase) -> None:
            raise SystemExit(3)

        def set_state(self, stream: io.BufferedIOBase) -> None:
            stream.read()

    ch = AsyncChannel(solo.udp(mcast_port=free_range()), name="A", receiver=Keeper())

    async def application() -> None:
        async with ch:
            await ch.connect("chat")
            assert ch._session is not None
            ch._session.inbox.put([ProvideState(1)])
            await asyncio.sleep(PATIENCE_SECONDS)

    with pytest.raises(SystemExit):
        asyncio.run(application())
    assert ch.state == "CLOSED"
