"""Properties of PEX, with the values of the system that it comes from as a profile."""
from __future__ import annotations

from typing import Any, ClassVar

import attrs

from jgroups_py.address import PhysicalAddress
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.base import DiscoveryConfig
from jgroups_py.protocols.discovery.pex.influx import MAX_USER_PAYLOAD_BYTES
from jgroups_py.protocols.discovery.tcpping import parse_hosts
from jgroups_py.topics import parse_topics
from jgroups_py.units import ByProfile, count, duration, parsed, ratio, size

OURS, INFLUX = "default", "influx-2023"
PROFILES = (OURS, INFLUX)
ALL = 0


def per_profile(ours: object, influx: object) -> ByProfile:
    """A default for each profile."""
    return ByProfile({OURS: ours, INFLUX: influx})


def parse_profile(value: Any) -> str:
    """One of the two profiles."""
    if value not in PROFILES:
        raise ConfigError(f"{value!r} is not one of {', '.join(PROFILES)}")
    return str(value)


@attrs.frozen
class PexConfig(DiscoveryConfig):
    """Where to begin, and how often peers are asked whether they live and whom they know."""

    ignored: ClassVar[dict[str, str]] = DiscoveryConfig.ignored

    profile: str = parsed(OURS, parse=parse_profile, unit="|".join(PROFILES), doc="Whose defaults the other properties "
                          "have: ours, or those of InfluxDB's gossip of 2023 (slower, pings every peer each time).")
    seeds: tuple[PhysicalAddress, ...] = parsed(
        (), parse=parse_hosts, unit="host[port],...", also=("initial_hosts",), doc="Peers with known addresses or "
        "names, for example \"10.0.0.1[7800],seed:7800\". One that runs is enough; more survive more restarts.")
    seed_interval_ns: int = duration(
        per_profile("30s", "60s"), least="1ms", doc="How often seeds are asked whom they know, in the end; at first "
        "sooner. Lower finds seeds sooner that were down; each time costs as many pages as there are peers.")
    ping_interval_ns: int = duration(
        per_profile("5s", "30s"), least="1ms", doc="How often peers are pinged. Lower drops dead ones sooner.")
    max_unacked: int = count(
        per_profile(4, 10), least=1, doc="A peer that stayed silent after more pings than this is dropped. Higher "
        "keeps peers through longer outages, and sends to dead ones for longer.")
    max_pings: int = count(
        per_profile(50, ALL), doc="So many peers are pinged at a time, those first whose turn was longest ago; 0: all. "
        "Bounds the traffic, and makes large groups forget their dead later.")
    page_peers: int = count(24, least=1, most=200, doc="Peers told in one answer. More spread word sooner, and make "
                            "larger datagrams; 24 fit any path.")
    burst: int = count(20, least=1, doc="New peers that are pinged within 10 ms, at most. Lower protects from a burst "
                       "of answers, higher learns of many peers sooner.")
    queue: int = count(2000, least=1, doc="New peers that may wait for that; of further ones we hear again later.")
    max_peers: int = count(20_000, least=1, doc="Peers that are kept.")
    max_payload_bytes: int = size(
        per_profile("60000", str(MAX_USER_PAYLOAD_BYTES)), most="60000", doc="Largest payload of a broadcast, which "
        "goes in one datagram.")
    subset_ratio: float = ratio(0.33, doc="The share of those who want it that a broadcast to a subset is sent to.")
    interests: tuple[str, ...] = parsed(
        "*", parse=parse_topics, unit="topic,...|*", doc="The topics of broadcasts that are wanted; \"*\": all.")
