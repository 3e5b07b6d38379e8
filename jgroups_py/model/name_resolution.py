"""Resolvers of names: what turns the name of a host into its address, in two steps. Derive your own from NameResolver.

`lookup` may replace a name and port by others ("orders" -> "10.0.0.7:7801"), `resolve` finds the address of a host.
Both may block: they run on threads of their own, and the answer comes back as an event, so no message waits for them.
A configuration names a chain, tried in order until one finds an address: "static:a=10.0.0.1;file:/etc/hosts.csv;dns".
Source: Aeron's NameResolver.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from ipaddress import ip_address
from itertools import islice

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.plugins import plugin
from jgroups_py.model.text import place as place_text

ENTRY_POINTS = "jgroups_py.name_resolvers"
DNS, FILE, STATIC = "dns", "file", "static"
RECORDS = "dns records"
"""Of a chain that DNS_PING makes itself; it has no written form."""
PODS = "pods of kubernetes"
"""Of a chain that KUBE_PING makes itself; its argument is a PodQuery."""
MAX_PORT = 65535
MAX_ADDRESSES = 256
"""Of one name: what a name server answers reserves no more memory, and no more requests are sent."""


class NameResolver(ABC):
    """One way to resolve a name. parameter: the purpose of the name ("endpoint", "bootstrap"); again: the address found
    before does not answer any more."""

    def name(self) -> str:
        """The resolver's name in logs."""
        return type(self).__name__

    def lookup(self, name: str, parameter: str, again: bool) -> str:
        """The "host:port" to resolve in place of `name`, which is one too."""
        return name

    @abstractmethod
    def resolve(self, host: str, parameter: str, again: bool) -> str | None:
        """The IP address of `host`, None if unknown."""

    def resolve_all(self, host: str, parameter: str, again: bool) -> Sequence[str]:
        """All IP addresses of `host`, as a name of several hosts has in DNS; none if unknown. Of more than
        MAX_ADDRESSES the first ones are used."""
        address = self.resolve(host, parameter, again)
        return () if address is None else (address,)

    def resolve_version(self, host: str, version: int, parameter: str, again: bool) -> Sequence[str]:
        """The IP addresses of `host` of one version, 4 or 6; if it has none, those of the other one."""
        found = self.resolve_all(host, parameter, again)
        return [address for address in found if (":" in address) == (version == 6)] or found

    def places(self, name: str, port: int, parameter: str, again: bool, version: int) -> Sequence[PhysicalAddress]:
        """Where `name` is found, with ports. version: of the addresses to prefer.

        Raises:
            ConfigError: `lookup` gave no host:port.
        """
        host, at = split_place(self.lookup(place_text(name, port), parameter, again))
        addresses = (host,) if is_address(host) else self.resolve_version(host, version, parameter, again)
        return [(address, at) for address in islice(addresses, MAX_ADDRESSES)]


@attrs.frozen
class ResolverSpec:
    """One link of a chain: dns, file with a path, static with a table, or a class."""

    kind: str
    argument: str = ""
    made: type[NameResolver] | None = None


@attrs.frozen
class Chain:
    """Resolvers, tried in order; text: as they were written."""

    links: tuple[ResolverSpec, ...]
    text: str = attrs.field(eq=False)

    def __str__(self) -> str:
        return self.text


def parse_resolvers(value: str | Chain) -> Chain:
    """The resolvers that a text names.

    >>> [link.kind for link in parse_resolvers("static:a=10.0.0.1;dns").links]
    ['static', 'dns']
    """
    if isinstance(value, Chain):
        return value
    links = [link.strip() for link in value.split(";")]
    if not all(links):
        raise ConfigError(f"{value!r} has an empty part; write resolvers with ; between them, for example "
                          '"static:a=10.0.0.1;dns"')
    return Chain(tuple(_link(link) for link in links), value)


def _link(text: str) -> ResolverSpec:
    kind, _, argument = text.partition(":")
    if kind == DNS and not argument:
        return ResolverSpec(DNS)
    if kind in (FILE, STATIC):
        if not argument:
            raise ConfigError(f"{text!r} needs what follows the colon: file:PATH, or static:a=ADDRESS")
        if kind == STATIC:
            parse_table(argument)
        return ResolverSpec(kind, argument)
    try:
        return ResolverSpec("own", text, plugin(text, ENTRY_POINTS, NameResolver))
    except ConfigError as error:
        raise ConfigError(f"{text!r} is none of dns, file:PATH, static:a=ADDRESS, and {error}") from None


def parse_table(text: str) -> dict[str, str]:
    """Name -> address, or address:port, of "a=10.0.0.1,b=10.0.0.2:7801"."""
    found = {}
    for item in text.split(","):
        name, equals, address = (part.strip() for part in item.partition("="))
        if not (name and equals and address):
            raise ConfigError(f"{item!r} is no name=address")
        found[name] = address
    return found


def is_address(host: str) -> bool:
    """Whether `host` is an IP address, which needs no resolver."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def split_place(text: str, port: int | None = None) -> tuple[str, int]:
    """(host, port) of "host:port" or "[v6]:port"; `port` where the text has none.

    Raises:
        ConfigError: there is no port, or none that exists.
    """
    host, colon, number = text.rpartition(":")
    if not colon or number.endswith("]") or (":" in host and not host.startswith("[")):
        host, number = text, "" if port is None else str(port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not number.isdecimal() or not 0 < int(number) <= MAX_PORT:
        raise ConfigError(f"{text!r} is no host:port with a port of 1 to {MAX_PORT}")
    return host, int(number)
