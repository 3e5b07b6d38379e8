"""What the first page of the documentation uses: who is there, a payload alone, functions in place of a receiver."""
from __future__ import annotations

import pytest

import jgroups_py as jg
from jgroups_py.channel.receiver import callbacks
from jgroups_py.testing.bench import address
from tests.unit.channel.seat import Seat

A, B = address("A"), address("B")


# --- who is there -----------------------------------------------------------------------------------------------------

def test_a_connected_channel_knows_itself_the_others_and_the_coordinator():
    channel = Seat().connected()
    assert (channel.me, channel.members, channel.others, channel.coordinator) == (A, (A, B), (B,), A)


def test_a_channel_that_is_not_connected_has_no_members_and_says_so_where_one_is_needed():
    channel = Seat().channel
    assert (channel.members, channel.others, channel.coordinator) == ((), (), None)
    with pytest.raises(jg.NotConnectedError):
        channel.me  # noqa: B018


# --- a payload alone --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("payload", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_a_payload_alone_goes_to_all(payload):
    seat = Seat()
    seat.connected().send(payload)
    assert seat.sent == [(None, [b"x"], 0)]


@pytest.mark.parametrize(("arguments", "text"), [
    (("text",), "a payload is bytes-like, not str; encode it first"),
    ((42,), "a payload is bytes-like, not int"),
    ((b"A", b"x"), "a destination is an Address, or None for all members, not bytes; a payload alone goes to all"),
    ((b"A", b""), "a destination is an Address"),
    ((jg.Message(None, b"1"), b"2"), "not Message"),
])
def test_what_looks_like_a_payload_alone_and_is_none_is_refused(arguments, text):
    seat = Seat()
    channel = seat.connected()
    with pytest.raises(TypeError, match=text):
        channel.send(*arguments)
    assert seat.sent == []


def test_a_member_alone_gets_an_empty_message():
    seat = Seat()
    seat.connected().send(B)
    assert seat.sent == [(B, [b""], 0)]


# --- functions --------------------------------------------------------------------------------------------------------

def test_functions_are_the_callbacks_of_their_channel():
    channel = Seat().channel

    @channel.on_message
    def heard(message: jg.Message) -> None: ...

    @channel.on_view
    def changed(view: jg.View) -> None: ...

    @channel.on_state
    def save(stream) -> None: ...

    @save.setter
    def load(stream) -> None: ...

    found = callbacks(channel._receiver)
    assert found == {"receive": heard, "view_accepted": changed, "get_state": found["get_state"], "set_state": load}
    assert channel.receiver is None
    assert save.__name__ == "save"


def test_both_functions_of_a_state_may_be_given_at_once():
    channel = Seat().channel
    channel.on_state(len, bool)
    assert callbacks(channel._receiver) == {"get_state": len, "set_state": bool}


def test_a_channel_has_a_receiver_or_functions():
    channel = Seat().channel
    channel.receiver = print
    with pytest.raises(jg.ChannelError, match="has a receiver"):
        channel.on_message(print)
    channel.receiver = None
    channel.on_message(print)
    with pytest.raises(jg.ChannelError, match="Assign None first"):
        channel.receiver = jg.Receiver()
    with pytest.raises(jg.ChannelError, match="a function for receive already"):
        channel.on_message(print)
    with pytest.raises(TypeError, match="on_view takes a function, not int"):
        channel.on_view(42)                                                       # type: ignore[type-var]
    channel.receiver = None
    channel.receiver = print
    assert callbacks(channel._receiver) == {"receive": print}
