"""TCPPING: discovery by a list of hosts, each with a range of ports.

Hosts are addresses or names; a name is looked for (ResolveName) when it is first needed, and again while nobody answers
from where it was, so that a member which comes back elsewhere is found. Beside the list, everybody who once asked or
answered is asked too, so that members which are not in the list find groups again that had been apart. Source: JGroups
TCPPING.java (initial_hosts, port_range, dynamic hosts); looking for names again: Aeron's re-resolution.
"""
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

import attrs

from jgroups_py.address import PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.errors import ConfigError
from jgroups_py.events import AddressesKnown, SendTo
from jgroups_py.naming import NameResolved
from jgroups_py.protocol import on
from jgroups_py.protocols.discovery.base import Discovery, DiscoveryConfig, Here, WhoIsThere
from jgroups_py.protocols.discovery.hosts import Hosts
from jgroups_py.units import count, duration, parsed

_HOST = re.compile(r"(?:\[(?P<ip6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:\s]+))(?:\[(?P<port>[0-9]+)\]|:(?P<colon>[0-9]+))")
MAX_PORT = 65535


def parse_hosts(value: str | tuple[PhysicalAddress, ...]) -> tuple[PhysicalAddress, ...]:
    """The hosts of "a[7800],b:7801"; an IPv6 address stands in brackets.

    >>> parse_hosts("127.0.0.1[7800], b:7801,[::1]:7802")
    (('127.0.0.1', 7800), ('b', 7801), ('::1', 7802))
    """
    if not isinstance(value, str):
        return tuple(value)
    found = []
    for item in filter(None, (part.strip() for part in value.split(","))):
        match = _HOST.fullmatch(item)
        if match is None:
            raise ConfigError(f"{item!r} is no host with a port; write host[7800] or host:7800, separated by commas")
        port = int(match["port"] or match["colon"])
        if port > MAX_PORT:
            raise ConfigError(f"{item!r}: a port is at most {MAX_PORT}")
        found.append((match["ip6"] or match["host"], port))
    return tuple(found)


@attrs.frozen
class TcpPingConfig(DiscoveryConfig):
    """Properties of TCPPING."""

    ignored: ClassVar[dict[str, str]] = DiscoveryConfig.ignored

    initial_hosts: tuple[PhysicalAddress, ...] = parsed(
        (), parse=parse_hosts, unit="host[port],...", doc="Whom to ask, for example \"10.0.0.1[7800],10.0.0.2:7800\". "
        "One running member of the group in the list is enough.")
    reresolve_ns: int = duration(
        "5s", name="reresolve", doc="A name of initial_hosts is looked for again when nobody has answered from there "
        "for so long; 0: never. Lower follows a member to its new address sooner and asks the resolvers more.")
    port_range: int = count(1, most=1000, doc="How many more ports above each named one are asked.")
    max_dynamic_hosts: int = count(2000, doc="How many places of members that are not in the list are remembered.")
    dynamic_age_ns: int = duration("1h", doc="How long such a place is asked after it was last heard of. Lower stops "
                                   "asking members that are gone for good; higher heals longer partitions.")


class TcpPing(Discovery):
    """Asks each host of a list."""

    Config = TcpPingConfig
    config: TcpPingConfig

    def start(self) -> None:
        super().start()
        self.listed = Hosts(self.config.initial_hosts, self.config.reresolve_ns, self.ports)
        self.dynamic: dict[PhysicalAddress, int] = {}      # where members receive -> when it was last told, ns
        self.question: Batch | None = None                 # the latest, for places that become known in a search

    def ports(self, first: PhysicalAddress) -> tuple[PhysicalAddress, ...]:
        """The places that one entry of the list stands for."""
        host, port = first
        return tuple((host, port + more) for more in range(self.config.port_range + 1) if port + more <= MAX_PORT)

    def reach(self, question: Batch) -> None:
        self.question = question
        for wanted in self.listed.due(self.now_ns):
            self.count("names_asked")
            self.pass_down(wanted)
        oldest_ns = self.now_ns - self.config.dynamic_age_ns
        self.dynamic = {physical: told_ns for physical, told_ns in self.dynamic.items() if told_ns >= oldest_ns}
        self.put((*self.listed, *self.dynamic), question)

    def put(self, places: Iterable[PhysicalAddress], question: Batch) -> None:
        mine = self.addresses.my_physical()
        for place in places:
            if place != mine:
                self.pass_down(SendTo(place, question))

    @on(NameResolved)
    def resolved(self, event: NameResolved) -> None:
        """In the middle of a search, whoever is there is asked at once."""
        places = self.listed.resolved(event, self.now_ns)
        if places:
            self.count("names_found")
        if self.search is not None and self.question is not None:
            self.put(places, self.question)

    def add(self, said: WhoIsThere | Here) -> None:
        self.listed.answered(said.physical, self.now_ns)
        super().add(said)

    @on(AddressesKnown)
    def learnt(self, event: AddressesKnown) -> None:
        """Members of our views are known to GMS; after a partition they are whom to ask."""
        for physical in event.book.values():
            self.met(physical)

    def met(self, physical: PhysicalAddress) -> None:
        if physical not in self.listed and physical != self.addresses.my_physical():
            self.dynamic.pop(physical, None)           # the most recent ones stand last
            while len(self.dynamic) >= max(1, self.config.max_dynamic_hosts):
                del self.dynamic[next(iter(self.dynamic))]
            self.dynamic[physical] = self.now_ns
