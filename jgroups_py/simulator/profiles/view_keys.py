"""Profile view-keys: the worlds of profile auth with ENCRYPT mode="view", and an insider beside attacker and intruders.

All guarantees hold, K4, and those of attack/view_keys.py: K5, K6, K7. By seed the application's multicasts are not
signed (then the insider forges only what protocols send), tagged, or signed.
"""
from __future__ import annotations

from typing import ClassVar

from jgroups_py.simulator.attack.view_keys import ViewKeysAttacker
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.auth import AuthProfile
from jgroups_py.simulator.profiles.hostile import attacker_of
from jgroups_py.simulator.profiles.sealed import KINDS
from jgroups_py.simulator.world import World

SIGN = ("none", "pair", "each")


class ViewKeysProfile(AuthProfile):
    """By seed % 3 a group on UDP, on TCP, or two sites; by seed // 3 % 3 the property sign."""

    name = "view-keys"
    attacker = ViewKeysAttacker
    attacks: ClassVar[tuple[str, ...]] = (*KINDS, "insider", "insider", "insider")

    def start(self, world: World, name: str) -> Process:
        world.encrypt_options = "view", SIGN[self.seed // 3 % 3]
        return super().start(world, name)

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        attacker = attacker_of(world)
        assert isinstance(attacker, ViewKeysAttacker), "`start` makes it"
        return [*attacker.key_violations(self.watch.kinds), *super().judged(world, found)]
