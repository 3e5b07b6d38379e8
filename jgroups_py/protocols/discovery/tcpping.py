"""TCPPING: discovery by a list of hosts in the stack file (host_list.py). Source: JGroups TCPPING.java."""
from __future__ import annotations

import re

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import parsed
from jgroups_py.protocols.discovery.host_list import MAX_PORT, HostList, HostListConfig

_HOST = re.compile(r"(?:\[(?P<ip6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:\s]+))(?:\[(?P<port>[0-9]+)\]|:(?P<colon>[0-9]+))")


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
            raise ConfigError(f"{item!r} is not a host with a port; write host[7800] or host:7800, separated by commas")
        port = int(match["port"] or match["colon"])
        if port > MAX_PORT:
            raise ConfigError(f"{item!r}: a port is at most {MAX_PORT}, not {port}")
        found.append((match["ip6"] or match["host"], port))
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
