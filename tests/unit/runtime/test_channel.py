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
from jgroups_py.protocol import Protocol
from tests.unit.runtime import solo
from tests.unit.runtime.helpers import Recorder, calls, eventually, free_udp_port

pytestmark = pytest.mark.real


@pytest.fixture
def channel() -> Iterator[jg.JChannel]:
    made = jg.JChannel(solo.udp(mcast_port=free_udp_port()), name="A", receiver=Recorder())
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
    port = free_udp_port()
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
    with jg.JChannel(solo.udp(Loner, mcast_port=free_udp_port()), name="A") as channel:
        with pytest.raises(jg.JoinTimeoutError, match="'chat'"):
            channel.connect("chat", timeout=0.05)
        assert channel.state == "OPEN"


def test_closing_from_another_thread_ends_a_connect_that_waits():
    channel = jg.JChannel(solo.udp(Loner, mcast_port=free_udp_port()), name="A")
    told: list[Exception] = []

    def connect() -> None:
        try:
            channel.connect("chat", timeout=30)
        except jg.ChannelError as error:
            told.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    eventually(lambda: channel.address)
    channel.close()
    thread.join(5)
    assert [type(error) for error in told] == [jg.ChannelClosedError]


def test_sockets_that_cannot_be_opened_are_an_error_that_says_why():
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


def test_many_channels_live_in_one_process_and_speak_to_each_other():
    port = free_udp_port()
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


@pytest.mark.parametrize(("arguments", "kind", "says"), [
    ((None, "text"), TypeError, "encode"),
    (("A", b""), TypeError, "Address"),
    ((None, bytes(64_000)), ValueError, "62976 bytes"),
    ((jg.Message(headers={7: b""}),), ValueError, "200"),
    ((jg.Message(headers={1 << 16: b""}),), ValueError, "65535"),
    ((jg.Message(headers={"x": b""}),), TypeError, "int"),
    ((jg.Message(headers={300: "text"}),), TypeError, "header 300 is bytes-like, not str"),
    ((None, {"a": 1}), TypeError, "a payload is bytes-like, not dict; encode it first"),
    ((None, b"", 1 << 20), ValueError, "flags 0x100000: known are OOB 1,"),
    ((None, b"", "OOB"), TypeError, r"Flag\.OOB"),
])
def test_what_cannot_be_sent_is_refused_with_a_reason(channel, arguments, kind, says):
    channel.connect("chat")
    with pytest.raises(kind, match=says):
        channel.send(*arguments)
    assert channel.state == "CONNECTED"


@pytest.mark.parametrize(("dest", "flags"), [("B", 0), (None, "OOB"), (None, 1 << 20)])
def test_a_batch_that_cannot_be_sent_is_refused_too(channel, dest, flags):
    channel.connect("chat")
    with pytest.raises((TypeError, ValueError)):
        channel.send_batch(dest, [b"1"], flags)
    channel.send(None, b"still")
    eventually(lambda: b"still" in calls(channel))


def test_a_batch_receiver_gets_whole_runs(channel):
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


def test_something_that_is_no_receiver_is_refused(channel):
    with pytest.raises(TypeError, match="receive_batch"):
        channel.receiver = 7
    with pytest.raises(TypeError, match=r"write Recorder\(\)"):
        channel.receiver = Recorder


@pytest.mark.parametrize(("arguments", "kind", "says"), [
    ({"stack": None}, jg.ConfigError, "None is no stack"),
    ({"stack": b"udp"}, jg.ConfigError, "b'udp' is no stack"),
    ({"name": 7}, TypeError, "a member's name is a str, not int"),
    ({"name": "x" * 256}, ValueError, "at most 255 bytes, not 256"),
    ({"properties": [("bind_addr", "127.0.0.1")]}, jg.ConfigError, "properties are a mapping"),
    ({"properties": {7: "127.0.0.1"}}, jg.ConfigError, "properties are a mapping"),
])
def test_a_channel_cannot_be_made_of_anything(arguments, kind, says):
    with pytest.raises(kind, match=says):
        jg.JChannel(**arguments)


@pytest.mark.parametrize(("cluster", "state_from", "kind", "says"), [
    (7, None, TypeError, "a cluster's name is a str, not int"), ("", None, ValueError, "a cluster has a name"),
    ("x" * 256, None, ValueError, "at most 255 bytes"), ("chat", "A", TypeError, r"jg\.COORDINATOR, not str"),
])
def test_what_cannot_be_connected_to_is_refused_and_the_channel_stays_open(channel, cluster, state_from, kind, says):
    with pytest.raises(kind, match=says):
        channel.connect(cluster, state_from=state_from)
    assert channel.state == "OPEN"


def test_what_the_author_of_a_stack_should_know_is_logged_when_a_channel_is_made(caplog):
    with caplog.at_level(logging.WARNING, "jgroups_py"):
        channel = jg.JChannel("udp", properties={"bind_adr": "127.0.0.1", "mcast_port": None})
    assert len(caplog.records) == 1
    assert "property 'bind_adr' is used nowhere; did you mean 'bind_addr'?" in caplog.text
    caplog.clear()
    jg.JChannel(channel.spec)
    assert caplog.records == []


def test_stats_are_numbers_by_protocol(channel):
    assert channel.stats() == {}
    channel.connect("chat")
    channel.send(None, b"x")
    eventually(lambda: channel.stats()["channel"].get("delivered") == 1)
    assert channel.stats()["UDP"]["frames_sent"] == 1


def test_a_stack_of_swim_alone_is_not_for_a_channel():
    for stack in ("membership", "serf"):
        with pytest.raises(jg.ConfigError, match=r"such a stack is for jgroups_py\.blocks\.membership"):
            jg.JChannel(stack)


def test_a_member_that_holds_on_disk_needs_a_name_of_its_own(tmp_path):
    with pytest.raises(jg.ConfigError, match="needs a name that stays the same"):
        jg.JChannel("nyc", properties={"hold_dir": tmp_path})
    jg.JChannel("nyc", name="A", properties={"hold_dir": tmp_path})
