"""The acceptance cases of the original's gossip, by number, on the simulator. HUNDREDTH: of the original's intervals.

Cases 7 (sizes), 11 (protobuf) and 13 (anti-entropy) stand in tests/integration/test_gossip.py, test_influx.py and
tests/unit/blocks/anti_entropy.
"""
from __future__ import annotations

import math
from random import Random

import pytest

from jgroups_py import wire
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import Subscribe
from jgroups_py.model.topics import interest_in
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.discovery.pex.headers import PeerBroadcast, PeerPing, PeerPong
from jgroups_py.wire.topic_headers import topic_header
from tests.simulator.full_exchange import full_exchange
from tests.unit.protocols.pex.peers import CLUSTER, PORT, Swarm, settle

HUNDREDTH = {"seed_interval_ns": "600ms", "ping_interval_ns": "300ms"}


def test_accept_1_1_two_peers_with_the_same_seed_find_each_other() -> None:
    world = Swarm()
    world.peer("B")
    world.peer("A", "B")
    world.peer("C", "B")
    settle(world)
    assert [world.peers_of(name) for name in "ABC"] == [["B#1", "C#1"], ["A#1", "C#1"], ["A#1", "B#1"]]
    world.broadcast("C", b"to all")
    settle(world)
    assert world.got("A") == world.got("B") == [b"to all"]


def test_accept_1_2_a_dead_seed_does_not_become_a_peer() -> None:
    world = Swarm()
    world.ip("C")
    world.peer("A", "B", "C", **HUNDREDTH)
    world.peer("B", "C", **HUNDREDTH)
    world.run_for(millis(300))
    for _ in range(12):                                      # twice the seeds' interval
        world.run_for(millis(100))
        assert world.peers_of("A") == ["B#1"]
        assert world.peers_of("B") == ["A#1"]


def test_accept_1_3_a_listed_peer_that_is_dead_does_not_enter_the_table() -> None:
    world = Swarm()
    world.peer("A", **HUNDREDTH)
    world.peer("B", "A", **HUNDREDTH)
    settle(world)
    dead = world.address("B")
    world.crash("B")
    world.peer("D", "A", **HUNDREDTH)
    for _ in range(20):
        world.run_for(millis(100))
        assert world.peers_of("D") == ["A#1"]
    told = [batch.headers[-1].peers for batch in world.sent_to("D", PeerPong)]
    assert any(identity == dead for page in told for identity, _ in page)


@pytest.mark.parametrize("speaks", [False, True], ids=["silent", "one message at the ninth ping"])
def test_accept_1_4_a_silent_peer_is_dropped_at_the_eleventh_ping(speaks: bool) -> None:
    world = Swarm()
    world.peer("A", ping_interval_ns="300ms")
    world.peer("B", "A", ping_interval_ns="300ms")
    settle(world)
    identity, died_ns = world.address("B"), world.now_ns
    world.crash("B")
    before = len(world.sent_to("B", PeerPing))
    if speaks:
        assert world.run_while(lambda: len(world.sent_to("B", PeerPing)) < before + 9, seconds(4), millis(10))
        world.raw("A", b"".join(wire.encode_frame(wire.cluster_id(CLUSTER), Batch(
            identity, world.address("A"), (b"still here",), (PeerBroadcast(),)))), (world.ip("B"), PORT))
        died_ns = world.now_ns
    assert world.run_while(lambda: bool(world.peers_of("A")), seconds(10), millis(10))
    assert seconds(3.0) <= world.now_ns - died_ns <= seconds(3.6)
    # The crash came between two pings, so ten more are sent and the eleventh turn drops the peer; as many again, and
    # the one that tells that it lives makes its sender ask again at once.
    assert len(world.sent_to("B", PeerPing)) - before in ((19, 20) if speaks else (10, 11))


def test_accept_1_5_unwanted_topics_are_not_sent() -> None:
    world = Swarm()
    world.peer("A", **HUNDREDTH)
    world.peer("B", "A", interests="1,3", **HUNDREDTH)
    settle(world)
    pings = len(world.sent_to("B", PeerPing))
    for _ in range(1000):
        for topic in (1, 2, 3):
            world.broadcast("A", b"about %d" % topic, topic)
    settle(world)
    said = [batch.payloads[0] for batch in world.sent_to("B", PeerBroadcast)]
    assert len(said) == 2000
    assert b"about 2" not in said
    assert len(world.got("B")) == 2000
    assert len(world.sent_to("B", PeerPing)) > pings


def test_accept_1_6_an_unknown_topic_is_dropped_and_the_next_message_comes() -> None:
    world = Swarm()
    world.peer("A")
    world.peer("B", "A", interests="1")
    settle(world)
    b = world.address("B")
    world.receive("B", Batch(world.address("A"), b, (b"what?",), (topic_header(42), PeerBroadcast())))
    world.receive("B", Batch(world.address("A"), b, (b"known",), (topic_header(1), PeerBroadcast())))
    settle(world)
    assert world.got("B") == [b"known"]
    with pytest.raises(ValueError, match="64"):
        topic_header(64)


def test_accept_1_8_a_subset_is_a_third_rounded_up_and_reaches_every_peer_in_time() -> None:
    world = Swarm()
    names = [f"P{number:02}" for number in range(31)]
    for name in names:
        world.peer(name, "P00")
    settle(world)
    world.datagrams.clear()
    hits = dict.fromkeys((world.ip(name) for name in names[1:]), 0)
    for number in range(100):
        world.broadcast("P00", b"%d" % number, ratio=0.33)
        to = [place for name, place, batch in world.datagrams if name == "P00" and batch.payloads == (b"%d" % number,)]
        assert len(to) == len(dict.fromkeys(to)) == math.ceil(0.33 * 30) == 10
        for place in to:
            hits[place] += 1
    assert min(hits.values()) >= 1


def test_accept_1_8_a_broadcast_without_interested_peers_is_no_error() -> None:
    world = Swarm()
    world.peer("A")
    world.peer("B", "A", interests="1")
    settle(world)
    world.broadcast("A", b"to nobody", 2, ratio=0.33)
    assert world.stats("A")["PEX"]["broadcast_frames"] == 0


def test_accept_1_9_a_peer_that_starts_again_has_another_identity() -> None:
    world = Swarm()
    world.peer("A", **HUNDREDTH)
    world.peer("B", "A", **HUNDREDTH)
    settle(world)
    first = world.address("B")
    world.crash("B")
    world.peer("B", "A", **HUNDREDTH)                        # the same host and port
    settle(world)
    assert world.address("B") != first
    assert "B#2" in world.peers_of("A")
    world.broadcast("A", b"once")
    settle(world)
    assert world.got("B") == [b"once"]
    world.run_for(seconds(4))
    assert world.peers_of("A") == ["B#2"]


def test_accept_1_10_nonsense_changes_nothing() -> None:
    world = Swarm()
    world.peer("A")
    world.peer("B", "A")
    settle(world)
    whole = b"".join(wire.encode_frame(wire.cluster_id(CLUSTER), Batch(
        world.address("A"), world.address("B"), (b"payload",), (PeerBroadcast(),))))
    rng = Random(1)
    before = world.peers_of("B")
    for number in range(10_000):
        data = whole[:rng.randrange(len(whole))] if number % 2 else rng.randbytes(rng.randrange(200))
        world.node("B").receive([(data, ("10.6.6.6", number))], world.now_ns)
    assert world.peers_of("B") == before == ["A#1"]
    dropped = world.stats("B")["UDP"]
    assert sum(number for name, number in dropped.items() if name.endswith("_dropped")) == 10_000
    world.broadcast("A", b"alive?")
    settle(world)
    assert world.got("B") == [b"alive?"]


def test_accept_1_12_every_peer_has_every_other_in_its_table() -> None:
    """With more peers than a page holds; with 300 of them in `tox -e gossip`."""
    assert full_exchange(60).at_ns <= seconds(2)


# --- what the original does not do ----------------------------------------------------------------------------------

def test_a_leaving_peer_is_dropped_at_once() -> None:
    world = Swarm()
    world.peer("A")
    world.peer("B", "A")
    settle(world)
    world.leave("B")
    world.run_for(millis(10))
    assert world.peers_of("A") == []


def test_interests_change_while_peers_run() -> None:
    world = Swarm()
    world.peer("A")
    world.peer("B", "A", interests="")
    settle(world)
    world.broadcast("A", b"before", "orders")
    world.inject("B", Subscribe(interest_in("orders")))
    settle(world)
    world.broadcast("A", b"after", "orders")
    settle(world)
    assert world.got("B") == [b"after"]


def test_a_peer_whose_first_frame_is_a_broadcast_is_pinged_for_its_interest() -> None:
    world = Swarm()
    world.peer("A")
    world.peer("B", interests="1")
    settle(world)
    header = Batch(world.address("B"), world.address("A"), (b"hello",), (PeerBroadcast(),))
    world.raw("A", b"".join(wire.encode_frame(wire.cluster_id(CLUSTER), header)), (world.ip("B"), PORT))
    settle(world)
    world.broadcast("A", b"unwanted", 2)
    world.broadcast("A", b"wanted", 1)
    settle(world)
    assert world.got("B") == [b"wanted"]
    assert len(world.sent_to("B", PeerBroadcast)) == 1


def test_listed_peers_are_pinged_at_a_bounded_rate_from_a_bounded_queue() -> None:
    world = Swarm()
    world.peer("A", queue="100", burst="5")
    world.peer("B", "A")
    settle(world)
    strangers = tuple((world.address("A").__class__(bytes([9]) * 15 + bytes([number])), ("10.8.8.8", number + 1))
                      for number in range(200))
    pong = PeerPong(interest_in("*"), (world.ip("B"), PORT), strangers, False, False)
    world.receive("A", Batch(world.address("B"), world.address("A"), (), (pong,)))
    assert world.stats("A")["PEX"]["peers_waiting"] == 100
    world.run_for(millis(100))
    sent = [to for name, to, _ in world.datagrams if name == "A" and to == "10.8.8.8"]
    assert 40 <= len(sent) <= 60
    assert world.peers_of("A") == ["B#1"]
