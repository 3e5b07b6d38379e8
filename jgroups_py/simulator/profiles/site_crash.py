"""Profile site-crash: sites with a journal crash as a whole, by kill -9 or loss of power, and restart."""
from __future__ import annotations

from typing import ClassVar

from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOf, CrashOfCoordinator, Split, Storm
from jgroups_py.simulator.faults.disk_faults import FullDisk, SlowDisk
from jgroups_py.simulator.profiles.base import Plan, span, storm
from jgroups_py.simulator.profiles.sites import SitesProfile

DEATHS = ("kill", "kill", "kill", "power", "power", "rolling")
AROUND = ("bridge split", "bridge storm", "other relay", "slow disks", "full disk")


class SiteCrashProfile(SitesProfile):
    """Two or three sites with `hold_dir`. The members of one crash almost at once, so that messages which the others
    lack are only on disk, and restart in any order, with their disks. The other sites stay up, but a relay may fail."""

    name = "site-crash"
    reaches: ClassVar[tuple[str, ...]] = (
        "sites that died as a whole", "messages read from disk", "messages sent from disk", "torn files",
        "disks that failed", "views raised above a fence")

    def make_plan(self) -> Plan:
        rng = self.rng
        self.settings = (("hold_dir", "/hold"), ("hold_sync", rng.choice(("none", "interval", "every"))),
                         ("hold_sync_interval_ns", span(rng, 0.05, 1)), ("lost_after_ns", seconds(3)),
                         ("backups", rng.choice((0, 1, 1, 2))))
        sites = self.draw_sites(rng.choice((2, 2, 3)), 2, 3)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        dying = rng.choice(list(sites))
        around = [kind for kind in AROUND if rng.random() < 0.4]
        faults: list[Action] = []
        at_ns = span(rng, 3, 7)
        for _ in range(rng.choice((1, 1, 2, 3))):
            faults += [fault for kind in around for fault in self.fault_around(kind, dying, at_ns)]
            faults += self.death(rng.choice(DEATHS), sites[dying], at_ns)
            at_ns += span(rng, 2, 16)
        faults.sort(key=lambda fault: fault.at_ns)
        stop_ns = at_ns + span(rng, 1, 5)
        faults += [Begin(stop_ns - millis(1), name) for name in self.members]
        traffic = (*begins, *self.draw_messages(faults, stop_ns, rng.randint(20, 40), far_ratio=0.15))
        return Plan(sites, tuple(faults), traffic, stop_ns)

    def death(self, kind: str, names: tuple[str, ...], at_ns: int) -> list[Action]:
        """All members of a site crash, at once or one after the other, and restart within some seconds."""
        rng = self.rng
        apart_ns = span(rng, 0.5, 3) if kind == "rolling" else rng.choice((1, millis(300)))
        deaths = [CrashOf(at_ns + rng.randrange(apart_ns), name, power=kind == "power") for name in names]
        back_ns = at_ns + apart_ns + span(rng, 0.1, 8)
        spread_ns = rng.choice((1, millis(300), seconds(4)))
        return [*deaths, *(Begin(back_ns + rng.randrange(spread_ns), name) for name in names)]

    def fault_around(self, kind: str, dying: str, at_ns: int) -> list[Action]:
        """Other faults around the time of a site's crash."""
        rng, names = self.rng, self.sites[dying]
        others = self.elsewhere(dying)
        begin_ns = max(0, at_ns - span(rng, 0.1, 3))
        match kind:
            case "bridge split":
                return [Split(begin_ns, (names, others), span(rng, 0.5, 8), (BRIDGE,))]
            case "bridge storm":
                return [Storm(begin_ns, storm(rng), span(rng, 0.5, 6), BRIDGE)]
            case "other relay":
                crash_ns, name = begin_ns + span(rng, 0, 4), rng.choice(others)
                return [CrashOfCoordinator(crash_ns, name),
                        *(Begin(crash_ns + seconds(4), other) for other in self.sites[self.site_of[name]])]
            case "slow disks":
                return [SlowDisk(begin_ns, name, span(rng, 0.02, 2), span(rng, 1, 8)) for name in names]
        return [FullDisk(begin_ns, rng.choice(names), span(rng, 0.2, 5))]
