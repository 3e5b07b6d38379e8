"""Profile limits: a site is away until the others stop holding for it, or crashes as a whole, and returns."""
from __future__ import annotations

from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOf, CrashOfCoordinator, PauseOf, SendMessages, Split
from jgroups_py.simulator.profiles.base import Plan, span
from jgroups_py.simulator.profiles.sites import SitesProfile

KINDS = ("cut", "cut", "cut", "death", "sleep")
HOLD_BYTES = 1 << 20


class LimitsProfile(SitesProfile):
    """Two or three sites; one is away for seconds while the others send more than `hold_bytes`."""

    name = "limits"
    bursts = True
    reaches = ("sites DOWN", "sites OFFLINE", "sites back from OFFLINE", "losses declared",
               "sites that died as a whole", "views raised above a fence")

    def make_plan(self) -> Plan:
        rng = self.rng
        self.settings = (("hold_bytes", HOLD_BYTES), ("site_down_after_ns", span(rng, 1, 4)),
                         ("lost_after_ns", seconds(5)), ("split_grace_ns", seconds(4)),
                         ("hold_age_ns", span(rng, 4, 12) if rng.random() < 0.5 else seconds(60)))
        sites = self.draw_sites(rng.choice((2, 2, 3)), 2, 3)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        away = rng.choice(list(sites))
        at_ns, for_ns = span(rng, 3, 6), span(rng, 4, 14)
        faults = self.absence(rng.choice(KINDS), away, at_ns, for_ns)
        if rng.random() < 0.4:
            # Relays that reached the limits fail meanwhile.
            site = rng.choice(list(sites))
            crash_ns = at_ns + span(rng, 0, for_ns / seconds(1) + 2)
            faults += [CrashOfCoordinator(crash_ns, sites[site][0]),
                       *(Begin(crash_ns + span(rng, 1, 5), name) for name in sites[site])]
        faults.sort(key=lambda fault: fault.at_ns)
        stop_ns = at_ns + for_ns + span(rng, 2, 6)
        flood = self.elsewhere(away)
        floods = [SendMessages(at_ns + rng.randrange(for_ns), rng.choice(flood), "", 40, rng.choice((1000, 5000, 5000)))
                  for _ in range(rng.randint(0, 14))]
        traffic = (*begins, *floods, *self.draw_messages(faults, stop_ns, rng.randint(20, 40), far_ratio=0.2))
        return Plan(sites, tuple(faults), traffic, stop_ns)

    def absence(self, kind: str, away: str, at_ns: int, for_ns: int) -> list[Action]:
        """A site is cut off or paused, or all its members crash and restart."""
        names = self.sites[away]
        if kind == "death":
            return [action for name in names for action in (
                CrashOf(at_ns + self.rng.randrange(millis(300)), name),
                Begin(at_ns + for_ns + self.rng.randrange(seconds(1)), name))]
        if kind == "sleep":
            return [PauseOf(at_ns, name, for_ns) for name in names]
        return [Split(at_ns, (names, self.elsewhere(away)), for_ns, (BRIDGE,))]
