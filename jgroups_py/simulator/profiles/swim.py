"""Profiles swim (SWIM alone: an eventual membership) and swim-group (SWIM as the failure detection of a group)."""
from __future__ import annotations

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.ports import MemberTable
from jgroups_py.model.swim_member import Member
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator.faults.actions import Action, Begin, Move
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.base import Plan, span, stack
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.one_group import GROUP_FAULTS, OneGroupProfile, Severity
from jgroups_py.simulator.world import World

PORT = 7946
HOSTS = 3                                # members in the initial_hosts of all


def quick(spec: StackSpec) -> StackSpec:
    """The stack with shorter repair intervals, so that a healed world comes to rest soon."""
    layers = [attrs.evolve(layer, config=attrs.evolve(
        layer.config, push_pull_interval_ns=seconds(5), reconnect_interval_ns=seconds(3)))
        if layer.name == "SWIM" else layer for layer in spec.layers]
    return attrs.evolve(spec, layers=tuple(layers))


def known_by(world: World, name: str) -> tuple[Member, ...]:
    """The members known to SWIM at `name`."""
    table = world.node(name).local.find(MemberTable)
    assert isinstance(table, MemberTable), "the stack has SWIM"
    return table.known_members()


class SwimAloneProfile(OneGroupProfile):
    """Five to sixteen members of the shipped stack `membership`, with shorter times."""

    name = "swim"
    kinds = (*GROUP_FAULTS, "move")
    severity = Severity(faults=10, power_ratio=0.3, again_ratio=0.5, away_s=20, pause_s=40, split_s=50, one_way_s=30,
                        clog_s=15, storm_s=15)
    reaches = ("members failed", "suspicions refuted", "members left", "failed members back", "moved members taken in")

    def make_plan(self) -> Plan:
        rng = self.rng
        self.members = [f"m{number}" for number in range(rng.randint(5, 16))]
        self.values = rng.choice(("memberlist-lan", "memberlist-local"))
        stop_ns = span(rng, 15, 60)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        # A member of initial_hosts must run at the end.
        faults = [*self.draw_faults(stop_ns), Begin(stop_ns - millis(1), self.members[0])]
        return Plan({"": tuple(self.members)}, tuple(faults), tuple(begins), stop_ns)

    def harm(self, kind: str, at_ns: int, one: str, other: str) -> Action:
        if kind == "move":
            return Move(at_ns, self.rng.choice(self.members[HOSTS:]), f"10.9.0.{self.rng.randint(1, 250)}")
        return super().harm(kind, at_ns, one, other)

    def start(self, world: World, name: str) -> Process:
        hosts = ",".join(f"{world.ip(other)}[{PORT}]" for other in self.members[:HOSTS])
        return world.start(name, quick(stack("membership", (
            ("profile", self.values), ("initial_hosts", hosts), ("port_range", "0")))))

    def rested(self, world: World) -> bool:
        """Whether at every running member exactly the running members are alive, and none is suspected."""
        live = self.live(world)
        if live != [name for name in self.names if name in world.running()]:
            return False
        wanted = {world.address(name): "alive" for name in live}
        return all({member.address: member.state for member in known_by(world, name)
                    if member.state in ("alive", "suspect")} == wanted for name in live)


class SwimGroupProfile(GroupProfile):
    """Profile group with the shipped stack `swim`."""

    name = "swim-group"
    bursts = False
    reaches = ("members failed", "suspicions refuted")

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        self.transport = "swim"
        return plan

    def start(self, world: World, name: str) -> Process:
        return world.start(name, stack("swim", ()))
