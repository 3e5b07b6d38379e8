"""Sessions that move between nodes: one connection per client id, nothing lost, nothing twice (Q10)."""
from __future__ import annotations

from random import Random
from typing import Any

import pytest

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.session import Delivery, GrantedOptions, LateMessages, LateSource
from jgroups_py.blocks.mqtt.codec.packets import (
    ConnAckPacket,
    ConnectPacket,
    PingReqPacket,
    Properties,
    PubAckPacket,
    PublishPacket,
    PubRecPacket,
    PubRelPacket,
    ReasonCode,
    SubscribePacket,
    Subscription,
    Will,
)
from jgroups_py.blocks.mqtt.federation.handover import ArrivingPart, ArrivingSession, Handovers
from jgroups_py.blocks.mqtt.federation.interest import GroupTurns
from jgroups_py.blocks.mqtt.federation.left_early import LeftEarly
from jgroups_py.blocks.mqtt.federation.sessions import QueuedDelivery, SessionMoved
from jgroups_py.blocks.mqtt.federation.tables import key_of
from jgroups_py.blocks.mqtt.federation.wire import EventKind
from tests.unit.blocks.mqtt.clients import SECOND, Client
from tests.unit.blocks.mqtt.federation_world import FederationWorld

SESSION: dict[str, Any] = {"clean_start": False, "session_expiry_interval": 1_000}


class FormerConnection:
    """What is still sent to a connection that the client has left behind arrives nowhere."""

    def take(self, output: Any) -> None:
        """Nothing."""


class Roaming(Client):
    """A client that connects where it is told to, and waits for CONNACK while time passes."""

    def go(
        self, world: FederationWorld, name: str, wait: float = 0.5, clean_start: bool = False,
    ) -> ConnAckPacket | None:
        """Connect to a node; the answer, if it came in time. What was not answered there is forgotten."""
        if self.number:
            self.bench.clients[self.number] = FormerConnection()
        self.bench = world.nodes[name]
        self.open()
        self.bench.broker.received(self.number, (ConnectPacket(
            self.client_id, self.version, clean_start, properties=Properties(session_expiry_interval=1_000)),),
            world.now_ns)
        self.bench.settle()
        world.run(wait)
        return self.answer(ConnAckPacket) if self.has(ConnAckPacket) else None


def roaming(world: FederationWorld, name: str, client_id: str = "sub") -> Roaming:
    client = Roaming(world.nodes[name], client_id, Client.DEFAULT)
    assert client.go(world, name)
    return client


def roaming_subscriber(
    nodes: str, filter: str, qos: int, publisher: str,
) -> tuple[FederationWorld, Roaming, Client]:
    """Nodes that know that a client at A has subscribed, and a client at another node (or at A) that will publish."""
    world = FederationWorld(nodes)
    client = roaming(world, "A")
    client.subscribe(filter, qos=qos)
    other = world.client(publisher, "pub")
    world.run(0.2)
    return world, client, other


def numbered(first: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, stop)]


def sessions(world: FederationWorld, client_id: str) -> list[str]:
    return [name for name, node in world.nodes.items() if client_id in node.broker.sessions]


def test_the_old_connection_is_closed_and_the_queue_of_a_thousand_moves():
    world = FederationWorld("ABC")
    client = roaming(world, "A")
    client.subscribe("t/#", qos=1)
    publisher = world.client("C", "pub")
    world.run(0.1)
    old = client.number, client.bench
    client.acks = False
    for number in range(1_000):
        publisher.publish("t/x", b"%d" % number, qos=1)
    world.run(0.5)
    had = client.payloads()
    assert had == numbered(0, 1_000), "in flight"
    client.acks = True
    answer = client.go(world, "B")
    assert answer is not None
    assert answer.session_present
    assert old[0] not in old[1].broker.connections
    assert client.payloads() == numbered(0, 1_000), "repeated, in order"
    assert all(message.dup for message in client.messages)
    assert sessions(world, "sub") == ["B"]
    publisher.publish("t/x", b"later", qos=1)
    world.run(0.1)
    assert client.payloads() == [b"later"]
    world.check_trees()


def test_a_connection_at_another_node_gets_0x8e():
    world = FederationWorld("AB")
    first = roaming(world, "A")
    second = Roaming(world.nodes["B"], "sub", Client.DEFAULT)
    assert second.go(world, "B", 1.0)
    assert first.closed is not None
    assert first.closed.reason is ReasonCode.SESSION_TAKEN_OVER
    assert second.closed is None


def test_messages_that_come_while_a_session_moves():
    """In order, once each, of publishers at all nodes."""
    world = FederationWorld("ABCD")
    client = roaming(world, "A")
    client.subscribe("t/#", qos=2)
    publishers = {name: world.client(name, f"pub{name}") for name in "ABCD"}
    world.run(0.1)
    got: list[bytes] = []
    for number in range(400):
        name = "ABCD"[number % 4]
        publishers[name].publish(f"t/{name}", b"%d" % number, qos=2)
        if number % 100 == 50:
            got += client.payloads()
            client.go(world, "BCDA"[number // 100], 0.0)
        world.run(0.001)
    world.run(2)
    got += client.payloads()
    assert sorted(got, key=int) == numbered(0, 400)
    for name in range(4):
        assert [int(each) for each in got if int(each) % 4 == name] == list(range(name, 400, 4)), "Q3"
    assert sessions(world, "sub") == ["A"]


def test_qos_2_in_both_directions_moves_where_it_stands():
    world = FederationWorld("AB")
    client = roaming(world, "A")
    client.subscribe("t", qos=2)
    publisher = world.client("A", "pub")
    client.acks = False
    publisher.publish("t", b"first", qos=2)
    publisher.publish("t", b"second", qos=2)
    first, second = client.messages
    client.send(PubRecPacket(first.packet_id))
    assert client.answer(PubRelPacket).packet_id == first.packet_id
    client.send(PublishPacket("elsewhere", b"x", 2, packet_id=77))
    assert client.answer(PubRecPacket).packet_id == 77
    client.messages.clear()
    answer = client.go(world, "B")
    assert answer is not None
    repeated, = client.messages
    assert (repeated.packet_id, repeated.payload, repeated.dup) == (second.packet_id, b"second", True)
    assert client.answer(PubRelPacket).packet_id == first.packet_id
    watcher = world.client("B", "watcher")
    watcher.subscribe("elsewhere", qos=2)
    client.send(PublishPacket("elsewhere", b"x", 2, dup=True, packet_id=77))
    assert client.answer(PubRecPacket).packet_id == 77
    world.run(0.2)
    assert watcher.payloads() == [], "it was routed at the first node"


def test_a_session_that_goes_on_before_all_has_come_gives_no_packet_id_that_the_client_may_have():
    """The client has got a message of QoS 2 at its former node, which answers too late."""
    world = FederationWorld("AB")
    client = roaming(world, "A")
    client.subscribe("t", qos=2)
    client.acks = False
    world.client("A", "own").publish("t", b"x", qos=2)
    first, = client.messages
    assert client.go(world, "B", 0) is None
    while "sub" not in world.nodes["B"].broker.sessions:
        world.run(0.0005)
    hold_back(world, "A", "B", 9)
    world.run(6)
    assert client.answer(ConnAckPacket).session_present
    world.client("B", "other").publish("t", b"y", qos=2)
    second = client.messages[-1]
    assert second.payload == b"y"
    assert second.packet_id != first.packet_id, "a client takes it for a repetition of the first one (Q10)"


def test_a_clean_start_elsewhere_ends_the_session():
    world = FederationWorld("AB")
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    world.run(0.1)
    answer = client.go(world, "B", 0.0, clean_start=True)
    assert answer is not None
    assert not answer.session_present
    world.run(0.2)
    assert sessions(world, "sub") == ["B"]
    assert not world.nodes["A"].federation.own.filters


def test_packet_ids_of_a_session_that_a_clean_start_has_ended_late_are_not_given_again():
    """A did not know of it when the client came back, and has sent it QoS 2 since (mqtt 953282)."""
    world = FederationWorld("AB")
    client = roaming(world, "A")
    client.subscribe("t", qos=2)
    world.run(0.1)
    hold_back(world, "B", "A", 3)
    assert not client.go(world, "B", clean_start=True).session_present
    client.subscribe("t", qos=2)
    assert client.go(world, "A").session_present, "it does not know better"
    client.acks = False
    publisher = world.client("A", "publisher")
    for payload in (b"1", b"2", b"3"):
        publisher.publish("t", payload, 2)
    begun = {each.packet_id for each in client.messages}
    assert len(begun) == 3
    world.run(4)
    assert client.go(world, "B").session_present
    world.client("B", "other publisher").publish("t", b"next", 2)
    assert client.messages[-1].payload == b"next"
    assert client.messages[-1].packet_id not in begun, "the client takes it for a repetition"


def test_packets_that_come_before_connack_wait():
    world = FederationWorld("AB")
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    world.run(0.1)
    assert client.go(world, "B", 0.0) is None
    client.send(PublishPacket("t", b"early", 1, packet_id=5))
    assert not client.has(PubAckPacket)
    world.run(0.5)
    assert client.answer(ConnAckPacket).session_present
    assert client.answer(PubAckPacket).packet_id == 5
    assert client.payloads() == [b"early"]


@pytest.mark.parametrize("fault", ["crash", "pause"])
def test_an_owner_that_does_not_answer_is_not_waited_for(fault):
    """Q11."""
    world = FederationWorld("AB", handover_s=2.0)
    client = roaming(world, "A")
    getattr(world, fault)("A")
    assert client.go(world, "B", 0.0) is None
    world.run(3)
    assert client.answer(ConnAckPacket).reason is ReasonCode.SUCCESS
    if fault == "pause":
        world.resume("A")
        world.run(5)
        assert sessions(world, "sub") == ["B"]
        assert client.closed is None


@pytest.mark.parametrize("how", ["the network connection ends", "the client connects elsewhere", "both"])
@pytest.mark.parametrize("word", ["nothing", "a ping", "early packets"])
def test_a_client_that_may_not_have_got_connack_learns_later_that_its_session_is_lost(how, word):
    """It had to wait for `handover_s`, its session did not come, and another one was begun. If nothing has come from
    it since, it may have gone before CONNACK, and takes that one for the former (mqtt 942871)."""
    world = FederationWorld("ABC", handover_s=2.0)
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    world.run(0.2)
    world.detect_ns = 100 * SECOND
    world.crash("A")
    assert client.go(world, "B", 0.0) is None
    if word == "early packets":
        client.send(PingReqPacket())
    world.run(3)
    assert not client.answer(ConnAckPacket).session_present
    if word == "a ping":
        client.send(PingReqPacket())
    if how != "the client connects elsewhere":
        client.cut()
        assert ("sub" in world.nodes["B"].broker.sessions) is (word != "nothing")
    home = "B" if how == "the network connection ends" else "C"
    assert client.go(world, home, 5.0).session_present is (word != "nothing")
    assert sessions(world, "sub") == ["A", home]         # that of A is as it ended


def test_a_session_that_ends_unheard_takes_no_owner_with_it():
    """The client has another one in another part of the group, which would never be told that that is the one (mqtt
    972641)."""
    world = FederationWorld("ABC", handover_s=2.0)
    client = roaming(world, "A")
    world.split("A", "BC")
    assert not client.go(world, "B", 3.0).session_present
    unheard = client.number
    world.split("A", "B", "C")
    world.run(1)
    assert not client.go(world, "C", 3.0).session_present
    client.send(PingReqPacket())
    world.nodes["B"].broker.lost(unheard, world.now_ns)
    world.nodes["B"].settle()
    assert sessions(world, "sub") == ["A", "C"]
    world.heal()
    world.run(5)
    assert sessions(world, "sub") == ["C"]
    assert [node.federation.session_node("sub") for node in world.nodes.values()] == ["C"] * 3


def with_will(world: FederationWorld, name: str, payload: bytes, wait: float) -> Client:
    """A client whose session and will last."""
    client = Client(world.nodes[name], "me", Client.DEFAULT)
    client.open()
    client.send(ConnectPacket("me", client.version, False, will=Will("will", payload, 1, properties=Properties(
        will_delay_interval=20)), properties=Properties(session_expiry_interval=1_000)))
    world.run(wait)
    assert client.has(ConnAckPacket)
    return client


def test_of_two_parts_of_a_split_group_the_wills_of_both_connections_come():
    """Neither node knows which of them was the later one (mqtt 970400)."""
    world = FederationWorld("ABC")
    watcher = world.client("C", "watcher")
    watcher.subscribe("will", qos=1)
    world.split("A", "BC")
    world.run(1)
    clients = [with_will(world, name, name.encode(), 0.5) for name in "AB"]
    for client in clients:
        client.cut()
    world.heal()
    world.run(30)
    assert len(sessions(world, "me")) == 1
    assert sorted(watcher.payloads()) == [b"A", b"B"]


def test_the_will_of_a_connection_before_does_not_come_behind_its_session():
    """The client had to go on without its session, and has gone when that comes: with the will of its last connection
    alone."""
    world = FederationWorld("ABC", handover_s=2.0)
    watcher = world.client("C", "watcher")
    watcher.subscribe("will", qos=1)
    with_will(world, "A", b"A", 0.5)
    hold_back(world, "B", "A", 3)
    client = with_will(world, "B", b"B", 2.5)
    client.send(PingReqPacket())
    client.cut()
    world.run(30)
    assert sessions(world, "me") == ["B"]
    assert watcher.payloads() == [b"B"]


def test_an_empty_session_that_has_come_is_kept_though_its_client_goes_at_once():
    world = FederationWorld("AB")
    client = roaming(world, "A")
    for _ in range(2):
        assert client.go(world, "B").session_present
        client.cut()


def test_two_halves_keep_one_each_and_the_later_one_stays():
    world = FederationWorld("AB")
    early = roaming(world, "A")
    early.subscribe("t", qos=1)
    world.run(0.2)
    world.split("A", "B")
    world.run(1)
    late = Roaming(world.nodes["B"], "sub", Client.DEFAULT)
    answer = late.go(world, "B", 0.0)
    assert answer is not None
    assert not answer.session_present
    early.acks = False
    world.client("A", "pubA").publish("t", b"of the first half", qos=1)
    world.run(1)
    world.heal()
    world.run(5)
    assert early.closed is not None
    assert early.closed.reason is ReasonCode.SESSION_TAKEN_OVER
    assert late.closed is None
    assert late.payloads() == [b"of the first half"]
    assert sessions(world, "sub") == ["B"]
    assert "t" in world.nodes["B"].broker.sessions["sub"].subscriptions


@pytest.mark.parametrize("back", [False, True], ids=["gone", "started again"])
def test_a_session_in_use_takes_an_older_one_though_the_table_has_a_node_that_has_ended(back):
    """The client goes from D to A, whose clock is ahead, and A ends before D has handed over; meanwhile it has gone on
    to B, in another part of the group."""
    world = FederationWorld("ABCD")
    client = roaming(world, "D")
    client.subscribe("t", qos=1)
    world.run(0.2)
    world.split("ACD", "B")
    world.run(1)
    world.nodes["A"].federation.wall_offset_ns += 30 * SECOND
    client.acks = False
    world.client("D", "pubD").publish("t", b"before", qos=1)
    world.run(0.1)
    hold_back(world, "C", "D", 20)                       # so D waits for its fence
    client.go(world, "A", 0.1)
    late = Roaming(world.nodes["B"], "sub", Client.DEFAULT)
    assert late.go(world, "B", 0.0) is not None
    world.crash("A")
    world.run(1)
    if back:
        world.start("A")
        world.run(1)
    world.heal()
    world.run(5)
    running = "ABCD" if back else "BCD"
    assert [name for name in running if "sub" in world.nodes[name].broker.sessions] == ["B"]
    assert late.closed is None
    assert late.payloads() == [b"before"]


def hold_back(world: FederationWorld, source: str, dest: str, seconds: float) -> None:
    """What one node sends to another arrives so much later."""
    link = world.nodes[source].handle, world.nodes[dest].handle
    at_ns = world.now_ns + round(seconds * SECOND)
    world._links[link].append((at_ns, b""))
    world.later(at_ns - world.now_ns, lambda: world._arrive(link))


def test_what_comes_late_to_the_new_node_does_not_come_twice():
    """A peer sends to both nodes, as another client at the new one has the filter too."""
    world = FederationWorld("ABC")
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    world.client("B", "other").subscribe("t", qos=1)
    publisher = world.client("C", "pub")
    world.run(0.2)
    hold_back(world, "C", "B", 0.3)
    publisher.publish("t", b"once", qos=1)
    world.run(0.1)
    got = client.payloads()
    client.go(world, "B", 1.0)
    assert got + client.payloads() == [b"once"]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("steps", ["B", "BC"], ids=["", "and-it-moves-again"])
def test_what_a_node_sent_to_the_former_node_comes_behind_the_session(qos, steps):
    """D has acknowledgements to give, but what it sends to A takes longer than A waits for it."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 2, publisher="D")
    hold_back(world, "D", "A", 9)
    publisher.publish("t", b"late", qos=qos)
    got = []
    for name in steps:
        assert client.go(world, name, 6.0).session_present
        got += client.payloads()
    assert world.sent("A", "handover_timeouts") == 1
    publisher.publish("t", b"direct", qos=qos)
    world.run(6)
    assert sorted(got + client.payloads()) == [b"direct", b"late"]
    assert world.sent("A", "dropped_unwanted") == 0
    world.run(130)
    assert not any(node.federation.handovers.left_early.by_client for node in world.nodes.values())
    assert world.nodes[steps[-1]].broker.sessions["sub"].late is None


def test_what_comes_by_the_former_node_and_directly_comes_once():
    """Another client at the new node has the filter too, so what is published meanwhile takes both ways."""
    world = FederationWorld("ABD")
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    world.client("B", "other").subscribe("t", qos=1)
    publisher = world.client("D", "pub")
    world.run(0.2)
    hold_back(world, "D", "A", 9)
    assert client.go(world, "B", 1.0) is None, "it waits for D's fence"
    for number in range(10):
        publisher.publish("t", b"%d" % number, qos=1)
    world.run(12)
    assert sorted(client.payloads()) == numbered(0, 10)


def test_what_came_by_the_former_node_does_not_come_again_directly():
    world = FederationWorld("ABD")
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    world.client("B", "other").subscribe("t", qos=1)
    publisher = world.client("D", "pub")
    world.run(0.2)
    hold_back(world, "D", "A", 7)
    hold_back(world, "D", "B", 9)
    publisher.publish("t", b"once", qos=1)
    client.go(world, "B", 15.0)
    assert client.payloads() == [b"once"]


def test_a_clean_start_wants_nothing_that_comes_late():
    world, client, publisher = roaming_subscriber("ABD", "t", 1, publisher="D")
    hold_back(world, "D", "A", 9)
    publisher.publish("t", b"late", qos=1)
    client.go(world, "B", 6.0)
    client.go(world, "B", 1.0, clean_start=True)
    client.subscribe("t", qos=1)
    world.run(6)
    assert client.payloads() == []
    assert world.sent("B", "dropped_handover") == 1


def test_a_shared_message_that_comes_directly_while_a_session_moves_is_kept():
    """It goes to one node alone, so what the former node has had does not matter."""
    world, client, publisher = roaming_subscriber("ABC", "$share/g/t", 1, publisher="A")
    hold_back(world, "C", "A", 0.5)                      # so the fence is late
    client.go(world, "B", 0.1)
    for number in range(10):
        publisher.publish("t", b"%d" % number, qos=1)
    world.run(2)
    assert sorted(client.payloads()) == numbered(0, 10)


def test_a_copy_that_is_given_up_keeps_no_shared_message():
    """The client goes on to a third node before its session has come to the second one."""
    world, client, publisher = roaming_subscriber("ABC", "$share/g/t", 1, publisher="C")
    hold_back(world, "C", "A", 0.5)
    client.go(world, "B", 0.1)
    for number in range(10):
        publisher.publish("t", b"%d" % number, qos=1)
    world.run(0.01)
    client.go(world, "A", 3.0)
    assert sorted(client.payloads()) == numbered(0, 10)


def ahead_of_a_shared_message(nodes: str, qos: int) -> tuple[FederationWorld, Roaming]:
    """A session has moved from A to B. D's message for its group comes late to A, which knows of no member at B."""
    world, client, publisher = roaming_subscriber(nodes, "$share/g/t", qos, publisher="D")
    hold_back(world, "D", "A", 9)
    publisher.publish("t", b"late", qos=qos)
    client.go(world, "B", 0.0)                           # its claim is on its way to A
    hold_back(world, "B", "A", 12)                       # and does not know that B has a member
    world.run(6)
    assert client.answer(ConnAckPacket).session_present
    return world, client


def test_a_shared_message_that_comes_late_to_the_former_node_goes_to_the_session():
    """No other node is known to have a member: the session's next one has not told yet, or its word is on its way."""
    world, client = ahead_of_a_shared_message("ABD", 2)
    world.run(12)
    assert client.payloads() == [b"late"]
    assert not any(world.sent(name, "dropped_no_member") for name in "ABD")


@pytest.mark.parametrize("is_there", [True, False])
def test_what_a_session_had_that_has_ended_goes_back_to_where_it_was_published(is_there):
    """B does not know yet that there is a member at A (mqtt 983086)."""
    world = FederationWorld("AB")
    former = roaming(world, "B")
    former.subscribe("$share/g/t", qos=1)
    world.run(0.1)
    former.cut()
    world.client("A", "pub").publish("t", b"once", qos=1)
    world.run(0.1)
    hold_back(world, "A", "B", 2)
    member = world.client("A", "member")
    if is_there:
        member.subscribe("$share/g/t", qos=1)
    former.go(world, "B", 0.1, clean_start=True)
    world.run(5)
    assert member.payloads() == [b"once"] * is_there
    assert sum(world.sent(name, "dropped_no_member") + world.nodes[name].broker.counters["dropped_no_member"]
               for name in "AB") == 1 - is_there, "and comes to an end if there is none"


def test_a_shared_message_whose_members_have_all_ended_does_not_go_round_for_ever():
    """A sends it to where a member has moved, whose session has ended, so it comes back to A (mqtt-expiry 117)."""
    world = FederationWorld("AB")
    handovers = world.nodes["A"].federation.handovers
    handovers.left_early.add("sub", LeftEarly(
        "B", 5, world.now_ns + 100 * SECOND, {"B": None}, {"$share/g/t": GrantedOptions(1)}, {}, None))
    publication = Publication("t", b"round", 1)
    world.nodes["A"].federation.number_as_own(publication)
    handovers._host.send_onward("B", EventKind.QUEUED, QueuedDelivery(
        "sub", 5, 0, Delivery(publication, 1, False, group="$share/g/t")).encode(world.now_ns))
    world.nodes["A"].settle()
    world.run(5)
    assert world.sent("B", "rerouted") == 2
    assert sum(world.sent(name, "dropped_no_member") for name in "AB") == 1, "and is counted"


@pytest.mark.parametrize(("qos", "packet_id"), [(1, 0), (1, 7), (2, 0), (2, 7)])
def test_a_clean_start_leaves_shared_messages_to_other_members_that_had_come_of_the_session(qos, packet_id):
    """But for one of QoS 2 that was begun."""
    world = FederationWorld("AB")
    other = world.client("B", "other")
    other.subscribe("$share/g/t", qos=2)
    delivery = Delivery(Publication("t", b"moved", qos), qos, False, group="$share/g/t")
    world.nodes["B"].federation.handovers.arriving["sub"] = ArrivingSession(
        world.now_ns + SECOND, False, {(5, "A"): ArrivingPart([QueuedDelivery("sub", 5, packet_id, delivery)])})
    Roaming(world.nodes["B"], "sub", Client.DEFAULT).go(world, "B", 0, clean_start=True)
    assert other.payloads() == [b"moved"] * (not (qos == 2 and packet_id))
    assert world.sent("B", "dropped_handover") == (qos == 2 and packet_id > 0)


@pytest.mark.parametrize("behind", [True, False])
def test_what_came_for_a_session_that_never_came_is_not_dropped_in_silence(behind):
    world = FederationWorld("AB", handover_s=1)
    other = world.client("B", "other")
    other.subscribe("$share/g/t", qos=1)
    came = [QueuedDelivery("sub", 5, 0, Delivery(Publication("t", b"moved", 1), 1, False, group=group))
            for group in ("$share/g/t", "")]
    part = ArrivingPart(behind=came) if behind else ArrivingPart(came)
    world.nodes["B"].federation.handovers.arriving["sub"] = ArrivingSession(world.now_ns, False, {(5, "A"): part})
    world.run(12)
    assert other.payloads() == [b"moved"]
    assert world.sent("B", "dropped_handover") == 1, "the message that no session is there for is counted"


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_session_that_ends_in_one_part_of_a_split_group_hides_none_of_the_other_part(is_clean):
    """The session at A went on where no table had it, and nobody found it; nor did a clean start end it."""
    world = FederationWorld("ABC", handover_s=1, keep_peer_s=100)
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    world.run(0.2)
    client.cut()
    world.split("A", "BC")
    world.run(2)
    client.go(world, "B", clean_start=is_clean)
    client.disconnect(session_expiry_interval=0)
    world.run(1)
    world.heal()
    world.run(3)
    world.client("C", "pub").publish("t", b"after", qos=1)
    world.run(1)
    assert len(sessions(world, "sub")) == (not is_clean)
    answer = client.go(world, "C")
    assert answer is not None
    assert (answer.session_present, client.payloads()) == (not is_clean, [b"after"] * (not is_clean))
    client.disconnect(session_expiry_interval=0)
    world.run(20)
    assert all(node.federation.handovers.owner_of("sub") is None for node in world.nodes.values()), "nor an entry"


def test_a_copy_that_is_given_up_keeps_nothing_that_came_late_for_it():
    world = FederationWorld("AB")
    other = world.client("B", "other")
    other.subscribe("$share/g/t", qos=1)
    handovers = world.nodes["B"].federation.handovers
    late = QueuedDelivery("sub", 5, 0, Delivery(Publication("t", b"late", 1), 1, False, group="$share/g/t"))
    handovers.arriving["sub"] = ArrivingSession(
        world.now_ns + SECOND, False, {(5, "A"): ArrivingPart(behind=[late])}, is_copy=True)
    moved = SessionMoved("sub", 5, False, is_redirected=True)
    assert handovers.event_came("A", EventKind.MOVED, moved.encode(), world.now_ns)
    world.nodes["B"].settle()
    assert other.payloads() == [b"late"]


def owners(world: FederationWorld, client_id: str = "sub") -> list[str | None]:
    """The node that each node takes for the owner."""
    found = [node.federation.handovers.owner_of(client_id) for node in world.nodes.values()]
    return [None if owner is None else owner.node for owner in found]


def test_the_owner_of_a_session_that_has_ended_stays_for_some_time():
    """So that it does not delete the next one, which is not known there yet (mqtt-expiry 217)."""
    world = FederationWorld("ABC", handover_s=2)
    client = roaming(world, "A")
    client.disconnect(session_expiry_interval=0)
    world.run(1)
    assert owners(world) == ["A", "A", "A"]
    assert not client.go(world, "A").session_present
    world.run(4)
    assert owners(world) == ["A", "A", "A"], "that of the next one"
    assert client.go(world, "B").session_present
    client.disconnect(session_expiry_interval=0)
    world.run(3)
    assert owners(world) == [None, None, None]


def test_a_node_forgets_the_owners_of_its_former_life(monkeypatch):
    """Its sessions have ended with it. Those of clients that have come back are others'."""
    monkeypatch.setattr("jgroups_py.blocks.mqtt.federation.handover.READ_AT_ONCE", 2)
    world = FederationWorld("AB", handover_s=1, keep_peer_s=20)
    clients = [roaming(world, "A", name) for name in ("one", "two", "three", "again", "moved")]
    there = roaming(world, "B", "there")
    world.crash("A")
    world.run(1)
    world.start("A")
    world.views()
    world.run(1)
    clients[3].go(world, "A")
    clients[4].go(world, "B")
    world.run(15)
    assert [owners(world, client.client_id) for client in clients[:3]] == [["A", "A"]] * 3
    world.run(10)
    assert [owners(world, client.client_id) for client in clients] == [
        [None, None], [None, None], [None, None], ["A", "A"], ["B", "B"]]
    assert owners(world, there.client_id) == ["B", "B"]


def test_not_too_many_owners_stay(monkeypatch):
    monkeypatch.setattr("jgroups_py.blocks.mqtt.federation.handover.MAX_OUTLIVED", 2)
    world = FederationWorld("AB")
    clients = [roaming(world, "A", name) for name in ("one", "two", "three")]
    for client in (*clients[:2], clients[0], clients[2]):
        if not client.number:
            client.go(world, "A")
        client.disconnect(session_expiry_interval=0)
    world.run(0.1)
    assert [owners(world, client.client_id) for client in clients] == [["A", "A"], [None, None], ["A", "A"]]


def test_a_session_is_found_though_its_owner_was_deleted():
    """By a node that took itself for the owner when another session of the client ended there."""
    world = FederationWorld("ABC")
    client = roaming(world, "B")
    world.nodes["A"].federation.set_owner(key_of("sub"), None, world.now_ns)
    world.nodes["A"].settle()
    world.run(0.2)
    assert owners(world) == ["B", "B", "B"]
    assert client.go(world, "C").session_present


def test_a_session_that_is_on_its_way_does_not_begin_again_if_its_owner_is_written_again():
    world = FederationWorld("ABC")
    client = roaming(world, "A")
    hold_back(world, "C", "A", 2)
    client.go(world, "B", 0.2)
    handovers = world.nodes["A"].federation.handovers
    leaving, owner = handovers.leaving["sub"], handovers.owner_of("sub")
    assert owner is not None
    handovers.owner_changed(owner, None, world.now_ns)
    assert handovers.leaving["sub"] is leaving


def test_the_owner_of_a_session_that_ended_unheard_goes_from_the_table():
    world = FederationWorld("AB", handover_s=1)
    client = roaming(world, "A")
    world.pause("A")
    client.go(world, "B", 1.2)
    assert sessions(world, "sub") == ["A", "B"]
    client.cut()
    world.run(0.1)
    assert "sub" not in world.nodes["B"].broker.sessions
    world.crash("A")
    world.run(2)
    assert world.nodes["B"].federation.handovers.owner_of("sub") is not None
    world.start("A")
    world.views()
    world.run(20)
    assert world.nodes["B"].federation.handovers.owner_of("sub") is None


@pytest.mark.parametrize("then", ["clean start", "clean start, and a split", "end"])
def test_a_shared_message_that_comes_late_for_a_session_that_has_ended_goes_to_another_member(then):
    """The late one of D goes by A to B, where a clean start has ended the session since (mqtt 957625)."""
    world, client = ahead_of_a_shared_message("ABCD", 1)
    client.go(world, "B", 0.1, clean_start=True)
    if then == "end":
        client.disconnect(session_expiry_interval=0)
    elif then != "clean start":
        world.split("ABC", "D")                          # so more may come late for the new session, of another move
        world.run(1)
        client.go(world, "C")
        world.heal()
    other = world.client("B", "other")
    other.subscribe("$share/g/t", qos=1)
    world.run(12)
    assert other.payloads() == [b"late"]
    assert client.payloads() == []


def test_a_shared_message_for_a_member_that_is_no_more_comes_back_to_a_member_of_its_own_node():
    """Its node chose B, whose member has just ended, and B does not know of the new member there."""
    world = FederationWorld("AB")
    former = world.client("B", "former")
    former.subscribe("$share/g/t", qos=2)
    publisher, member = world.client("A", "pub"), world.client("A", "member")
    world.run(0.2)
    hold_back(world, "B", "A", 1)                        # A does not see that it ends
    former.disconnect()
    hold_back(world, "A", "B", 0.5)
    publisher.publish("t", b"once", qos=2)
    member.subscribe("$share/g/t", qos=2)
    world.nodes["B"].federation.interest_of_peers.change = lambda name, told: []     # type: ignore[method-assign]
    world.run(3)
    assert member.payloads() == [b"once"]
    assert world.sent("B", "rerouted") == 1


def test_a_shared_message_that_is_given_on_is_acknowledged_when_the_other_node_has_it():
    """B's member has just ended, and B gives the message to C: until that has it, B alone does (mqtt-slow 1300)."""
    world = FederationWorld("ABC", silent_s=60)
    former, member = world.client("B", "former"), world.client("C", "member")
    former.subscribe("$share/g/t", qos=1)
    publisher = world.client("A", "pub")
    world.run(0.2)
    hold_back(world, "B", "A", 0.05)                     # A does not see that it ends
    former.disconnect()
    hold_back(world, "C", "A", 0.05)                     # nor the new one
    member.subscribe("$share/g/t", qos=1)
    world.run(0.03)
    hold_back(world, "B", "C", 1)
    publisher.publish("t", b"once", qos=1)
    world.run(0.7)
    assert world.sent("B", "rerouted") == 1
    assert not publisher.has(PubAckPacket), "B ends, and it is lost"
    world.run(0.6)
    assert publisher.has(PubAckPacket)
    assert member.payloads() == [b"once"]


def deaf(world: FederationWorld, name: str) -> None:
    """From now on a node is not told of changes of filters."""
    world.nodes[name].federation.interest_of_peers.change = lambda name, told: []    # type: ignore[method-assign]


@pytest.mark.parametrize("former", ["B", "BC"], ids=["one-node", "two-nodes"])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_shared_message_that_nodes_without_a_member_give_back_goes_to_the_member(former, qos):
    """Their members have just ended, which A does not know; and they know of none (seeds 46236, 48664)."""
    world = FederationWorld("ABCD")
    clients = [world.client(name, f"former-{name}") for name in former]
    for client in clients:
        client.subscribe("$share/g/t", qos=2)
    world.run(0.2)
    for name in former:
        deaf(world, name)
    publisher, member = world.client("A", "pub"), world.client("D", "member")
    member.subscribe("$share/g/t", qos=2)
    world.run(0.2)
    deaf(world, "A")
    for client in clients:
        client.disconnect()
    for number in range(12):
        publisher.publish("t", b"%d" % number, qos=qos)
    world.run(3)
    assert sorted(member.payloads()) == sorted(numbered(0, 12)), "Q6: each message comes to a member, once"
    assert not any(world.sent(name, "dropped_no_member") for name in "ABCD")


def test_a_shared_message_comes_to_a_member_at_a_node_that_has_just_given_it_back():
    """B has given it back, and has a member before C has given it back, too."""
    world = FederationWorld("ABC")
    former = [world.client(name, f"former-{name}") for name in "BC"]
    for client in former:
        client.subscribe("$share/g/t", qos=2)
    publisher, member = world.client("A", "pub"), world.client("B", "member")
    for name in "BC":                                    # they do not know each other's members
        deaf(world, name)
    world.run(0.2)
    deaf(world, "A")
    for client in former:
        client.disconnect()
    world.run(0.2)
    hold_back(world, "A", "C", 1)
    world.nodes["A"].federation.groups.turns["g", "t"] = GroupTurns({"B": 1})
    publisher.publish("t", b"once", qos=1)
    world.run(0.2)
    assert world.sent("B", "rerouted") == 1
    member.subscribe("$share/g/t", qos=2)
    world.run(3)
    assert member.payloads() == [b"once"]


def test_a_shared_message_of_an_ended_session_comes_back_to_a_member_without_a_connection():
    """B gives it to A, which had a member with a connection, but has none any more; B has one without."""
    world = FederationWorld("AB")
    offline, ended = world.client("B", "offline", **SESSION), world.client("B", "ended")
    for client in (offline, ended):
        client.subscribe("$share/g/t", qos=1)
    offline.disconnect()
    publisher, other = world.client("A", "pub"), world.client("A", "other")
    world.run(0.2)
    ended.acks = False
    publisher.publish("t", b"once", qos=1)
    world.run(0.2)
    assert ended.payloads() == [b"once"]
    other.subscribe("$share/g/t", qos=1)
    world.run(0.2)
    deaf(world, "B")
    other.disconnect()
    ended.disconnect()
    world.run(0.2)
    offline.connect(**SESSION)
    assert offline.payloads() == [b"once"]
    assert not any(world.sent(name, "dropped_no_member") for name in "AB")


def test_what_waits_for_a_nodes_filters_is_in_front_of_the_fence():
    """C sees A again and does not have its filters yet. The session goes from A to B, and with it A's filter."""
    world, client, publisher = roaming_subscriber("ABC", "t", 1, publisher="C")
    node = world.nodes["A"].federation
    world.split("AB", "C")
    world.run(2)
    send_tree, node._send_tree = node._send_tree, lambda peer: None          # type: ignore[method-assign]
    world.heal()
    world.run(0.3)
    publisher.publish("t", b"undecided", qos=1)
    client.go(world, "B", 0.3)
    node._send_tree = send_tree                          # type: ignore[method-assign]
    world.run(3)
    assert client.answer(ConnAckPacket).session_present
    assert client.payloads() == [b"undecided"]


def test_a_shared_message_that_another_node_gives_on_says_nothing_of_what_its_publisher_has_sent():
    """C's stream to A is slow, D gives A a later message of C for a group, and the session goes from A to B with what A
    has had of each origin."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 1, publisher="C")
    former = world.client("D", "former")
    former.subscribe("$share/g/s", qos=1)
    world.run(0.2)
    hold_back(world, "C", "A", 6)                        # the fence, so A does not wait for it
    hold_back(world, "A", "C", 6)
    hold_back(world, "D", "C", 3)                        # C sees neither that A's member is there nor that D's ends
    member = world.client("A", "member")
    member.subscribe("$share/g/s", qos=1)
    client.go(world, "B", 0.2)
    publisher.publish("t", b"direct", qos=1)
    former.disconnect()
    publisher.publish("s", b"given on", qos=1)
    world.run(1)
    assert member.payloads() == [b"given on"]
    world.run(8)
    assert client.answer(ConnAckPacket).session_present
    assert client.payloads() == [b"direct"]


def test_what_comes_late_to_a_session_on_its_way_back_is_not_taken_for_what_the_other_node_had():
    """D sends one message to A alone, and later ones to B too, where the session is meanwhile. It goes back to A before
    the first one has come there: B's numbers are above it."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 2, publisher="D")
    hold_back(world, "D", "A", 5.5)
    hold_back(world, "C", "B", 8)                        # so B has the session for so long when it is to leave
    publisher.publish("t", b"first", qos=2)
    assert client.go(world, "B", 4.5).session_present
    publisher.publish("t", b"second", qos=2)
    world.run(0.5)
    assert client.payloads() == [b"second"]
    client.go(world, "A", 8.0)
    assert client.payloads() == [b"first"]
    world.run(20)
    assert client.payloads() == [], "it comes once"


def test_what_comes_late_to_a_session_on_its_way_back_comes_though_the_other_node_has_just_sent_it():
    """D's message goes from A to B, where the session is no more, and back: it has not been had (mqtt 1010205)."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 2, publisher="D")
    hold_back(world, "D", "A", 5.5)
    publisher.publish("t", b"first", qos=2)
    assert client.go(world, "B", 4.5).session_present
    client.go(world, "A", 0)
    while "sub" not in world.nodes["A"].broker.sessions:
        world.run(0.0005)
    hold_back(world, "B", "A", 2)                        # all of the session, which leaves B now
    world.run(1.5)
    assert sessions(world, "sub") == ["A"]
    world.run(1)
    assert client.payloads() == [b"first"]
    world.run(20)
    assert client.payloads() == [], "it comes once"


@pytest.mark.parametrize("way", ["from its publisher", "behind the session"])
def test_what_passes_a_former_node_on_its_way_to_a_session_may_pass_it_again(way):
    """From where the session has just left, as it is coming back (see mqtt 1010205)."""
    world = FederationWorld("ABC")
    roaming(world, "B")
    handovers = world.nodes["A"].federation.handovers
    origin = world.nodes["C"].federation.incarnation
    late = LateMessages(9, {"C": LateSource(5, 1, 100 * SECOND, {origin: 0})}, [(origin, 7)])
    left = LeftEarly("B", 5, world.now_ns + 100 * SECOND, {"C": None}, {"t": GrantedOptions(1)}, {origin: 3}, late)
    handovers.left_early.add("sub", left)
    sent = []
    handovers._host.send_onward = lambda name, kind, body: sent.append(  # type: ignore[method-assign]
        QueuedDelivery.decode(body, world.now_ns).delivery.publication.number)
    for number in (3, 7, 8, 8):
        publication = Publication("t", b"%d" % number, 1)
        publication.origin, publication.number = origin, number
        if way == "from its publisher":
            handovers.sent_late("C", publication, world.now_ns)
        elif number > 3:
            handovers.came_late("B", QueuedDelivery("sub", 5, 0, Delivery(publication, 1, False)), world.now_ns)
    assert sent == [8, 8], "3 and 7 it had when it was here"


@pytest.mark.parametrize("fence_s", [0.0, 4.0], ids=["moved first", "moved last"])
def test_what_came_late_to_a_session_comes_once_at_its_next_node(fence_s):
    """D's message is on its way to A, and to C for another client, when the session moves from A to B and on to C: it
    comes with the session, by A and B, and directly."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 2, publisher="D")
    world.client("C", "other").subscribe("t", qos=2)
    world.run(0.2)
    hold_back(world, "D", "A", 6)
    hold_back(world, "D", "C", 9)
    publisher.publish("t", b"late", qos=2)
    assert client.go(world, "B", 4.5).session_present
    client.cut()
    world.run(2)                                         # it is at B, by A
    hold_back(world, "D", "B", fence_s)
    assert client.go(world, "C", 6.0).session_present
    world.run(5)
    assert client.payloads() == [b"late"]


def test_what_a_session_had_before_it_came_does_not_follow_it_when_it_has_left():
    """D sends to both nodes, and B gets it when the session has been there and is back at A."""
    world, client, publisher = roaming_subscriber("ABD", "t", 1, publisher="D")
    world.client("B", "other").subscribe("t", qos=1)
    world.run(0.2)
    hold_back(world, "D", "B", 6.5)
    publisher.publish("t", b"once", qos=1)
    world.run(0.1)
    got = client.payloads()
    assert client.go(world, "B", 0.5).session_present
    got += client.payloads()
    assert client.go(world, "A", 5.0).session_present
    assert world.sent("B", "handover_timeouts") == 1
    world.run(4)
    assert got + client.payloads() == [b"once"]


def test_a_clean_start_where_the_session_is_has_an_owner():
    """So after a split the other half knows that its session is the older one."""
    world = FederationWorld("AB")
    first = roaming(world, "A")
    world.run(0.2)
    world.split("A", "B")
    world.run(1)
    second = Roaming(world.nodes["B"], "sub", Client.DEFAULT)
    assert second.go(world, "B", 0.1)
    assert first.go(world, "A", 0.1, clean_start=True)
    world.heal()
    world.run(5)
    assert sessions(world, "sub") == ["A"]
    assert second.closed is not None


@pytest.mark.parametrize("then", ["nothing", "the former node ends", "it moves again", "it moves again, both end"])
def test_what_a_node_that_was_away_kept_for_the_former_node_comes_behind_the_session(then: str) -> None:
    """That node took no part in the fence, and has acknowledged the message, as it is queued there."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 1, publisher="C")
    world.split("ABD", "C")
    world.run(1)
    publisher.publish("t", b"meanwhile", qos=1)
    assert publisher.has(PubAckPacket), "A is away: it is queued for it"
    assert client.go(world, "B", 1.0)
    if "again" in then:
        assert client.go(world, "D", 1.0)
    for name in {"the former node ends": "A", "it moves again, both end": "AB"}.get(then, ""):
        world.crash(name)
    world.run(1)
    world.heal()
    world.run(5)
    publisher.publish("t", b"later", qos=1)
    world.run(1)
    assert client.payloads() == [b"meanwhile", b"later"]


def test_a_node_that_comes_back_while_a_session_moves_may_still_have_something_for_it() -> None:
    """C missed the fence, and is there when A sends the session (seed 941139)."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 1, publisher="C")
    world.split("ABD", "C")
    world.run(1)
    publisher.publish("t", b"meanwhile", qos=1)
    hold_back(world, "D", "A", 3)                        # A waits for its fence
    client.go(world, "B", 0.5)
    hold_back(world, "C", "A", 4)
    world.heal()
    world.run(8)
    assert client.payloads() == [b"meanwhile"]
    world.run(1)
    assert not world.nodes["A"].federation.handovers.left_early.by_client, "it has passed the fence"


def test_a_node_that_was_away_while_a_session_moves_may_still_have_something_for_it() -> None:
    """C is asked for its fence, and is away until just before A sends the session (mqtt 1000821)."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 1, publisher="C")
    hold_back(world, "D", "A", 3)                        # A waits for its fence
    hold_back(world, "B", "C", 0.1)                      # what B asks it for does not come
    client.go(world, "B", 0.05)
    world.split("ABD", "C")
    publisher.publish("t", b"meanwhile", qos=1)
    world.run(1)
    hold_back(world, "C", "A", 4)
    world.heal()
    world.run(8)
    assert client.payloads() == [b"meanwhile"]
    world.run(1)
    assert not world.nodes["A"].federation.handovers.left_early.by_client, "it has passed the fence"


def test_a_node_that_was_started_again_is_late_with_nothing() -> None:
    """C was away when the session left A; what its next process publishes comes directly, and to A for another
    client (seed 941351)."""
    world, client, _ = roaming_subscriber("ABC", "t", 1, publisher="C")
    world.client("A", "other").subscribe("t", qos=1)
    world.crash("C")
    world.run(1)
    assert client.go(world, "B", 1.0).session_present
    world.start("C")
    world.run(2)
    world.client("C", "new").publish("t", b"once", qos=1)
    world.run(1)
    assert client.payloads() == [b"once"]
    assert world.sent("A", "onward_late") == world.sent("B", "late_messages") == 0
    assert "C" not in world.nodes["A"].federation.handovers.left_early.by_peer


def test_what_comes_late_while_the_session_moves_on_comes_once() -> None:
    """D's message is at B, directly, when A sends it on; the session is on its way from B to C."""
    world = FederationWorld("ABCD")
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    world.client("A", "other").subscribe("t", qos=1)
    publisher = world.client("D", "pub")
    world.run(0.2)
    world.split("ABC", "D")
    world.run(1)
    assert client.go(world, "B", 1.0).session_present
    world.heal()
    of_peers = world.nodes["D"].federation.interest_of_peers.peers
    while "t" not in of_peers["B"].filters:
        world.run(0.0001)
    client.cut()
    hold_back(world, "A", "B", 2)
    publisher.publish("t", b"once", qos=1)
    world.run(0.5)
    hold_back(world, "B", "C", 4)
    client.number = 0
    client.go(world, "C", 0.0)
    world.run(8)
    assert client.payloads() == [b"once"]


def test_a_node_that_is_back_passes_the_fence_that_it_missed() -> None:
    """From then on nothing of it goes on to the session from where it was before."""
    world, client, publisher = roaming_subscriber("ABC", "t", 1, publisher="C")
    world.client("A", "other").subscribe("t", qos=1)
    world.split("AB", "C")
    world.run(1)
    assert client.go(world, "B", 1.0)
    assert "C" in world.nodes["A"].federation.handovers.left_early.by_peer
    world.heal()
    world.run(5)
    assert not world.nodes["A"].federation.handovers.left_early.by_client
    assert world.nodes["B"].broker.sessions["sub"].late is None, "nor is anything remembered for it"
    for number in range(10):
        publisher.publish("t", b"%d" % number, qos=1)
    world.run(1)
    assert client.payloads() == numbered(0, 10)


@pytest.mark.parametrize("steps", ["B", "BC"], ids=["", "and-it-moves-again"])
def test_what_a_node_sent_to_the_former_node_comes_though_that_ends_before(steps: str) -> None:
    """D has it, and acknowledged it when A ended; the session's node asks for it (mqtt 902827)."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 2, publisher="D")
    hold_back(world, "D", "A", 30)
    publisher.publish("t", b"late", qos=1)
    for name in steps:
        assert client.go(world, name, 6.0).session_present
    publisher.publish("t", b"direct", qos=1)
    world.run(0.5)
    assert client.payloads() == [b"direct"]
    world.crash("A")
    world.run(3)
    assert client.payloads() == [b"late"]
    assert publisher.has(PubAckPacket)


def test_the_publishers_own_node_has_what_it_could_not_send_to_the_former_node() -> None:
    """The client comes there by way of another one (mqtt 902827)."""
    world, client, publisher = roaming_subscriber("ABD", "t", 2, publisher="D")
    hold_back(world, "D", "A", 30)
    publisher.publish("t", b"late", qos=1)
    assert client.go(world, "B", 6.0).session_present
    assert client.go(world, "D", 6.0).session_present
    world.crash("A")
    world.run(3)
    assert client.payloads() == [b"late"]


def test_what_two_nodes_have_that_a_session_left_early_comes_once() -> None:
    """D could send to neither A nor B while the session was there; both end."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 2, publisher="D")
    hold_back(world, "D", "A", 40)
    publisher.publish("t", b"first", qos=1)
    assert client.go(world, "B", 6.0).session_present
    hold_back(world, "D", "B", 40)
    publisher.publish("t", b"second", qos=1)
    assert client.go(world, "C", 6.0).session_present
    world.crash("A")
    world.run(2)
    world.crash("B")
    world.run(3)
    publisher.publish("t", b"third", qos=1)
    world.run(1)
    assert sorted(client.payloads()) == [b"first", b"second", b"third"]


def test_what_came_directly_does_not_come_again_from_a_node_that_is_asked() -> None:
    """It went to A, which ends, and to B, where the session was by then; it has gone on to C, which asks D."""
    world = FederationWorld("ABCD")
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    publisher = world.client("D", "pub")
    world.run(0.2)
    hold_back(world, "D", "A", 40)
    publisher.publish("t", b"before", qos=1)
    assert client.go(world, "B", 6.0).session_present
    world.client("A", "other").subscribe("t", qos=1)
    world.run(0.2)
    publisher.publish("t", b"direct", qos=1)
    world.run(0.5)
    assert client.payloads() == [b"direct"]
    assert client.go(world, "C", 2.0).session_present
    world.crash("A")
    world.run(3)
    assert client.payloads() == [b"before"]


def test_what_the_former_node_had_acknowledged_to_nobody_does_not_come_again() -> None:
    """D's message was at A, and delivered, when the session left; D does not know that, and is asked."""
    world, client, publisher = roaming_subscriber("ABD", "t", 1, publisher="D")
    hold_back(world, "A", "D", 40)
    publisher.publish("t", b"had", qos=1)
    world.run(0.1)
    assert client.payloads() == [b"had"]
    hold_back(world, "D", "A", 40)
    assert client.go(world, "B", 6.0).session_present
    world.crash("A")
    world.run(3)
    assert client.payloads() == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_ends_while_a_session_moves_on_is_asked_about_when_that_has_come(restarts: bool) -> None:
    """A, which it had left early, ends when B has sent all of it on to C, and before that is there. Another process of
    that name has nothing of it."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 1, publisher="D")
    hold_back(world, "D", "A", 40)
    publisher.publish("t", b"late", qos=1)
    assert client.go(world, "B", 6.0).session_present
    client.go(world, "C", 0.0)
    while "sub" in world.nodes["B"].broker.sessions:
        world.run(0.001)
    world.crash("A")
    for step in range(1_500):
        world._links[world.nodes["B"].handle, world.nodes["C"].handle].clear()
        world.run(0.001)
        if step == 700 and restarts:
            world.start("A")
    assert world.nodes["C"].federation.is_present("A", 0) is restarts
    world.run(8)
    assert client.payloads() == [b"late"]


def test_what_comes_late_goes_by_the_owner_if_the_next_node_has_ended() -> None:
    """The session went from A to B, and on to C; B has ended when D's message reaches A."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 1, publisher="D")
    hold_back(world, "D", "A", 14)
    publisher.publish("t", b"late", qos=1)
    assert client.go(world, "B", 6.0).session_present
    assert client.go(world, "C", 2.0).session_present
    world.crash("B")
    world.run(3)
    assert client.payloads() == []
    world.run(5)
    assert client.payloads() == [b"late"]


def test_what_comes_late_to_a_node_where_the_session_is_again_is_given_to_it() -> None:
    """It was at B in between, which has ended since; what B had directly does not hide what is older."""
    world = FederationWorld("ABD")
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    publisher = world.client("D", "pub")
    world.run(0.2)
    hold_back(world, "D", "A", 14)
    publisher.publish("t", b"late", qos=1)
    assert client.go(world, "B", 6.0).session_present
    publisher.publish("t", b"direct", qos=1)
    world.run(0.5)
    got = client.payloads()
    assert client.go(world, "A", 2.0).session_present
    world.crash("B")
    world.run(10)
    assert got + client.payloads() == [b"direct", b"late"]


def test_a_node_that_was_back_is_asked_about_again_when_it_ends() -> None:
    """B was away for a moment; what A sent on to it afterwards is at A alone."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 1, publisher="D")
    hold_back(world, "D", "A", 20)
    publisher.publish("t", b"late", qos=1)
    assert client.go(world, "B", 6.0).session_present
    assert client.go(world, "C", 2.0).session_present
    world.split("ACD", "B")
    world.run(2)
    world.heal()
    world.run(3)
    hold_back(world, "A", "B", 20)
    world.run(8)                                         # D's message reaches A, which sends it on
    assert client.payloads() == []
    world.crash("B")
    world.run(3)
    assert client.payloads() == [b"late"]


def test_what_was_sent_on_to_a_node_that_was_cut_off_comes_once() -> None:
    """C has gone to get it from A, when B is back, gets it, and sends it on."""
    world, client, publisher = roaming_subscriber("ABCD", "t", 1, publisher="D")
    hold_back(world, "D", "A", 14)
    publisher.publish("t", b"late", qos=1)
    assert client.go(world, "B", 6.0).session_present
    assert client.go(world, "C", 4.0).session_present
    hold_back(world, "A", "B", 6)
    world.run(5)                                         # D's message reaches A, which sends it on to B
    assert client.payloads() == []
    world.split("ACD", "B")
    world.run(2)
    assert client.payloads() == [b"late"]
    world._links.clear()
    world.heal()
    world.run(10)
    assert client.payloads() == []


def test_what_comes_late_is_taken_once_and_for_this_session_alone() -> None:
    """By the numbers of CONNECTs that it was sent on for; also what is for a shared subscription."""
    late = LateMessages(9, {"A": LateSource(5, 1, SECOND, {7: 3})})
    publication = Publication("t", b"", 1)
    publication.origin, publication.number = 7, 4
    for group in ("", "$share/g/t"):
        assert not late.takes(4, publication, group), "another session of this client"
        assert late.takes(5, publication, group)
        assert not late.takes(9, publication, group)
    publication.origin = 8
    assert not late.takes(5, publication, ""), "it cannot be late"
    assert late.takes(5, publication, "$share/g/t"), "another node may have given it on"


@pytest.mark.parametrize(("claim", "packet_id", "qos", "goes_to"), [
    (5, 0, 1, "the session"), (4, 0, 1, "other"), (4, 3, 1, "other"), (4, 3, 2, "")])
def test_a_shared_message_that_comes_late_for_another_session_of_its_client_goes_to_another_member(
    claim: int, packet_id: int, qos: int, goes_to: str,
) -> None:
    """One of QoS 2 that had a packet id was begun at the former node, so it may have arrived [MQTT-4.8.2-5]."""
    world = FederationWorld("AB")
    client, other = roaming(world, "B"), world.client("B", "other")
    other.subscribe("$share/g/t", qos=2)
    node = world.nodes["B"]
    node.broker.sessions["sub"].late = LateMessages(9, {"A": LateSource(5, 1, 100 * SECOND, {})})
    delivery = Delivery(Publication("t", b"late", qos), qos, False, group="$share/g/t")
    node.federation.handovers.came_late("A", QueuedDelivery("sub", claim, packet_id, delivery), world.now_ns)
    node.settle()
    assert (client.payloads(), other.payloads()) == ([b"late"] * (goes_to == "the session"),
                                                     [b"late"] * (goes_to == "other"))


def test_what_comes_late_for_a_session_on_its_way_is_acknowledged_and_taken_when_that_is_there() -> None:
    """A, which it left first, sends what it gets from D to the session's owner, E, to which C has not sent it yet."""
    world = FederationWorld("ABCDE")
    client = roaming(world, "A")
    client.subscribe("t", qos=1)
    publisher = world.client("D", "pub")
    world.run(0.2)
    hold_back(world, "D", "A", 18)
    publisher.publish("t", b"late", qos=1)
    assert client.go(world, "B", 6.0).session_present
    assert client.go(world, "C", 2.0).session_present
    world.client("A", "other").subscribe("t", qos=1)
    world.run(0.2)
    publisher.publish("t", b"both", qos=1)
    world.run(0.2)
    assert client.payloads() == [b"both"], "directly; it is on its way to A as well"
    world.crash("B")
    world.run(7.5)
    hold_back(world, "D", "C", 3)                        # D's fence is late
    assert client.go(world, "E", 2.3) is None
    assert not world.nodes["D"].federation.peers["A"].stream.queued
    assert world.nodes["D"].federation.peers["A"].stream.under_way, "A has got it, and E has not got the session"
    world.run(2)
    assert client.payloads() == [b"late"]
    assert not world.nodes["D"].federation.peers["A"].stream.under_way


def test_what_has_come_late_goes_with_the_session_to_its_next_node() -> None:
    """Of plain and of shared subscriptions, so that it is taken once there, too."""
    world, client, _ = roaming_subscriber("ABD", "t", 1, publisher="A")
    session = world.nodes["A"].broker.sessions["sub"]
    session.late = LateMessages(9, {"D": LateSource(5, 1, world.now_ns + 60 * SECOND, {7: 3})}, [(7, 4)],
                                [(7, 5, "$share/g/t")])
    assert client.go(world, "B", 1.0)
    late = world.nodes["B"].broker.sessions["sub"].late
    assert late is not None
    assert (list(late.had), list(late.of_groups)) == ([(7, 4)], [(7, 5, "$share/g/t")])


def test_what_moves_with_a_session_is_not_taken_for_what_comes_behind_it() -> None:
    """Its node had begun to hand it over to one that went, has adopted it again from a copy, and is asked (seed
    942929)."""
    world, client, publisher = roaming_subscriber("AB", "$share/g/t", 1, publisher="A")
    client.cut()
    publisher.publish("t", b"once", qos=1)
    hold_back(world, "A", "B", 20)
    client.go(world, "B", 5.0)
    assert "sub" not in world.nodes["A"].broker.sessions, "all of it is in the stream to B"
    assert not world.nodes["A"].federation.sent_on_to("B")


def test_a_node_that_was_asked_and_went_is_asked_again() -> None:
    world, client, publisher = roaming_subscriber("ABD", "t", 1, publisher="D")
    hold_back(world, "D", "A", 60)
    publisher.publish("t", b"late", qos=1)
    assert client.go(world, "B", 6.0).session_present
    hold_back(world, "B", "D", 60)                       # the question does not reach it
    world.crash("A")
    world.run(2)
    world.split("B", "D")
    world.run(2)
    world._links.clear()
    world.heal()
    world.run(5)
    assert client.payloads() == [b"late"]


def test_what_its_client_has_got_before_its_session_came_does_not_come_with_that() -> None:
    """B gets D's message directly, and the client goes on there without waiting longer for what A has."""
    world, client, publisher = roaming_subscriber("ABD", "t", 1, publisher="D")
    client.cut()
    client.number = 0
    hold_back(world, "D", "A", 2)                        # so A has it too, in front of D's fence
    client.go(world, "B", 0.0)
    while "t" not in world.nodes["D"].federation.interest_of_peers.peers["B"].filters:
        world.run(0.0001)
    hold_back(world, "A", "B", 8)
    publisher.publish("t", b"once", qos=1)
    world.run(6)
    assert client.payloads() == [b"once"]
    world.run(6)
    assert world.sent("B", "sessions_in") == 1
    assert client.payloads() == []


def test_a_filter_that_is_set_while_late_messages_come_misses_nothing() -> None:
    """D, which was away, has passed A's fence when its message for the new filter is still on its way to B."""
    world, client, publisher = roaming_subscriber("ABD", "t", 1, publisher="D")
    world.client("A", "other").subscribe("t", qos=1)
    world.split("AB", "D")
    world.run(1)
    assert client.go(world, "B", 1.0).session_present
    client.subscribe("new", qos=1)
    world.heal()
    of_peers = world.nodes["D"].federation.interest_of_peers.peers
    while "new" not in of_peers["B"].filters:
        world.run(0.0001)
    hold_back(world, "D", "B", 6)
    publisher.publish("new", b"second", qos=1)
    publisher.publish("t", b"third", qos=1)
    world.run(5)
    assert client.payloads() == [b"third"], "by A"
    world.run(3)
    assert client.payloads() == [b"second"]


@pytest.mark.parametrize("peer_ends", [False, True])
def test_a_shared_message_for_a_session_on_its_way_is_acknowledged_when_that_is_there(peer_ends: bool) -> None:
    """It is nowhere else, and no other node has the session yet."""
    world, client, publisher = roaming_subscriber("ABC", "$share/g/t", 1, publisher="C")
    hold_back(world, "C", "A", 3)                        # so the fence is late
    client.go(world, "B", 0.2)
    publisher.publish("t", b"one", qos=1)
    publisher.publish("t", b"two", qos=1)
    world.run(0.03)
    assert not publisher.has(PubAckPacket), "B has one of them, and may end with it"
    if peer_ends:
        world.crash("B")
        world.run(65)                                    # C gives B up, and a member gets what that had
        client.go(world, "A", 1.0)
    else:
        world.run(5)
    assert publisher.has(PubAckPacket)
    assert sorted(client.payloads()) == [b"one", b"two"]


def wander(seeds: range) -> None:
    for seed in seeds:
        test_a_client_that_wanders_gets_everything_once(seed)


@pytest.mark.parametrize("seed", range(20))
def test_a_client_that_wanders_gets_everything_once(seed):
    world = FederationWorld("ABC", seed)
    rng = Random(seed)
    client = roaming(world, "A")
    client.subscribe("t/+", qos=2)
    publishers = [world.client(name, f"pub{name}") for name in "ABC"]
    world.run(0.1)
    got: list[bytes] = []
    for number in range(300):
        publishers[rng.randrange(3)].publish("t/x", b"%d" % number, qos=rng.choice((1, 2)))
        if rng.random() < 0.05:
            got += client.payloads()
            client.go(world, rng.choice("ABC"), rng.choice((0.0, 0.002, 0.01)))
        world.run(rng.choice((0.0, 0.001, 0.003)))
    world.run(3)
    got += client.payloads()
    assert sorted(got, key=int) == numbered(0, 300)
    assert len(sessions(world, "sub")) == 1
    world.check_trees()


def test_without_the_fence_messages_are_lost(monkeypatch):
    """The fence is needed: a former node that does not wait for it forgets the session too early."""
    original = Handovers._leave

    def hasty(self: Handovers, owner: Any, now_ns: int, was_here: bool = True) -> None:
        original(self, owner, now_ns, was_here)
        leaving = self.leaving.get(owner.client_id)
        if leaving is not None:
            leaving.missing.clear()

    monkeypatch.setattr(Handovers, "_leave", hasty)
    with pytest.raises(AssertionError):
        wander(range(20))




@pytest.mark.parametrize("copies", [0, 1])
def test_what_a_node_had_sent_of_a_session_before_it_was_cut_off_comes_when_it_is_back(copies):
    """The client does not wait for it."""
    world = FederationWorld("ABC", session_copies=copies)
    client = roaming(world, "A", "me")
    client.send(SubscribePacket(1, (Subscription("a/b", 1),)))
    world.run(0.2)
    client.disconnect()
    publisher = world.client("A", "publisher")
    for number in range(3):
        publisher.publish("a/b", b"%d" % number, qos=1)
    world.run(0.2)
    if copies:                                           # an old one that nobody finds
        for node in world.nodes.values():
            node.federation.copies.here.clear()
    hold_back(world, "C", "A", 1)                        # A waits until C knows that the session moves
    assert client.go(world, "B", 0.1) is None
    hold_back(world, "A", "B", 9)
    world.run(1.2)
    assert sessions(world, "me") == ["B"], "A has sent it"
    world.split("A", "BC")
    world.run(1)
    assert client.answer(ConnAckPacket).session_present, "it had been offered"
    assert client.payloads() == []
    world.heal()
    world.run(10)
    assert client.payloads() == numbered(0, 3)


def test_a_connect_that_waits_for_its_session_longer_than_connections_wait_for_connect_is_answered():
    world = FederationWorld("AB", broker={"connect_timeout_s": 1.0})
    client = roaming(world, "A", "me")
    hold_back(world, "A", "B", 2)
    assert client.go(world, "B", 1.5) is None
    assert client.closed is None
    world.run(1)
    assert client.answer(ConnAckPacket).session_present
