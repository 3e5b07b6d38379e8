"""Gossip on real sockets: peers meet, broadcasts arrive, sizes are checked before anything is sent."""
from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from jgroups_py.address import Address
from jgroups_py.blocks.gossip import Gossip, PayloadSizeError
from jgroups_py.ports import AddressBook

pytestmark = pytest.mark.real
Got = list[tuple[str | None, bytes, Address]]


def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds; five seconds are more than enough."""
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


def peer(got: Got, *seeds: Gossip, topics: str = "*") -> Gossip:
    """A peer that knows these."""
    places = ",".join(f"{host}[{port}]" for host, port in map(place_of, seeds))
    properties = {"bind_port": "0", "profile": "influx-2023", "seeds": places, "topics": topics}
    made = Gossip(properties=properties, dispatcher=lambda topic, payload, src: got.append((topic, payload, src)))
    made.start("test of gossip")
    until(lambda: made._ask(lambda node: node.local.find(AddressBook).my_physical()) is not None)
    return made


def place_of(gossip: Gossip) -> tuple[str, int]:
    """Where a peer receives."""
    found: tuple[str, int] = gossip._ask(lambda node: node.local.find(AddressBook).my_physical())
    return found


def test_accept_1_7_sizes_are_checked_at_once_and_the_largest_arrives() -> None:
    got: Got = []
    with peer([]) as a, peer(got, a) as b:
        until(lambda: len(a.peers()) == 1)
        a.broadcast(bytes(10_207), topic=1)
        with pytest.raises(PayloadSizeError, match="10208 bytes exceeds max_payload of 10207"):
            a.broadcast(bytes(10_208), topic=1)
        until(lambda: bool(got))
        assert got == [("1", bytes(10_207), a.identity)]
        assert a.peer_addr(b.identity or Address(bytes(16))) == place_of(b)


def test_accept_1_1_peers_meet_at_a_seed_and_say_goodbye() -> None:
    got: Got = []
    with peer(got, topics="orders") as a, peer([], a) as b:
        with peer([], a) as c:
            until(lambda: all(len(one.peers()) == 2 for one in (a, b, c)))
            c.broadcast(b"unwanted", topic="prices")
            c.broadcast(b"wanted", topic="orders")
            c.broadcast_subset(b"to one of them", topic="orders")
            until(lambda: len(got) >= 1)
            assert got[0] == ("orders", b"wanted", c.identity)
        until(lambda: len(a.peers()) == len(b.peers()) == 1)


def test_interests_change_and_a_dispatcher_that_raises_is_counted() -> None:
    def raises(topic: str | None, payload: bytes, src: Address) -> None:
        raise ValueError("a bug of the application")

    with peer([], topics="") as a, peer([], a) as b:
        until(lambda: len(b.peers()) == 1)
        a.dispatcher = raises
        a.subscribe("orders")
        assert str(a.interest) == "orders"
        until(lambda: str(b.peers()[0].interest) == "orders")
        b.broadcast(b"hello", topic="orders")
        until(lambda: a.stats()["gossip"].get("dispatcher_exceptions") == 1)
