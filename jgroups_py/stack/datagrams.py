"""Configurations of transports that use datagrams, or datagrams and streams, without multicast."""
from __future__ import annotations

import attrs

from jgroups_py.model.units import count, host, text


@attrs.frozen
class Datagrams:
    """A transport on datagrams, without multicast."""

    bind_addr: str = text("127.0.0.1", doc="The IP address of the interface to send and receive on, IPv4 or IPv6; also "
                          "\"loopback\" and \"site_local\", \"global\", \"match-interface:NAME\".")
    bind_port: int = count(0, most=65535, doc="First port to try; 0: any free one.")
    port_range: int = count(0, doc="How many more ports to try above bind_port when it is taken.")
    external_addr: str = host("", doc="The address given to other members in place of bind_addr, for a proxy or "
                              "NAT.")
    external_port: int = count(0, most=65535, doc="The port given to other members; 0: the bound one.")


@attrs.frozen
class BothKinds(Datagrams):
    """A transport on datagrams and streams, both on one port."""
