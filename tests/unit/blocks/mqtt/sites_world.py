"""Brokers of several sites in memory: a model of RELAY between worlds of one site."""
from __future__ import annotations

from typing import Any

from jgroups_py.blocks.mqtt.federation import wire as w
from tests.unit.blocks.mqtt.federation_world import MS, FederationWorld, Node


class SitesWorld(FederationWorld):
    """Sites of nodes. Multicasts across sites reach each node of another site once and in order, as RELAY brings them;
    while a site is `cut` they wait. Sites are the sides of the world, so frames of streams stay within them. rules:
    site -> its topics_in and topics_out; crossed: what was sent to other sites, named: which sites each frame was for;
    came: (site, frame) of what came there."""

    def __init__(self, *sites: str, rules: dict[str, dict[str, Any]] | None = None, **options: Any) -> None:
        self.rules = rules or {}
        self.sites = {f"S{number}": names for number, names in enumerate(sites)}
        self.site_of = {name: site for site, names in self.sites.items() for name in names}
        self.cut: dict[str, list[tuple[Node, Node, bytes]]] = {}
        self.crossed: list[w.PeerFrame] = []
        self.named: list[tuple[str, ...] | None] = []
        self.came: list[tuple[str, w.PeerFrame]] = []
        self.coordinators: dict[str, str] = {}
        self.epochs = dict.fromkeys(self.sites, 0)
        super().__init__("", **options)
        for site, names in self.sites.items():
            for name in names:
                self.sides[name] = list(self.sites).index(site)
                self.start(name)
        self.views()
        self.run(3)

    def options_of(self, name: str) -> dict[str, Any]:
        return {**super().options_of(name), **self.rules.get(self.site_of[name], {})}

    def views(self) -> None:
        super().views()
        for site, names in self.sites.items():
            live = [name for name in names if name in self.nodes and self.nodes[name].is_live]
            if live and self.coordinators.get(site) != f"{live[0]}{self.nodes[live[0]].life}":
                self.coordinators[site] = f"{live[0]}{self.nodes[live[0]].life}"
                self.epochs[site] += 1
            for name in live:
                self.show_sites(self.nodes[name], site, name == live[0])

    def show_sites(self, node: Node, site: str, is_coordinator: bool) -> None:
        others = {other: ("UP", tuple(self.nodes[name].handle for name in names if name in self.nodes))
                  for other, names in self.sites.items() if other != site}
        node.federation.sites_changed(site, others, is_coordinator, self.epochs[site], self.now_ns)
        node.settle()

    def post_sites(self, node: Node) -> bool:
        """Carry what a node has for other sites; whether there was something."""
        to_sites, to_members = node.federation.drain_sites(self.now_ns)
        for each in to_sites:
            self.crossed.append(w.decode_frame(each.data))
            self.named.append(each.sites)
            for other in self.nodes.values():
                site = self.site_of[other.name]
                if site != self.site_of[node.name] and (each.sites is None or site in each.sites):
                    self.carry(node, other, each.data)
        tokens = [each.token for each in to_sites if each.token]
        if tokens:
            self.later(MS, lambda: self.receipt(node, tokens))
        for answer in to_members:
            self.carry(node, self.nodes[answer.handle.partition("#")[0]], answer.data)
        return bool(to_sites or to_members)

    def receipt(self, node: Node, tokens: list[int]) -> None:
        node.federation.sites_have(tokens)
        node.settle()

    def carry(self, node: Node, other: Node, data: bytes) -> None:
        for site in (self.site_of[node.name], self.site_of[other.name]):
            if site in self.cut:
                self.cut[site].append((node, other, data))
                return
        self.later(5 * MS, lambda: self.arrive(node, other, data))

    def arrive(self, node: Node, other: Node, data: bytes) -> None:
        if other.is_live and self.nodes[other.name] is other:
            self.came.append((self.site_of[other.name], w.decode_frame(data)))
            other.federation.receive_from_site(self.site_of[node.name], node.handle, data, self.now_ns)
            other.settle()

    def join(self, site: str) -> None:
        """The end of a cut."""
        for node, other, data in self.cut.pop(site):
            self.carry(node, other, data)

    def messages(self) -> list[w.SiteMessage]:
        return [frame for frame in self.crossed if isinstance(frame, w.SiteMessage)]


def payloads(client: Any) -> list[bytes]:
    """What a client got."""
    return [message.payload for message in client.messages]
