"""Properties of PEX; one profile has the values of InfluxDB's gossip."""
from __future__ import annotations

from typing import Any, ClassVar

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.topics import parse_topics
from jgroups_py.model.units import ByProfile, count, duration, parsed, ratio, size
from jgroups_py.protocols.discovery.base import DiscoveryConfig
from jgroups_py.protocols.discovery.pex.influx import MAX_USER_PAYLOAD_BYTES
from jgroups_py.protocols.discovery.tcpping import parse_hosts

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
    """Seeds, intervals of pings, sizes, interests."""

    ignored: ClassVar[dict[str, str]] = DiscoveryConfig.ignored

    profile: str = parsed(OURS, parse=parse_profile, unit="|".join(PROFILES), doc="The defaults of the other "
                          "properties: this package's, or those of InfluxDB's gossip of 2023 (slower, pings every "
                          "peer each time).")
    seeds: tuple[PhysicalAddress, ...] = parsed(
        (), parse=parse_hosts, unit="host[port],...", also=("initial_hosts",), doc="Peers with known addresses or "
        "names, for example \"10.0.0.1[7800],seed:7800\". One that runs is enough; more tolerate more restarts.")
    seed_interval_ns: int = duration(
        per_profile("30s", "60s"), least="1ms", doc="How often all pages of the seeds are requested; more often at "
        "first. Lower finds seeds sooner that were down; each time costs as many pages as the peers fill.")
    ping_interval_ns: int = duration(
        per_profile("5s", "30s"), least="1ms", doc="How often peers are pinged. Lower drops dead ones sooner.")
    max_unacked: int = count(
        per_profile(4, 10), least=1, doc="A peer that left more pings than this unanswered is dropped. Higher "
        "keeps peers through longer outages, and sends to dead ones for longer.")
    max_pings: int = count(
        per_profile(50, ALL), doc="How many peers are pinged at a time, those first that were pinged longest ago; "
        "0: all. Bounds the traffic, and makes large groups forget dead peers later.")
    page_peers: int = count(24, least=1, most=200, doc="Peers listed in one answer. More spread faster, and make "
                            "larger datagrams; 24 fit any path.")
    burst: int = count(20, least=1, doc="New peers that are pinged within 10 ms, at most. Lower protects from a burst "
                       "of answers, higher fills the table sooner.")
    queue: int = count(2000, least=1, doc="New peers that may wait for that; further ones are listed again later.")
    max_peers: int = count(20_000, least=1, doc="Peers that are kept.")
    max_payload_bytes: int = size(
        per_profile("60000", str(MAX_USER_PAYLOAD_BYTES)), most="60000", doc="Largest payload of a broadcast, which "
        "goes in one datagram.")
    subset_ratio: float = ratio(0.33, doc="The share of the interested peers that a broadcast to a subset is sent "
                                "to.")
    interests: tuple[str, ...] = parsed(
        "*", parse=parse_topics, unit="topic,...|*", doc="The topics of broadcasts to be delivered; \"*\": all.")
