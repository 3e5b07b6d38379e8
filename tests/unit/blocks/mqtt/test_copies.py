"""Sessions with copies at other nodes: their node is killed, and the client finds its session elsewhere."""
from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.session import Delivery
from jgroups_py.blocks.mqtt.codec.packets import (
    ConnAckPacket,
    Properties,
    PubAckPacket,
    PubCompPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    ReasonCode,
    SubAckPacket,
    SubscribePacket,
    Subscription,
    Will,
)
from jgroups_py.blocks.mqtt.federation.copies import ALL, OTHERS
from jgroups_py.blocks.mqtt.federation.copy_bytes import SessionCopy, read_delivery, text_body, wanted_body
from jgroups_py.blocks.mqtt.federation.sessions import QueuedDelivery, SessionMoved, SessionOffer
from jgroups_py.blocks.mqtt.federation.tables import SessionOwner, key_of
from jgroups_py.blocks.mqtt.federation.wire import EventKind, InterestTree, TableExchange
from tests.unit.blocks.mqtt.clients import SECOND, Client
from tests.unit.blocks.mqtt.federation_world import FederationWorld
from tests.unit.blocks.mqtt.test_handover import Roaming, hold_back, numbered, roaming, sessions


def world(names: str = "ABC", copies: int = 1, **options: Any) -> FederationWorld:
    return FederationWorld(names, session_copies=copies, **options)


def subscribed(world: FederationWorld, name: str, filter: str = "a/+", qos: int = 1) -> Roaming:
    """A client at a node, whose subscription is acknowledged."""
    client = roaming(world, name, "me")
    client.send(SubscribePacket(1, (Subscription(filter, qos),)))
    world.run(0.2)
    assert client.answer(SubAckPacket).reasons[0] == qos
    return client


def publish(world: FederationWorld, name: str, count: int, first: int = 0, wait: float = 0.3) -> None:
    """Publish at a node; all is acknowledged."""
    publisher = world.client(name, f"publisher {first}")
    for number in range(first, first + count):
        publisher.publish("a/b", b"%d" % number, 1)
    world.run(wait)
    assert sum(isinstance(each, PubAckPacket) for each in publisher.packets) == count


@pytest.mark.parametrize(("names", "copies"), [("AB", 1), ("ABC", 1), ("ABC", 2), ("ABCDE", 2)])
def test_a_client_finds_its_session_at_any_node_when_its_own_was_killed(names, copies):
    for home in names[1:]:
        w = world(names, copies)
        client = subscribed(w, "A")
        client.disconnect()
        publish(w, names[-1], 10)
        w.crash("A")
        connack = client.go(w, home, wait=3)
        assert connack is not None
        assert connack.session_present
        assert client.payloads() == numbered(0, 10)


def test_what_the_client_has_acknowledged_does_not_come_again_from_a_copy():
    w = world()
    client = subscribed(w, "A")
    publish(w, "B", 5)
    assert client.acks
    assert len(client.messages) == 5
    w.crash("A")
    assert client.go(w, keeper_of_crashed(w), wait=3).session_present
    assert client.payloads() == numbered(0, 5), "what came before the crash, and nothing again"


def keeper_of_crashed(w: FederationWorld) -> str:
    """A node that has the copy of the client's session, whose own node has ended."""
    return next(name for name in w.nodes if (w.nodes[name].federation.where("me") or {}).get("copy_here"))


def test_what_comes_while_the_client_is_away_is_queued_for_it():
    w = world()
    client = subscribed(w, "A")
    client.disconnect()
    w.crash("A")
    publish(w, "B", 5, wait=3)                           # nobody knows yet that A has ended
    publish(w, "C", 5, first=5)                          # another node has the session
    assert client.go(w, "C").session_present
    assert sorted(client.payloads()) == sorted(numbered(0, 10))


@pytest.mark.parametrize("copies", [1, 2])
def test_a_keeper_that_ends_is_replaced(copies):
    w = world("ABCD", copies)
    client = subscribed(w, "A")
    client.disconnect()
    publish(w, "A", 3)
    keeper = next(iter(w.nodes["A"].federation.where("me")["copies_at"]))
    w.crash(keeper)
    w.run(2)
    where = w.nodes["A"].federation.where("me")
    assert len(where["copies_at"]) == copies
    assert where["copies_at"].pop(keeper, None) is None
    assert all(where["copies_at"].values()), "they are complete"
    w.crash("A")
    home = next(name for name in "BCD" if name != keeper)
    assert client.go(w, home, wait=3).session_present
    assert client.payloads() == numbered(0, 3)


def keeper_of(w: FederationWorld, name: str = "A") -> str:
    return next(iter(w.nodes[name].federation.where("me")["copies_at"]))


def left_at_a(names: str = "ABC") -> tuple[FederationWorld, Roaming, str, list[str]]:
    """Nodes, a client that has gone, whose session is at A with three messages, the node with its copy, the others."""
    w = world(names)
    client = subscribed(w, "A")
    client.disconnect()
    publish(w, "A", 3)
    keeper = keeper_of(w)
    return w, client, keeper, [name for name in names[1:] if name != keeper]


def test_acknowledgements_wait_for_the_copies_and_not_for_ever():
    w = world()
    client = subscribed(w, "A")
    keeper = keeper_of(w)
    w.detect_ns = 100 * SECOND
    w.pause(keeper)                                      # and nobody sees it
    other = next(name for name in "BC" if name != keeper)
    publisher = w.client(other, "publisher")
    publisher.publish("a/b", b"x", 1)
    own = w.client("A", "own")
    own.publish("a/b", b"y", 1)
    client.send(SubscribePacket(7, (Subscription("more", 1),)))
    w.run(3)
    assert not any((publisher.has(PubAckPacket), own.has(PubAckPacket), client.has(SubAckPacket)))
    assert client.payloads() == [b"y", b"x"], "QoS 1 waits for nothing"
    w.run(4)
    assert own.has(PubAckPacket)
    assert publisher.has(PubAckPacket)
    assert client.has(SubAckPacket)
    assert w.sent("A", "copies_late")


def test_what_comes_late_to_a_session_that_moved_is_in_its_new_copies_before_it_is_acknowledged():
    """What D sends to A takes longer than A waits for it, so the session is at B without it."""
    w = world("ABCD", broker={"ack_timeout_s": 60.0}, silent_s=60.0)
    client = subscribed(w, "A")
    publisher = w.client("D", "publisher")
    w.run(0.2)
    hold_back(w, "D", "A", 9)
    publisher.publish("a/b", b"late", 2)
    assert client.go(w, "B", 6.0).session_present
    keeper = next(iter(w.nodes["B"].federation.copies.kept[client.client_id].keepers))
    client.cut()
    hold_back(w, "A", "B", 12)                           # on its way from the former node to the new one
    w.run(9)
    assert not publisher.has(PubRecPacket)
    hold_back(w, keeper, "B", 15)                        # and what the keeper says, to the new one
    w.run(8)
    queue = w.nodes["B"].broker.sessions[client.client_id].queue
    assert [each.publication.payload for each in queue] == [b"late"]
    assert not publisher.has(PubRecPacket), "the copies may not have it"
    w.run(20)
    copy = w.nodes[keeper].federation.copies.here[client.client_id]["B"]
    assert [read_delivery(each).publication.payload for each in copy.queue] == [b"late"]
    assert publisher.has(PubRecPacket)
    assert w.sent("A", "onward_late") == w.sent("B", "copies_late") == 0


def test_nobody_waits_longer_than_the_timeout_for_what_is_sent_on():
    w = world("ABCD", broker={"ack_timeout_s": 3.0}, silent_s=60.0)
    client = subscribed(w, "A")
    publisher = w.client("D", "publisher")
    w.run(0.2)
    hold_back(w, "D", "A", 6)
    publisher.publish("a/b", b"late", 1)
    assert client.go(w, "B", 5.0).session_present
    w.detect_ns = 100 * SECOND
    w.pause("B")                                         # and nobody sees it
    w.run(10)
    assert publisher.has(PubAckPacket)
    assert w.sent("A", "onward_late") == 1
    assert not w.nodes["D"].federation.peers["A"].stream.held, "D's stream to A goes on"


def publishers_of_all(w: FederationWorld) -> list[Client]:
    """A publisher at each node, where a client gets all messages too."""
    for name in w.nodes:
        roaming(w, name, f"at {name}").send(SubscribePacket(1, (Subscription("#", 1),)))
    w.run(0.2)
    return [w.client(name, f"publisher {name}") for name in w.nodes]


def test_nodes_that_keep_each_others_sessions_do_not_wait_for_each_other():
    """PeerAck waits for copies: with that alone each would wait for the other's, up to `ack_timeout_s`."""
    w = world("AB")
    publishers = publishers_of_all(w)
    for number in range(50):
        for publisher in publishers:
            publisher.publish("t", b"%d" % number, 1)
        w.run(0.002)
    w.run(0.1)
    assert [sum(isinstance(each, PubAckPacket) for each in publisher.packets) for publisher in publishers] == [50, 50]
    assert not w.sent("A", "copies_late")


def test_a_full_window_does_not_wait_for_copies_that_are_behind_another_full_window():
    """Each node holds its acknowledgement until the other one has its copies, which are behind what the other one has
    not acknowledged (seed 110887)."""
    w = world("AB", window_bytes=2_000)
    publishers = publishers_of_all(w)
    for number in range(100):
        for publisher in publishers:
            publisher.publish("t", b"%d" % number, 1)
    w.run(0.5)
    assert [sum(isinstance(each, PubAckPacket) for each in publisher.packets) for publisher in publishers] == [100, 100]
    assert not w.sent("A", "copies_late") + w.sent("B", "copies_late")


def test_a_message_of_qos_2_begins_when_the_copies_know_its_packet_id():
    w = world()
    client = subscribed(w, "A", qos=2)
    keeper = keeper_of(w)
    w.detect_ns = 2 * SECOND
    w.pause(keeper)
    w.client("A", "own").publish("a/b", b"x", 2)
    w.run(1)
    assert client.payloads() == []
    w.run(2)                                             # another one is the keeper
    assert client.payloads() == [b"x"]


def test_a_session_of_a_copy_gives_no_message_a_packet_id_that_the_client_may_have():
    """The client got a message of QoS 2 that the copy does not know of, since the keeper did not answer in time."""
    w = world("AB", broker={"ack_timeout_s": 1.0}, silent_s=60.0)
    client = subscribed(w, "A", qos=2)
    hold_back(w, "A", "B", 3_600)
    client.acks = False
    w.client("A", "own").publish("a/b", b"x", 2)
    w.run(2)
    first, = client.messages
    assert w.sent("A", "copies_late")
    w.crash("A")
    assert client.go(w, "B", wait=3).session_present
    w.client("B", "other").publish("a/b", b"y", 2)
    w.run(1)
    second = client.messages[-1]
    assert second.payload == b"y"
    assert second.packet_id != first.packet_id, "a client takes it for a repetition of the first one (Q10)"


def test_qos_2_goes_on_where_it_stood():
    w = world("AB")
    client = subscribed(w, "A", qos=2)
    client.acks = False
    publisher = w.client("B", "publisher")
    for payload in (b"released", b"sent"):
        publisher.publish("a/b", payload, 2)
    w.run(0.3)
    first, second = client.messages
    client.send(PubRecPacket(first.packet_id))
    w.run(0.3)
    assert client.answer(PubRelPacket).packet_id == first.packet_id
    client.publish("x", b"mine", 2, packet_id=77)
    w.run(0.3)
    assert client.answer(PubRecPacket).packet_id == 77
    client.messages.clear()
    w.crash("A")
    client.acks = True
    assert client.go(w, "B", wait=3).session_present
    again, = client.messages
    assert (again.payload, again.packet_id, again.dup) == (b"sent", second.packet_id, True)
    assert any(isinstance(each, PubRelPacket) and each.packet_id == first.packet_id for each in client.packets)
    client.publish("x", b"mine", 2, packet_id=77, dup=True)
    w.run(0.3)
    assert w.nodes["B"].broker.counters["received"] >= 1
    client.send(PubRelPacket(77))
    w.run(0.3)
    assert client.answer(PubCompPacket).reason is ReasonCode.SUCCESS, "the id was known"


@pytest.mark.parametrize(("delay_s", "comes_s", "published"), [(0, 0, 1), (3, 0, 0), (3, 6, 1)])
def test_the_will_of_a_client_whose_node_ends(delay_s, comes_s, published):
    w = world("AB")
    watcher = w.client("B", "watcher")
    watcher.subscribe("will", 1)
    w.run(0.2)
    client = w.client("A", "me", clean_start=False, session_expiry_interval=1_000,
                      will=Will("will", b"gone", 1, properties=Properties(will_delay_interval=delay_s)))
    w.run(0.2)
    w.crash("A")
    if comes_s:
        w.run(comes_s)
    returning = Roaming(w.nodes["B"], "me", Client.DEFAULT)
    assert returning.go(w, "B", wait=2).session_present
    w.run(6)
    assert watcher.payloads() == [b"gone"] * published
    assert not client.number


def test_the_will_in_a_copy_counts_no_more_once_the_session_comes_from_its_own_node():
    """Another part of a split group has adopted the session, and its client has sent DISCONNECT."""
    w = world("AB")
    watcher = w.client("B", "watcher")
    watcher.subscribe("will", 1)
    client = w.client("A", "me", clean_start=False, session_expiry_interval=1_000,
                      will=Will("will", b"gone", 1, properties=Properties(will_delay_interval=5)))
    w.run(0.2)
    w.split("A", "B")
    w.run(0.1)
    client.disconnect()
    w.run(2)
    assert "me" in w.nodes["B"].broker.sessions
    w.heal()
    w.run(8)
    assert sessions(w, "me") == ["B"]
    assert watcher.payloads() == []


def test_an_old_will_in_a_copy_counts_no_more_once_its_node_is_back():
    """A, cut off, has it from B, where the client has not been since; B has the session from C meanwhile, to which A
    hands over the older one (mqtt 952747)."""
    w = world("ABC", copies=2)
    watcher = w.client("B", "watcher")
    watcher.subscribe("will", 1)
    w.client("B", "me", clean_start=False, session_expiry_interval=1_000,
             will=Will("will", b"gone", 1, properties=Properties(will_delay_interval=20)))
    w.run(0.5)
    w.split("A", "BC")
    w.run(2)
    assert "me" in w.nodes["A"].broker.sessions
    assert Roaming(w.nodes["C"], "me", Client.DEFAULT).go(w, "C").session_present
    w.crash("C")
    w.run(3)
    assert "me" in w.nodes["B"].broker.sessions
    w.heal()
    w.run(25)
    assert sessions(w, "me") == ["B", "C"]               # that of C is as it ended
    assert watcher.payloads() == []


@pytest.mark.parametrize("returns", [False, True])
def test_a_will_that_waits_moves_with_its_session(returns):
    """Two parts of a split group have adopted the session, each with the will, and meet before its delay is over."""
    w = world("ABC", copies=2)
    for name in "AB":
        w.client(name, f"watcher {name}").subscribe("will", 1)
    client = w.client("C", "me", clean_start=False, session_expiry_interval=1_000,
                      will=Will("will", b"gone", 1, properties=Properties(will_delay_interval=5)))
    w.run(0.5)
    w.split("A", "B", "C")
    w.run(2)
    assert all("me" in w.nodes[name].broker.sessions for name in "AB")
    w.split("AB", "C")
    w.run(2)
    home, = (name for name in "AB" if "me" in w.nodes[name].broker.sessions)
    if returns:
        assert Roaming(w.nodes[home], "me", Client.DEFAULT).go(w, home).session_present
    w.run(6)
    assert client.number, "at C"
    for name in "AB":
        watcher, = (each for each in w.nodes[name].clients.values() if each.client_id == f"watcher {name}")
        assert watcher.payloads() == [b"gone"] * (not returns)


@pytest.mark.parametrize("returns", [False, True])
def test_a_will_that_has_moved_comes_back_with_the_copy(returns):
    """The node that had the session, and has given it away, adopts it (seed 62400)."""
    w = world("AB")
    watcher = w.client("A", "watcher")
    watcher.subscribe("will", 1)
    w.client("A", "me", clean_start=False, session_expiry_interval=1_000,
             will=Will("will", b"gone", 1, properties=Properties(will_delay_interval=6)))
    w.run(0.5)
    w.split("A", "B")
    w.run(2)
    w.heal()
    w.run(2)
    assert sessions(w, "me") == ["B"]
    w.crash("B")
    w.run(2.5)
    assert "me" in w.nodes["A"].broker.sessions
    assert watcher.payloads() == []
    if returns:
        assert Roaming(w.nodes["A"], "me", Client.DEFAULT).go(w, "A").session_present
    w.run(8)
    assert watcher.payloads() == [b"gone"] * (not returns)


def test_the_will_of_a_client_without_a_session_is_published_too():
    w = world("AB")
    watcher = w.client("B", "watcher")
    watcher.subscribe("will", 1)
    w.client("A", "me", will=Will("will", b"gone", 1))
    w.run(0.2)
    w.crash("A")
    w.run(2)
    assert watcher.payloads() == [b"gone"]
    assert "me" not in w.nodes["B"].broker.sessions
    assert not w.nodes["B"].federation.copies.here.get("me")


def test_a_session_ends_in_time_though_its_node_has_ended_before():
    w = world("AB")
    client = Roaming(w.nodes["A"], "me", Client.DEFAULT)
    client.bench = w.nodes["A"]
    client.connect(clean_start=False, session_expiry_interval=10)
    w.run(0.2)
    client.cut()
    w.run(6)
    w.crash("A")
    w.run(2)
    assert "me" in w.nodes["B"].broker.sessions
    w.run(4)
    assert "me" not in w.nodes["B"].broker.sessions
    assert w.nodes["B"].federation.where("me") is None


def test_a_clean_start_wants_nothing_of_before():
    w = world()
    client = subscribed(w, "A")
    client.disconnect()
    publish(w, "B", 3)
    w.crash("A")
    connack = client.go(w, "C", wait=3, clean_start=True)
    assert connack is not None
    assert not connack.session_present
    assert client.payloads() == []
    w.run(3)
    owners = [owner for node in w.nodes.values() if node.runs for owner in node.federation.copies.here.get("me", {})]
    assert owners == ["C"], "one copy, of the session that there is"


def test_a_session_that_moves_leaves_no_copies_behind():
    w = world("ABCD")
    client = subscribed(w, "A")
    for home in "BCDA":
        assert client.go(w, home, wait=1).session_present
    w.run(1)
    found = [(name, owner) for name, node in w.nodes.items() for owner in node.federation.copies.here.get("me", {})]
    assert [owner for _, owner in found] == ["A"]
    assert [name for name, _ in found] == list(w.nodes["A"].federation.where("me")["copies_at"])
    assert w.nodes["B"].federation.where("me")["node"] == "A"


def test_a_node_that_comes_back_from_a_pause_has_the_newer_session():
    """Its client got two of three messages that no copy knew of; another node has adopted the session meanwhile."""
    w = world("AB")
    client = subscribed(w, "A", qos=2)
    w.split("A", "B")
    w.run(2)                                             # each is alone, B has a copy
    assert "me" in w.nodes["B"].broker.sessions
    w.client("A", "own").publish("a/b", b"at A", 2)
    w.client("B", "other").publish("a/b", b"at B", 2)
    w.run(0.5)
    assert client.payloads() == [b"at A"]
    w.heal()
    w.run(3)
    assert client.closed is not None
    assert client.go(w, "B", wait=2).session_present
    assert client.payloads() == [b"at B"], "what it has had at A does not come again"


def test_a_node_without_copies_of_its_own_is_no_keeper():
    w = world("AB")
    w.crash("B")
    w.federation_options = {}                            # as a node of an earlier version
    w.start("B")
    w.run(2)
    client = subscribed(w, "A")
    assert w.nodes["A"].federation.where("me")["copies_at"] == {}
    client.disconnect()
    publish(w, "B", 1)                                   # nobody waits for copies that cannot be


def test_what_two_nodes_had_after_a_split_is_not_mixed():
    w = FederationWorld("ABC")
    core, broker = w.nodes["C"].federation, w.nodes["C"].broker
    core.set_owner(key_of("me"), SessionOwner("me", "A", 1, False).encode(), w.now_ns)
    assert core.handovers.connecting("me", False, w.now_ns)
    claim = core.handovers.owner_of("me").claim
    for number, name in ((1, "A"), (2, "B")):
        core.handovers.event_came(name, EventKind.OFFER, SessionOffer("me", claim, 60, ()).encode(), w.now_ns)
        delivery = Delivery(Publication("t", name.encode(), 1, origin=5, number=number), 1, False)
        queued = QueuedDelivery("me", claim, number, delivery)
        core.handovers.event_came(name, EventKind.QUEUED, queued.encode(w.now_ns), w.now_ns)
    moved = SessionMoved("me", claim, True, last_id=1).encode()
    core.handovers.event_came("A", EventKind.MOVED, moved, w.now_ns)
    assert {packet_id: each.publication.payload for packet_id, each in broker.sessions["me"].in_flight.items()} == {
        1: b"A"}
    assert core.handovers.arriving["me"].waits, "there is another one"
    core.handovers.event_came("B", EventKind.MOVED, moved, w.now_ns)
    assert [each.publication.payload for each in broker.sessions["me"].queue] == [b"B"]
    assert "me" not in core.handovers.arriving


def test_parts_of_a_large_session_arrive_as_one():
    w = world("AB")
    client = subscribed(w, "A")
    client.disconnect()
    publisher = w.client("A", "publisher")
    for number in range(40):
        publisher.publish("a/b", b"%d " % number + bytes(10_000), 1)
    w.run(1)
    w.crash("B")
    w.run(1)
    w.start("B")                                         # which gets the whole session
    w.run(3)
    assert w.nodes["A"].federation.where("me")["copies_at"] == {"B": True}
    w.crash("A")
    assert client.go(w, "B", wait=3).session_present
    assert [payload.split()[0] for payload in client.payloads()] == numbered(0, 40)


def claimed_by_one_that_ends(home: str = "A") -> tuple[FederationWorld, Roaming, str, str, str]:
    """The session's node ends; the client connects at a node that ends too, before it has learned of that. The world,
    the client, where the copy is, and two nodes without one."""
    w = world("ABCDE")
    client = subscribed(w, home)
    keeper = keeper_of(w, home)
    client.disconnect()
    publish(w, home, 3)
    claims, *others = (name for name in "ABCDE" if name not in (keeper, home))
    w.crash(home)
    w.run(0.1)
    client.go(w, claims, wait=0.1)
    w.crash(claims)
    return w, client, keeper, others[0], others[1]


@pytest.mark.parametrize("home", ["A", "E"])
def test_a_session_is_found_though_the_node_that_claimed_it_has_ended_too(home):
    """Both are seen to be gone at once, in either order."""
    w, client, _, dest, _ = claimed_by_one_that_ends(home)
    assert client.go(w, dest, wait=3).session_present
    assert client.payloads() == numbered(0, 3)


def test_a_session_is_found_though_a_second_node_has_claimed_it_from_the_first_before_its_own_ended():
    w = world("ABCDE")
    client = subscribed(w, "A")
    keeper = keeper_of(w)
    client.disconnect()
    publish(w, "A", 3)
    first, second, _ = (name for name in "BCDE" if name != keeper)
    w.crash("A")
    client.go(w, first, wait=0.1)
    assert client.go(w, second, wait=3).session_present
    assert client.payloads() == numbered(0, 3)
    assert not w.sent(second, "handover_timeouts")


def test_a_session_is_found_where_its_copy_is_though_the_client_came_by_a_node_that_waits_for_it():
    """The node with the copy has claimed the session from one that has claimed it from the node that ends: each asks
    the other."""
    w = world("ABCDE")
    client = subscribed(w, "A")
    keeper = keeper_of(w)
    client.disconnect()
    publish(w, "A", 3)
    first = next(name for name in "BCDE" if name != keeper)
    w.crash("A")
    client.go(w, first, wait=0.1)
    assert client.go(w, keeper, wait=3).session_present
    assert client.payloads() == numbered(0, 3)
    w.run(10)
    assert [name for name, node in w.nodes.items() if name != "A" and "me" in node.broker.sessions] == [keeper]


def test_what_a_former_node_says_late_of_other_copies_spares_that_of_the_next_node():
    w = world("ABC", copies=2)
    client = roaming(w, "A", "me")
    while "A" not in w.nodes["C"].federation.copies.here.get("me", {}):
        w.run(0.0005)
    hold_back(w, "A", "C", 1)                            # that other copies are void
    assert client.go(w, "B", wait=0.5).session_present
    assert "B" in w.nodes["C"].federation.copies.here["me"]
    w.run(1)
    assert list(w.nodes["C"].federation.copies.here["me"]) == ["B"]


def test_what_a_node_says_late_of_a_session_that_ended_spares_the_copy_of_the_next_one():
    """The client has connected elsewhere just before its connection there was found gone."""
    w, _, keeper, _ = left_at_a()
    before = "B" if keeper == "C" else "C"
    copies = w.nodes[keeper].federation.copies
    copies.here["me"][before] = SessionCopy(begin=1)
    copies.void_came(before, "me", ALL)
    assert list(copies.here["me"]) == ["A"]
    copies.void_came("A", "me", ALL)
    assert "me" not in copies.here


def test_a_late_request_for_a_session_that_another_node_has_claimed_since_ends_nothing():
    w, client, keeper, home, other = claimed_by_one_that_ends()
    hold_back(w, other, keeper, 3)                       # its fence: the keeper has the session for so long
    assert client.go(w, home, wait=1.5) is None
    w.nodes[other].federation.send_event(keeper, EventKind.COPY_WANTED, wanted_body("A", "me", 1))
    w.run(5)
    assert client.answer(ConnAckPacket).session_present
    assert client.payloads() == numbered(0, 3)


def test_what_a_new_process_was_sent_before_its_filters_were_known_reaches_it():
    """Copies, too: the keeper counted as complete without them, and the session's node could end."""
    w = world("AB")
    client = subscribed(w, "A")
    client.disconnect()
    publish(w, "A", 3)
    w.crash("B")
    w.run(1)
    a = w.nodes["A"].federation
    trees, handle_tree = [], a._handlers[InterestTree]
    a._handlers[InterestTree] = lambda *frame: trees.append(frame)
    w.start("B")
    w.run(0.4)                                           # A sees it, and does not know its filters yet
    assert a.peers["B"].is_up
    a.peer_keeps("B")                                    # B has said so
    w.nodes["A"].settle()
    assert a.peers["B"].stream.queued
    assert a.where("me")["copies_at"] == {"B": False}
    a._handlers[InterestTree] = handle_tree
    handle_tree(*trees[-1])
    w.nodes["A"].settle()
    assert a.where("me")["copies_at"] == {"B": False}, "nothing has arrived yet"
    w.run(2)
    assert a.where("me")["copies_at"] == {"B": True}
    w.crash("A")
    assert client.go(w, "B", wait=3).session_present
    assert client.payloads() == numbered(0, 3)


def test_a_keeper_that_does_not_answer_in_time_is_not_shown_as_complete():
    w = world()
    client = subscribed(w, "A")
    keeper = keeper_of(w)
    w.detect_ns = 100 * SECOND
    w.pause(keeper)                                      # and nobody sees it
    client.send(SubscribePacket(7, (Subscription("more", 1),)))
    w.run(10)
    assert w.sent("A", "copies_late")
    assert w.nodes["A"].federation.where("me")["copies_at"] == {keeper: False}
    w.resume(keeper)
    w.run(3)
    assert w.nodes["A"].federation.where("me")["copies_at"] == {keeper: True}


def test_a_keeper_is_not_shown_as_complete_because_another_one_has_gone():
    """What goes on then has nothing for the keeper that stays, so nothing is waited for; what was sent before is."""
    w = world("ABC", copies=2)
    client = subscribed(w, "A")
    hold_back(w, "B", "A", 3)                            # that B has what it is sent now
    client.send(SubscribePacket(7, (Subscription("more", 1),)))
    w.run(0.1)
    w.crash("C")
    w.run(1.5)
    assert list(w.nodes["A"].federation.copies.kept["me"].keepers) == ["B"]
    assert w.nodes["A"].federation.where("me")["copies_at"] == {"B": False}
    w.run(3)
    assert w.nodes["A"].federation.where("me")["copies_at"] == {"B": True}


def test_a_session_is_found_at_a_node_that_has_not_said_yet_that_it_keeps_copies():
    """Its client comes to a node that has just started."""
    w = world("AB")
    client = subscribed(w, "A")
    client.disconnect()
    publish(w, "A", 3)
    w.start("D")
    hold_back(w, "B", "D", 1.5)
    w.run(0.4)
    assert w.nodes["D"].federation.session_node("me") == "A"
    w.crash("A")
    w.run(0.7)
    assert client.go(w, "D", wait=3).session_present
    assert client.payloads() == numbered(0, 3)


@pytest.mark.parametrize("comes", ["before its end is known", "instead of an adoption", "after"])
def test_a_client_does_not_wait_for_a_session_that_has_ended_with_its_node(comes):
    """Its copy is there for its will alone (mqtt-expiry 184)."""
    w = world("AB")
    client = Roaming(w.nodes["A"], "me", Client.DEFAULT)
    client.connect(will=Will("wills", b"gone", 1, False))
    watcher = w.client("B", "watcher")
    watcher.subscribe("wills", qos=1)
    w.run(0.3)
    assert "me" in w.nodes["B"].federation.copies.here
    orphans = w.nodes["B"].federation.orphans
    if comes == "instead of an adoption":
        orphans._decide = lambda node, now_ns: None
    w.crash("A")
    if comes != "before its end is known":
        w.run(0.7)
    answer = client.go(w, "B", 0.8)
    assert answer is not None, "CONNACK has not come"
    assert not answer.session_present
    assert watcher.payloads() == [b"gone"]
    assert not w.nodes["B"].federation.handovers.arriving


def test_a_client_is_answered_though_its_session_is_made_of_a_copy_at_once():
    """The node that was to adopt it has ended too, and the one that is left has to ask nobody (mqtt 1001251)."""
    w = world("ABC", copies=2)
    client = subscribed(w, "A")
    client.disconnect()
    publish(w, "A", 3)
    for name in "BC":
        w.nodes[name].federation.orphans._decide = lambda node, now_ns: None
    w.crash("A")
    w.run(0.7)
    first = w.nodes["B"].federation.orphans.ended["A"].best("me")
    last, = {"B", "C"} - {first}
    w.crash(first)
    w.run(0.7)
    answer = client.go(w, last)
    assert answer is not None, "CONNACK has not come"
    assert answer.session_present
    assert client.payloads() == numbered(0, 3)


def test_the_copy_of_a_session_that_ended_with_its_node_takes_no_other_one_with_it():
    """C does not see A and B any more, and has the copy of a session at A that ended with its connection, and of the
    client's session at B, which was begun later (mqtt-expiry 113)."""
    w = world("ABC", copies=2)
    client = subscribed(w, "B")
    client.disconnect()
    publish(w, "B", 3)
    copies = w.nodes["C"].federation.copies.here
    of_a = SessionCopy(begin=1)
    of_a.will = Will("wills", b"gone", 1, False)
    copies["me"]["A"] = of_a
    watcher = w.client("C", "watcher")
    watcher.subscribe("wills", qos=1)
    w.split("AB", "C")
    w.run(3)
    assert client.go(w, "C").session_present
    assert client.payloads() == numbered(0, 3)
    assert watcher.payloads() == [b"gone"]
    assert not copies, "nothing is left of either"


def test_a_session_is_not_asked_for_at_another_process_of_its_nodes_name():
    """The node with the copy waits for what a third one has, and the node of the session is back with nothing."""
    w, client, keeper, (other, third) = left_at_a("ABCD")
    hold_back(w, third, keeper, 2.5)                     # which copies are there
    w.crash("A")
    w.run(0.7)
    w.start("A")
    w.run(0.4)
    assert w.nodes[other].federation.peers["A"].is_up
    assert "me" not in w.nodes[keeper].broker.sessions, "it is not adopted yet"
    assert client.go(w, other, wait=3).session_present
    assert client.payloads() == numbered(0, 3)


def test_a_session_that_has_stayed_at_its_node_is_found_at_the_one_that_had_claimed_it():
    """The client went back at once. That node knows that the session stays, and not yet of the latest claim."""
    w = world("AB")
    client = subscribed(w, "A")
    assert client.go(w, "B", 0) is None
    while "me" not in w.nodes["B"].broker.sessions:
        w.run(0.0005)
    b = w.nodes["B"].federation
    b._handlers[TableExchange] = lambda *frame: None
    assert client.go(w, "A").session_present
    assert b.session_node("me") == "B"
    assert "me" not in w.nodes["B"].broker.sessions
    client.disconnect()
    publish(w, "A", 3)
    w.crash("A")
    w.run(3)
    assert client.go(w, "B").session_present
    assert client.payloads() == numbered(0, 3)


@pytest.mark.parametrize("first_has_copy", [True, False])
def test_a_session_is_found_though_the_node_between_has_waited_in_vain_for_its_own(first_has_copy):
    """It cannot say that there is none: that the session's node has ended is known only after `handover_s`."""
    w, client, keeper, others = left_at_a("ABCD")
    first, second = (keeper, others[0]) if first_has_copy else others
    w.detect_ns = 6 * SECOND
    w.crash("A")
    assert client.go(w, first, wait=3) is None
    assert client.go(w, second, wait=2.5) is None
    w.run(2)
    assert client.answer(ConnAckPacket).session_present
    assert client.payloads() == numbered(0, 3)
    w.run(10)
    assert sessions(w, "me") == ["A", second]            # that of A is as it ended


@pytest.mark.parametrize("ends", [False, True], ids=["it-answers-late", "it-ends-too"])
def test_a_node_whose_answer_is_missing_may_have_the_copy(ends):
    """Which copies there are is decided after `adopt_s`; that there is none only all can tell, until `handover_s`."""
    w, client, keeper, (home,) = left_at_a()
    hold_back(w, keeper, home, 3.5)
    w.crash("A")
    assert client.go(w, home, wait=3) is None
    if ends:
        w.crash(keeper)
        w.run(0.7)
        assert client.answer(ConnAckPacket).session_present is False, "nobody is left that may have it"
    else:
        w.run(1)
        assert client.answer(ConnAckPacket).session_present
        assert client.payloads() == numbered(0, 3)


def test_a_session_that_its_node_takes_back_is_not_handed_over():
    """To the next process of the node that had claimed it, which does not want it."""
    w, client, keeper, (claims,) = left_at_a()
    handovers = w.nodes["A"].federation.handovers
    hold_back(w, keeper, "A", 0.5)                       # its fence
    client.go(w, claims, wait=0.1)
    assert handovers.leaving
    handovers.reclaim("me", w.now_ns)
    assert not handovers.leaving
    w.run(10)
    assert sessions(w, "me") == ["A"]
    assert client.go(w, keeper, wait=3).session_present
    assert client.payloads() == numbered(0, 3)


@pytest.mark.parametrize("ends", ["at once", "when it has copied the session again"])
def test_a_session_that_its_node_takes_back_is_in_copies_though_another_one_was_begun(ends):
    """Its node could not be reached for longer than `handover_s`; the session that was begun elsewhere then is in
    copies, and does not take the place of those of the former one (mqtt 944824)."""
    w, client, keeper, other = begun_anew()
    assert w.nodes["A"].federation.handovers.leaving
    if ends == "at once":
        hold_back(w, "A", keeper, 30)
    assert client.go(w, "A").session_present
    assert client.payloads() == numbered(0, 3)
    client.disconnect()
    w.run(1)
    assert ("me" in w.nodes[other].broker.sessions) is (ends == "at once"), "it is on its way to A then, and changes"
    w.client(other, "late publisher").publish("other", b"x", 1)
    w.run(4)
    assert sessions(w, "me") == ["A"], "the one that was begun elsewhere has come here"
    if ends != "at once":
        assert copies(w) == {keeper: ["A"]}, "nobody needs those of the other one"
    w.crash("A")
    w.run(3)
    client.number = 0
    assert client.go(w, keeper, wait=3).session_present


def begun_anew() -> tuple[FederationWorld, Roaming, str, str]:
    """A session at A, where the client's CONNECT at another node has just become known, which has begun another session
    meanwhile. Returns the world, the client, the node with the copy of A's session, and the other one."""
    w, client, keeper, (other,) = left_at_a()
    hold_back(w, other, "A", 6)
    hold_back(w, "A", other, 7)
    assert not client.go(w, other, wait=5.4).session_present
    client.send(SubscribePacket(9, (Subscription("other", 1),)))
    w.run(0.1)
    client.disconnect()
    w.run(0.6)
    return w, client, keeper, other


def copies(w: FederationWorld) -> dict[str, list[str]]:
    """Node -> of whose sessions it has copies."""
    return {name: list(node.federation.copies.here["me"]) for name, node in w.nodes.items()
            if node.is_live and "me" in node.federation.copies.here}


def test_a_session_that_was_begun_anew_and_not_used_takes_no_copies_of_the_former_one_with_it():
    """Its client may not have got CONNACK; the former node ends, and is found to have ended, only then."""
    w, client, keeper, (other,) = left_at_a()
    for source, dest in ((other, "A"), ("A", other)):
        hold_back(w, source, dest, 100)
    assert not client.go(w, other, wait=5.5).session_present
    client.cut()
    w.run(0.5)
    assert copies(w) == {keeper: ["A"]}
    w.crash("A")
    w.run(3)
    assert client.go(w, other, wait=3).session_present
    assert client.payloads() == numbered(0, 3)


def test_copies_of_a_session_of_which_nothing_comes_any_more_are_declared_void():
    w, client, keeper, (other,) = left_at_a()
    for source, dest in ((other, "A"), ("A", other)):
        hold_back(w, source, dest, 100)
    assert not client.go(w, other, wait=10).session_present
    assert "A" in copies(w)[keeper]
    client.disconnect()
    w.run(50)
    assert client.go(w, other, wait=8).session_present
    assert "A" not in copies(w).get(keeper, [])


@pytest.mark.parametrize("how", ["as its client is back", "as the other one ends", "as both"])
def test_a_session_that_stays_is_copied_again_though_its_copies_were_declared_void(how):
    """By the node that has begun another one: after so long that nothing came any more, or in an earlier version."""
    w, client, keeper, other = begun_anew()
    w.nodes[other].federation.send_event(keeper, EventKind.COPIES_VOID, text_body("me", OTHERS))
    w.nodes[other].settle()
    w.run(0.01)
    assert "A" not in copies(w).get(keeper, [])
    assert w.nodes["A"].federation.handovers.leaving
    if how != "as the other one ends":
        assert client.go(w, "A", wait=0.1).session_present
        client.disconnect()
    if how != "as its client is back":
        w.crash(other)
    w.run(5)
    assert copies(w) == {keeper: ["A"]}
    w.crash("A")
    w.run(3)
    client.number = 0
    assert client.go(w, keeper, wait=3).session_present
    assert client.payloads() == numbered(0, 3)


def test_what_a_node_that_ends_had_of_a_session_that_was_on_its_way_to_it_comes_from_its_copies():
    """It had the session from a copy; the node of the former one, which was paused, hands that over when it ends."""
    w = world("ABCD")
    client = subscribed(w, "A")
    w.pause("A")
    w.run(1)
    assert client.go(w, "B", wait=4).session_present
    client.disconnect()
    publish(w, "B", 3)
    hold_back(w, "B", "A", 5)                            # what B has for the filters of the former session
    w.resume("A")
    while "me" not in w.nodes["A"].federation.handovers.leaving:
        w.run(0.0005)
    for name in "CD":
        hold_back(w, name, "A", 2)                       # their fences: the former session is still at A when B ends
    w.crash("B")
    w.run(8)
    assert client.go(w, "C", wait=3).session_present
    assert client.payloads() == numbered(0, 3)


def test_a_node_that_asks_for_a_copy_by_an_earlier_claim_does_not_get_the_session_from_its_client():
    w, client, keeper, (asks,) = left_at_a()
    claim = 1                                            # of before any of these
    w.crash("A")
    w.run(3)
    assert client.go(w, keeper, wait=0.5).session_present
    w.nodes[asks].federation.send_event(keeper, EventKind.COPY_WANTED, wanted_body("A", "me", claim))
    w.run(6)
    assert sessions(w, "me") == ["A", keeper]            # that of A is as it ended
    publish(w, asks, 3, first=3)
    assert client.payloads() == numbered(0, 6)


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_went_on_to_a_node_that_has_ended_reaches_the_one_that_adopts_its_session(when: str) -> None:
    """D's message came late to A, which the session had left for B; B ends before it has it, or before A has it
    (mqtt 903340)."""
    nodes = world("ABCD", 2)
    client = subscribed(nodes, "A", "t", 2)
    publisher = nodes.client("D", "pub")
    nodes.run(0.2)
    hold_back(nodes, "D", "A", 8)
    publisher.publish("t", b"late", qos=1)
    assert client.go(nodes, "B", 6.0).session_present
    hold_back(nodes, "A", "B", 20)
    nodes.run(2.5 if when == "before" else 1.0)
    assert not client.has(PublishPacket)
    nodes.crash("B")
    nodes.run(5)
    client.number = 0
    assert client.go(nodes, "C", 3.0).session_present
    publisher.publish("t", b"direct", qos=1)
    nodes.run(1)
    assert sorted(client.payloads()) == [b"direct", b"late"]


def test_what_a_node_has_that_was_away_while_a_session_was_adopted_comes_when_it_is_back() -> None:
    """It acknowledged the message, as it is queued there for the session's node."""
    nodes = world("ABCD", 2)
    client = subscribed(nodes, "A", "t", 2)
    publisher = nodes.client("D", "pub")
    nodes.run(0.2)
    nodes.split("ABC", "D")
    nodes.run(1)
    publisher.publish("t", b"meanwhile", qos=1)
    assert publisher.has(PubAckPacket)
    nodes.crash("A")
    nodes.run(5)
    client.number = 0
    assert client.go(nodes, "B", 3.0).session_present
    nodes.heal()
    nodes.run(5)
    publisher.publish("t", b"later", qos=1)
    nodes.run(1)
    assert client.payloads() == [b"meanwhile", b"later"]


def test_what_two_nodes_that_have_ended_were_to_get_comes_once() -> None:
    """D's message is for A, which the session left early, and for B, where it was then; C adopts it from a copy."""
    nodes = world("ABCD", 2)
    client = subscribed(nodes, "A", "t", 1)
    nodes.client("A", "other").subscribe("t", qos=1)
    publisher = nodes.client("D", "pub")
    nodes.run(0.2)
    hold_back(nodes, "D", "A", 60)
    assert client.go(nodes, "B", 6.0).session_present
    nodes.run(0.2)
    hold_back(nodes, "D", "B", 60)
    publisher.publish("t", b"once", qos=1)
    nodes.crash("B")
    nodes.run(4)
    client.number = 0
    assert client.go(nodes, "C", 6.0).session_present
    got = client.payloads()
    nodes.crash("A")
    nodes.run(4)
    assert got + client.payloads() == [b"once"]


def test_what_was_sent_on_to_a_node_that_has_ended_and_to_itself_comes_once() -> None:
    """D's message was to come to B directly, and by A, which the session had left early; C adopts it."""
    nodes = world("ABCD", 2)
    client = subscribed(nodes, "A", "t", 1)
    nodes.client("A", "other").subscribe("t", qos=1)
    publisher = nodes.client("D", "pub")
    nodes.run(0.2)
    nodes.split("ABC", "D")
    nodes.run(1)
    assert client.go(nodes, "B", 1.0).session_present
    nodes.heal()
    of_peers = nodes.nodes["D"].federation.interest_of_peers.peers
    while "t" not in of_peers["B"].filters:
        nodes.run(0.0001)
    hold_back(nodes, "D", "B", 60)
    hold_back(nodes, "A", "B", 60)
    publisher.publish("t", b"once", qos=1)
    nodes.run(0.5)
    assert nodes.nodes["A"].federation.sent_on_to("B"), "A has sent it on"
    nodes.crash("B")
    nodes.run(5)
    client.number = 0
    assert client.go(nodes, "C", 6.0).session_present
    assert client.payloads() == [b"once"]
