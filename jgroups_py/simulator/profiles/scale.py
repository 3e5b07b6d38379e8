"""Profile scale: three to five sites of three to seven members."""
from __future__ import annotations

from typing import ClassVar

from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import (
    Action,
    Begin,
    CrashOf,
    CrashOfCoordinator,
    LeaveOf,
    PauseOf,
    Split,
    Storm,
)
from jgroups_py.simulator.profiles.base import Plan, span, storm
from jgroups_py.simulator.profiles.sites import SitesProfile

KINDS = ("relay crash", "relay crash", "relay crash", "crash", "leave", "pause", "bridge split", "bridge storm")


class ScaleProfile(SitesProfile):
    """Each site has faults of its own, of one member at a time; the bridge fails between any of them."""

    name = "scale"
    sizes: ClassVar[tuple[int, int]] = (3, 7)
    bursts = True
    lossless = True
    splits = True
    reaches = ("failovers", "overlapping failovers at two sites", "three sites failing over within ten seconds",
               "sites with seven members", "worlds of five sites")

    def make_plan(self) -> Plan:
        rng = self.rng
        sites = self.draw_sites(rng.randint(3, 5), *self.sizes)
        stop_ns = span(rng, 8, 14)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        kinds = ["relay crash", *(kind for kind in KINDS if rng.random() < 0.5)]
        first_ns, together = span(rng, 3, 6), rng.random() < 0.5
        faults: list[Action] = []
        for names in sites.values():
            at_ns = first_ns + span(rng, 0, 1.5) if together else span(rng, 3, 10)
            faults += self.trouble(rng.choice(kinds), names, at_ns)
        faults = sorted((fault for fault in faults if fault.at_ns < stop_ns), key=lambda fault: fault.at_ns)
        traffic = (*begins, *self.draw_messages(faults, stop_ns, rng.randint(30, 60), far_ratio=0.2))
        return Plan(sites, tuple(faults), traffic, stop_ns)

    def trouble(self, kind: str, names: tuple[str, ...], at_ns: int) -> list[Action]:
        """The faults of one site."""
        rng, name, for_ns = self.rng, self.rng.choice(names), span(self.rng, 0.5, 8)
        match kind:
            case "relay crash":
                return [CrashOfCoordinator(at_ns, name), *(Begin(at_ns + for_ns, other) for other in names)]
            case "crash":
                return [CrashOf(at_ns, name), Begin(at_ns + for_ns, name)]
            case "leave":
                return [LeaveOf(at_ns, name), Begin(at_ns + seconds(3) + for_ns, name)]
            case "pause":
                return [PauseOf(at_ns, name, for_ns)]
            case "bridge split":
                return [Split(at_ns, (names, tuple(other for other in self.members if other not in names)), for_ns,
                              (BRIDGE,))]
        return [Storm(at_ns, storm(rng), for_ns, BRIDGE)]
