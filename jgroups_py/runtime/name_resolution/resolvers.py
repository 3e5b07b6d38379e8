"""The built-in resolvers: the system's (DNS), a file of names, a table in the configuration."""
from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from itertools import islice

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.name_resolution import (
    DNS,
    FILE,
    MAX_ADDRESSES,
    PODS,
    RECORDS,
    STATIC,
    Chain,
    NameResolver,
    is_address,
    parse_table,
    split_place,
)
from jgroups_py.model.text import place as place_text

MAX_FILE_BYTES = 1 << 20


class DnsResolver(NameResolver):
    """The system's resolver: /etc/hosts, DNS, or what else it is configured for. May block for many seconds."""

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        """The first address, of IPv4 if there is one."""
        return next(iter(self.resolve_version(host, 4, parameter, again)), None)

    def resolve_all(self, host: str, parameter: str, again: bool) -> Sequence[str]:
        """All addresses: those of IPv4, then those of IPv6."""
        return (*self._addresses(host, socket.AF_INET), *self._addresses(host, socket.AF_INET6))

    def resolve_version(self, host: str, version: int, parameter: str, again: bool) -> Sequence[str]:
        """One question; a second one if there are no addresses of that version. So a name server that leaves questions
        for one version without an answer holds up nobody who uses the other one."""
        first, other = (socket.AF_INET6, socket.AF_INET) if version == 6 else (socket.AF_INET, socket.AF_INET6)
        return self._addresses(host, first) or self._addresses(host, other)

    def _addresses(self, host: str, family: socket.AddressFamily) -> tuple[str, ...]:
        try:
            found = socket.getaddrinfo(host, None, family, socket.SOCK_DGRAM)
        except (OSError, ValueError):                        # unknown, or not a valid name
            return ()
        # A scope means something to this host's resolver only; sockets take that of bind_addr.
        return tuple(dict.fromkeys(str(place[0]).partition("%")[0] for *_, place in found))


class TableResolver(NameResolver):
    """Looks names up in a table: name -> address, or address:port."""

    def table(self) -> dict[str, str]:
        """What is known now."""
        raise NotImplementedError

    def lookup(self, name: str, parameter: str, again: bool) -> str:
        host, port = split_place(name)
        found = self.table().get(host)
        if found is None:
            return name
        return place_text(*split_place(found, port))

    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        return host if is_address(host) else None


class StaticResolver(TableResolver):
    """A table in the configuration."""

    def __init__(self, text: str) -> None:
        self._table = parse_table(text)

    def table(self) -> dict[str, str]:
        return self._table


class FileResolver(TableResolver):
    """A file with a line `name,address` or `name,address:port` each; read each time, so that it may be edited."""

    def __init__(self, path: str) -> None:
        self._path = path

    def table(self) -> dict[str, str]:
        try:
            with open(self._path, encoding="utf-8") as file:
                lines = file.read(MAX_FILE_BYTES).splitlines()
        except OSError:
            return {}
        rows = [line.partition("#")[0].split(",") for line in lines]
        return {row[0].strip(): row[1].strip() for row in rows if len(row) >= 2 and row[0].strip()}


def _dns_records(argument: str) -> NameResolver:
    from jgroups_py.runtime.name_resolution.dns_records import DnsRecords  # needs dnspython, which is optional

    return DnsRecords(argument)


def _kubernetes_pods(argument: str) -> NameResolver:
    from jgroups_py.runtime.name_resolution.kubernetes_pods import KubernetesPods  # http.client and ssl take a while

    return KubernetesPods(argument)


MAKERS: dict[str, Callable[[str], NameResolver]] = {
    DNS: lambda _: DnsResolver(), FILE: FileResolver, STATIC: StaticResolver, RECORDS: _dns_records,
    PODS: _kubernetes_pods,
}


def make_resolvers(chain: Chain) -> list[NameResolver]:
    """The resolvers of a chain."""
    made: list[NameResolver] = []
    for link in chain.links:
        if link.made is not None:
            made.append(link.made())
        else:
            made.append(MAKERS[link.kind](link.argument))
    return made


def find_places(
    resolvers: Sequence[NameResolver], name: str, port: int, parameter: str, again: bool, version: int = 4,
) -> tuple[PhysicalAddress, ...]:
    """Where the first resolver that knows `name` finds it: each address once; none if no resolver does."""
    for resolver in resolvers:
        try:
            found = resolver.places(name, port, parameter, again, version)
        except ConfigError:                                  # a malformed row of a table
            continue
        places = [place for place in islice(found, MAX_ADDRESSES) if is_address(place[0])]
        if places:
            return tuple(dict.fromkeys(places))
    return ()
