"""Gossip on real sockets: peers meet, broadcasts arrive, sizes are checked before anything is sent."""
from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from jgroups_py.blocks.broadcast import Gossip, PayloadSizeError
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelClosedError
from jgroups_py.model.ports import AddressBook
from tests.unit.protocols.pex.schema import generated

pytestmark = pytest.mark.real
Got = list[tuple[str | None, bytes, Address]]


def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds; five seconds are more than enough."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


def peer(got: Got, *seeds: Gossip, topics: str = "*") -> Gossip:
    """A peer with these seeds."""
    places = ",".join(f"{host}[{port}]" for host, port in map(place_of, seeds))
    properties = {"bind_port": "0", "profile": "influx-2023", "seeds": places, "topics": topics}
    made = Gossip(properties=properties, dispatcher=lambda topic, payload, src: got.append((topic, payload, src)))
    made.start("test of gossip")
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
        with pytest.raises(ValueError, match="-1 is not within 0 to 1"):
            a.broadcast(b"", ratio=-1)
        until(lambda: bool(got))
        assert got == [("1", bytes(10_207), a.identity)]
        assert a.peer_addr(b.identity or Address(bytes(16))) == place_of(b)


def test_accept_1_1_peers_meet_at_a_seed_and_announce_their_end() -> None:
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


class ProtobufPeer:
    """A peer of the original: a socket, and frames made and read by protobuf."""

    def __init__(self) -> None:
        self.frame = generated()
        self.identity = bytes(range(16))
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(120)

    def send(self, to: tuple[str, int], **fields: object) -> None:
        """Send a frame with one message."""
        frame = self.frame(identity=self.identity)
        for name, values in fields.items():
            getattr(frame.messages.add(), name).MergeFrom(values)
        self.socket.sendto(frame.SerializeToString(), to)

    def receive(self, what: str) -> Any:
        """The next message of this kind; pings are answered meanwhile."""
        while True:
            data, place = self.socket.recvfrom(65536)
            for message in self.frame.FromString(data).messages:
                if message.HasField("ping"):
                    self.send(place, pong=self.kind("pong", interests=1 << 3))
                if message.HasField(what):
                    return getattr(message, what)

    def kind(self, name: str, **values: object) -> Any:
        """A message of a kind."""
        return type(getattr(self.frame().messages.add(), name))(**values)


def test_accept_1_11_a_peer_with_protobuf_frames_and_one_of_this_package_list_each_other() -> None:
    got: Got = []
    properties = {"bind_port": "0", "seeds": "", "profile": "influx-2023"}
    protobuf_peer = ProtobufPeer()
    with protobuf_peer.socket, Gossip("influx", lambda *broadcast: got.append(broadcast),
                                      properties=properties).start() as gossip:
        until(lambda: gossip._ask(lambda node: node.local.find(AddressBook).my_physical()) is not None)
        place = place_of(gossip)
        protobuf_peer.send(place, ping=protobuf_peer.kind("ping", interests=1 << 3))
        assert protobuf_peer.receive("pong").interests == (1 << 64) - 1
        until(lambda: [peer.identity.raw for peer in gossip.peers()] == [protobuf_peer.identity])
        assert str(gossip.peers()[0].interest) == "3"
        gossip.broadcast(b"unwanted", topic=2)
        gossip.broadcast(b"no number", topic="orders")
        gossip.broadcast(b"wanted", topic=3)
        received = protobuf_peer.receive("user_data")
        assert (received.payload, received.topic) == (b"wanted", 1 << 3)
        protobuf_peer.send(place, user_data=protobuf_peer.kind("user_data", payload=b"hello", topic=1 << 5))
        until(lambda: bool(got))
        assert [(topic, payload, src.raw) for topic, payload, src in got] == [("5", b"hello", protobuf_peer.identity)]


def test_a_port_that_is_taken_is_an_error_at_once() -> None:
    with peer([]) as first, pytest.raises(ChannelClosedError, match="Address already in use"):
        Gossip(properties={"bind_port": place_of(first)[1], "port_range": 0}).start()
