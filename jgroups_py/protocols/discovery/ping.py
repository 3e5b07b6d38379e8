"""PING: discovery by IP multicast. Source: JGroups PING.java."""
from __future__ import annotations

from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare
from jgroups_py.protocols.discovery.base import Discovery


class Ping(Discovery):
    """Multicasts the request: one datagram reaches all members."""

    COUNTERS = declare(
        counter("requests_without_multicast", "Requests that reached only members already known, since the transport "
                                              "has no multicast."),
    )

    def send_request(self, request: Batch) -> None:
        if not self.addresses.has_multicast():
            self.count("requests_without_multicast")       # the transport sends it to the members in its address book
        self.pass_down(request)
