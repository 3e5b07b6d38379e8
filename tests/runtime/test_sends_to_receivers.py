"""The send queue while FLOW lacks receivers: multicasts are refused, or wait; that is distinct from backpressure."""
from __future__ import annotations

import threading

import pytest

from jgroups_py.model.batch import NO_FC
from jgroups_py.model.errors import NotConnectedError, ReceiversMissingError, SendTimeoutError
from jgroups_py.model.outputs import GroupConnected
from jgroups_py.runtime.send_queue import MESSAGE_COST, NOW, SendQueue
from jgroups_py.testing.bench import address

ALONE = GroupConnected(False, 1, 3)
REFUSING = GroupConnected(False, 1, 3, raises=True)
AGAIN = GroupConnected(True, 3, 3)


def queue(news: GroupConnected, limit: int = 1 << 20) -> SendQueue:
    made = SendQueue(lambda: None, limit)
    made.connected(news)
    return made


def test_a_multicast_is_refused_with_the_numbers_and_nothing_is_queued() -> None:
    sends = queue(REFUSING)
    with pytest.raises(ReceiversMissingError, match="1 of at least 3 receivers") as caught:
        sends.put(None, b"x", 0, (), None)
    assert (caught.value.receivers, caught.value.wanted) == (1, 3)
    assert isinstance(caught.value, NotConnectedError)
    with pytest.raises(ReceiversMissingError):
        sends.put_all(None, [b"x", b"y"], 0, (), None)
    assert sends.nbytes == 0


def test_unicasts_and_what_is_exempt_from_flow_control_pass() -> None:
    sends = queue(REFUSING)
    sends.put(address("B"), b"x", 0, (), None)
    sends.put(None, b"x", NO_FC, (), None)
    assert sends.sent == 2


def test_a_send_that_waits_goes_on_when_the_receivers_are_there() -> None:
    sends = queue(ALONE)
    done = threading.Event()
    thread = threading.Thread(target=lambda: (sends.put(None, b"x", 0, (), None), done.set()))
    thread.start()
    assert not done.is_set()
    sends.connected(AGAIN)
    thread.join(5)
    assert done.is_set()
    assert sends.sent == 1


def test_a_send_that_timed_out_names_what_it_waited_for() -> None:
    with pytest.raises(ReceiversMissingError):
        queue(ALONE).put(None, b"x", 0, (), 0.0)
    full = queue(AGAIN, limit=MESSAGE_COST + 1)
    full.put(None, b"x", 0, (), 0.0)
    with pytest.raises(SendTimeoutError):
        full.put(None, b"x", 0, (), 0.0)


def test_a_channel_that_is_closed_meanwhile_refuses_for_that_reason() -> None:
    sends = queue(ALONE)
    raised: list[BaseException] = []

    def send() -> None:
        try:
            sends.put(None, b"x", 0, (), None)
        except NotConnectedError as error:
            raised.append(error)
    thread = threading.Thread(target=send)
    thread.start()
    sends.close(lambda: NotConnectedError("left"))
    thread.join(5)
    assert [str(error) for error in raised] == ["left"]


def test_a_sender_that_awaits_room_goes_on_when_the_receivers_are_there() -> None:
    sends, calls = queue(ALONE), list[str]()
    assert not sends.has_room()
    sends.when_room(lambda: calls.append("room"))
    assert calls == []
    assert isinstance(sends.lacking(), ReceiversMissingError)
    sends.connected(AGAIN)
    assert calls == ["room"]
    assert sends.lacking() is None
    sends.put(None, b"x", 0, (), NOW)
    assert queue(REFUSING).has_room()                         # the put itself raises
