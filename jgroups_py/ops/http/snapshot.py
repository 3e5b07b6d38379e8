"""The state of a member at one moment, as values for its endpoint."""
from __future__ import annotations

import attrs

from jgroups_py.ops.reports import Facts

DEAD_SECONDS = 30.0                         # without a round after which a loop counts as dead


@attrs.frozen(kw_only=True)
class MemberReport:
    """What the loop reports. stats: as `ch.stats()`; sites: as `jgroups site status --json`, None without RELAY.
    lacks_state: a state is on its way to it. leaving: it was asked to leave its group."""

    uuid: str
    view: str | None
    coordinator: bool
    members: Facts
    sites: Facts | None
    stats: dict[str, dict[str, float]]
    lacks_state: bool = False
    leaving: bool = False


@attrs.frozen(kw_only=True)
class Snapshot:
    """report: None while the member is in no group. at: wall clock, in seconds since 1970. stale_seconds: how old it
    is, if the loop does not answer. silent_seconds: for how long the loop has not answered."""

    state: str
    cluster: str | None
    report: MemberReport | None
    at: float
    stale_seconds: float = 0.0
    silent_seconds: float = 0.0
