"""Drops, and what is given up, in the situations that lead to them: each is counted under its name."""
from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from jgroups_py.blocks.replication.messages import Create, HostHello, PartitionRequest, Verb, encode
from jgroups_py.blocks.rpc.serving import Server
from jgroups_py.model.address import ProxyUUID
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import AddressesKnown, MessagesStable, SendTo, UserHeard
from jgroups_py.model.topics import interest_in, parse_topics
from jgroups_py.model.units import seconds
from jgroups_py.protocols.discovery.pex.headers import PeerLeave, PeerPing
from jgroups_py.protocols.discovery.pex.protocol import Pex
from jgroups_py.protocols.discovery.pex.transport import InfluxUdp
from jgroups_py.protocols.fd_sock.protocol import MAX_NON_MEMBERS, FdSock, ListenerAddress
from jgroups_py.protocols.gms.headers import InstallHeader, MergeReady, MergeRequest
from jgroups_py.protocols.nakack.headers import NoLongerKept, RetransmitRequest
from jgroups_py.protocols.name_service.gossip import MAX_NAMES, NameGossip
from jgroups_py.protocols.name_service.res import NameEntry
from jgroups_py.protocols.swim.headers import PushPull
from jgroups_py.protocols.swim.memberlist.protocol import Memberlist
from jgroups_py.protocols.topics.protocol import Topics, TopicsConfig
from jgroups_py.protocols.transport.protocol import Tcp, TcpConfig
from jgroups_py.stack.stack import Stack
from jgroups_py.testing.bench import Bench, InFlight, address, change, multicast, unicast, view_of
from jgroups_py.wire.block_headers import Ask
from jgroups_py.wire.topic_headers import PassedBy
from tests.unit.blocks.replica_hosts import Cluster
from tests.unit.protocols.gms_group import LATENCY_MS, Members, heal, in_view, split
from tests.unit.protocols.memberlist.test_transport import alone, serf_of
from tests.unit.protocols.nakack_bench import V1, member
from tests.unit.protocols.swim.bench import SwimBench
from tests.unit.protocols.topics.sites import relay_of, two_sites

A, B, C = map(address, "ABC")


# --- transports -------------------------------------------------------------------------------------------------------

def test_frames_to_members_without_a_known_physical_address() -> None:
    stack = Stack([Tcp(TcpConfig())], A)
    stack.inject(AddressesKnown({B: ("10.0.0.2", 7800)}), 0)
    stack.inject(change(V1), 0)
    stack.notify(change(V1), 0)
    stack.inject(multicast("A", b"to B and C"), 0)
    assert stack.layers[0].stats()["no_physical_address"] == 1, "C"
    stack.inject(unicast("A", "C", b"to C", b"and again"), 0)
    assert stack.layers[0].stats()["no_physical_address"] == 2, "frames, not messages"


def test_a_payload_for_which_memberlist_has_no_message() -> None:
    stack = Stack([Memberlist()], A)
    stack.inject(SendTo(("10.0.0.2", 7946), unicast("A", "B", b"a payload")), 0)
    assert stack.layers[0].stats()["not_memberlist_dropped"] == 1


def test_a_leave_for_which_influx_has_no_frame() -> None:
    stack = Stack([InfluxUdp()], A)
    stack.inject(SendTo(("10.0.0.2", 8082), unicast("A", "B", headers=(PeerLeave(),))), 0)
    assert stack.layers[0].stats()["no_frame_for_it"] == 1


# --- membership -------------------------------------------------------------------------------------------------------

def test_listeners_of_more_non_members_than_are_kept() -> None:
    bench = Bench(FdSock())
    bench.down(change(view_of("A", "B")))
    for number in range(MAX_NON_MEMBERS + 5):
        bench.up(unicast(f"s{number}", "A", headers=(ListenerAddress(("10.0.0.9", 1 + number)),)))
    assert bench.stats()["non_member_listeners_dropped"] > 0
    before = bench.stats()["non_member_listeners_dropped"]
    bench.up(unicast("B", "A", headers=(ListenerAddress(("10.0.0.2", 7)),)))
    assert bench.stats()["non_member_listeners_dropped"] == before, "there is room for members"


def test_pings_before_an_address_of_our_own_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Pex())
    monkeypatch.setattr(bench.transport, "my_physical", lambda: None)
    bench.up(unicast("B", "A", headers=(PeerPing(interest_in("x"), ("10.0.0.2", 8082), C, False),)))
    assert bench.stats()["pings_unanswered"] == 1


def test_names_beyond_those_that_are_kept() -> None:
    gossip = NameGossip("a", ("10.0.0.1", 9))
    outcomes = [gossip.take(NameEntry(f"n{number}", "10.0.0.2", 1), None, 0) for number in range(MAX_NAMES + 2)]
    assert outcomes.count("names_added") == MAX_NAMES
    assert outcomes[-2:] == ["names_too_many"] * 2


def test_headers_for_a_node_whose_address_is_not_known() -> None:
    bench = SwimBench("B")
    bench.swim.send_headers(None, None, ())
    assert bench.stats()["unknown_addresses"] == 1


def test_a_header_that_swim_never_sends_so() -> None:
    bench = SwimBench("B")
    del bench.swim.handlers[PushPull]
    bench.receive(PushPull(1, False, False, (), b""))
    assert bench.stats()["unexpected_headers"] == 1


# --- NAKACK -----------------------------------------------------------------------------------------------------------

def test_a_member_that_asks_for_what_is_kept_no_longer_is_told() -> None:
    a = member()
    a.down(multicast("A", b"1", b"2"))
    a.down(MessagesStable({A: 3}))
    a.sent()
    a.up(unicast("C", "A", headers=(RetransmitRequest(V1.id.raw, A, ((1, 3),)),)))
    assert [header for header, _ in a.sent_with(NoLongerKept)] == [NoLongerKept(V1.id.raw, A, 1, 3)]
    assert a.stats()["no_longer_kept_sent"] == 1


# --- GMS --------------------------------------------------------------------------------------------------------------

def test_a_joiner_that_dies_while_it_is_let_in_holds_a_ballot_up_once() -> None:
    members = Members("ABC")
    members.join("AB")
    members.connect("C")
    members.run(3)
    members.crash("C")
    members.run(2500)
    assert members.agree("AB")
    assert members["A"].stats()["silent_joiners"] == 1


def installs_kept_from(members: Members, name: str) -> list[tuple[str, InstallHeader]]:
    """What from now on does not reach a member: (source, InstallHeader)."""
    kept: list[tuple[str, InstallHeader]] = []

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.dest == name and in_flight.has(InstallHeader):
            headers = in_flight.batch.headers
            kept.extend((in_flight.src, header) for header in headers if isinstance(header, InstallHeader))
            return ()
        return (LATENCY_MS,)
    members.delays_of = delays_of
    return kept


def test_a_view_that_follows_from_what_a_joiner_accepted_and_does_not_name_it() -> None:
    members = Members("ABC")
    members.join("AB")
    kept = installs_kept_from(members, "C")
    members.connect("C")
    members.run(60)
    (_, install), *_ = kept
    without = attrs.evolve(install, view=view_of("A", "B", counter=install.view.id.counter))
    members["C"].up(Batch(A, C, (), (without,)))
    assert members["C"].stats()["odd_views_heard"] == 1
    assert members.view("C") is None


def test_a_view_is_held_back_by_a_newer_ballot() -> None:
    """A dies as it decides; B takes over, and C, which accepted both ballots, gets A's decision late."""
    members = in_view("ABCD")
    members.crash("D")
    kept: list[tuple[str, InstallHeader]] = []

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.has(InstallHeader) and in_flight.src in "AB":
            headers = in_flight.batch.headers
            kept.extend((in_flight.src, header) for header in headers if isinstance(header, InstallHeader))
            if in_flight.src == "A":
                members.crash("A")
            return ()
        return () if in_flight.src in members.crashed else (LATENCY_MS,)
    members.delays_of = delays_of
    members.suspect("D", by="A")
    members.run(40)
    members.suspect("AD", by="BC")
    members.run(60)
    assert [src for src, _ in kept][:2] == ["A", "B"]
    members["C"].up(Batch(A, C, (), (kept[0][1],)))
    assert members["C"].stats()["views_held_back"] == 1
    members.delays_of = members.usual
    members.run(3000)
    assert members.agree("BC"), "what B decided goes on"


def test_a_part_of_a_merge_waits_for_its_leader_and_gives_it_up() -> None:
    members = in_view("ABCD")
    split(members, "AB", "CD")

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        lost = in_flight.src in "AB" and in_flight.dest in "CD" and not in_flight.has(MergeRequest)
        return () if lost or in_flight.has(MergeReady) else (LATENCY_MS,)
    members.delays_of = delays_of
    heal(members, "A", "C")
    members.run(20_000)
    assert members["C"].stats()["merges_abandoned"] >= 1


# --- TOPICS and RELAY -------------------------------------------------------------------------------------------------

def test_messages_without_a_subscriber_at_the_other_site_are_passed_by() -> None:
    world = two_sites(A="*", B="*", C="orders", D="orders")
    world.post("A", count=5, topic="prices")
    world.run_for(seconds(2))
    relay = relay_of(world, "NYC")
    assert world.stats(relay)["RELAY"]["passed_by"] == 5
    assert [world.stats(name)["TOPICS"]["passed_by"] for name in "CD"] == [5, 5]


def test_a_member_that_wants_what_was_passed_by_knows_of_it() -> None:
    bench = Bench(Topics(TopicsConfig(interests=parse_topics("orders"))))
    batch = Batch(ProxyUUID(B, C, "SFO"), None, (b"", b""))
    bench.up(batch.push(PassedBy(interest_in("prices"))))
    assert bench.stats()["passed_by"] == 2
    assert "passed_by_though_wanted" not in bench.stats()
    bench.up(batch.push(PassedBy(interest_in("orders"))))
    assert (bench.stats()["passed_by"], bench.stats()["passed_by_though_wanted"]) == (4, 2)
    assert bench.payloads() == []


# --- building blocks --------------------------------------------------------------------------------------------------

def test_requests_while_there_is_no_handler_and_answers_when_the_channel_is_closed() -> None:
    server = Server(7, None, lambda: None)
    server.serve(Batch(B, A, (b"1", b"2"), (Ask(7, 1),)))
    assert server.counters == {"requests_without_handler": 2, "answers_unsent": 2}


def test_messages_about_another_store_or_of_no_known_kind() -> None:
    cluster = Cluster("AB", replicas=2)
    host, b = cluster.hosts["A"], cluster.hosts["B"].me
    host.receive(b, encode(PartitionRequest(0, 1, Verb.READ, b"", 0, b"")), cluster.now_ns)
    assert host.counters["not_understood"] == 1
    host.receive(b, encode(Create((b"another store 16", 4, 2), ())), cluster.now_ns)
    host.receive(b, encode(HostHello(1, "", False, (b"another store 16", 4, 2))), cluster.now_ns)
    assert host.counters["foreign_stores"] == 2
    assert host._replica(99) is None
    assert host.counters["of_no_store"] == 1


def test_serf_messages_of_a_kind_that_is_not_handled_here() -> None:
    town = alone()
    layer = serf_of(town, "a")
    layer.on_gossip(UserHeard(b"\xfe", B))
    assert layer.counters["unsupported_messages"] == 1
