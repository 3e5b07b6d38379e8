"""JChannel, on real sockets but in a group of its own (see solo.py)."""
from __future__ import annotations

import copy
import logging
import pickle
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

import jgroups_py as jg
from jgroups_py.stack.protocol import Protocol
from jgroups_py.system.free_ports import free_range
from tests.runtime import solo
from tests.runtime.helpers import Recorder, calls, eventually

pytestmark = pytest.mark.real


@pytest.fixture
def channel() -> Iterator[jg.JChannel]:
    made = jg.JChannel(solo.udp(mcast_port=free_range()), name="A", receiver=Recorder())
    yield made
    made.close()


# --- connect and close ----------------------------------------------------------------------------------------------

def test_the_first_view_is_delivered_before_connect_returns(channel):
    assert channel.connect("chat") is channel
    assert calls(channel) == ["view"]
    assert (channel.state, channel.cluster, channel.is_coordinator) == ("CONNECTED", "chat", True)
    assert channel.view.members == (channel.address,)
    assert str(channel) == "A@chat (CONNECTED)"


def test_views_are_logged_and_frames_of_another_cluster_once(caplog):
    port = free_range()
    with caplog.at_level(logging.DEBUG, "jgroups_py"), \
            jg.JChannel(solo.udp(mcast_port=port), name="A") as one, \
            jg.JChannel(solo.udp(mcast_port=port), name="B") as other:
        one.connect("one")
        other.connect("other")
        for number in range(1, 4):
            other.send(None, b"x")
            eventually(lambda: one.stats()["UDP"].get("foreign_cluster_dropped", 0) >= number)   # noqa: B023
    foreign = [record for record in caplog.records if "dropped a frame" in record.getMessage()]
    assert [(record.levelname, record.getMessage()[:58]) for record in foreign] == [
        ("INFO", "A@one: dropped a frame: it is of another cluster, which us")]
    assert "A@one: view [A|0] (1) [A]" in caplog.text
    assert "B@other: view [B|0] (1) [B]" in caplog.text


def test_every_connect_is_a_new_incarnation(channel):
    first = channel.connect("one").address
    channel.disconnect()
    assert (channel.state, channel.address, channel.view, channel.cluster) == ("OPEN", None, None, None)
    assert channel.connect("two").address != first


def test_closing_is_final_and_closing_twice_is_nothing(channel):
    channel.connect("chat")
    channel.close()
    channel.close()
    with pytest.raises(jg.ChannelClosedError):
        channel.connect("chat")
    with pytest.raises(jg.ChannelClosedError):
        channel.send(None, b"")


def test_sending_on_a_channel_that_is_not_connected_raises(channel):
    with pytest.raises(jg.NotConnectedError):
        channel.send(None, b"")
    channel.connect("chat")
    channel.disconnect()
    with pytest.raises(jg.NotConnectedError):
        channel.send(None, b"")


def test_connecting_twice_is_an_error_that_leaves_the_connection_alone(channel):
    channel.connect("chat")
    with pytest.raises(jg.ChannelError, match="CONNECTED"):
        channel.connect("chat")
    channel.send(None, b"still")
    eventually(lambda: b"still" in calls(channel))


class Loner(Protocol):
    """Never finds a group."""


def test_a_join_that_takes_too_long_leaves_the_channel_open_again():
    with jg.JChannel(solo.udp(Loner, mcast_port=free_range()), name="A") as channel:
        with pytest.raises(jg.JoinTimeoutError, match="'chat'"):
            channel.connect("chat", timeout=0.05)
        assert channel.state == "OPEN"


def test_closing_from_another_thread_ends_a_connect_that_waits():
    channel = jg.JChannel(solo.udp(Loner, mcast_port=free_range()), name="A")
    errors: list[Exception] = []

    def connect() -> None:
        try:
            channel.connect("chat", timeout=30)
        except jg.ChannelError as error:
            errors.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    eventually(lambda: channel.address)
    channel.close()
    thread.join(5)
    assert [type(error) for error in errors] == [jg.ChannelClosedError]


def test_sockets_that_cannot_be_opened_are_an_error_with_the_reason():
    with jg.JChannel(solo.udp(bind_addr="192.0.2.77")) as channel:
        with pytest.raises(jg.ChannelError, match=r"192\.0\.2\.77"):
            channel.connect("chat")
        assert channel.state == "OPEN"


def test_closing_takes_well_under_a_second(channel):
    """On a busy machine: more than that by what some ways to the loop and back take in this run."""
    channel.connect("chat")
    start = monotonic()
    for _ in range(20):
        channel.stats()
    busy_s = monotonic() - start
    start = monotonic()
    channel.close()
    assert monotonic() - start < 0.3 + busy_s


def test_many_channels_live_in_one_process_and_exchange_messages():
    port = free_range()
    channels = [jg.JChannel(solo.udp(mcast_port=port), name=f"M{number}", receiver=Recorder()) for number in range(10)]
    for channel in channels:
        channel.connect("chat")
    channels[0].send(None, b"to all")
    for channel in channels:
        eventually(lambda channel=channel: calls(channel) == ["view", b"to all"])
        channel.close()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("jgroups")] == []


# --- messages -------------------------------------------------------------------------------------------------------

def test_messages_arrive_in_the_order_in_which_one_thread_sent_them(channel):
    channel.connect("chat")
    sent = [str(number).encode() for number in range(5000)]
    for payload in sent:
        channel.send(None, payload)
    eventually(lambda: len(calls(channel)) == 5001)
    assert calls(channel)[1:] == sent


def test_a_message_carries_flags_and_application_headers(channel):
    got: list[jg.Message] = []
    channel.receiver = got.append
    channel.connect("chat")
    channel.send(jg.Message(payload=b"x", headers={200: b"one"}, flags=jg.Flag.OOB))
    channel.send(None, b"y", flags=jg.Flag.NO_FC, headers={300: b"two"})
    eventually(lambda: len(got) == 2)
    assert [(m.payload, m.flags, dict(m.headers), m.src, m.dest, m.is_relayed, m.site) for m in got] == [
        (b"x", jg.Flag.OOB, {200: b"one"}, channel.address, None, False, None),
        (b"y", jg.Flag.NO_FC, {300: b"two"}, channel.address, None, False, None)]


def test_a_received_message_can_be_pickled_and_copied(channel):
    got: list[jg.Message] = []
    channel.receiver = got.append
    channel.connect("chat")
    channel.send(None, b"x", flags=jg.Flag.NO_FC, headers={300: b"two"})
    channel.send(None, b"y")
    eventually(lambda: len(got) == 2)
    for message in got:
        for again in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
            assert (again.payload, again.flags, again.headers, again.src, again.dest, again.topic) == (
                message.payload, message.flags, dict(message.headers), message.src, message.dest, None)


def test_a_payload_that_changes_after_send_is_sent_as_it_was(channel):
    channel.connect("chat")
    payload = bytearray(b"before")
    channel.send(None, payload)
    payload[:] = b"after!"
    channel.send(None, memoryview(payload)[:5])
    channel.send(None, None)
    eventually(lambda: len(calls(channel)) == 4)
    assert calls(channel)[1:] == [b"before", b"after", b""]


def test_a_message_or_batch_that_is_refused_leaves_the_connection_alone(channel):
    channel.connect("chat")
    with pytest.raises(TypeError, match="encode"):
        channel.send(None, "text")
    with pytest.raises(TypeError, match=r"Flag\.OOB"):
        channel.send_batch(None, [b"1"], "OOB")
    channel.send(None, b"still")
    eventually(lambda: calls(channel) == ["view", b"still"])


def test_a_batch_receiver_gets_whole_batches(channel):
    batches: list[list[bytes]] = []

    class Runs:
        def receive_batch(self, batch: jg.MessageBatch) -> None:
            batches.append([message.payload for message in batch])

    channel.receiver = Runs()
    channel.connect("chat")
    sent = [str(number).encode() for number in range(1000)]
    channel.send_batch(None, sent)
    eventually(lambda: sum(map(len, batches)) == 1000)
    assert [payload for batch in batches for payload in batch] == sent
    assert len(batches) < 20


def test_own_messages_can_be_discarded(channel):
    channel.discard_own_messages = True
    channel.connect("chat")
    channel.send(None, b"mine")
    eventually(lambda: channel.stats()["UDP"].get("messages_sent") == 1)
    eventually(lambda: channel.stats()["channel"]["backlog_bytes"] == 0)
    assert calls(channel) == ["view"]


def test_stats_are_numbers_by_protocol(channel):
    assert channel.stats() == {}
    channel.connect("chat")
    channel.send(None, b"x")
    eventually(lambda: channel.stats()["channel"].get("delivered") == 1)
    assert channel.stats()["UDP"]["frames_sent"] == 1
