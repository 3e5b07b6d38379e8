"""TCPPING: discovery by a list of hosts in the stack file (host_list.py). Source: JGroups TCPPING.java."""
from __future__ import annotations

import re
from ipaddress import ip_address

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.name_resolution import is_address
from jgroups_py.model.units import parsed
from jgroups_py.protocols.discovery.host_list import MAX_PORT, HostList, HostListConfig

_HOST = re.compile(r"(?:\[(?P<ip6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:\s]+))(?:\[(?P<port>[0-9]+)\]|:(?P<colon>[0-9]+))")


def parse_hosts(value: str | tuple[PhysicalAddress, ...]) -> tuple[PhysicalAddress, ...]:
    """The hosts of "a[7800],b:7801"; an IPv6 address stands in brackets.

    >>> parse_hosts("127.0.0.1[7800], b:7801,[0::1]:7802,[::2][7803]")
    (('127.0.0.1', 7800), ('b', 7801), ('::1', 7802), ('::2', 7803))
    """
    if not isinstance(value, str):
        return tuple(value)
    found = []
    for item in filter(None, (part.strip() for part in value.split(","))):
        match = _HOST.fullmatch(item)
        if "%" in item:
            raise ConfigError(f"{item!r} has a scope; write the address without it: link-local addresses are on "
                              "the link of bind_addr, as in bind_addr=fe80::1%eth0")
        if match is None and is_address(item):
            raise ConfigError(f"{item!r} has no port; write [{item}]:7800" if ":" in item else
                              f"{item!r} has no port; write {item}:7800")
        if match is None:
            raise ConfigError(f"{item!r} is not a host with a port; write host[7800] or host:7800, an IPv6 address as "
                              "[::1]:7800, separated by commas")
        port = int(match["port"] or match["colon"])
        if port > MAX_PORT:
            raise ConfigError(f"{item!r}: a port is at most {MAX_PORT}, not {port}")
        host = match["ip6"] or match["host"]
        if match["ip6"] and not is_address(host):
            raise ConfigError(f"{item!r}: {host!r} is no IPv6 address")
        found.append((str(ip_address(host)) if is_address(host) else host, port))
    return tuple(found)


@attrs.frozen
class TcpPingConfig(HostListConfig):
    """Properties of TCPPING."""

    initial_hosts: tuple[PhysicalAddress, ...] = parsed(
        (), parse=parse_hosts, unit="host[port],...", doc="Addresses or names of possible members, for example "
        '"10.0.0.1[7800],10.0.0.2:7800". One running member of the group in the list is enough. Of a name with several '
        "addresses all are tried.")


class TcpPing(HostList):
    """Sends the request to `initial_hosts`."""

    Config = TcpPingConfig
    config: TcpPingConfig

    def start(self) -> None:
        super().start()
        self.listed = self.hosts(self.config.initial_hosts)
