"""Profile relay-storm: relays fail during failovers, at both ends, over bridges that flap and clog.

In some seeds members have a journal (`hold_dir`), and disks are slow to sync.
"""
from __future__ import annotations

from typing import ClassVar

from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin, Clog, CrashOfCoordinator, LeaveOf, Storm
from jgroups_py.simulator.faults.disk_faults import SlowDisk
from jgroups_py.simulator.faults.relay_faults import Flapping, PauseOfRelay
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.profiles.base import Plan, span, storm
from jgroups_py.simulator.profiles.sites import SitesProfile

MEMBER_KINDS = ("chain", "chain", "pause", "pause and crash", "leave and crash")
BRIDGE_KINDS = ("flapping", "clog", "storm")
DISK_RATIO = 0.35                        # share of seeds in which members have a journal


class RelayStormProfile(SitesProfile):
    """Sites of at least `backups` + 2 members, of which at most `backups` are missing at a time: so no message may be
    lost."""

    name = "relay-storm"
    bursts = True
    lossless = True
    splits = True
    reaches: ClassVar[tuple[str, ...]] = (
        "failovers", "overlapping failovers at one site", "overlapping failovers at two sites",
        "paused members excluded", "excluded members merged back", "messages replayed: more than 50 at once",
        "refused epochs", "messages read from disk")

    def make_plan(self) -> Plan:
        rng = self.rng
        self.backups = rng.choice((1, 2, 2))
        self.settings = (("backups", self.backups), ("lost_after_ns", seconds(15)))
        sites = self.draw_sites(rng.choice((2, 2, 3)), self.backups + 2, 4)
        stop_ns = span(rng, 14, 26)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        kinds = [kind for kind in MEMBER_KINDS if rng.random() < 0.6] or ["chain"]
        faults: list[Action] = []
        first_ns, together = span(rng, 3, 7), rng.random() < 0.7
        for names in sites.values():
            at_ns = first_ns + span(rng, 0, 1) if together else span(rng, 3, 9)
            while at_ns < stop_ns:
                for_ns = span(rng, 1, 9)
                faults += self.episode(rng.choice(kinds), names, at_ns, for_ns)
                at_ns += for_ns + span(rng, 9, 14)
        faults += self.bridge_faults(first_ns, stop_ns)
        faults.sort(key=lambda fault: fault.at_ns)
        traffic = (*begins, *self.draw_messages(faults, stop_ns, rng.randint(30, 70), far_ratio=0.2))
        if rng.random() < DISK_RATIO:    # drawn last, so that the plans of other seeds do not change
            faults = sorted([*faults, *self.slow_disks(first_ns, stop_ns)], key=lambda fault: fault.at_ns)
        return Plan(sites, tuple(faults), traffic, stop_ns)

    def episode(self, kind: str, names: tuple[str, ...], at_ns: int, for_ns: int) -> list[Action]:
        """Faults of the relays of a site, of at most `backups` of them; all run again after `for_ns`."""
        rng, name = self.rng, self.rng.choice(names)
        back: list[Action] = [Begin(at_ns + for_ns, other) for other in names]
        deaths = rng.randint(1, self.backups)
        if kind == "chain" or deaths < 2:
            if kind.startswith("pause"):
                return [PauseOfRelay(at_ns, name, for_ns)]
            times = [at_ns]
            for _ in range(deaths - 1):
                times.append(times[-1] + span(rng, 0.02, 1.5))
            return [*(CrashOfCoordinator(time_ns, rng.choice(names)) for time_ns in times), *back]
        second_ns = at_ns + span(rng, 0, min(8, for_ns / seconds(1)))
        first = LeaveOf(at_ns, name) if kind == "leave and crash" else PauseOfRelay(at_ns, name, for_ns)
        return [first, CrashOfCoordinator(second_ns, rng.choice(names)),
                *(Begin(max(action.at_ns, second_ns) + seconds(3), other) for action, other in
                  zip(back, names, strict=True))]

    def bridge_faults(self, first_ns: int, stop_ns: int) -> list[Action]:
        """Faults of the bridge, half of them about the time of the first relay failures."""
        rng, made = self.rng, list[Action]()
        kinds = [kind for kind in BRIDGE_KINDS if rng.random() < 0.5]
        for _ in range(rng.randint(1, 4) if kinds else 0):
            at_ns = first_ns + span(rng, 0, 2) if rng.random() < 0.5 else rng.randrange(first_ns, stop_ns)
            made += self.bridge_fault(rng.choice(kinds), at_ns)
        return made

    def bridge_fault(self, kind: str, at_ns: int) -> list[Action]:
        rng = self.rng
        away = rng.choice(list(self.sites))
        names = self.sites[away]
        others = self.elsewhere(away)
        match kind:
            case "flapping":
                return [Flapping(at_ns, names, others, rng.randint(2, 8), span(rng, 0.05, 1.5), span(rng, 0.05, 2))]
            case "clog":
                slow = Weather(latency_ns=span(rng, 0.1, 1.5), jitter_ns=span(rng, 0.01, 0.5))
                for_ns = span(rng, 1, 6)
                return [Clog(at_ns, name, other, slow, for_ns, BRIDGE) for name in names for other in others]
        return [Storm(at_ns, storm(rng), span(rng, 0.5, 6), BRIDGE)]

    def slow_disks(self, first_ns: int, stop_ns: int) -> list[Action]:
        """All members have a journal; some disks are slow to sync, around the first crashes or at any time."""
        rng = self.rng
        self.settings += (("hold_dir", "/hold"), ("hold_sync", rng.choice(("interval", "every", "every"))),
                          ("hold_sync_interval_ns", span(rng, 0.05, 1)))
        made: list[Action] = []
        for name in rng.sample(self.members, rng.randint(1, len(self.members))):
            at_ns = first_ns + span(rng, -2, 2) if rng.random() < 0.5 else rng.randrange(first_ns, stop_ns)
            made.append(SlowDisk(at_ns, name, span(rng, 0.02, 2), span(rng, 1, 8)))
        return made
