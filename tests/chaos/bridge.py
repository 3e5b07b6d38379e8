"""The bridge through toxiproxy: each member that may become relay is reached by proxies only, and they turn toxic.

A member has two proxies, one before its TCP port and one before FD_SOCK's listener; what it announces is the
proxies' addresses. A connection carries frames towards the owner of the proxy, so toxics at the proxies of one site
harm one direction: what is sent to that site.
"""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from time import monotonic

import attrs
from toxiproxy import Proxy

from jgroups_py.system.free_ports import free_range
from tests.chaos.sites import NAMES, SITES
from tests.chaos.toxiproxy import Server, add_toxic, port_of

STACK = Path(__file__).parent / "stacks" / "bridge.xml"
STREAMS = ("upstream", "downstream")
FLAP_S = (0.3, 1.5)                  # how long a flapping bridge is up or down


@attrs.frozen
class Toxic:
    """What is done to connections. kind "": the proxies go down and up again."""

    name: str
    kind: str
    attributes: Mapping[str, int]
    sites: tuple[str, ...] = tuple(SITES)


TOXICS = {toxic.name: toxic for toxic in (
    Toxic("latency", "latency", {"latency": 150, "jitter": 100}),             # ms
    Toxic("bandwidth", "bandwidth", {"rate": 10}),                            # KB a second
    Toxic("black hole", "timeout", {"timeout": 0}),
    Toxic("reset every second", "reset_peer", {"timeout": 1000}),             # ms
    Toxic("slicer", "slicer", {"average_size": 64, "size_variation": 32, "delay": 500}),      # bytes, us
    Toxic("limit data", "limit_data", {"bytes": 40_000}),
    Toxic("flapping", "", {}),
    Toxic("one way: to NYC nothing", "timeout", {"timeout": 0}, ("NYC",)),
    Toxic("one way: to SFO nothing", "timeout", {"timeout": 0}, ("SFO",)),
    Toxic("one way: to SFO slowly", "bandwidth", {"rate": 10}, ("SFO",)),
)}


class ProxiedBridge:
    """All members on loopback; `server` stands between the relays on the bridge."""

    def __init__(self, server: Server, seed: int = 0) -> None:
        self.server = server
        self.rng = Random(f"{seed}/bridge")
        first = free_range(2 * len(NAMES))               # below those that connections are given
        self.ports = {name: (first + 2 * at, first + 2 * at + 1) for at, name in enumerate(NAMES)}
        self.proxies = {name: (server.proxy(f"{name}-mesh", mesh), server.proxy(f"{name}-watch", watch))
                        for name, (mesh, watch) in self.ports.items()}
        self.flapping: tuple[str, ...] = ()              # sites whose proxies go up and down
        self._down = False
        self._turn_s = 0.0

    def properties(self, name: str, site: str) -> dict[str, str]:
        """Ports and proxies of a member."""
        mesh, watch = self.ports[name]
        mesh_proxy, watch_proxy = map(port_of, self.proxies[name])
        hosts = ",".join(f"127.0.0.1[{port_of(proxy)}]" for proxy, _ in self.proxies.values())
        return {"bridge_props": str(STACK), "bridge_port": str(mesh), "watch_port": str(watch),
                "mesh_proxy_port": str(mesh_proxy), "watch_proxy_port": str(watch_proxy), "bridge_hosts": hosts}

    def prefix(self, name: str) -> list[str]:
        """No words."""
        return []

    def of(self, sites: tuple[str, ...]) -> list[Proxy]:
        """The proxies of all members of some sites."""
        return [proxy for site in sites for name in SITES[site] for proxy in self.proxies[name]]

    def poison(self, toxic: Toxic) -> None:
        """Begin; `tick` goes on."""
        if not toxic.kind:
            self.flapping = toxic.sites
            return
        self.server.bid(lambda: [add_toxic(proxy, toxic.kind, stream, toxic.attributes)
                                 for proxy in self.of(toxic.sites) for stream in STREAMS])

    def tick(self) -> None:
        """What changes while a toxic works."""
        if self.flapping and monotonic() >= self._turn_s:
            self._turn_s = monotonic() + self.rng.uniform(*FLAP_S)
            self._down = not self._down
            self.server.bid(lambda: [proxy.disable() if self._down else proxy.enable()
                                     for proxy in self.of(self.flapping)])

    def heal(self) -> None:
        """No toxics, all up."""
        self.flapping, self._down = (), False
        self.server.reset()
