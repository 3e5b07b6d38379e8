"""What a channel refuses, and in which state: with a reason, and without harm to the channel.

Sending and receivers are BaseChannel's, so the simulated channel shows them; a JChannel that is not connected opens
nothing.
"""
from __future__ import annotations

import logging

import pytest

import jgroups_py as jg
from jgroups_py.testing.bench import address
from tests.unit.channel.seat import Seat

B = address("B")


@pytest.fixture
def seat() -> Seat:
    made = Seat()
    made.connected()
    return made


# --- messages ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("arguments", "kind", "message"), [
    ((None, "text"), TypeError, "encode"),
    (("A", b""), TypeError, "Address"),
    ((None, bytes(64_000)), ValueError, "62976 bytes"),
    ((jg.Message(headers={7: b""}),), ValueError, "200"),
    ((jg.Message(headers={1 << 16: b""}),), ValueError, "65535"),
    ((jg.Message(headers={"x": b""}),), TypeError, "int"),                                    # type: ignore[dict-item]
    ((jg.Message(headers={300: "text"}),), TypeError, "header 300 is bytes-like, not str"),   # type: ignore[dict-item]
    ((None, {"a": 1}), TypeError, "a payload is bytes-like, not dict; encode it first"),
    ((None, b"", 1 << 20), ValueError, "flags 0x100000: known are OOB 1,"),
    ((None, b"", "OOB"), TypeError, r"Flag\.OOB"),
])
def test_what_cannot_be_sent_is_refused_with_a_reason(seat: Seat, arguments, kind, message):
    with pytest.raises(kind, match=message):
        seat.channel.send(*arguments)
    assert (seat.sent, seat.channel.state) == ([], "CONNECTED")


@pytest.mark.parametrize(("dest", "payloads", "flags"), [
    ("B", [b"1"], 0), (None, [b"1"], "OOB"), (None, [b"1"], 1 << 20), (None, [b"1", "text"], 0), (None, b"1", 0)])
def test_a_batch_that_cannot_be_sent_is_refused_whole(seat: Seat, dest, payloads, flags):
    with pytest.raises((TypeError, ValueError)):
        seat.channel.send_batch(dest, payloads, flags)
    seat.channel.send(None, b"still")
    assert seat.sent == [(None, [b"still"], 0)]


def test_a_payload_that_changes_after_send_is_sent_as_it_was(seat: Seat):
    payload = bytearray(b"before")
    seat.channel.send(None, payload)
    payload[:] = b"after!"
    seat.channel.send(B, memoryview(payload)[:5], jg.Flag.OOB)
    seat.channel.send(None, None)
    assert seat.sent == [(None, [b"before"], 0), (B, [b"after"], 1), (None, [b""], 0)]


def test_no_send_is_taken_while_receivers_are_slow(seat: Seat):
    seat.backlog = 4 << 20
    with pytest.raises(jg.SendTimeoutError):
        seat.channel.send(None, b"x")
    seat.backlog = 0
    seat.channel.send(None, b"x")
    assert len(seat.sent) == 1


# --- states -----------------------------------------------------------------------------------------------------------

def test_a_channel_that_is_not_connected_sends_nothing_and_one_that_is_closed_stays_so():
    seat = Seat()
    with pytest.raises(jg.NotConnectedError):
        seat.channel.send(None, b"x")
    with pytest.raises(jg.ChannelError, match="CONNECTED already"):
        seat.connected().connect("chat")
    seat.channel.close()
    seat.channel.close()
    assert (seat.left, seat.channel.state) == (1, "CLOSED")
    for refused in (lambda: seat.channel.connect("chat"), lambda: seat.channel.send(None, b"x")):
        with pytest.raises(jg.ChannelClosedError):
            refused()
    assert seat.sent == []


def test_the_state_and_view_of_a_channel_follow_its_member():
    seat = Seat()
    assert (seat.channel.state, seat.channel.address, seat.channel.view) == ("OPEN", None, None)
    seat.channel.connect("chat")
    assert (seat.channel.state, seat.channel.view) == ("CONNECTING", None)
    seat = Seat()
    assert seat.connected().state == "CONNECTED"
    assert seat.channel.view is not None
    assert (seat.channel.address, seat.channel.view.members) == (seat.me, (seat.me, B))
    seat.channel.ended("no disk")
    with pytest.raises(jg.ChannelClosedError, match="no disk"):
        seat.channel.send(None, b"x")


def test_something_that_is_no_receiver_is_refused(seat: Seat):
    class Recorder(jg.Receiver):
        """Any receiver."""

    with pytest.raises(TypeError, match="receive_batch"):
        seat.channel.receiver = 7
    with pytest.raises(TypeError, match=r"write Recorder\(\)"):
        seat.channel.receiver = Recorder
    with pytest.raises(TypeError, match="get_state and set_state"):
        Seat().channel.connect("chat", state_from=jg.COORDINATOR)


# --- a JChannel that opens nothing ------------------------------------------------------------------------------------

@pytest.mark.parametrize(("arguments", "kind", "message"), [
    ({"stack": None}, jg.ConfigError, "None is not a stack"),
    ({"stack": b"udp"}, jg.ConfigError, "b'udp' is not a stack"),
    ({"name": 7}, TypeError, "a member's name is a str, not int"),
    ({"name": "x" * 256}, ValueError, "at most 255 bytes, not 256"),
    ({"properties": [("bind_addr", "127.0.0.1")]}, jg.ConfigError, "properties are a mapping"),
    ({"properties": {7: "127.0.0.1"}}, jg.ConfigError, "properties are a mapping"),
])
def test_a_channel_cannot_be_made_of_anything(arguments, kind, message):
    with pytest.raises(kind, match=message):
        jg.JChannel(**arguments)


@pytest.mark.parametrize(("cluster", "state_from", "kind", "message"), [
    (7, None, TypeError, "a cluster's name is a str, not int"), ("", None, ValueError, "a cluster has a name"),
    ("x" * 256, None, ValueError, "at most 255 bytes"), ("chat", "A", TypeError, r"jg\.COORDINATOR, not str"),
])
def test_what_cannot_be_connected_to_is_refused_and_the_channel_stays_open(cluster, state_from, kind, message):
    channel = jg.JChannel("udp")
    with pytest.raises(kind, match=message):
        channel.connect(cluster, state_from=state_from)
    assert channel.state == "OPEN"


def test_warnings_about_a_stack_are_logged_when_a_channel_is_made(caplog):
    with caplog.at_level(logging.WARNING, "jgroups_py"):
        channel = jg.JChannel("udp", properties={"bind_adr": "127.0.0.1", "mcast_port": None})
    assert len(caplog.records) == 1
    assert "property 'bind_adr' is used nowhere; did you mean 'bind_addr'?" in caplog.text
    caplog.clear()
    jg.JChannel(channel.spec)
    assert caplog.records == []


def test_a_stack_of_swim_alone_is_not_for_a_channel():
    for stack in ("membership", "serf"):
        with pytest.raises(jg.ConfigError, match=r"such a stack is for jgroups_py\.blocks\.swim_membership"):
            jg.JChannel(stack)


def test_a_member_that_holds_on_disk_needs_a_name_of_its_own(tmp_path):
    with pytest.raises(jg.ConfigError, match="needs a name that stays the same"):
        jg.JChannel("nyc", properties={"hold_dir": tmp_path})
    jg.JChannel("nyc", name="A", properties={"hold_dir": tmp_path})
