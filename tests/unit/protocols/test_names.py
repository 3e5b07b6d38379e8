"""NAMES and TCPPING by name, on the bench: what goes out when, who is asked, which news count."""
from __future__ import annotations

from itertools import pairwise

import pytest

from jgroups_py.address import PhysicalAddress
from jgroups_py.errors import ConfigError
from jgroups_py.events import Connect, FindMembers, SendTo
from jgroups_py.naming import NameResolved, Resolve, ResolveName
from jgroups_py.outputs import Note
from jgroups_py.protocols.discovery.tcpping import TcpPing, TcpPingConfig
from jgroups_py.protocols.names import Names, NamesConfig
from jgroups_py.protocols.names.gossip import MAX_NAMES, Gossip
from jgroups_py.protocols.names.headers import Resolution
from jgroups_py.protocols.names.res import Entry, decode_frame, encode_frames
from jgroups_py.units import NS_PER_MS, seconds
from tests.unit.harness import Bench, Fixed, address, multicast

PEER = ("10.0.0.2", 7800)


def bench(**properties: object) -> Bench:
    """NAMES of member A at 127.0.0.1:7800, connected."""
    made = Bench(Names(NamesConfig(**properties)), me="A")         # type: ignore[arg-type]
    made.down(Connect("demo"))
    made.advance(0)
    return made


def hear(made: Bench, *entries: Entry, src: str = "B", at: PhysicalAddress | None = PEER) -> None:
    """A frame of `src` arrives from a place."""
    if at is not None:
        made.floor.book[address(src)] = at
    for frame in encode_frames(entries):
        made.up(multicast(src, frame, headers=(Resolution(),)))


def sent(made: Bench) -> list[tuple[PhysicalAddress, tuple[Entry, ...]]]:
    """What went out since the last call."""
    return [(event.physical, decode_frame(event.batch.payloads[0])) for event in made.passed_down(SendTo)]


def asked(made: Bench) -> list[tuple[str, int, bool]]:
    """Names that the resolvers were asked for, ever."""
    return [(output.name, output.port, output.again) for output in made.outputs if isinstance(output, Resolve)]


def test_accept_4_3_its_own_name_goes_out_every_second_and_what_it_knows_every_two() -> None:
    made = bench()
    own, passed_on = [], []
    for tenth in range(200):
        hear(made, Entry("B", PEER[0], PEER[1], 0, True))
        for place, entries in sent(made):
            assert place == PEER
            assert [entry.name for entry in entries] == (["A"] if entries[0].is_self else ["B"])
            (own if entries[0].is_self else passed_on).append(tenth / 10)
        made.advance(100)
    for times, every in ((own, 1.0), (passed_on, 2.0)):
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert len(gaps) >= 8
        assert all(abs(gap - every) < 0.1 for gap in gaps)


def test_its_own_name_is_that_of_the_member_and_its_place_that_of_the_transport() -> None:
    made = bench(bootstrap="10.0.0.9:1")
    [(place, (entry,))] = sent(made)
    assert place == ("10.0.0.9", 1)
    assert entry == Entry("A", "127.0.0.1", 7800, 0, True)


def test_a_member_whose_name_cannot_be_sent_is_known_by_its_address() -> None:
    made = Bench(Names(NamesConfig(bootstrap="10.0.0.9:1")), me="Zo\u00eb")
    made.down(Connect("demo"))
    made.advance(0)
    [(_, (entry,))] = sent(made)
    assert entry.name == made.me.raw.hex()


def test_every_bootstrap_neighbour_is_told_until_it_is_a_neighbour_and_we_are_none() -> None:
    made = bench(bootstrap=f"127.0.0.1:7800,{PEER[0]}:{PEER[1]},10.0.0.3:7800")
    assert [place for place, _ in sent(made)] == [PEER, ("10.0.0.3", 7800)]
    hear(made, Entry("B", PEER[0], PEER[1], 0, True))
    made.advance(1000)
    assert [place for place, _ in sent(made)] == [PEER, ("10.0.0.3", 7800)]
    assert made.stats()["bootstrap_neighbours"] == 1


def test_the_name_of_a_bootstrap_neighbour_is_looked_for_again_only_while_it_is_silent() -> None:
    made = bench(bootstrap="b:7800,127.0.0.9:1")
    assert asked(made) == [("b", 7800, False)]
    made.up(NameResolved("b", 7800, PEER))
    assert [place for place, _ in sent(made)][-1] == PEER          # told at once, not in a second
    for _ in range(30):
        hear(made, Entry("B", PEER[0], PEER[1], 0, True))
        made.advance(1000)
    assert asked(made) == [("b", 7800, False)]
    made.advance(22_000)
    assert asked(made)[1:] == [("b", 7800, True)] * 2


def test_a_name_that_gossip_knows_is_answered_at_once_and_others_go_to_the_resolvers() -> None:
    made = bench(resolver="static:far=10.1.1.1;dns")
    hear(made, Entry("B", PEER[0], PEER[1], 0, True))
    made.down(ResolveName("B", 7800))
    made.down(ResolveName("B", 9999))                              # where B really is counts
    made.down(ResolveName("A", 7800))
    assert made.told(NameResolved) == [NameResolved("B", 7800, PEER), NameResolved("B", 9999, PEER),
                                       NameResolved("A", 7800, ("127.0.0.1", 7800))]
    made.down(ResolveName("far", 1, "endpoint", True))
    [question] = [output for output in made.outputs if isinstance(output, Resolve)]
    assert (question.name, question.port, question.parameter, question.again) == ("far", 1, "endpoint", True)
    assert [link.kind for link in question.chain.links] == ["static", "dns"]


def test_malformed_frames_and_entries_without_an_address_are_counted() -> None:
    made = bench()
    made.up(multicast("B", b"no frame", headers=(Resolution(),)))
    hear(made, Entry("B", "0.0.0.0", 7800, 0, True), src="C", at=None)
    hear(made, Entry("D", "0.0.0.0", 7800, 0))
    assert made.stats()["frames_malformed"] == 1
    assert made.stats()["entries_without_address"] == 2
    assert made.stats()["names"] == 0


def test_bad_entries_of_the_bootstrap_list_are_noted() -> None:
    made = bench(bootstrap="just:wrong")
    [note] = [output for output in made.outputs if isinstance(output, Note)]
    assert "'just:wrong' is no host:port" in note.text


@pytest.mark.parametrize(("properties", "why"), [
    ({"name": "x" * 513}, "at most 512 ASCII"), ({"name": "Zo\u00eb"}, "ASCII"),
    ({"interface": "eth0"}, "no IP address"),
    ({"timeout_ns": "1s"}, "must exceed self_interval"), ({"resolver": "dns;"}, "empty part"),
    ({"resolver": "file:"}, "what follows the colon"), ({"resolver": "static:a"}, "no name=address"),
    ({"resolver": "nowhere:Class"}, "none of dns, file:PATH"),
])
def test_wrong_properties_are_config_errors(properties: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        NamesConfig(**properties)                                  # type: ignore[arg-type]


# --- gossip ---------------------------------------------------------------------------------------------------------

def test_the_later_confirmation_wins_whatever_arrives_last() -> None:
    gossip = Gossip("A", ("10.0.0.1", 1))
    assert gossip.heard(Entry("B", "10.0.0.2", 1, 500), None, seconds(20)) == "names_learnt"
    assert gossip.heard(Entry("B", "10.0.0.3", 1, 0, True), None, seconds(21)) == "names_moved"
    assert gossip.heard(Entry("B", "10.0.0.2", 1, 5000), None, seconds(22)) == "older_gossip"
    assert gossip.heard(Entry("B", "10.0.0.2", 1, 1001), None, seconds(22)) == "older_gossip"
    assert gossip.find("B", 1) == ("10.0.0.3", 1)
    assert gossip.heard(Entry("B", "10.0.0.2", 1, 999), None, seconds(22)) == "names_moved"


def test_gossip_keeps_nobody_alive_and_brings_nobody_back() -> None:
    gossip = Gossip("A", ("10.0.0.1", 1), seconds(10))
    gossip.heard(Entry("B", "10.0.0.2", 1, 0, True), None, 0)
    for second in range(1, 10):
        gossip.heard(Entry("B", "10.0.0.2", 1, second * 1000), None, seconds(second))
    assert gossip.forget(seconds(10)) == 1
    assert gossip.neighbours == {}
    assert gossip.heard(Entry("B", "10.0.0.2", 1, 10_000), None, seconds(10)) == "entries_too_old"


def test_our_own_name_at_our_port_is_nobody_elses_but_at_another_port_it_is() -> None:
    gossip = Gossip("A", ("10.0.0.1", 1))
    assert gossip.heard(Entry("A", "10.0.0.9", 1, 0, True), None, 0) == ""
    assert gossip.heard(Entry("A", "10.0.0.9", 2, 0, True), None, 0) == "names_learnt"
    assert gossip.find("A", 1) == ("10.0.0.1", 1)
    assert gossip.find("A", 2) == ("10.0.0.9", 2)


def test_of_several_ports_of_a_name_the_one_confirmed_last_stands_for_it() -> None:
    gossip = Gossip("A", ("10.0.0.1", 1))
    gossip.heard(Entry("B", "10.0.0.2", 5, 3000), None, seconds(9))
    gossip.heard(Entry("B", "10.0.0.3", 6, 1000), None, seconds(9))
    assert gossip.find("B", 4) == ("10.0.0.3", 6)
    assert gossip.find("B", 5) == ("10.0.0.2", 5)
    assert gossip.find("C", 5) is None


def test_ages_are_passed_on() -> None:
    gossip = Gossip("A", ("10.0.0.1", 1))
    gossip.heard(Entry("B", "10.0.0.2", 1, 0, True), None, 0)
    [(frame, place)] = gossip.pass_on(2500 * NS_PER_MS)
    assert place == ("10.0.0.2", 1)
    assert decode_frame(frame) == (Entry("B", "10.0.0.2", 1, 2500),)


def test_what_a_flood_of_names_can_make_us_keep_is_bounded() -> None:
    gossip = Gossip("A", ("10.0.0.1", 1))
    for number in range(MAX_NAMES + 100):
        gossip.heard(Entry(f"n{number}", "10.0.0.2", 1 + number % 60_000, 0), None, 0)
    assert len(gossip.cache) == MAX_NAMES
    assert len(gossip.neighbours) <= 1024


# --- TCPPING by name ------------------------------------------------------------------------------------------------

def searching(hosts: str, **properties: object) -> Bench:
    """TCPPING in a search, without NAMES."""
    made = Bench(Fixed(), TcpPing(TcpPingConfig(initial_hosts=hosts, port_range=0, **properties)))  # type: ignore[arg-type]
    made.down(FindMembers(seconds(60), True))
    return made


def places(made: Bench) -> list[PhysicalAddress]:
    return [event.physical for event in made.passed_down(SendTo)]


def test_a_host_by_name_is_asked_as_soon_as_it_is_known() -> None:
    made = searching("b:7800,10.0.0.3:7800")
    assert places(made) == [("10.0.0.3", 7800)]
    assert made.passed_down(ResolveName) == [ResolveName("b", 7800)]
    made.up(NameResolved("b", 7800, PEER))
    assert places(made) == [PEER]
    made.up(NameResolved("b", 7800, PEER))
    assert places(made) == []


def test_an_unknown_name_is_looked_for_once_a_second() -> None:
    made = searching("b:7800")
    for _ in range(50):
        made.up(NameResolved("b", 7800, None))
        made.advance(100)
    assert 5 <= len(made.passed_down(ResolveName)) <= 6


def test_a_silent_host_is_looked_for_again_and_asked_where_it_is_now() -> None:
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
