"""Resolves names by records of DNS of one type, by dnspython: SRV, whose records have ports, and a server to be asked.

A record of type SRV names a host and its port, so a name leads to members with ports of their own; the hosts are
resolved by the same server. Records count in the order of their priority, and those of equal priority with the larger
weight first; all of them are possible members, so nothing is drawn by weight. This module is imported when it is needed
(resolvers.py), as dnspython is optional; the configuration is refused without it.
"""
from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

import dns.exception
import dns.resolver

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.name_resolution import MAX_ADDRESSES, NameResolver, is_address, split_place

DNS_PORT = 53
LIFETIME_S = 5.0                            # for one question, with its repetitions
ALL_S = 10.0                                # for the hosts of all records of a name; those found by then are used
TYPES = {4: "A", 6: "AAAA"}


class DnsRecords(NameResolver):
    """argument: the type of records, and after a blank the server, HOST[:PORT]; none: those of the system."""

    def __init__(self, argument: str) -> None:
        self._kind, _, server = argument.partition(" ")
        self._resolver = dns.resolver.Resolver(configure=not server)
        self._resolver.lifetime = LIFETIME_S
        if server:
            host, port = split_place(server, DNS_PORT)
            self._resolver.nameservers, self._resolver.port = [host], port

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        return next(iter(self._addresses(host, self._kind if self._kind in TYPES.values() else TYPES[4])), None)

    def places(self, name: str, port: int, parameter: str, again: bool, version: int) -> Sequence[PhysicalAddress]:
        if self._kind != "SRV":
            return [(address, port) for address in self._addresses(name, self._kind)]
        until = monotonic() + ALL_S
        found: dict[PhysicalAddress, None] = {}
        records = sorted(self._ask(name, "SRV"), key=lambda record: (record.priority, -record.weight))
        for record in records[:MAX_ADDRESSES]:
            host = str(record.target).rstrip(".")
            if not host or not record.port or monotonic() > until:
                continue                                     # "." says that there is no such service
            addresses = self._addresses(host, TYPES[version]) or self._addresses(host, TYPES[10 - version])
            found.update(dict.fromkeys((address, record.port) for address in addresses))
        return list(found)[:MAX_ADDRESSES]

    def _addresses(self, host: str, kind: str) -> list[str]:
        if is_address(host):
            return [host]
        return [str(record.address) for record in self._ask(host, kind)]

    def _ask(self, name: str, kind: str) -> list[Any]:
        """The records; none if the server does not answer, has none, or answers nonsense."""
        try:
            return list(self._resolver.resolve(name, kind, search=True))
        except (dns.exception.DNSException, OSError, ValueError):
            return []
