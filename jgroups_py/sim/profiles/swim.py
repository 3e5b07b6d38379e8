"""Profiles swim (SWIM alone: an eventual membership) and swim-group (under GMS, in place of the other detectors)."""
from __future__ import annotations

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.members import Member
from jgroups_py.ports import MemberTable
from jgroups_py.sim.faults import Action, Begin, Move
from jgroups_py.sim.process import Process
from jgroups_py.sim.profiles.base import Plan, span, stack
from jgroups_py.sim.profiles.group import Group
from jgroups_py.sim.profiles.one_group import GROUP_FAULTS, OneGroup, Severity
from jgroups_py.sim.world import World
from jgroups_py.units import millis, seconds

PORT = 7946
HOSTS = 3                                # so many members are named in everybody's initial_hosts


def quick(spec: StackSpec) -> StackSpec:
    """The stack with repairs so frequent that a healed world comes to rest soon."""
    layers = [attrs.evolve(layer, config=attrs.evolve(
        layer.config, push_pull_interval_ns=seconds(5), reconnect_interval_ns=seconds(3)))
        if layer.name == "SWIM" else layer for layer in spec.layers]
    return attrs.evolve(spec, layers=tuple(layers))


def known_by(world: World, name: str) -> tuple[Member, ...]:
    """What SWIM at `name` knows."""
    table = world.node(name).local.find(MemberTable)
    assert isinstance(table, MemberTable), "the stack has SWIM"
    return table.known_members()


class SwimAlone(OneGroup):
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
        # Somebody of initial_hosts must be there in the end.
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
        """Everybody who is there knows exactly those who are there, and nobody is suspected."""
        live = self.live(world)
        if live != [name for name in self.names if name in world.running()]:
            return False
        wanted = {world.address(name): "alive" for name in live}
        return all({member.address: member.state for member in known_by(world, name)
                    if member.state in ("alive", "suspect")} == wanted for name in live)


class SwimGroup(Group):
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
