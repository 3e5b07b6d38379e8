"""The properties of NAMES."""
from __future__ import annotations

from ipaddress import ip_address

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.name_resolution import Chain, parse_resolvers
from jgroups_py.model.units import choice, duration, parsed, show_duration
from jgroups_py.protocols.name_service.res import MAX_NAME_BYTES

MOST_BOOTSTRAP = {"today": 20, "aeron-1.26": 1}


def parse_bootstrap(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """The entries of "a:7800,10.0.0.2:7800", not parsed yet: a malformed one must not keep the others from use."""
    if not isinstance(value, str):
        return tuple(value)
    return tuple(item for item in (part.strip() for part in value.split(",")) if item)


def parse_name(value: str) -> str:
    """A name that fits a frame; empty: the member's own."""
    if not value.isascii() or len(value) > MAX_NAME_BYTES:
        raise ConfigError(f"{value[:40]!r} is not a name of at most {MAX_NAME_BYTES} ASCII characters")
    return value


def parse_interface(value: str) -> str:
    """An IP address, or nothing."""
    if value:
        try:
            ip_address(value)
        except ValueError:
            raise ConfigError(f"{value!r} is not an IP address; with 0.0.0.0 other members use the source of the frames"
                              ) from None
    return value


@attrs.frozen
class NamesConfig:
    """A member's own name, its first neighbours and resolvers, and the intervals of gossip."""

    name: str = parsed("", parse=parse_name, unit="text", doc="The name that other members use; empty: the member's "
                       "logical name.")
    bootstrap: tuple[str, ...] = parsed(
        (), parse=parse_bootstrap, unit="host[:port],...", doc="Where this member's name is sent first, by address "
        "or name; without a port, this member's own is used. One that is up is enough, and a malformed one leaves "
        "the others usable.")
    interface: str = parsed("", parse=parse_interface, unit="IP address", doc="The address given to other members; "
                            "empty: where the transport receives; 0.0.0.0: the source of this member's frames.")
    resolver: Chain = parsed(  # noqa: RUF009  a field, as all others
        "dns", parse=parse_resolvers, unit="dns|file:PATH|static:a=ADDRESS,...|entry point|package.module:Class, "
        "with ; between them", doc="Resolvers of names that gossip has not brought, in this order.")
    self_ns: int = duration("1s", least="10ms", name="self_interval", doc="How often this member announces its own "
                            "name. Lower announces a move sooner and sends more.")
    neighbours_ns: int = duration("2s", least="10ms", name="neighbours_interval", doc="How often this member passes "
                                  "on its cache of names. Lower spreads names sooner and sends more.")
    timeout_ns: int = duration("10s", least="100ms", name="timeout", doc="A name that was not confirmed for so long "
                               "is forgotten. Lower forgets dead members sooner, higher tolerates longer loss.")
    bootstrap_ns: int = duration("10s", least="100ms", name="bootstrap_interval", doc="How often the name of a "
                                 "bootstrap neighbour is resolved again while it is silent.")
    profile: str = choice("today", allowed=tuple(MOST_BOOTSTRAP), doc="The limits that hold: those of today's Aeron "
                          "(20 bootstrap neighbours), or its first release with names (one).")

    def __attrs_post_init__(self) -> None:
        most = MOST_BOOTSTRAP[self.profile]
        if len(self.bootstrap) > most:
            raise ConfigError(f"bootstrap has {len(self.bootstrap)} entries; at most {most} with profile "
                              f"{self.profile}")
        if self.timeout_ns <= self.self_ns:
            raise ConfigError(f"timeout ({show_duration(self.timeout_ns)}) must exceed self_interval "
                              f"({show_duration(self.self_ns)}), or every name is forgotten before it is confirmed")
