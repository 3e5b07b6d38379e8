"""Profiles swim (SWIM alone: an eventual membership) and swim-group (under GMS, in place of the other detectors)."""
from __future__ import annotations

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.members import Member
from jgroups_py.ports import MemberTable
from jgroups_py.sim.faults import (
    Action,
    Begin,
    Clog,
    CrashOf,
    LeaveOf,
    Move,
    OneWay,
    PauseOf,
    Split,
    Storm,
)
from jgroups_py.sim.network import Weather
from jgroups_py.sim.process import Process
from jgroups_py.sim.profiles.base import STARTED_NS, Plan, Profile, halves, span, stack, storm
from jgroups_py.sim.profiles.group import Group
from jgroups_py.sim.world import World
from jgroups_py.units import millis, seconds

FAULTS = ("crash", "leave", "pause", "split", "one-way", "clog", "storm", "move")
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


class SwimAlone(Profile):
    """Five to sixteen members of the shipped stack `membership`, with shorter times."""

    name = "swim"
    reaches = ("members failed", "suspicions refuted", "members left", "failed members back", "moved members taken in")

    def make_plan(self) -> Plan:
        rng = self.rng
        self.members = [f"m{number}" for number in range(rng.randint(5, 16))]
        self.values = rng.choice(("memberlist-lan", "memberlist-local"))
        stop_ns = span(rng, 15, 60)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        kinds = [kind for kind in FAULTS if rng.random() < 0.4] or [rng.choice(FAULTS)]
        faults = [self.fault(rng.choice(kinds), rng.randrange(STARTED_NS, stop_ns)) for _ in range(rng.randint(2, 10))]
        again = [Begin(fault.at_ns + span(rng, 0.2, 20), fault.name) for fault in faults
                 if isinstance(fault, CrashOf | LeaveOf) and rng.random() < 0.5]
        again.append(Begin(stop_ns - millis(1), self.members[0]))      # somebody of initial_hosts must be there
        faults = sorted([*faults, *(begin for begin in again if begin.at_ns < stop_ns)], key=lambda x: x.at_ns)
        return Plan({"": tuple(self.members)}, tuple(faults), tuple(begins), stop_ns)

    def fault(self, kind: str, at_ns: int) -> Action:
        rng, names = self.rng, self.members
        one, other = rng.sample(names, 2)
        match kind:
            case "crash":
                return CrashOf(at_ns, one, power=rng.random() < 0.3)
            case "leave":
                return LeaveOf(at_ns, one)
            case "pause":
                return PauseOf(at_ns, one, span(rng, 0.2, 40))
            case "split":
                return Split(at_ns, halves(rng, names), span(rng, 0.5, 50))
            case "one-way":
                return OneWay(at_ns, one, other, span(rng, 0.5, 30))
            case "move":
                return Move(at_ns, rng.choice(names[HOSTS:]), f"10.9.0.{rng.randint(1, 250)}")
            case "clog":
                slow = Weather(latency_ns=span(rng, 0.05, 1), jitter_ns=span(rng, 0.01, 0.5))
                return Clog(at_ns, one, other, slow, span(rng, 0.5, 15))
        return Storm(at_ns, storm(rng), span(rng, 0.5, 15))

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
    reaches = ("members failed", "suspicions refuted")

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        self.transport = "swim"
        return plan

    def start(self, world: World, name: str) -> Process:
        return world.start(name, stack("swim", ()))
