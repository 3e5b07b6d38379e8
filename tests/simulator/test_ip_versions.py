"""Groups of members with addresses of IPv6, on the simulator: in frames, and in lists of hosts."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.simulator.world import World, millis, seconds

HOSTS = {"A": "fd00::a", "B": "fd00::b", "C": "fd00::c"}
PORT = 7800


def started(world: World, stack: str, **properties: str) -> None:
    for name, host in HOSTS.items():
        world.start(name, load(stack, properties), host=host)


@pytest.mark.parametrize("stack", ["udp", "tcp"])
def test_members_form_a_group_and_one_that_crashes_and_starts_again_gets_what_it_missed(stack: str) -> None:
    world = World(11)
    hosts = ",".join(f"[{host}]:{PORT}" for host in HOSTS.values())
    started(world, stack, **({"initial_hosts": hosts, "port_range": "0"} if stack == "tcp" else {}))
    world.run_for(seconds(5))
    assert world.agreed("ABC")
    world.send("A", None, [b"1", b"2"])
    world.run_for(millis(200))
    world.crash("C")
    world.run_for(seconds(10))
    assert world.agreed("AB"), "C's crash was not noticed"
    world.start("C", load(stack, {"initial_hosts": hosts, "port_range": "0"} if stack == "tcp" else {}))
    world.run_for(seconds(10))
    assert world.agreed("ABC")
    world.send("C", None, [b"3"])
    world.run_for(seconds(1))
    assert [world.delivered(name) for name in "AB"] == [[b"1", b"2", b"3"]] * 2


@pytest.mark.parametrize(("kind", "version"), [("AAAA", 6), ("A", 4)])
def test_a_name_gives_the_addresses_of_the_type_that_was_asked_for(kind: str, version: int) -> None:
    """The name has an address of each version for each member; those of the other version lead nowhere."""
    world = World(12)
    mine = HOSTS if version == 6 else {name: f"10.9.0.{at}" for at, name in enumerate("ABC", 1)}
    others = {"10.8.0.1", "10.8.0.2"} if version == 6 else {"fd01::1", "fd01::2"}
    world.names["chat"] = (*sorted(others), *mine.values())
    _, _, *rest = load("tcp").layers
    for name, host in mine.items():
        world.start(name, load([("TCP", {"bind_port": PORT, "port_range": 0}), ("DNS_PING", {
            "dns_query": "chat", "port_range": 0, "dns_record_type": kind}), *rest]), host=host)
    world.run_for(seconds(5))
    assert world.agreed("ABC")
    for name in "ABC":
        places = set(world.node(name).local.layers[1].listed)            # type: ignore[attr-defined]
        assert places == {(host, PORT) for host in mine.values()}, "addresses of the other version are asked"


def test_names_in_initial_hosts_give_addresses_of_the_version_of_the_transport_where_they_have_both() -> None:
    world = World(13)
    world.names["seed"] = ("10.8.0.1", HOSTS["A"])
    started(world, "tcp", initial_hosts=f"seed:{PORT}", port_range="0")
    world.run_for(seconds(5))
    assert world.agreed("ABC")
    assert "no_physical_address" not in world.stats("B")["TCP"]


def test_a_name_with_addresses_of_the_other_version_alone_is_used_all_the_same() -> None:
    """A host with IPv4 that reaches a seed with IPv6 over TCP."""
    world = World(14)
    world.names["seed"] = (HOSTS["A"],)
    for name, host in {"A": HOSTS["A"], "B": "10.9.0.2"}.items():
        world.start(name, load("tcp", {"initial_hosts": f"seed:{PORT}", "port_range": "0"}), host=host)
    world.run_for(seconds(5))
    assert world.agreed("AB")
