"""Profile operators: orders about sites, at any member, while relays die, leave and sleep."""
from __future__ import annotations

from jgroups_py.sim.faults import Action, Begin
from jgroups_py.sim.profiles.base import Plan, span
from jgroups_py.sim.profiles.relay import Relay
from jgroups_py.sim.relay_faults import OperatorOrder
from jgroups_py.units import millis

KINDS = ("relay crash", "crash", "leave", "pause", "site split", "bridge split", "storm")


class Operators(Relay):
    """What profile relay does, and a few orders; each is taken back after a while."""

    name = "operators"
    bursts = True
    kinds = KINDS
    reaches = ("sites OFFLINE", "sites back from OFFLINE", "losses told", "failovers")

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
        begins = [action for action in plan.traffic if isinstance(action, Begin)]
        faults = sorted([*plan.faults, *orders], key=lambda fault: fault.at_ns)
        stop_ns = max(plan.stop_ns, *(order.at_ns + millis(10) for order in orders))
        traffic = (*begins, *self.talk(faults, stop_ns, rng.randint(20, 60), far_ratio=0.25))
        return Plan(plan.sites, tuple(faults), traffic, stop_ns)
