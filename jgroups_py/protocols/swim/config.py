"""SWIM's properties, with the values of memberlist's three profiles."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import ByProfile, count, duration, flag, parse_int, parsed, show_duration, size, text

LAN, WAN, LOCAL = "memberlist-lan", "memberlist-wan", "memberlist-local"
PROFILES = (LAN, WAN, LOCAL)
ALL = "all"
LARGEST_FRAME = 65507


def per_profile(lan: object, wan: object, local: object) -> ByProfile:
    """A default for each profile."""
    return ByProfile(dict(zip(PROFILES, (lan, wan, local), strict=True)))


def parse_helpers(value: Any) -> int | str:
    """How many helpers: a number, or "all"."""
    if value == ALL:
        return ALL
    try:
        number = parse_int(value)
    except (ConfigError, AttributeError):
        number = -1
    if number < 0:
        raise ConfigError(f"{value!r} is neither a number of helpers nor {ALL!r}")
    return number


def parse_places(value: Any) -> tuple[PhysicalAddress, ...]:
    """Physical addresses: text of the form host[port],host[port], or a sequence of (host, port)."""
    if not isinstance(value, str):
        return tuple((str(host), int(port)) for host, port in value)
    return tuple(parse_place(item.strip()) for item in value.split(",") if item.strip())


def parse_place(item: str) -> PhysicalAddress:
    """host[port] or host:port."""
    host, _, port = item.removesuffix("]").rpartition("[" if item.endswith("]") else ":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ConfigError(f"{item!r} is no address; write host[port]")
    return host, int(port)


def parse_profile(value: Any) -> str:
    """One of memberlist's profiles."""
    if value not in PROFILES:
        raise ConfigError(f"{value!r} is not one of {', '.join(PROFILES)}")
    return str(value)


def parse_tags(text: str) -> dict[str, str]:
    """Tags written as key=value,key=value."""
    pairs = [item.partition("=") for item in text.split(",") if item.strip()]
    for key, equals, _ in pairs:
        if not equals or not key.strip():
            raise ConfigError(f"tags {text!r}: {key!r} is not written key=value")
    return {key.strip(): value.strip() for key, _, value in pairs}


def parse_weight(value: Any) -> float:
    """A positive number."""
    try:
        weight = float(value)
    except (ValueError, TypeError):
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise ConfigError(f"weight {value!r} is not a positive number")
    return weight


@attrs.frozen
class SwimConfig:
    """Defaults are memberlist's for its profile for local networks; `profile` chooses among its three."""

    profile: str = parsed(LAN, parse=parse_profile, unit="|".join(PROFILES), doc="The defaults of the other "
                          "properties: memberlist's for local networks, for wide ones (slower, more patient), or for "
                          "one host (faster).")
    probe_interval_ns: int = duration(
        per_profile("1s", "5s", "1s"), least="1ms", doc="How often a member probes another one. Lower finds failures "
        "sooner and sends more.")
    probe_timeout_ns: int = duration(
        per_profile("500ms", "3s", "200ms"), least="1ms", doc="How long the answer to a direct probe may take, before "
        "other members get a request to probe; lower than probe_interval. A bit more than the longest usual round "
        "trip.")
    indirect_checks: int | str = parsed(
        per_profile(3, 3, 1), parse=parse_helpers, unit="number or all", also=("k",), doc="How many others get "
        "a request to probe a member that did not answer. Higher tolerates more loss between two members, and sends "
        "more; all: every other member.")
    link_pings: bool = flag(True, also=("tcp_pings",), doc="Whether a connection is tried as well where one member "
                            "does not answer datagrams, so that a filter that drops only these makes no member fail.")
    link_port: int = count(0, most=65535, doc="Port on which connections are accepted; 0: any free one.")
    trust_refusal: bool = flag(False, doc="Whether a refused connection (no process listens there any more) is a "
                               "failure at once, without suspicion. Finds killed processes within a probe or two; "
                               "wrong where a member's port can be refused though it is alive.")
    suspicion_mult: int = count(
        per_profile(4, 6, 3), least=1, most=100, doc="How long a suspect has to refute, in probe intervals times the "
        "logarithm of the group's size. Higher spares slow members, lower fails dead ones sooner.")
    suspicion_max_mult: int = count(6, least=1, most=100, doc="How many times longer that is while no other member "
                                    "confirms a suspicion.")
    gossip_interval_ns: int = duration(
        per_profile("200ms", "500ms", "100ms"), least="1ms", doc="How often updates are sent to a few members. Lower "
        "spreads them sooner and sends more.")
    gossip_nodes: int = count(per_profile(3, 4, 3), least=1, most=100, doc="To how many members each time.")
    gossip_to_the_dead_ns: int = duration(
        per_profile("30s", "60s", "15s"), doc="How long gossip also goes to failed members, so that they can "
        "refute.")
    retransmit_mult: int = count(per_profile(4, 4, 2), least=1, most=100, doc="How often each member sends a "
                                 "update, times the logarithm of the group's size. Higher reaches all members through "
                                 "more loss.")
    push_pull_interval_ns: int = duration(
        per_profile("30s", "60s", "15s"), least="10ms", doc="How often a member exchanges its whole table with another "
        "one; stretched in groups of more than 32. Lower repairs sooner what gossip missed, and costs bytes.")
    reconnect_interval_ns: int = duration(
        per_profile("30s", "60s", "15s"), least="10ms", doc="How often a failed member is tried again, so that "
        "the parts of a split group find each other.")
    forget_ns: int = duration("24h", least="1s", also=("reconnect_timeout",), doc="How long failed and left members "
                              "are remembered and tried again.")
    packet_bytes: int = size("1400", least=512, most=LARGEST_FRAME, also=("udp_buffer_size",), doc="Largest frame of "
                             "updates, and of a page of the table. Above the network's packet size one lost packet "
                             "loses more.")
    lifeguard: bool = flag(True, doc="Whether members judge their own health, helpers send nacks, pings bring a "
                           "suspicion to the suspect, and confirmations shorten it. Off is plain SWIM, for comparison.")
    awareness_max_mult: int = count(8, least=1, most=100, doc="How many times more slowly a member in bad health "
                                    "probes at most.")
    initial_hosts: tuple[PhysicalAddress, ...] = parsed(
        "", parse=parse_places, unit="host[port],...", doc="Without GMS: addresses of possible members, tried besides "
        "those that a discovery protocol finds.")
    join_interval_ns: int = duration("1s", least="10ms", doc="Without GMS: how often a member that has found no other "
                                     "tries again.")
    leave_timeout_ns: int = duration("5s", doc="Without GMS: how long a leaving member may take to announce it.")
    node_name: str = text("", also=("node",), doc="Without GMS: the name of the node; empty: the member's logical "
                          "name. It is to stay the same when the member starts again.")
    tags: str = text("", doc="Without GMS: tags to begin with, as key=value,key=value.")
    weight: float = parsed(1.0, parse=parse_weight, unit="number", doc="Without GMS: the member's weight, for "
                           "placement.")

    def __attrs_post_init__(self) -> None:
        if self.probe_timeout_ns >= self.probe_interval_ns:
            raise ConfigError(f"probe_timeout {show_duration(self.probe_timeout_ns)} leaves no time for indirect "
                              f"probes in a probe_interval of {show_duration(self.probe_interval_ns)}")
        parse_tags(self.tags)
