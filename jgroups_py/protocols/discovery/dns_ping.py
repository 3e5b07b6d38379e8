"""DNS_PING: discovery by names that a name server keeps, as those of headless services in Kubernetes (host_list.py).

Each address of each name is a possible member. Records of type A (IPv4) and AAAA (IPv6) have no port, so members are
looked for at the port of this member, which all of them share, or at `dns_port`.

Source: JGroups DNS_PING.java (dns_query, dns_record_type, probe_transport_ports).
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import NameResolved
from jgroups_py.model.name_resolution import is_address
from jgroups_py.model.units import count, parsed, text
from jgroups_py.protocols.discovery.base import DiscoveryConfig
from jgroups_py.protocols.discovery.host_list import MAX_PORT, HostList, HostListConfig
from jgroups_py.stack.protocol import on

VERSIONS = {"A": 4, "AAAA": 6}
"""Type of records -> the IP version of their addresses."""


def parse_names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """The names of "chat.default.svc.cluster.local,b".

    >>> parse_names("chat.default.svc, b")
    ('chat.default.svc', 'b')

    Raises:
        ConfigError: an entry has a port, or is no name.
    """
    if not isinstance(value, str):
        return tuple(value)
    names = tuple(filter(None, (part.strip() for part in value.split(","))))
    for name in names:
        if (":" in name or "[" in name) and not is_address(name):
            raise ConfigError(f"dns_query: {name!r} has a port; a record of type A or AAAA has none: set dns_port, "
                              "or let all members have one bind_port")
        if any(sign.isspace() for sign in name):
            raise ConfigError(f"dns_query: {name!r} is no name; separate names by commas")
    return names


@attrs.frozen
class DnsPingConfig(HostListConfig):
    """Properties of DNS_PING."""

    ignored: ClassVar[dict[str, str]] = {
        **DiscoveryConfig.ignored,
        **dict.fromkeys(("dns_address", "dns_context_factory"), "the resolver of the system is asked"),
        "probe_transport_ports": "port_range says how many ports are tried at each address",
        "dns_timeout": "names are resolved on other threads, and no message waits for them",
    }

    dns_query: tuple[str, ...] = parsed(
        (), parse=parse_names, unit="name,...", doc="The names whose addresses are possible members, as "
        '"chat.default.svc.cluster.local". In Kubernetes a headless service that publishes addresses that are not '
        "ready: else the first members do not find each other.")
    dns_record_type: str = text("A", doc="The type of records: A (IPv4) or AAAA (IPv6). SRV is refused.")
    dns_port: int = count(0, most=MAX_PORT, doc="The port of all members; 0: that of this one.")

    def __attrs_post_init__(self) -> None:
        if not self.dns_query:
            raise ConfigError('DNS_PING needs dns_query: the name whose addresses are possible members, as '
                              '"chat.default.svc.cluster.local"')
        object.__setattr__(self, "dns_record_type", self.dns_record_type.upper())
        if self.dns_record_type not in VERSIONS:
            raise ConfigError(f"DNS_PING: dns_record_type {self.dns_record_type!r} is not supported; A and AAAA are: "
                              "the port is that of the transport, or dns_port")


class DnsPing(HostList):
    """Sends the request to all addresses of `dns_query`."""

    Config = DnsPingConfig
    config: DnsPingConfig

    def start(self) -> None:
        super().start()
        self.port = 0

    def send_request(self, request: Batch) -> None:
        own = self.addresses.my_physical()
        port = self.config.dns_port or (0 if own is None else own[1])
        if port != self.port:                          # it is known once the transport has bound its socket
            self.port = port
            self.listed = self.hosts((name, port) for name in self.config.dns_query)
        super().send_request(request)

    def version(self) -> int:
        return VERSIONS[self.config.dns_record_type]

    @on(NameResolved)
    def resolved(self, event: NameResolved) -> None:
        """Without the addresses of the other IP version, for which the records were not asked."""
        places = tuple(place for place in event.places if (":" in place[0]) == (self.version() == 6))
        super().resolved(NameResolved(event.name, event.port, places[0] if places else None, places[1:]))
