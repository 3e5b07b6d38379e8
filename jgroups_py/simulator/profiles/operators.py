"""Profile operators: orders of operators at any member, while relays crash, leave and pause; planned stops of sites."""
from __future__ import annotations

from random import Random

from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin
from jgroups_py.simulator.faults.relay_faults import OperatorOrder, PlannedStop
from jgroups_py.simulator.profiles.base import Plan, span
from jgroups_py.simulator.profiles.relay import RelayProfile

KINDS = ("relay crash", "crash", "leave", "pause", "site split", "bridge split", "storm")


class OperatorsProfile(RelayProfile):
    """Profile relay, with a few orders about sites, each revoked after a while. In some seeds all members of a site
    leave, with or without `forget`, and start again."""

    name = "operators"
    bursts = True
    kinds = KINDS
    reaches = ("sites OFFLINE", "sites back from OFFLINE", "losses declared", "failovers")

    def make_plan(self) -> Plan:
        rng = self.rng
        self.settings = (("site_down_after_ns", span(rng, 1, 4)),)
        plan = super().make_plan()
        orders: list[Action] = []
        for _ in range(rng.randint(1, 4)):
            name = rng.choice(self.members)
            site = rng.choice([site for site in plan.sites if site != self.site_of[name]])
            orders.append(OperatorOrder(span(rng, 3, 12), name, rng.choice(("offline", "drain", "drain")), site,
                                        span(rng, 0.2, 8)))
        orders += self.more_orders(plan, Random(f"{self.seed}/plan/operators/more"))
        begins = [action for action in plan.traffic if isinstance(action, Begin)]
        faults = sorted([*plan.faults, *orders], key=lambda fault: fault.at_ns)
        stop_ns = max(plan.stop_ns, *(order.at_ns + millis(10) for order in orders))
        traffic = (*begins, *self.draw_messages(faults, stop_ns, rng.randint(20, 60), far_ratio=0.25))
        return Plan(plan.sites, tuple(faults), traffic, stop_ns)

    def more_orders(self, plan: Plan, rng: Random) -> list[Action]:
        """Draw `hold` orders and planned stops, from a separate generator, so that other draws do not change."""
        made: list[Action] = []
        for _ in range(rng.choice((0, 1, 1, 2))):
            name = rng.choice(self.members)
            site = rng.choice([site for site in plan.sites if site != self.site_of[name]])
            made.append(OperatorOrder(span(rng, 3, 14), name, "hold", site, span(rng, 0.2, 8)))
        if rng.random() < 0.5:
            names = plan.sites[rng.choice(list(plan.sites))]
            at_ns, apart_ns = span(rng, 3, 14), rng.choice((0, millis(20), millis(500), seconds(3)))
            made.append(PlannedStop(at_ns, names, apart_ns, rng.random() < 0.4))
            back_ns = at_ns + len(names) * apart_ns + span(rng, 1.5, 8)
            made += [Begin(back_ns + rng.randrange(millis(300)), name) for name in names]
        return made
