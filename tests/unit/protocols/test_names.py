"""NAMES and TCPPING by name, on the bench: which frames are sent when, which names are resolved, which entries win."""
from __future__ import annotations

from itertools import pairwise

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Connect, FindMembers, NameResolved, ResolveName, SendTo
from jgroups_py.model.outputs import LogEntry, Resolve
from jgroups_py.model.units import NS_PER_MS, seconds
from jgroups_py.protocols.discovery.dns_ping import DnsPing, DnsPingConfig
from jgroups_py.protocols.discovery.tcpping import TcpPing, TcpPingConfig
from jgroups_py.protocols.name_service import Names, NamesConfig
from jgroups_py.protocols.name_service.gossip import MAX_NAMES, NameGossip
from jgroups_py.protocols.name_service.headers import Resolution
from jgroups_py.protocols.name_service.res import NameEntry, decode_frame, encode_frames
from jgroups_py.testing.bench import Bench, StubPorts, address, multicast

PEER = ("10.0.0.2", 7800)


def bench(**properties: object) -> Bench:
    """NAMES of member A at 127.0.0.1:7800, connected."""
    made = Bench(Names(NamesConfig(**properties)), me="A")         # type: ignore[arg-type]
    made.down(Connect("demo"))
    made.advance(0)
    return made


def receive(made: Bench, *entries: NameEntry, src: str = "B", at: PhysicalAddress | None = PEER) -> None:
    """Give A a frame of `src` from an address."""
    if at is not None:
        made.transport.book[address(src)] = at
    for frame in encode_frames(entries):
        made.up(multicast(src, frame, headers=(Resolution(),)))


def sent(made: Bench) -> list[tuple[PhysicalAddress, tuple[NameEntry, ...]]]:
    """The frames sent since the last call: (to, entries)."""
    return [(event.physical, decode_frame(event.batch.payloads[0])) for event in made.passed_down(SendTo)]


def asked(made: Bench) -> list[tuple[str, int, bool]]:
    """The names given to the resolvers so far."""
    return [(output.name, output.port, output.again) for output in made.outputs if isinstance(output, Resolve)]


def test_accept_4_3_the_own_name_is_sent_every_second_and_the_cache_every_two() -> None:
    made = bench()
    own, passed_on = [], []
    for tenth in range(200):
        receive(made, NameEntry("B", PEER[0], PEER[1], 0, True))
        for place, entries in sent(made):
            assert place == PEER
            assert [entry.name for entry in entries] == (["A"] if entries[0].is_self else ["B"])
            (own if entries[0].is_self else passed_on).append(tenth / 10)
        made.advance(100)
    for times, every in ((own, 1.0), (passed_on, 2.0)):
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert len(gaps) >= 8
        assert all(abs(gap - every) < 0.1 for gap in gaps)


def test_the_own_name_is_that_of_the_member_and_the_address_that_of_the_transport() -> None:
    made = bench(bootstrap="10.0.0.9:1")
    [(place, (entry,))] = sent(made)
    assert place == ("10.0.0.9", 1)
    assert entry == NameEntry("A", "127.0.0.1", 7800, 0, True)


def test_a_member_whose_name_does_not_fit_a_frame_is_sent_with_its_address_as_name() -> None:
    made = Bench(Names(NamesConfig(bootstrap="10.0.0.9:1")), me="Zo\u00eb")
    made.down(Connect("demo"))
    made.advance(0)
    [(_, (entry,))] = sent(made)
    assert entry.name == made.me.raw.hex()


def test_announcements_go_to_every_bootstrap_neighbour_but_the_member_itself() -> None:
    made = bench(bootstrap=f"127.0.0.1:7800,{PEER[0]}:{PEER[1]},10.0.0.3:7800")
    assert [place for place, _ in sent(made)] == [PEER, ("10.0.0.3", 7800)]
    receive(made, NameEntry("B", PEER[0], PEER[1], 0, True))
    made.advance(1000)
    assert [place for place, _ in sent(made)] == [PEER, ("10.0.0.3", 7800)]
    assert made.stats()["bootstrap_neighbours"] == 1


def test_the_name_of_a_bootstrap_neighbour_is_resolved_again_only_while_it_is_silent() -> None:
    made = bench(bootstrap="b:7800,127.0.0.9:1")
    assert asked(made) == [("b", 7800, False)]
    made.up(NameResolved("b", 7800, PEER))
    assert [place for place, _ in sent(made)][-1] == PEER          # sent at once, not in a second
    for _ in range(30):
        receive(made, NameEntry("B", PEER[0], PEER[1], 0, True))
        made.advance(1000)
    assert asked(made) == [("b", 7800, False)]
    made.advance(22_000)
    assert asked(made)[1:] == [("b", 7800, True)] * 2


def test_a_cached_name_is_answered_at_once_and_others_go_to_the_resolvers() -> None:
    made = bench(resolver="static:far=10.1.1.1;dns")
    receive(made, NameEntry("B", PEER[0], PEER[1], 0, True))
    made.down(ResolveName("B", 7800))
    made.down(ResolveName("B", 9999))                              # the cached port of B counts
    made.down(ResolveName("A", 7800))
    assert made.passed_up(NameResolved) == [NameResolved("B", 7800, PEER), NameResolved("B", 9999, PEER),
                                       NameResolved("A", 7800, ("127.0.0.1", 7800))]
    made.down(ResolveName("far", 1, "endpoint", True))
    [question] = [output for output in made.outputs if isinstance(output, Resolve)]
    assert (question.name, question.port, question.parameter, question.again) == ("far", 1, "endpoint", True)
    assert [link.kind for link in question.chain.links] == ["static", "dns"]


def test_malformed_frames_and_entries_without_an_address_are_counted() -> None:
    made = bench()
    made.up(multicast("B", b"no frame", headers=(Resolution(),)))
    receive(made, NameEntry("B", "0.0.0.0", 7800, 0, True), src="C", at=None)
    receive(made, NameEntry("D", "0.0.0.0", 7800, 0))
    assert made.stats()["frames_malformed"] == 1
    assert made.stats()["entries_without_address"] == 2
    assert made.stats()["names"] == 0


def test_malformed_entries_of_the_bootstrap_list_are_counted_and_logged() -> None:
    made = bench(bootstrap="just:wrong")
    [note] = [output for output in made.outputs if isinstance(output, LogEntry)]
    assert "'just:wrong' is no host:port" in note.text


@pytest.mark.parametrize(("properties", "why"), [
    ({"name": "x" * 513}, "at most 512 ASCII"), ({"name": "Zo\u00eb"}, "ASCII"),
    ({"interface": "eth0"}, "not an IP address"),
    ({"timeout_ns": "1s"}, "must exceed self_interval"), ({"resolver": "dns;"}, "empty part"),
    ({"resolver": "file:"}, "what follows the colon"), ({"resolver": "static:a"}, "no name=address"),
    ({"resolver": "nowhere:Class"}, "none of dns, file:PATH"),
])
def test_wrong_properties_are_config_errors(properties: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        NamesConfig(**properties)                                  # type: ignore[arg-type]


# --- gossip ---------------------------------------------------------------------------------------------------------

def test_the_later_confirmation_wins_whatever_arrives_last() -> None:
    gossip = NameGossip("A", ("10.0.0.1", 1))
    assert gossip.take(NameEntry("B", "10.0.0.2", 1, 500), None, seconds(20)) == "names_added"
    assert gossip.take(NameEntry("B", "10.0.0.3", 1, 0, True), None, seconds(21)) == "names_moved"
    assert gossip.take(NameEntry("B", "10.0.0.2", 1, 5000), None, seconds(22)) == "older_gossip"
    assert gossip.take(NameEntry("B", "10.0.0.2", 1, 1001), None, seconds(22)) == "older_gossip"
    assert gossip.find("B", 1) == ("10.0.0.3", 1)
    assert gossip.take(NameEntry("B", "10.0.0.2", 1, 999), None, seconds(22)) == "names_moved"


def test_passed_on_entries_neither_renew_nor_restore_a_name() -> None:
    gossip = NameGossip("A", ("10.0.0.1", 1), seconds(10))
    gossip.take(NameEntry("B", "10.0.0.2", 1, 0, True), None, 0)
    for second in range(1, 10):
        gossip.take(NameEntry("B", "10.0.0.2", 1, second * 1000), None, seconds(second))
    assert gossip.forget(seconds(10)) == 1
    assert gossip.neighbours == {}
    assert gossip.take(NameEntry("B", "10.0.0.2", 1, 10_000), None, seconds(10)) == "entries_too_old"


def test_entries_of_the_own_name_are_ignored_at_the_own_port_only() -> None:
    gossip = NameGossip("A", ("10.0.0.1", 1))
    assert gossip.take(NameEntry("A", "10.0.0.9", 1, 0, True), None, 0) == ""
    assert gossip.take(NameEntry("A", "10.0.0.9", 2, 0, True), None, 0) == "names_added"
    assert gossip.find("A", 1) == ("10.0.0.1", 1)
    assert gossip.find("A", 2) == ("10.0.0.9", 2)


def test_of_several_ports_of_a_name_the_one_confirmed_last_is_its_address() -> None:
    gossip = NameGossip("A", ("10.0.0.1", 1))
    gossip.take(NameEntry("B", "10.0.0.2", 5, 3000), None, seconds(9))
    gossip.take(NameEntry("B", "10.0.0.3", 6, 1000), None, seconds(9))
    assert gossip.find("B", 4) == ("10.0.0.3", 6)
    assert gossip.find("B", 5) == ("10.0.0.2", 5)
    assert gossip.find("C", 5) is None


def test_ages_are_passed_on() -> None:
    gossip = NameGossip("A", ("10.0.0.1", 1))
    gossip.take(NameEntry("B", "10.0.0.2", 1, 0, True), None, 0)
    [(frame, place)] = gossip.pass_on(2500 * NS_PER_MS)
    assert place == ("10.0.0.2", 1)
    assert decode_frame(frame) == (NameEntry("B", "10.0.0.2", 1, 2500),)


def test_the_cache_is_bounded_under_a_flood_of_names() -> None:
    gossip = NameGossip("A", ("10.0.0.1", 1))
    for number in range(MAX_NAMES + 100):
        gossip.take(NameEntry(f"n{number}", "10.0.0.2", 1 + number % 60_000, 0), None, 0)
    assert len(gossip.cache) == MAX_NAMES
    assert len(gossip.neighbours) <= 1024


# --- TCPPING by name ------------------------------------------------------------------------------------------------

def searching(hosts: str, **properties: object) -> Bench:
    """TCPPING in a search, without NAMES."""
    made = Bench(StubPorts(), TcpPing(TcpPingConfig(initial_hosts=hosts, port_range=0, **properties)))  # type: ignore[arg-type]
    made.down(FindMembers(seconds(60), True))
    return made


def places(made: Bench) -> list[PhysicalAddress]:
    return [event.physical for event in made.passed_down(SendTo)]


def test_a_request_goes_to_a_host_by_name_as_soon_as_it_is_resolved() -> None:
    made = searching("b:7800,10.0.0.3:7800")
    assert places(made) == [("10.0.0.3", 7800)]
    assert made.passed_down(ResolveName) == [ResolveName("b", 7800)]
    made.up(NameResolved("b", 7800, PEER))
    assert places(made) == [PEER]
    made.up(NameResolved("b", 7800, PEER))
    assert places(made) == []


def test_a_name_of_several_hosts_leads_to_all_of_them_and_each_gets_the_request_once() -> None:
    made = searching("b:7800", refresh_ns=seconds(30))
    places(made)
    more = [(f"10.0.0.{number}", 7800) for number in range(10, 15)]
    made.up(NameResolved("b", 7800, more[0], tuple(more[1:3])))
    assert places(made) == more[:3]
    made.up(NameResolved("b", 7800, more[2], (more[0], more[1])))             # a name server turns its answers
    assert places(made) == []
    made.up(NameResolved("b", 7800, more[1], (more[2], more[3])))             # one is gone, another one new
    assert places(made) == [more[3]]
    made.advance(600)
    assert set(places(made)) == set(more[1:4])


def test_a_name_that_answers_is_resolved_again_all_the_same_since_more_hosts_may_have_it() -> None:
    made = searching("b:7800", refresh_ns=seconds(3), reresolve_ns=0)
    made.up(NameResolved("b", 7800, PEER))
    made.advance(2900)
    assert made.passed_down(ResolveName) == [ResolveName("b", 7800)]
    made.advance(700)
    assert made.passed_down(ResolveName) == [ResolveName("b", 7800, again=True)]
    never = searching("b:7800", refresh_ns=0, reresolve_ns=0)
    never.up(NameResolved("b", 7800, PEER))
    never.advance(50_000)
    assert never.passed_down(ResolveName) == [ResolveName("b", 7800)]


def test_dns_ping_looks_at_its_own_port_unless_another_one_is_configured() -> None:
    for properties, port in (({}, 7800), ({"dns_port": 9000}, 9000)):
        made = Bench(StubPorts(), DnsPing(DnsPingConfig(dns_query="chat, more", port_range=0, **properties)))
        made.down(FindMembers(seconds(60), True))
        assert made.passed_down(ResolveName) == [ResolveName("chat", port), ResolveName("more", port)]
        made.up(NameResolved("chat", port, ("10.0.0.8", port), (("10.0.0.9", port),)))
        assert places(made) == [("10.0.0.8", port), ("10.0.0.9", port)]


@pytest.mark.parametrize(("properties", "problem"), [
    ({}, "DNS_PING needs dns_query: the name whose addresses are possible members"),
    ({"dns_query": "chat:7800"}, "'chat:7800' has a port; a record of type A or AAAA has none: set dns_port"),
    ({"dns_query": "a b"}, "'a b' is no name; separate names by commas"),
    ({"dns_query": "chat", "dns_record_type": "SRV"}, "dns_record_type 'SRV' is not supported; A and AAAA are"),
])
def test_what_dns_ping_cannot_do_is_an_error_that_says_what_can_be(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        DnsPingConfig(**properties)


def test_members_with_a_port_each_cannot_be_found_by_a_name_alone() -> None:
    transport, _, *rest = load("tcp").layers
    def stack(**properties: int) -> object:
        return load([("TCP", properties), ("DNS_PING", {"dns_query": "chat"}), *rest])
    assert transport.name == "TCP"
    with pytest.raises(ConfigError, match=r"with bind_port=0 \(TCP\) each has another one; set bind_port"):
        stack(bind_port=0)
    stack(bind_port=7800)


def test_an_unknown_name_is_resolved_once_a_second() -> None:
    made = searching("b:7800")
    for _ in range(50):
        made.up(NameResolved("b", 7800, None))
        made.advance(100)
    assert 5 <= len(made.passed_down(ResolveName)) <= 6


def test_a_silent_host_is_resolved_again_and_requests_go_to_its_new_address() -> None:
    made = searching("b:7800", reresolve_ns="5s")
    made.up(NameResolved("b", 7800, PEER))
    made.advance(4900)
    assert made.passed_down(ResolveName) == [ResolveName("b", 7800)]
    made.advance(700)
    assert made.passed_down(ResolveName) == [ResolveName("b", 7800, again=True)]
    places(made)
    made.up(NameResolved("b", 7800, ("10.0.0.7", 7800)))
    made.advance(600)
    assert set(places(made)) == {("10.0.0.7", 7800)}
    assert made.stats()["names_found"] == 2
