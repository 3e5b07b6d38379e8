"""Profile auth: the worlds of profile sealed with AUTH in all stacks, and intruders beside the attacker without keys.

Intruders (attack/intruder.py) hold the keyring: so ENCRYPT opens their frames, and only AUTH keeps them out. All
guarantees hold for the others, and K4: who is in a view was let in, under its certified name, and is not revoked.
"""
from __future__ import annotations

from collections.abc import Iterator
from random import Random

import attrs

from jgroups_py.model.units import millis, seconds
from jgroups_py.sealing.identities import MEMBER, RELAY
from jgroups_py.simulator.attack.intruder import INTRUDERS, NAME, REVOKED, UNKNOWN, IntruderWatch, intruding
from jgroups_py.simulator.attack.sealed import SealedAttacker
from jgroups_py.simulator.checkers import Violation, check
from jgroups_py.simulator.faults.actions import Action, Starter
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.base import Plan, stack
from jgroups_py.simulator.profiles.hostile import attacker_of
from jgroups_py.simulator.profiles.sealed import SealedProfile, watch_wires
from jgroups_py.simulator.secrets import virtual_identity, with_auth, with_encrypt
from jgroups_py.simulator.world import World


@attrs.frozen
class Intrude(Action):
    """An intruder starts. as_name: the name that it claims."""

    kind = "intruder"
    name: str
    what: str
    as_name: str

    def do(self, world: World, start: Starter) -> bool:
        if self.name in world.processes and world.processes[self.name].running:
            return False
        start(self.name)
        return True

    def describe(self) -> str:
        return f"an intruder ({self.what}) starts as {self.as_name}"


@attrs.frozen
class Revoke(Action):
    """The key of an intruder that was a member is revoked on all hosts."""

    kind = "revoke"
    name: str

    def do(self, world: World, start: Starter) -> bool:
        own = world.identities.get(self.name)
        if own is None:
            return False
        world.revoke(own)
        return True

    def describe(self) -> str:
        return f"the key of {self.name} is revoked"


class AuthProfile(SealedProfile):
    """By seed % 3 a group on UDP, on TCP, or two sites, with identities, an attacker without keys, and intruders."""

    name = "auth"
    symbolic = True

    def make_plan(self) -> Plan:
        self.watch = IntruderWatch()
        self.intruders: list[Intrude] = []
        plan = super().make_plan()
        self.enrolled = False
        return plan

    def failures(self, sites: dict[str, tuple[str, ...]], stop_ns: int) -> Iterator[Action]:
        yield from super().failures(sites, stop_ns)
        if self.world_kind == "sites":
            return
        rng = Random(f"{self.seed}/intruders")
        for number, what in enumerate(rng.sample(INTRUDERS, rng.randint(1, 3))):
            name = f"Eve{number}"
            as_name = rng.choice(self.members) if what == NAME else name
            yield from self.intrusion(Intrude(rng.randrange(millis(500), stop_ns), name, what, as_name), rng, stop_ns)

    def intrusion(self, action: Intrude, rng: Random, stop_ns: int, watched_as: str = "") -> Iterator[Action]:
        """An intruder, and the revocation of its key if it was a member. watched_as: its kind for the watch, if that is
        another one."""
        self.intruders.append(action)
        self.watch.kinds[action.name] = watched_as or action.what
        yield action
        if action.what == REVOKED:
            yield Revoke(rng.randrange(action.at_ns, stop_ns + seconds(1)), action.name)

    def start(self, world: World, name: str) -> Process:
        watch_wires(world, self.attacker)
        if not self.enrolled:
            self.enrolled = True
            self.enroll(world)
        if name in self.watch.kinds:
            return self.start_intruder(world, next(action for action in self.intruders if action.name == name))
        return super().start(world, name)

    def enroll(self, world: World) -> None:
        """Give members and intruders their keys."""
        world.enroll(*(virtual_identity(world.seed, member, self.site_of[member], self.roles_of(member))
                       for member in self.members))
        for action in self.intruders:
            own = virtual_identity(world.seed, action.name)
            if action.what == UNKNOWN:
                world.files[f"{action.name}.pem"] = own.as_text().encode()
            else:
                world.enroll(own)

    def roles_of(self, member: str) -> tuple[str, ...]:
        """The roles of a member."""
        return MEMBER, RELAY

    def start_intruder(self, world: World, action: Intrude) -> Process:
        """Start a process with the keyring and the stack of the group, and a lax AUTH."""
        properties = {} if self.world_kind == "udp" else {
            "initial_hosts": ",".join(f"{world.ip(other)}[7800]" for other in self.members[:3]), "port_range": "0"}
        spec = stack(self.world_kind, tuple(properties.items()))
        spec = with_auth(with_encrypt(spec, "group.keys", *world.encrypt_options), f"{action.name}.pem")
        return world.start(action.name, intruding(spec, action.what), app=App(), shown=action.as_name)

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        attacker = attacker_of(world)
        assert isinstance(attacker, SealedAttacker), "`start` makes it"
        attacker.at_the_end()
        for own in world.identities.values():
            if own.identity.name in self.watch.kinds:
                at_ns = world.revoked_ns.get(own.identity.key)
                if at_ns is not None:
                    self.watch.revoked_ns[own.identity.name] = at_ns
        history = self.watch.without(world.history, world)
        return [*self.harm(world, found), *attacker.violations.values(), *self.watch.admission(world),
                *check(history)]
