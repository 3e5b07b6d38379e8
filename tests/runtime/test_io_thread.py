"""Which thread runs the loop: the I/O thread between callbacks, a watchdog during long ones, a sender for its own."""
from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import jgroups_py as jg
from jgroups_py.channel.base import BaseChannel
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Closed
from jgroups_py.model.units import millis
from jgroups_py.stack.protocol import timer
from jgroups_py.system.free_ports import free_range
from tests.runtime import solo
from tests.runtime.helpers import PATIENCE_SECONDS, Recorder, calls, eventually

pytestmark = pytest.mark.real
TICKS = 10


class Ticking(solo.Solo):
    """Has a timer, as a failure detector has."""

    INTERVAL_NS = millis(5)

    def start(self) -> None:
        self.ticks = 0
        self.set_timer("tick", self.INTERVAL_NS)

    @timer("tick")
    def tick(self) -> None:
        self.ticks += 1
        self.set_timer("tick", self.INTERVAL_NS)


def connected(*layers: type[solo.Solo], receiver: object = None) -> jg.JChannel:
    channel = jg.JChannel(solo.udp(*layers, mcast_port=free_range()), name="A", receiver=receiver)
    return channel.connect("chat")


def ticking(channel: BaseChannel) -> Ticking:
    node = channel._session.host.node                        # type: ignore[union-attr]
    found = node.local.find(Ticking)                         # type: ignore[union-attr]
    assert isinstance(found, Ticking)
    return found


def wait(layer: Ticking) -> bool:
    """Block the thread until the timer has fired ten times more."""
    until, ticked = layer.ticks + TICKS, threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.002)):
        if layer.ticks >= until:
            return True
        ticked.wait(0.002)
    return False


def compute(layer: Ticking) -> bool:
    """The same, and never let go of the processor."""
    until = layer.ticks + TICKS
    return any(layer.ticks >= until for _ in range(100_000_000))


@pytest.mark.parametrize("busy", [wait, compute])
def test_timers_go_on_while_a_callback_is_busy(busy: Callable[[Ticking], bool]):
    went_on: list[bool] = []
    channel = connected(Ticking)
    channel.receiver = lambda message: went_on.append(busy(ticking(channel)))
    with channel:
        channel.send(None, b"go")
        channel.send(None, b"again")
        eventually(lambda: len(went_on) == 2)
    assert went_on == [True, True]


def test_figures_are_available_while_a_callback_waits():
    asked, answered = threading.Event(), threading.Event()
    channel = connected()

    def receive(message: jg.Message) -> None:
        if message.payload == b"go":
            asked.set()
            answered.wait(PATIENCE_SECONDS)

    channel.receiver = receive
    with channel:
        channel.send(None, b"go")
        assert asked.wait(PATIENCE_SECONDS)
        assert "UDP" in channel.stats()                      # set by a round of the loop
        answered.set()


def test_a_callback_that_blocks_delays_no_other_channel_of_the_process():
    other = connected(receiver=Recorder())
    answered: list[bool] = []
    channel = connected()

    def receive(message: jg.Message) -> None:
        other.send(None, b"from a callback")
        until = threading.Event()
        while b"from a callback" not in calls(other) and not until.wait(0.002):
            pass
        answered.append(True)

    channel.receiver = receive
    with channel, other:
        channel.send(None, b"go")
        eventually(lambda: answered)


def test_all_callbacks_of_a_connection_run_on_one_thread_whatever_they_do():
    threads: dict[int, None] = {}
    got: list[bytes] = []
    channel = connected(Ticking)

    def receive(message: jg.Message) -> None:
        threads[threading.get_ident()] = None
        if message.payload == b"slow":
            wait(ticking(channel))                           # long enough for the watchdog
        if message.payload == b"stats":
            channel.stats()
        got.append(message.payload)

    channel.receiver = receive
    sent = [b"1", b"slow", b"2", b"stats", b"3", b"slow", b"4"]
    with channel:
        for payload in sent:
            channel.send(None, payload)
        eventually(lambda: len(got) == len(sent))
    assert got == sent
    assert len(threads) == 1


def test_no_wake_up_is_lost_when_many_threads_send_now_and_then():
    """Every thread waits for its own message to come back before it sends the next one, so one loss is a standstill."""
    number, each = 16, 100
    back = [threading.Semaphore(0) for _ in range(number)]
    finished: list[int] = []

    def send(mine: int) -> None:
        for _ in range(each):
            channel.send(None, bytes([mine]))
            if not back[mine].acquire(timeout=PATIENCE_SECONDS):
                return
        finished.append(mine)

    with connected(receiver=lambda message: back[message.payload[0]].release()) as channel:
        threads = [threading.Thread(target=send, args=(mine,)) for mine in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(finished) == list(range(number))


def test_a_flood_of_single_messages_travels_in_few_frames():
    messages = 20_000
    with connected(receiver=Recorder()) as channel:
        for _ in range(messages):
            channel.send(None, b"flood")
        eventually(lambda: len(calls(channel)) == messages + 1)
        assert channel.stats()["UDP"]["frames_sent"] < messages / 5


def test_a_callback_of_each_of_two_channels_may_close_the_other():
    channels = [jg.JChannel(solo.udp(mcast_port=free_range()), name=name) for name in "AB"]
    closed: list[str] = []
    both = threading.Barrier(2)

    def close(other: jg.JChannel) -> Callable[[jg.Message], None]:
        def receive(message: jg.Message) -> None:
            both.wait(20)                                # or one would be closed before it could send
            other.close()
            closed.append(other.name)
        return receive

    for mine, other in zip(channels, reversed(channels), strict=True):
        mine.receiver = close(other)
        mine.connect("chat")
    for channel in channels:
        channel.send(None, b"close the other one")
    eventually(lambda: sorted(closed) == ["A", "B"])


def test_a_thread_that_sends_now_and_then_sends_itself_but_never_the_main_thread():
    """A signal's handler may raise at any bytecode of the main thread, also in the middle of a protocol."""
    senders: dict[bytes, dict[int, None]] = {}

    class Watching(solo.Solo):
        def down(self, batch: Batch) -> None:
            for payload in batch.payloads:
                senders.setdefault(payload, {})[threading.get_ident()] = None
            super().down(batch)

    def send(payload: bytes) -> None:
        for number in range(20):
            channel.send(None, payload)
            eventually(lambda number=number: calls(channel).count(payload) == number + 1)

    assert threading.current_thread() is threading.main_thread()
    with connected(Watching, receiver=Recorder()) as channel:
        send(b"main")
        thread = threading.Thread(target=send, args=(b"other",))
        thread.start()
        thread.join(20)
    assert threading.main_thread().ident not in senders[b"main"]
    assert thread.ident in senders[b"other"]


class Refusing(solo.Solo):
    """Ends its channel as soon as it starts."""

    def start(self) -> None:
        self.set_timer("refuse", 0)

    @timer("refuse")
    def refuse(self) -> None:
        self.emit(Closed("a reason"))


def test_a_channel_that_is_refused_at_once_can_be_closed_while_connect_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start

    def start_and_pause(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.startswith("jgroups-"):
            threading.Event().wait(0.2)                      # so that the thread has ended before `connect` goes on
    monkeypatch.setattr(threading.Thread, "start", start_and_pause)
    channel = jg.JChannel(solo.udp(Refusing, mcast_port=free_range()), name="A")
    errors: list[str] = []

    def connect() -> None:
        try:
            channel.connect("chat")
        except jg.ChannelError as error:
            errors.append(str(error))
    connecting = threading.Thread(target=connect)
    connecting.start()
    eventually(lambda: channel._session is not None and channel._session.ended)
    channel.close()
    connecting.join(PATIENCE_SECONDS)
    assert len(errors) == 1
    assert "a reason" in errors[0]
