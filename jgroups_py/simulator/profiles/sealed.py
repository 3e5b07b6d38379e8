"""Profile sealed: the groups and sites of profile hostile with ENCRYPT, an attacker without keys, and rotation of keys.

All guarantees hold without exception, and also those of attack/sealed.py: K1, K2, K3, K9, K11, K13, K14. The keys of
the groups and of the bridge are changed in three phases while members crash, pause, are split, and join. Links of
FD_SOCK are not attacked here; profile attacker does that.
"""
from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import ClassVar

import attrs

from jgroups_py.model.units import millis, seconds
from jgroups_py.sealing.keyring import GroupKey
from jgroups_py.simulator.attack.sealed import SealedAttacker
from jgroups_py.simulator.checkers import Violation, check
from jgroups_py.simulator.faults.actions import Action, Starter
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.base import span
from jgroups_py.simulator.profiles.hostile import Attack, HostileProfile, attacker_of
from jgroups_py.simulator.secrets import virtual_key
from jgroups_py.simulator.world import BRIDGE_KEYRING, World

KINDS = ("resend", "resend", "resend", "flip", "cut", "swap", "clear", "strangers")
MOST_FRAMES = 12                         # the most frames of one strike
FORGER = "forger"                        # frames that are not sealed claim the addresses of members
PHASE_NS = seconds(2)                    # longer than `reread`: members read a changed keyring within a second


@attrs.frozen
class ChangeKey(Action):
    """The key of a keyring is changed in three phases."""

    kind = "key"
    path: str

    def do(self, world: World, start: Starter) -> bool:
        secret = virtual_key(f"{world.seed}/{self.path}/{self.at_ns}")
        before = world.keyring(self.path)
        added = before.with_key(secret)
        new = added.keys[-1].name
        world.keyrings[self.path] = added
        world.after(PHASE_NS, world.change_keyring, self.path, lambda keyring: keyring.activated(new))
        world.after(2 * PHASE_NS, retire, world, self.path, before.active)
        return True

    def describe(self) -> str:
        return f"the key of {self.path} is changed, a phase each {PHASE_NS / seconds(1):g} s"


def retire(world: World, path: str, key: GroupKey) -> None:
    """The last phase; the attacker of the world knows when it began (K9)."""
    world.change_keyring(path, lambda keyring: keyring.without(key.name))
    attacker = attacker_of(world)
    if isinstance(attacker, SealedAttacker):
        attacker.retired[key.id], attacker.retired_ns[key.id] = key, world.now_ns


@attrs.frozen
class SealedAttack(Attack):
    """An attack in a sealed world, which may begin before a member starts. attacker: the class of the world's."""

    attacker: type[SealedAttacker] = attrs.field(default=SealedAttacker, repr=False)

    def do(self, world: World, start: Starter) -> bool:
        watch_wires(world, self.attacker)
        return super().do(world, start)


def watch_wires(world: World, attacker: type[SealedAttacker] = SealedAttacker) -> None:
    """Give the world its attacker, if it has none: members started from now on have ENCRYPT."""
    if world.tap is None:
        world.seal()
        world.withholds = attacker(world).withholds


class SealedProfile(HostileProfile):
    """By seed % 3 a group on UDP, on TCP, or two sites, each with an attacker that has no key."""

    name = "sealed"
    attacker: ClassVar[type[SealedAttacker]] = SealedAttacker
    attacks: ClassVar[tuple[str, ...]] = KINDS

    def attack(self, at_ns: int) -> Attack:
        rng = self.rng
        self.sources = FORGER
        what = rng.choice(self.attacks)
        names = tuple(rng.sample(self.members, rng.randint(1, len(self.members))))
        return SealedAttack(at_ns, names, what, FORGER, rng.randint(1, MOST_FRAMES), span(rng, 0.2, 3),
                            self.attacker)

    def failures(self, sites: dict[str, tuple[str, ...]], stop_ns: int) -> Iterator[Action]:
        yield from super().failures(sites, stop_ns)
        rng = Random(f"{self.seed}/keys")
        paths = [*(f"{site or 'group'}.keys" for site in sites), *([BRIDGE_KEYRING] if len(sites) > 1 else [])]
        for path in rng.sample(paths, rng.randint(0, len(paths))):
            yield ChangeKey(rng.randrange(millis(100), stop_ns), path)

    def start(self, world: World, name: str) -> Process:
        watch_wires(world, self.attacker)
        return super().start(world, name)

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        attacker = attacker_of(world)
        assert isinstance(attacker, SealedAttacker), "`start` makes it"
        attacker.at_the_end()
        return [*self.harm(world, found), *attacker.violations.values(), *check(world.history)]
