"""The base of TCPPING, DNS_PING and KUBE_PING: discovery by a list of hosts, each with a range of ports.

Hosts are addresses or names. A name is resolved (ResolveName) when it is first needed, and again while no answer comes
from its addresses, so that a member that restarts at another address is found. Requests also go to members that have
sent requests or responses (dynamic hosts), so that groups whose coordinators are not in the list find each other after
a partition.

Source: JGroups TCPPING.java (initial_hosts, port_range, dynamic hosts); resolving again: Aeron's re-resolution.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.events import AddressesKnown, FindMembers, NameResolved, ResolveName, SearchAt, SendTo
from jgroups_py.model.ports import NamesAsked
from jgroups_py.model.units import count, duration, millis
from jgroups_py.protocols.discovery.base import Discovery, DiscoveryConfig, DiscoveryRequest, DiscoveryResponse
from jgroups_py.protocols.discovery.hosts import Hosts
from jgroups_py.stack.protocol import on

MAX_PORT = 65535
SEARCH_NS = millis(500)


@attrs.frozen
class HostListConfig(DiscoveryConfig):
    """The properties that all of them share."""

    ignored: ClassVar[dict[str, str]] = DiscoveryConfig.ignored

    reresolve_ns: int = duration(
        "5s", name="reresolve", doc="A name is resolved again when no answer has come from its addresses for so long; "
        "0: never for this reason. Lower finds a moved member sooner and loads the resolvers more.")
    refresh_ns: int = duration(
        "30s", name="refresh", doc="A name is resolved again after so long although it answers, since a name server "
        "may have more addresses by then; 0: never for this reason.")
    port_range: int = count(1, most=1000, doc="How many more ports above each one are tried.")
    max_dynamic_hosts: int = count(2000, doc="How many addresses of members that are not in the list are kept.")
    dynamic_age_ns: int = duration("1h", doc="How long requests go to such an address after it was last received. "
                                   "Lower ends requests to members that are gone; higher heals longer partitions.")


class HostList(NamesAsked, Discovery):
    """Sends the request to each host of a list, and to the dynamic hosts."""

    Config = HostListConfig
    config: HostListConfig
    COUNTERS = declare(
        counter("names_looked_up", "Host names given to the resolvers."),
        counter("names_found", "Host names for which an address was found."),
    )

    def start(self) -> None:
        super().start()
        self.listed = self.hosts(())
        self.dynamic: dict[PhysicalAddress, int] = {}      # physical address -> when it was last received, ns
        self.latest: Batch | None = None                   # the latest request, for names resolved during a search

    def hosts(self, listed: Iterable[PhysicalAddress]) -> Hosts:
        """A list of hosts, (address or name, port) each."""
        return Hosts(listed, self.config.reresolve_ns, self.ports, self.config.refresh_ns)

    def ports(self, first: PhysicalAddress) -> tuple[PhysicalAddress, ...]:
        """The physical addresses of one entry of the list: its port and `port_range` more above it."""
        host, port = first
        return tuple((host, port + more) for more in range(self.config.port_range + 1) if port + more <= MAX_PORT)

    def unknown_names(self) -> tuple[str, ...]:
        return self.listed.unknown()

    def send_request(self, request: Batch) -> None:
        self.latest = request
        for wanted in self.listed.due(self.now_ns, self.version()):
            self.count("names_looked_up")
            self.look_up(wanted)
        oldest_ns = self.now_ns - self.config.dynamic_age_ns
        self.dynamic = {physical: stored_ns for physical, stored_ns in self.dynamic.items() if stored_ns >= oldest_ns}
        self.send_to_all((*self.listed, *self.dynamic), request)

    def look_up(self, wanted: ResolveName) -> None:
        """Have a name resolved; NameResolved follows."""
        self.pass_down(wanted)

    def version(self) -> int:
        """The IP version that addresses of names shall have, where a name has both: that of the transport."""
        own = self.addresses.my_physical()
        return 6 if own is not None and ":" in own[0] else 4

    def send_to_all(self, places: Iterable[PhysicalAddress], request: Batch) -> None:
        mine = self.addresses.my_physical()
        for place in places:
            if place != mine:
                self.pass_down(SendTo(place, request))

    @on(NameResolved)
    def resolved(self, event: NameResolved) -> None:
        """Send the latest request to the addresses of a resolved name at once if a search is under way."""
        places = self.listed.resolved(event, self.now_ns)
        if places:
            self.count("names_found")
        if self.search is not None and self.latest is not None:
            self.send_to_all(places, self.latest)

    def add(self, message: DiscoveryRequest | DiscoveryResponse) -> None:
        self.listed.answered(message.physical, self.now_ns)
        super().add(message)

    @on(AddressesKnown)
    def addresses_known(self, event: AddressesKnown) -> None:
        """Keep the addresses that GMS passes down: after a partition requests go to the members of earlier views."""
        for physical in event.book.values():
            self.store_address(physical)

    @on(SearchAt)
    def search_at(self, event: SearchAt) -> None:
        """Keep the places as those of members that were there, and search."""
        for place in event.places:
            self.store_address(place)
        if self.search is None:
            self.find(FindMembers(SEARCH_NS, everyone=True))

    def store_address(self, physical: PhysicalAddress) -> None:
        if physical not in self.listed and physical != self.addresses.my_physical():
            self.dynamic.pop(physical, None)           # the most recent ones stand last
            while len(self.dynamic) >= max(1, self.config.max_dynamic_hosts):
                del self.dynamic[next(iter(self.dynamic))]
            self.dynamic[physical] = self.now_ns
