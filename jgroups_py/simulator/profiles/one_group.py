"""The base of profiles with one group: it draws faults of members and of the network between them."""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py.simulator.faults.actions import Action, Begin, Clog, CrashOf, LeaveOf, OneWay, PauseOf, Split, Storm
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.profiles.base import STARTED_NS, Profile, halves, span, storm

GROUP_FAULTS = ("crash", "leave", "pause", "split", "one-way", "clog", "storm")


@attrs.frozen
class Severity:
    """Bounds of the faults: their number, the likelihood of variants, and the longest duration of each, in seconds."""

    faults: int
    power_ratio: float                   # share of crashes in which the host loses power
    again_ratio: float                   # share of members that restart after a crash or leave,
    away_s: float                        # within this time
    pause_s: float
    split_s: float
    one_way_s: float
    clog_s: float
    storm_s: float


class OneGroupProfile(Profile):
    """One group whose `members` are drawn before its faults are."""

    kinds: ClassVar[tuple[str, ...]] = GROUP_FAULTS
    severity: ClassVar[Severity]

    def draw_faults(self, stop_ns: int) -> list[Action]:
        """Draw faults of some kinds, and restarts, in order of time; all begin before `stop_ns`."""
        rng, severity = self.rng, self.severity
        kinds = [kind for kind in self.kinds if rng.random() < 0.4] or [rng.choice(self.kinds)]
        faults = [self.fault(rng.choice(kinds), rng.randrange(STARTED_NS, stop_ns))
                  for _ in range(rng.randint(2, severity.faults))]
        again = [Begin(fault.at_ns + span(rng, 0.2, severity.away_s), fault.name) for fault in faults
                 if isinstance(fault, CrashOf | LeaveOf) and rng.random() < severity.again_ratio]
        return sorted([*faults, *(begin for begin in again if begin.at_ns < stop_ns)], key=lambda fault: fault.at_ns)

    def fault(self, kind: str, at_ns: int) -> Action:
        """Draw a fault of a kind: of one member, of the path between two, or of the whole net."""
        one, other = self.rng.sample(self.members, 2)
        return self.harm(kind, at_ns, one, other)

    def harm(self, kind: str, at_ns: int, one: str, other: str) -> Action:
        """Draw the fault of a kind: of `one`, of the path from `one` to `other`, or of the whole net."""
        rng, severity = self.rng, self.severity
        match kind:
            case "crash":
                return CrashOf(at_ns, one, power=rng.random() < severity.power_ratio)
            case "leave":
                return LeaveOf(at_ns, one)
            case "pause":
                return PauseOf(at_ns, one, span(rng, 0.2, severity.pause_s))
            case "split":
                return Split(at_ns, halves(rng, self.members), span(rng, 0.5, severity.split_s))
            case "one-way":
                return OneWay(at_ns, one, other, span(rng, 0.5, severity.one_way_s))
            case "clog":
                slow = Weather(latency_ns=span(rng, 0.05, 1), jitter_ns=span(rng, 0.01, 0.5))
                return Clog(at_ns, one, other, slow, span(rng, 0.5, severity.clog_s))
        return Storm(at_ns, storm(rng), span(rng, 0.5, severity.storm_s))
