"""Profile clocks: wall clocks differ, jump, and run fast or slow, while sites with a journal are down."""
from __future__ import annotations

from jgroups_py.model.outputs import BRIDGE
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOf, Split
from jgroups_py.simulator.faults.clock_faults import ClockChange
from jgroups_py.simulator.profiles.base import Plan, in_order, span
from jgroups_py.simulator.profiles.sites import SitesProfile

HOUR_S = 3600.0
HOLD_AGE_S = (6.0, 12.0)


class ClocksProfile(SitesProfile):
    """Two or three sites with `hold_dir`. One crashes as a whole, once or twice, for less or more time than `hold_age`,
    and meanwhile the clocks of its hosts are set; its bridge is cut before, so that it holds many messages on disk."""

    name = "clocks"
    bursts = True
    reaches = ("sites that died as a whole", "messages read from disk", "messages sent from disk", "clocks moved",
               "sites DOWN")

    def make_plan(self) -> Plan:
        rng = self.rng
        self.short = rng.random() < 0.6                  # whether hold_age is shorter than some downtime
        age_ns = span(rng, *HOLD_AGE_S) if self.short else seconds(1800)
        self.settings = (("hold_dir", "/hold"), ("hold_sync", rng.choice(("none", "interval", "every"))),
                         ("hold_sync_interval_ns", span(rng, 0.05, 1)), ("lost_after_ns", seconds(3)),
                         ("split_grace_ns", seconds(4)), ("site_down_after_ns", span(rng, 2, 6)),
                         ("hold_age_ns", age_ns), ("backups", rng.choice((0, 1, 1, 2))))
        sites = self.draw_sites(rng.choice((2, 2, 3)), 1, 3)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        faults: list[Action] = [self.setting(0, name) for name in self.members if rng.random() < 0.5]
        dying = rng.choice(list(sites))
        at_ns = span(rng, 4, 7)
        for _ in range(rng.choice((1, 1, 2))):
            back_ns = at_ns + (span(rng, HOLD_AGE_S[0], HOLD_AGE_S[1] + 4) if rng.random() < 0.4 else span(rng, 0.1, 4))
            faults += self.death(sites[dying], at_ns, back_ns)
            if rng.random() < 0.8:
                cut_ns = at_ns - span(rng, 0.2, 3)
                faults.append(Split(cut_ns, (sites[dying], self.elsewhere(dying)),
                                    back_ns - cut_ns + span(rng, -2, 6), (BRIDGE,)))
            at_ns = back_ns + span(rng, 5, 12)
        faults += [self.setting(rng.randrange(at_ns), rng.choice(self.members)) for _ in range(rng.randint(0, 3))]
        stop_ns = at_ns + span(rng, 1, 4)
        faults += [Begin(stop_ns - millis(1), name) for name in self.members]
        traffic = (*begins, *self.draw_messages(faults, stop_ns, rng.randint(20, 40), far_ratio=0.1))
        return Plan(sites, in_order(faults), traffic, stop_ns)

    def death(self, names: tuple[str, ...], at_ns: int, back_ns: int) -> list[Action]:
        """All members of a site crash within 200 ms and restart, with clocks that were set meanwhile."""
        rng, power = self.rng, self.rng.random() < 0.3
        made: list[Action] = []
        for name in names:
            made += [CrashOf(at_ns + rng.randrange(millis(200)), name, power=power),
                     Begin(back_ns + rng.randrange(rng.choice((1, seconds(2)))), name)]
            if rng.random() < 0.6:
                made.append(self.setting(rng.randrange(at_ns, back_ns), name))
        return made

    def setting(self, at_ns: int, name: str) -> ClockChange:
        """A clock jumps by seconds, hours or days in either direction; it may run too fast, too slowly, or stop."""
        rng = self.rng
        by_s = rng.choice((-HOUR_S, HOUR_S, HOUR_S, -1.0, 1.0, rng.uniform(-2 * HOUR_S, 2 * HOUR_S), -10.0 ** 6))
        return ClockChange(at_ns, name, seconds(by_s), rng.choice((1.0, 1.0, 1.001, 0.9, 0.0, 200.0)))
