"""DNS_PING: discovery by names that a name server keeps, as those of headless services in Kubernetes (host_list.py).

Each address of each name is a possible member. Records of type A (IPv4) and AAAA (IPv6) have no port, so members are
looked for at the port of this member, which all of them share, or at `dns_port`. Records of type SRV name hosts with
their ports. For SRV, and for a name server of its own (`dns_address`), the question goes past the system's resolver and
NAMES, which have neither.

Source: JGroups DNS_PING.java (dns_query, dns_record_type, probe_transport_ports).
"""
from __future__ import annotations

from importlib.util import find_spec
from typing import ClassVar

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import NameResolved, ResolveName
from jgroups_py.model.name_resolution import RECORDS, Chain, ResolverSpec, is_address, split_place
from jgroups_py.model.outputs import Resolve
from jgroups_py.model.units import count, parsed, text
from jgroups_py.protocols.discovery.base import DiscoveryConfig
from jgroups_py.protocols.discovery.host_list import MAX_PORT, HostList, HostListConfig
from jgroups_py.stack.protocol import on

DNS_PORT = 53
VERSIONS = {"A": 4, "AAAA": 6}
"""Type of records -> the IP version of their addresses."""
TYPES = (*VERSIONS, "SRV")


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


def parse_server(value: str) -> str:
    """A name server: an IP address, with a port if it is not 53; "dns://" before it is dropped.

    >>> parse_server("dns://10.0.0.53"), parse_server("[::1]:5353")
    ('10.0.0.53', '[::1]:5353')

    Raises:
        ConfigError: it is none.
    """
    server = value.removeprefix("dns://").removesuffix("/")
    if server:
        host, _ = split_place(server, DNS_PORT)
        if not is_address(host):
            raise ConfigError(f"dns_address: {value!r} is no IP address with or without a port; one server is asked")
    return server


@attrs.frozen
class DnsPingConfig(HostListConfig):
    """Properties of DNS_PING."""

    ignored: ClassVar[dict[str, str]] = {
        **DiscoveryConfig.ignored,
        "dns_context_factory": "there are no Java classes to load",
        "probe_transport_ports": "port_range says how many ports are tried at each address",
        "dns_timeout": "names are resolved on other threads, and no message waits for them",
    }

    dns_query: tuple[str, ...] = parsed(
        (), parse=parse_names, unit="name,...", doc="The names whose addresses are possible members, as "
        '"chat.default.svc.cluster.local". In Kubernetes a headless service that publishes addresses that are not '
        "ready: else the first members do not find each other.")
    dns_record_type: str = text("A", doc="The type of records: A (IPv4), AAAA (IPv6), or SRV (hosts with ports, as "
                                '"_jgroups._tcp.chat.example"; needs the extra dns).')
    dns_port: int = count(0, most=MAX_PORT, doc="The port of all members; 0: that of this one. Records of type SRV "
                          "have ports of their own.")
    dns_address: str = parsed("", parse=parse_server, unit="host[:port]", doc="The name server to ask, by IP address; "
                              "empty: those of the system. Needs the extra dns.")

    def __attrs_post_init__(self) -> None:
        if not self.dns_query:
            raise ConfigError('DNS_PING needs dns_query: the name whose addresses are possible members, as '
                              '"chat.default.svc.cluster.local"')
        object.__setattr__(self, "dns_record_type", self.dns_record_type.upper())
        if self.dns_record_type not in TYPES:
            raise ConfigError(f"DNS_PING: dns_record_type {self.dns_record_type!r} is not supported; "
                              f"{', '.join(TYPES)} are")
        if self.dns_record_type == "SRV" and self.dns_port:
            raise ConfigError("DNS_PING: records of type SRV have ports; leave dns_port out")
        if self.past_the_system() and find_spec("dns") is None:
            what = "dns_record_type SRV" if self.dns_record_type == "SRV" else "dns_address"
            raise ConfigError(f"DNS_PING: {what} needs dnspython: pip install 'jgroups_py[dns]'")

    def past_the_system(self) -> bool:
        """Whether the system's resolver cannot be asked."""
        return bool(self.dns_address) or self.dns_record_type == "SRV"


class DnsPing(HostList):
    """Sends the request to all addresses of `dns_query`."""

    Config = DnsPingConfig
    config: DnsPingConfig

    def start(self) -> None:
        super().start()
        self.port = 0
        config = self.config
        self.chain: Chain | None = None                # the resolvers, if the system's cannot be asked
        if config.past_the_system():
            argument = f"{config.dns_record_type} {config.dns_address}".strip()
            self.chain = Chain((ResolverSpec(RECORDS, argument),), argument)

    def send_request(self, request: Batch) -> None:
        own = self.addresses.my_physical()
        port = self.config.dns_port or (0 if own is None else own[1])
        if port != self.port:                          # it is known once the transport has bound its socket
            self.port = port
            self.listed = self.hosts((name, port) for name in self.config.dns_query)
        super().send_request(request)

    def version(self) -> int:
        return VERSIONS.get(self.config.dns_record_type) or super().version()

    def ports(self, first: PhysicalAddress) -> tuple[PhysicalAddress, ...]:
        """A record of type SRV names one port, not the first one of a range."""
        return (first,) if self.config.dns_record_type == "SRV" else super().ports(first)

    def look_up(self, wanted: ResolveName) -> None:
        if self.chain is None:
            super().look_up(wanted)
        else:
            self.emit(Resolve(self.stack.net, wanted.name, wanted.port, self.chain, wanted.parameter, wanted.again,
                              wanted.version))

    @on(NameResolved)
    def resolved(self, event: NameResolved) -> None:
        """Without the addresses of the other IP version, for which the records were not asked."""
        version = VERSIONS.get(self.config.dns_record_type)
        places = tuple(place for place in event.places if version in (None, 6 if ":" in place[0] else 4))
        super().resolved(NameResolved(event.name, event.port, places[0] if places else None, places[1:]))
