"""Two sites whose members have interests, for the tests of TOPICS."""
from __future__ import annotations

from jgroups_py.config.load import load
from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import seconds
from jgroups_py.simulator import World

SITES = {"A": "NYC", "B": "NYC", "C": "SFO", "D": "SFO", "E": "SFO"}
PORTS = {"NYC": "45611", "SFO": "45612"}


def start(world: World, name: str, topics: str) -> None:
    """Start a member with the shipped stack."""
    site = SITES[name]
    hosts = ",".join(f"{world.ip(other)}[7900]" for other in SITES)
    spec = load("topics", {"site": site, "mcast_port": PORTS[site], "topics": topics})
    bridge = load("bridge", {"bridge_hosts": hosts, "bridge_port_range": "0"})
    world.start(name, spec, f"group of {site}", bridge=bridge)


def two_sites(**topics: str) -> World:
    """A world in which both sites have their views and each other. topics: name -> initial interest."""
    world = World(1)
    for name, wanted in topics.items():
        start(world, name, wanted)
    names = {site: [name for name in topics if SITES[name] == site] for site in PORTS}
    assert world.run_while(lambda: not together(world, names), seconds(20))
    world.run_for(seconds(1))
    return world


def together(world: World, names: dict[str, list[str]]) -> bool:
    """Whether each site is one view and has the other in its global view."""
    views = [world.process(name).global_view for members in names.values() for name in members]
    return all(not members or world.agreed(members) for members in names.values()) and all(
        view is not None and all(len(view.sites.get(site, ())) == len(names[site]) for site in names) for view in views)


def relay_of(world: World, site: str) -> str:
    """The coordinator of a site."""
    name = next(name for name in world.running() if SITES[name] == site)
    return world.view_names(name)[0]


def bridge_bytes(world: World, site: str) -> int:
    """The bytes that a site's relay has sent over the bridge."""
    bridge = world.process(relay_of(world, site)).stack(BRIDGE)
    assert bridge is not None
    return int(bridge.transport.stats()["bytes_sent"])


def bridge_frames(world: World, site: str) -> int:
    """The datagrams that a site's relay has sent over the bridge."""
    bridge = world.process(relay_of(world, site)).stack(BRIDGE)
    assert bridge is not None
    return int(bridge.transport.stats()["frames_sent"])


def about(world: World, name: str, topic: str) -> list[int]:
    """The numbers of the messages about a topic that a member got, as World.post gave them."""
    return [int(payload.rstrip(b".").rpartition(b"/")[2].partition(b"@")[0]) for payload in world.delivered(name)
            if payload.rstrip(b".").endswith(f"@{topic}".encode())]
