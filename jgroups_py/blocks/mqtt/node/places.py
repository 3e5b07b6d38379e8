"""Addresses of a node, with defaults for those that the broker's file does not give."""
from __future__ import annotations

from jgroups_py.blocks.mqtt.server.config import GOSSIP_PORT, FederationSection
from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.name_resolution import is_address
from jgroups_py.runtime.sockets.interfaces import resolve

OF_THIS_HOST = "site_local,non_loopback,loopback"


def reachable(place: PhysicalAddress) -> PhysicalAddress:
    """An address to advertise. For "all addresses": the private address of this host, or else any address of it."""
    host, port = place
    return host or resolve(OF_THIS_HOST), port


def numeric(place: PhysicalAddress) -> PhysicalAddress:
    """As `reachable`, with a host name resolved: membership carries addresses. Raises ConfigError: it has none."""
    host, port = reachable(place)
    return host if is_address(host) else resolve(host), port


def gossip_place(section: FederationSection) -> PhysicalAddress:
    """Where the membership of gmqtt's federation listens."""
    return section.gossip_addr or ("", GOSSIP_PORT)


def group_properties(section: FederationSection) -> dict[str, object]:
    """The properties that a file's addresses set in the stack of a group; an absent address sets none.

    >>> group_properties(FederationSection(gossip_addr="127.0.0.1:8902", retry_join=(("127.0.0.1", 8912),)))
    {'bind_addr': '127.0.0.1', 'bind_port': 8902, 'port_range': 0, 'initial_hosts': '127.0.0.1[8912]'}
    """
    found: dict[str, object] = {}
    if section.gossip_addr is not None:
        host, port = section.gossip_addr
        found |= {"bind_addr": host or resolve(OF_THIS_HOST), "bind_port": port, "port_range": 0}
    if section.advertise_gossip_addr is not None:
        host, port = numeric(section.advertise_gossip_addr)
        found |= {"external_addr": host, "external_port": port}
    if section.nodes_to_join:
        found["initial_hosts"] = ",".join(f"{host}[{port}]" for host, port in section.nodes_to_join)
    return found
