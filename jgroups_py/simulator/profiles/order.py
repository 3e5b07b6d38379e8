"""Profiles of one order of all multicasts (TOTAL): order, in one group; in sites joined by RELAY, the others."""
from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, cast

import attrs

from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.batch import NO_TOTAL_ORDER
from jgroups_py.model.units import millis
from jgroups_py.protocols.total import Total, TotalConfig
from jgroups_py.simulator.checkers import Facts, Violation, order
from jgroups_py.simulator.faults.actions import Action, CrashOfCoordinator, PauseOf, SendMessages
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.base import STARTED_NS, Plan, in_order, span
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.relay import RelayProfile
from jgroups_py.simulator.profiles.sites import SitesProfile
from jgroups_py.simulator.profiles.split_brain import SplitBrainProfile
from jgroups_py.simulator.profiles.states import StateRequests
from jgroups_py.simulator.profiles.storm import RelayStormProfile
from jgroups_py.simulator.profiles.topics import TopicsProfile, member_with_topics
from jgroups_py.simulator.world import World

SAFE_AMONG = 4                           # one seed of so many has a safe order,
STATES_AMONG, SMALL_AMONG = 3, 5         # members that fetch states, small limits


class OrderProfile(StateRequests, GroupProfile):
    """Profile group with the stacks udp-total and tcp-total: several members send at once, around each fault and at
    crashes of the coordinator; some seeds have a safe order, states, large messages and small limits."""

    name = "order"
    reaches = ("rests of views", "reports of a safe order", "states of the own group", "messages without an order")

    def make_plan(self) -> Plan:
        self.order = "safe" if self.seed % SAFE_AMONG == SAFE_AMONG - 1 else "agreed"
        self.has_states = self.seed % STATES_AMONG == 0
        plan = super().make_plan()
        rng = self.rng
        self.transport += "-total"
        self.small = self.seed % SMALL_AMONG == 0
        faults: list[Action] = list(plan.faults)
        for _ in range(rng.choice((0, 1, 2, 4))):
            at_ns, name = rng.randrange(STARTED_NS, plan.stop_ns), rng.choice(self.members)
            faults.append(CrashOfCoordinator(at_ns, name) if rng.random() < 0.7 else
                          PauseOf(at_ns, self.members[0], span(rng, 0.2, 9)))
        crowds = [self.crowd(max(0, fault.at_ns + span(rng, -0.02, 0.02))) for fault in faults]
        crowds += [self.crowd(rng.randrange(millis(600), plan.stop_ns)) for _ in range(rng.randint(2, 12))]
        traffic = in_order([*plan.traffic, *(action for crowd in crowds for action in crowd)])
        return attrs.evolve(plan, faults=in_order(faults), traffic=traffic)

    def with_fetches(self, plan: Plan) -> Plan:
        return super().with_fetches(plan) if self.has_states else plan

    def crowd(self, at_ns: int) -> list[SendMessages]:
        """Several members multicast within some milliseconds, more than once."""
        rng = self.rng
        return [SendMessages(at_ns + rng.randrange(millis(4)), name, "", rng.choice((1, 1, 2, 20)),
                             rng.choice((0, 0, 30, 1000, 20_000, 200_000)), rng.choice((0,) * 7 + (NO_TOTAL_ORDER,)))
                for name in self.members for _ in range(rng.choice((0, 1, 3)))]

    def start(self, world: World, name: str) -> Process:
        app: App = self.app() if self.has_states else App(rate=300 if name == self.slow else 0)
        return world.start(name, self.limited(self.spec(world)), app=app)

    def limited(self, spec: StackSpec) -> StackSpec:
        """A stack with the order that was drawn, and in some seeds with small limits."""
        changes: dict[str, dict[str, Any]] = {"TOTAL": {"order": self.order}}
        if self.small:
            changes["TOTAL"]["max_unplaced_bytes"] = 1 << 16
            changes["MFC"] = {"max_credits_bytes": 1 << 18}
        return StackSpec(tuple(attrs.evolve(layer, config=attrs.evolve(layer.config, **changes.get(layer.name, {})))
                               for layer in spec.layers), spec.source)

    def rested(self, world: World) -> bool:
        return super().rested(world) if self.has_states else GroupProfile.rested(self, world)

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        found = super().judged(world, found) if self.has_states else found
        return sorted([*found, *order_violations(world, self.live(world), safe=self.order == "safe",
                                                 prompt=not self.slow and not self.has_states)],
                      key=lambda violation: violation.at_ns)


def order_violations(world: World, live: list[str], *, safe: bool, prompt: bool) -> list[Violation]:
    """What the checkers O6 and O7 find, and what TOTAL keeps at the end of a run."""
    facts = Facts(world.history)
    found = [*(order.safe(facts) if safe else ()), *(order.prompt(facts) if prompt else ())]
    for name in live:
        figures = cast(Total, world.node(name).local.find(Total)).stats()
        if figures["unplaced"] or figures["unplaced_bytes"]:
            found.append(Violation("O7", f"{world.process(name).incarnation} still keeps {figures['unplaced']:.0f} "
                                   f"messages without a place", world.now_ns))
    return found


@lru_cache(maxsize=64)
def with_total(spec: StackSpec) -> StackSpec:
    """A stack with TOTAL above FRAG."""
    layers = []
    for layer in spec.layers:
        layers.append(layer)
        if layer.name == "FRAG":
            layers.append(LayerSpec("TOTAL", TotalConfig()))
    return StackSpec(tuple(layers), spec.source)


class TotalAtSites(SitesProfile):
    """TOTAL in the local stacks of a profile of sites: each site has one order of its own and of remote messages."""

    def local_stack(self, site: str, port: int) -> StackSpec:
        return with_total(super().local_stack(site, port))

    def draw_message(self, at_ns: int, far_ratio: float) -> SendMessages:
        sent = super().draw_message(at_ns, far_ratio)
        free = not sent.dest and not sent.until and self.rng.random() < 0.1
        return attrs.evolve(sent, flags=sent.flags | NO_TOTAL_ORDER) if free else sent

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        found = super().judged(world, found)
        return sorted([*found, *order_violations(world, self.live(world), safe=False, prompt=False)],
                      key=lambda violation: violation.at_ns)


class OrderSitesProfile(TotalAtSites, RelayProfile):
    """Profile relay with TOTAL."""

    name = "order-sites"
    reaches = ("failovers", "rests of views")


class OrderStormProfile(TotalAtSites, RelayStormProfile):
    """Profile relay-storm with TOTAL: the coordinator that fails gives the order, and relays."""

    name = "order-storm"
    reaches = ("failovers", "overlapping failovers at two sites", "rests of views", "paused members excluded",
               "messages replayed: more than 50 at once")


class OrderSplitProfile(TotalAtSites, SplitBrainProfile):
    """Profile split-brain with TOTAL: two halves of a site have an order each, and both relay."""

    name = "order-split"
    reaches = ("splits", "halves that both relayed", "refused epochs", "merged sites", "rests of views",
               "failovers in a half")


class OrderTopicsProfile(TotalAtSites, TopicsProfile):
    """Profile topics with TOTAL: members deliver what they subscribed to, in the one order of their site."""

    name = "order-topics"
    reaches: ClassVar[tuple[str, ...]] = ("failovers", "rests of views", "interests received", "numbers refused")

    def start(self, world: World, name: str) -> Process:
        return member_with_topics(self, world, name, self.wanted[name], with_total)
