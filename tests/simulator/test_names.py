"""Acceptance cases 2 to 8 of names by gossip, on the simulator."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.errors import ConfigError
from jgroups_py.protocols.name_service import Names
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.world import World, millis, seconds

PORT = 7800


def found_by_name(**properties: Any) -> StackSpec:
    """stacks/tcp.xml, where members are found by the name chat."""
    _, _, *rest = load("tcp").layers
    return load([("TCP", {"bind_port": PORT, "port_range": 0}),
                 ("DNS_PING", {"dns_query": "chat", "port_range": 0, **properties}), *rest])


def test_a_service_of_several_hosts_is_one_group_and_one_whose_record_comes_later_joins_it() -> None:
    world = World(1)
    world.names["chat"] = (world.ip("A"), world.ip("B"))           # also while they are not ready
    for name in "AB":
        world.start(name, found_by_name())
    world.run_for(seconds(5))
    assert world.agreed("AB")
    world.start("C", found_by_name())                              # it asks A and B, so it needs no record of its own
    world.run_for(seconds(5))
    assert world.agreed("ABC")


def test_groups_whose_records_were_not_there_at_first_merge_once_they_are() -> None:
    world = World(1)
    for name in "AB":                                              # a service that publishes ready pods only
        world.ip(name)
        world.start(name, found_by_name())
    world.run_for(seconds(10))
    assert [world.view_names(name) for name in "AB"] == [["A"], ["B"]]
    world.names["chat"] = (world.ip("A"),)
    world.run_for(seconds(60))
    world.names["chat"] = (world.ip("A"), world.ip("B"))
    world.run_for(seconds(90))
    assert world.agreed("AB")


def udp_with(**names: Any) -> StackSpec:
    """stacks/udp.xml with NAMES, at a fixed port."""
    rest = load("udp").layers[1:]
    return load([("UDP", {"mcast_port": 45588, "bind_port": PORT, "port_range": 0}), ("NAMES", names), *rest])


def tcp_with(hosts: str, names: Mapping[str, Any] | None = None) -> StackSpec:
    """stacks/tcp.xml with `hosts` to ask first, and NAMES if wanted."""
    transport, discovery, *rest = load("tcp", {"initial_hosts": hosts, "port_range": "0"}).layers
    return load([transport, *([("NAMES", names)] if names is not None else []), discovery, *rest])


def names_of(world: World, name: str) -> Names:
    found = world.node(name).local.find(Names)
    assert isinstance(found, Names)
    return found


def known(world: World, member: str) -> dict[tuple[str, int], str]:
    """What a member has by gossip: (name, port) -> host."""
    gossip = names_of(world, member).gossip
    return {} if gossip is None else {key: place.host for key, place in gossip.cache.items()}


def neighbours(world: World, member: str) -> int:
    return int(world.stats(member)["NAMES"]["neighbours"])


def chain_of_three(weather: Weather | None = None) -> World:
    """A has no neighbour, B has A, C has B."""
    world = World(1, weather=None if weather is None else {0: weather})
    for name, knows in (("A", ""), ("B", "A"), ("C", "B")):
        world.ip(name)
        world.start(name, udp_with(bootstrap=f"{world.ip(knows)}:{PORT}" if knows else ""))
    return world


def test_accept_4_2_all_find_all_through_one_another_and_a_late_one_too() -> None:
    world = chain_of_three()
    world.run_for(seconds(5))
    assert [neighbours(world, name) for name in "ABC"] == [2, 2, 2]
    assert known(world, "A") == {("B", PORT): world.ip("B"), ("C", PORT): world.ip("C")}
    world.start("D", udp_with(bootstrap=f"{world.ip('A')}:{PORT}"))
    world.run_for(seconds(5))
    assert [neighbours(world, name) for name in "ABCD"] == [3, 3, 3, 3]


@pytest.mark.parametrize("weather", [Weather(), Weather(latency_ns=millis(50), jitter_ns=millis(100), loss_ratio=0.05)])
def test_accept_4_4_a_dead_name_is_forgotten_by_all_and_never_comes_back(weather: Weather) -> None:
    world = chain_of_three(weather)
    world.run_for(seconds(6))
    world.crash("B")
    world.run_for(seconds(8.5))
    assert ("B", PORT) in known(world, "A")
    world.run_for(seconds(3.5))
    for _ in range(300):
        assert ("B", PORT) not in known(world, "A")
        assert ("B", PORT) not in known(world, "C")
        world.run_for(millis(100))
    assert [neighbours(world, name) for name in "AC"] == [1, 1]


def test_accept_4_5_a_name_that_moved_is_taken_from_its_new_place_and_never_from_older_gossip() -> None:
    world = chain_of_three()
    world.run_for(seconds(6))
    world.crash("C")
    world.start("C2", udp_with(name="C", bootstrap=f"{world.ip('B')}:{PORT}"))
    world.run_for(seconds(4))
    for _ in range(200):
        assert [known(world, name)["C", PORT] for name in "AB"] == [world.ip("C2")] * 2
        world.run_for(millis(100))


@pytest.mark.parametrize("by_gossip", [False, True])
def test_accept_4_5_a_member_that_restarts_elsewhere_is_found_again_within_8_s(by_gossip: bool) -> None:
    world = World(2)
    seeds = {"bootstrap": f"{world.ip('B')}:{PORT}"} if by_gossip else None
    world.names["orders"] = world.ip("A")
    world.start("A", tcp_with("orders[7800]", {**seeds, "name": "orders"} if seeds else None))
    world.start("B", tcp_with("orders[7800]", seeds))
    world.start("C", tcp_with("orders[7800]", seeds))
    assert world.run_while(lambda: not world.agreed("ABC"), seconds(15))
    world.run_for(seconds(3))
    world.crash("A")
    world.run_for(seconds(6))
    assert world.agreed("BC")
    if by_gossip:
        del world.names["orders"]                            # only gossip has it
    else:
        world.names["orders"] = world.ip("A2")
    # The new member has no neighbour: the others must contact it.
    world.start("A2", tcp_with(f"{world.ip('A2')}[7800]", {**seeds, "name": "orders"} if seeds else None))
    world.run_while(lambda: world.view_of("A2") is None, seconds(5))
    assert world.run_while(lambda: not world.agreed(["A2", "B", "C"]), seconds(8))
    world.post("B", count=3)
    world.run_for(seconds(1))
    assert len(world.delivered("A2")) == 3


def test_accept_4_6_a_wildcard_address_becomes_that_of_the_packet_and_similar_names_stay_apart() -> None:
    world = World(3)
    world.start("X", udp_with())
    world.start("A", udp_with(name="A", interface="0.0.0.0", bootstrap=f"{world.ip('X')}:{PORT}"))
    world.start("B", udp_with(name="AA", bootstrap=f"{world.ip('X')}:{PORT}"))
    world.run_for(seconds(3))
    assert known(world, "X") == {("A", PORT): world.ip("A"), ("AA", PORT): world.ip("B")}


def test_accept_4_7_bad_bootstrap_neighbours_do_not_keep_good_ones_from_being_found() -> None:
    world = World(4)
    world.names["good"] = world.ip("A")
    world.start("A", udp_with())
    world.start("B", udp_with(bootstrap="just:wrong,nohost:1,good"))
    world.run_for(seconds(3))
    assert [neighbours(world, name) for name in "AB"] == [1, 1]
    assert world.stats("B")["NAMES"]["bootstrap_invalid"] == 1
    assert world.stats("B")["NAMES"]["bootstrap_neighbours"] == 1


def test_accept_4_7_a_bootstrap_neighbour_that_moves_is_found_within_11_s() -> None:
    world = World(5)
    world.names["seed"] = world.ip("A")
    world.start("B", udp_with(bootstrap=f"seed:{PORT}"))
    world.run_for(seconds(4))
    world.names["seed"] = world.ip("A2")
    world.start("A2", udp_with())
    assert world.run_while(lambda: neighbours(world, "A2") == 0, seconds(11))


def test_accept_4_7_more_than_20_bootstrap_neighbours_are_an_error() -> None:
    load([*udp_with(bootstrap=",".join(f"h{n}:1" for n in range(20))).layers])
    with pytest.raises(ConfigError, match="bootstrap has 21 entries; at most 20"):
        udp_with(bootstrap=",".join(f"h{n}:1" for n in range(21)))
    with pytest.raises(ConfigError, match=r"at most 1 with profile aeron-1\.26"):
        udp_with(bootstrap="a:1,b:2", profile="aeron-1.26")


def arrivals(names_ns: int) -> list[int]:
    """When 50 messages of A arrive at B, both looking for names that take so long, ns after they were sent."""
    world = World(6)
    world.names_ns = names_ns
    for name in "AB":
        world.start(name, udp_with(bootstrap="nohost:1,nowhere:2"))
    world.run_while(lambda: not world.agreed("AB"), seconds(5))
    found = []
    for number in range(50):
        world.post("A")
        sent_ns = world.now_ns
        world.run_while(lambda number=number: len(world.delivered("B")) <= number, seconds(5), millis(0.1))
        found.append(world.now_ns - sent_ns)
        world.run_for(millis(300))
    return sorted(found)


def test_accept_4_8_a_resolver_that_takes_10_s_delays_no_message() -> None:
    slow, fast = arrivals(seconds(10)), arrivals(millis(1))
    assert slow[-1] <= 1.2 * fast[-1]
    assert slow[len(slow) // 2] <= 1.2 * fast[len(fast) // 2]


def test_the_hosts_of_a_bridge_may_be_names_and_move() -> None:
    world = World(7)
    hosts = {"relay-nyc": "A", "relay-sfo": "X"}
    world.names.update({name: world.ip(member) for name, member in hosts.items()})
    bridge = load("bridge", {"bridge_hosts": ",".join(f"{name}[7900]" for name in hosts), "bridge_port_range": "0"})
    for name, site in (("A", "nyc"), ("X", "sfo")):
        world.start(name, load(site), f"group of {site}", bridge=bridge)
    assert world.run_while(lambda: world.process("A").site_status.get("SFO") != "UP", seconds(20))
    world.crash("X")
    world.run_for(seconds(8))
    world.names["relay-sfo"] = world.ip("Y")
    world.start("Y", load("sfo"), "group of sfo", bridge=bridge)
    assert world.run_while(lambda: world.process("A").site_status.get("SFO") != "UP", seconds(15))
    world.post("A", count=3)
    world.run_for(seconds(3))
    assert len(world.delivered("Y")) == 3


def test_seeds_of_pex_may_be_names_and_move() -> None:
    world = World(8)
    world.names["seed"] = world.ip("A")
    stack = load([("UDP", {"ip_mcast": "false", "bind_port": PORT, "port_range": 0}), ("PEX", {"seeds": "seed[7800]"}),
                  *load("udp").layers[2:]])
    world.start("A", stack)
    world.start("B", stack)
    assert world.run_while(lambda: not world.agreed("AB"), seconds(10))
    world.crash("A")
    world.run_for(seconds(8))
    world.names["seed"] = world.ip("A2")
    world.start("A2", stack)                                 # its seed is itself: B has to come to it
    assert world.run_while(lambda: world.view_of("A2") is None or not world.agreed(["A2", "B"]), seconds(10))
