"""The properties of NAMES."""
from __future__ import annotations

from ipaddress import ip_address

import attrs

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.names.res import MAX_NAME_BYTES
from jgroups_py.resolver import Chain, parse_resolvers
from jgroups_py.units import choice, duration, parsed, show_duration

MOST_BOOTSTRAP = {"today": 20, "aeron-1.26": 1}


def parse_bootstrap(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """The entries of "a:7800,10.0.0.2:7800", unread: one that is wrong must not keep the others from being tried."""
    if not isinstance(value, str):
        return tuple(value)
    return tuple(item for item in (part.strip() for part in value.split(",")) if item)


def parse_name(value: str) -> str:
    """A name that fits a frame; empty: the member's own."""
    if not value.isascii() or len(value) > MAX_NAME_BYTES:
        raise ConfigError(f"{value[:40]!r} is no name of at most {MAX_NAME_BYTES} ASCII characters")
    return value


def parse_interface(value: str) -> str:
    """An IP address, or nothing."""
    if value:
        try:
            ip_address(value)
        except ValueError:
            raise ConfigError(f"{value!r} is no IP address; 0.0.0.0 lets others take where our frames come from"
                              ) from None
    return value


@attrs.frozen
class NamesConfig:
    """Under which name a member is known, and how it learns of others."""

    name: str = parsed("", parse=parse_name, unit="text", doc="Our name for others; empty: the member's logical name.")
    bootstrap: tuple[str, ...] = parsed(
        (), parse=parse_bootstrap, unit="host[:port],...", doc="Whom to tell our name first, by address or name; each "
        "without a port at our own. One that is up is enough, and one that is wrong does not harm the others.")
    interface: str = parsed("", parse=parse_interface, unit="IP address", doc="The address told to others; empty: "
                            "where the transport receives; 0.0.0.0: where our frames come from.")
    resolver: Chain = parsed(  # noqa: RUF009  a field, as all others
        "dns", parse=parse_resolvers, unit="dns|file:PATH|static:a=ADDRESS,...|entry point|package.module:Class, "
        "with ; between them", doc="Where names are looked for that gossip does not know, in this order.")
    self_ns: int = duration("1s", least="10ms", name="self_interval", doc="How often we tell our own name. Lower is "
                            "noticed sooner and sends more.")
    neighbours_ns: int = duration("2s", least="10ms", name="neighbours_interval", doc="How often we pass on what we "
                                  "know. Lower spreads names sooner and sends more.")
    timeout_ns: int = duration("10s", least="100ms", name="timeout", doc="A name that nobody confirmed for so long is "
                               "forgotten. Lower forgets the dead sooner, higher stands longer loss.")
    bootstrap_ns: int = duration("10s", least="100ms", name="bootstrap_interval", doc="How often the name of a "
                                 "bootstrap neighbour is resolved again while it is silent.")
    profile: str = choice("today", allowed=tuple(MOST_BOOTSTRAP), doc="Whose limits hold: today's Aeron (20 bootstrap "
                          "neighbours), or its first release with names (one).")

    def __attrs_post_init__(self) -> None:
        most = MOST_BOOTSTRAP[self.profile]
        if len(self.bootstrap) > most:
            raise ConfigError(f"bootstrap has {len(self.bootstrap)} entries; at most {most} with profile "
                              f"{self.profile}")
        if self.timeout_ns <= self.self_ns:
            raise ConfigError(f"timeout ({show_duration(self.timeout_ns)}) must exceed self_interval "
                              f"({show_duration(self.self_ns)}), or every name is forgotten before it is confirmed")
