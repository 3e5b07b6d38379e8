"""JChannel: callbacks, bugs of the core, state transfer, fork and the end of the program."""
from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from asyncio import CancelledError

import pytest

import jgroups_py as jg
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import AppBusy, GetState, StateChunk
from jgroups_py.model.outputs import ProvideState, StateBegin, StateEnd, StatePart
from jgroups_py.stack.protocol import on
from jgroups_py.system.free_ports import free_range
from tests.runtime import solo
from tests.runtime.helpers import PATIENCE_SECONDS, Recorder, calls, eventually
from tests.runtime.solo import Solo

pytestmark = pytest.mark.real


@pytest.fixture
def channel():
    made = jg.JChannel(solo.udp(mcast_port=free_range()), name="A", receiver=Recorder())
    yield made
    made.close()


# --- callbacks ------------------------------------------------------------------------------------------------------

def test_a_callback_that_raises_is_logged_and_counted_and_the_next_one_is_called(channel, caplog):
    got: list[bytes] = []

    def receive(message: jg.Message) -> None:
        got.append(message.payload)
        if len(got) == 1:
            raise RuntimeError("the application's bug")

    channel.receiver = receive
    channel.connect("chat")
    with caplog.at_level(logging.ERROR, "jgroups_py"):
        channel.send(None, b"1")
        channel.send(None, b"2")
        eventually(lambda: len(got) == 2)
    assert "the application's bug" in caplog.text
    assert channel.stats()["channel"]["receiver_exceptions"] == 1


@pytest.mark.parametrize("error", [GeneratorExit(), CancelledError(), pytest.fail.Exception("a test's assertion")])
def test_whatever_else_a_callback_raises_the_channel_goes_on_delivering(channel, error):
    got: list[bytes] = []

    def receive(message: jg.Message) -> None:
        got.append(message.payload)
        if len(got) == 1:
            raise error

    channel.receiver = receive
    channel.connect("chat")
    channel.send(None, b"1")
    channel.send(None, b"2")
    eventually(lambda: got == [b"1", b"2"])


@pytest.mark.parametrize("method", ["disconnect", "close"])
def test_a_callback_may_end_its_channel_and_nothing_is_delivered_afterwards(channel, method):
    got: list[bytes] = []
    ended = threading.Event()

    def receive(message: jg.Message) -> None:
        got.append(message.payload)
        getattr(channel, method)()
        ended.set()

    channel.receiver = receive
    channel.connect("chat")
    channel.send_batch(None, [b"1", b"2", b"3"])
    assert ended.wait(5)
    channel.close()
    assert got == [b"1"]


def test_a_callback_may_send_more_than_the_queue_holds():
    got: list[bytes] = []
    done = threading.Event()
    channel = jg.JChannel(solo.udp(mcast_port=free_range()), name="A")

    def receive(message: jg.Message) -> None:
        got.append(message.payload[:1])
        if message.payload == b"go":
            for _ in range(100):
                channel.send(None, bytes(50_000))
            done.set()

    channel.receiver = receive
    with channel.connect("chat"):
        channel.send(None, b"go")
        assert done.wait(10)
        eventually(lambda: len(got) == 101)


def test_two_threads_may_disconnect_at_once(channel):
    channel.connect("chat")
    threads = [threading.Thread(target=channel.disconnect) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert channel.state == "OPEN"


def test_a_slow_receiver_makes_the_member_refuse_credits_until_it_has_caught_up(channel):
    busy: list[bool] = []

    class Watch(Solo):
        """Records AppBusy."""

        @on(AppBusy)
        def busy(self, event: AppBusy) -> None:
            busy.append(event.on)

    gate = threading.Event()
    got: list[int] = []

    def receive(message: jg.Message) -> None:
        gate.wait(10)
        got.append(1)

    with jg.JChannel(solo.udp(Watch, mcast_port=free_range()), receiver=receive) as slow:
        slow.connect("chat")
        slow.send_batch(None, [bytes(10_000)] * 400)
        eventually(lambda: busy == [True])
        gate.set()
        eventually(lambda: len(got) == 400)
        eventually(lambda: busy == [True, False])


# --- bugs of ours ---------------------------------------------------------------------------------------------------

class Broken(Solo):
    """Breaks on a certain message."""

    def down(self, batch: Batch) -> None:
        assert batch.payloads != (b"break",), "a bug in the core"
        super().down(batch)


def test_a_bug_in_the_core_closes_its_channel_with_the_reason_and_no_other(channel, caplog):
    channel.connect("chat")
    broken = jg.JChannel(solo.udp(Broken, mcast_port=free_range()), name="B", receiver=Recorder())
    broken.connect("chat")
    with caplog.at_level(logging.ERROR, "jgroups_py"):
        broken.send(None, b"break")
        eventually(lambda: broken.state == "CLOSED")
    assert "a bug in the core" in caplog.text
    assert str(calls(broken)[-1]).startswith("AssertionError: a bug in the core")
    with pytest.raises(jg.ChannelClosedError, match="a bug in the core"):
        broken.send(None, b"")
    broken.close()
    channel.send(None, b"unharmed")
    eventually(lambda: b"unharmed" in calls(channel))


# --- state ----------------------------------------------------------------------------------------------------------

class Echo(Solo):
    """A state transfer with oneself: what get_state wrote is what set_state reads."""

    @on(GetState)
    def asked(self, event: GetState) -> None:
        self.emit(ProvideState(1))
        self.begun = False

    @on(StateChunk)
    def chunk(self, chunk: StateChunk) -> None:
        if not self.begun and not chunk.error:
            self.begun = True
            self.emit(StateBegin())
        if chunk.data:
            self.emit(StatePart(chunk.data))
        if chunk.last:
            self.emit(StateEnd(chunk.error))


class Keeper(jg.Receiver):
    """Has a state."""

    def __init__(self, state: bytes) -> None:
        self.state = state
        self.got: bytes | None = None

    def get_state(self, stream):
        stream.write(self.state)

    def set_state(self, stream):
        self.got = stream.read()


def test_a_state_travels_whole():
    # Larger than the pipe and the queue together would be a deadlock here: provider and receiver are one thread.
    keeper = Keeper(os.urandom(1_000_000))
    with jg.JChannel(solo.udp(Echo, mcast_port=free_range()), receiver=keeper) as channel:
        channel.connect("chat", state_from=jg.COORDINATOR)
        assert keeper.got == keeper.state


def test_a_provider_that_raises_fails_the_transfer_with_the_reason():
    class Bad(Keeper):
        def get_state(self, stream):
            raise RuntimeError("no state today")

    with jg.JChannel(solo.udp(Echo, mcast_port=free_range()), receiver=Bad(b"")) as channel:
        channel.connect("chat")
        with pytest.raises(jg.StateTransferError, match="no state today"):
            channel.get_state()


def test_a_state_that_is_not_read_to_its_end_is_dropped_and_the_channel_goes_on():
    class Lazy(Keeper):
        def set_state(self, stream):
            self.got = stream.read(10)

    lazy = Lazy(b"x" * 500_000)
    with jg.JChannel(solo.udp(Echo, mcast_port=free_range()), receiver=lazy) as channel:
        channel.connect("chat")
        channel.get_state()
        channel.get_state()
        assert lazy.got == b"x" * 10


def test_a_receiver_without_set_state_gets_an_error():
    class Mute:
        def get_state(self, stream):
            stream.write(b"x")

    with jg.JChannel(solo.udp(Echo, mcast_port=free_range()), receiver=Mute()) as channel:
        channel.connect("chat")
        with pytest.raises(jg.StateTransferError, match="set_state"):
            channel.get_state()


def test_a_callback_may_fetch_the_state():
    done: list[bytes | None] = []

    class Eager(Keeper):
        def receive(self, message):
            channel.get_state()
            done.append(self.got)

    with jg.JChannel(solo.udp(Echo, mcast_port=free_range()), receiver=Eager(b"state")) as channel:
        channel.connect("chat")
        channel.send(None, b"go")
        eventually(lambda: done)
    assert done == [b"state"]


def test_a_state_that_does_not_come_is_an_error_after_the_timeout(channel):
    channel.connect("chat")
    with pytest.raises(jg.StateTransferError, match=r"0\.1 s"):
        channel.get_state(timeout=0.1)


# --- processes ------------------------------------------------------------------------------------------------------

SCRIPT = """
import os, sys
sys.path.insert(0, {root!r})
import jgroups_py as jg
from tests.runtime import solo
channel = jg.JChannel(solo.udp(mcast_port={port}), name="A")
channel.connect("chat")
{rest}
"""


def run_script(rest: str) -> subprocess.CompletedProcess[str]:
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    script = SCRIPT.format(root=root, port=free_range(), rest=rest)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_SECONDS,
                          check=False)


def test_a_program_that_forgets_to_close_ends_by_itself():
    done = run_script("print('end')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_channel_does_not_survive_a_fork_but_the_child_can_make_a_new_one():
    done = run_script("""
pid = os.fork()
if pid == 0:
    try:
        channel.send(None, b"x")
    except jg.ChannelClosedError as error:
        print("child:", error)
    channel.close()
    with jg.JChannel(solo.udp(mcast_port=49_999), name="C") as mine:
        print("child:", mine.connect("chat").state, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print("parent:", channel.state)
""")
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["child: a channel does not survive a fork; make a new one", "child: CONNECTED",
                                        "parent: CONNECTED"]
