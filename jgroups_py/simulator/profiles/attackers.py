"""Profiles attacker, attacker-insider and attacker-exmember: who attacks, with what it has (design/threat-model.md).

* **attacker**: a non-member on the path. As profile sealed; it also keeps datagrams back, so that some never arrive and
  others late, ends, refuses and answers links of FD_SOCK, and in some seeds delivers and resends what it has after
  hours.
* **attacker-insider**: a member of a group with keys of views. As profile view-keys; the insider also changes and
  reseals what others sent, uses its own keys for their unicasts, and shows its identity under their addresses.
* **attacker-exmember**: members leave, crash and are excluded, and come back as others; the attacker has all keys that
  they had. By turns in mode "view", where they are worth nothing at once, and in mode "shared" with rotation.

Another site is profile attacker-site. All guarantees hold, as in the profiles from which these are made.
"""
from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import ClassVar

import attrs

from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.sealing.identities import MEMBER, OPERATOR, RELAY
from jgroups_py.simulator import history as h
from jgroups_py.simulator.attack.former import RETIRED_KEYS, FormerMember
from jgroups_py.simulator.attack.insider import INSIDER_KINDS, REMEMBERS
from jgroups_py.simulator.attack.sealed import SealedAttacker
from jgroups_py.simulator.attack.view_keys import ViewKeysAttacker
from jgroups_py.simulator.attack.withholding import Withheld, hours
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.faults.actions import Action, Begin, CrashOf, LeaveOf, Starter
from jgroups_py.simulator.links import Tampering
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.auth import AuthProfile
from jgroups_py.simulator.profiles.base import Plan, in_order, span
from jgroups_py.simulator.profiles.hostile import attacker_of
from jgroups_py.simulator.profiles.sealed import KINDS, ChangeKey, SealedAttack, SealedProfile, watch_wires
from jgroups_py.simulator.profiles.view_keys import SIGN, ViewKeysProfile
from jgroups_py.simulator.world import World

GIVEN = re.compile(r"an operator at (?P<member>\S+) orders a new key: order (?P<number>\d+)$")
OBEYED = re.compile(r"order obeyed: a new key of the view, of (?P<name>[^\s@]+)(@\S*)?$")
ANSWERED = re.compile(r"answers about order (?P<number>\d+) of a new key: (?P<answer>.*)$")
AFTER_HOURS = 20                         # one seed of so many, in which an attack goes on after hours


@attrs.frozen
class Withhold(Action):
    """The attacker keeps some datagrams back for a while. ratio: how many; lost_ratio: how many of these for good."""

    kind = "withholding"
    ratio: float
    lost_ratio: float
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        watch_wires(world)
        attacker = attacker_of(world)
        assert isinstance(attacker, SealedAttacker), "it was made, now or before"
        kept = attacker.withheld.kept if attacker.withheld is not None else []
        attacker.withheld = Withheld(world, Random(f"{world.seed}/{self}"), self.ratio, self.lost_ratio,
                                     world.now_ns + self.for_ns)
        attacker.withheld.kept = kept
        return True

    def describe(self) -> str:
        return (f"the attacker keeps {self.ratio:.0%} of the datagrams back, {self.lost_ratio:.0%} of them for good, "
                f"for {self.for_ns / NS_PER_S:.3f} s")


@attrs.frozen
class DeliverLate(Action):
    """All that was kept back arrives now."""

    kind = "late delivery"

    def do(self, world: World, start: Starter) -> bool:
        watch_wires(world)
        attacker = attacker_of(world)
        if not isinstance(attacker, SealedAttacker) or attacker.withheld is None:
            return False
        attacker.withheld.deliver_all()
        return True

    def describe(self) -> str:
        return "all datagrams that were kept back arrive"


@attrs.frozen
class TamperWithLinks(Action):
    """The attacker ends links of FD_SOCK, and refuses or answers attempts to connect for a while. ratio: how many."""

    kind = "links"
    ratio: float
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        world.links.tamper(Tampering(Random(f"{world.seed}/{self}"), self.ratio, world.now_ns + self.for_ns))
        return True

    def describe(self) -> str:
        return (f"the attacker ends {self.ratio:.0%} of FD_SOCK's links, and refuses or answers as many attempts, for "
                f"{self.for_ns / NS_PER_S:.3f} s")


@attrs.frozen
class OrderNewKey(Action):
    """An operator orders a new key of the view at a member. bridge: of the bridge's view."""

    kind = "order of a new key"
    name: str
    bridge: bool = False

    def do(self, world: World, start: Starter) -> bool:
        process = world.processes.get(self.name)
        if process is None or not process.running or process.paused or process.leaving:
            return False
        world.renew_key(self.name, bridge=self.bridge)
        return True

    def describe(self) -> str:
        of = "bridge's " if self.bridge else ""
        return f"a new key of the {of}view is ordered at {self.name}"


class AttackerProfile(SealedProfile):
    """By seed % 3 a group on UDP, on TCP, or two sites, with a non-member on the path."""

    name = "attacker"

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        rng = Random(f"{self.seed}/path")
        added: list[Action] = []
        for _ in range(rng.choice((0, 1, 1, 2))):
            added.append(Withhold(rng.randrange(millis(100), plan.stop_ns), rng.choice((0.02, 0.1, 0.4)),
                                  rng.choice((0.0, 0.3, 1.0)), span(rng, 0.3, 4)))
        added += [DeliverLate(rng.randrange(seconds(1), plan.stop_ns)) for _ in range(rng.choice((0, 1, 2)))]
        on_links = Random(f"{self.seed}/links")
        for _ in range(on_links.choice((0, 1, 1, 2))):
            added.append(TamperWithLinks(on_links.randrange(millis(100), plan.stop_ns),
                                         on_links.choice((0.1, 0.5, 1.0)), span(on_links, 0.1, 6)))
        stop_ns = plan.stop_ns
        if self.seed % AFTER_HOURS == 0 and self.world_kind != "sites":
            stop_ns += hours(rng)
            names = tuple(self.members)
            added += [DeliverLate(stop_ns), SealedAttack(stop_ns, names, "resend", self.sources, 12, seconds(2),
                                                         self.attacker)]
            stop_ns += seconds(3)
        return attrs.evolve(plan, faults=in_order([*plan.faults, *added]), stop_ns=stop_ns)


class InsiderProfile(ViewKeysProfile):
    """By seed % 3 a group on UDP, on TCP, or two sites; by seed // 3 % 3 the property sign; an insider attacks."""

    name = "attacker-insider"
    attacks: ClassVar[tuple[str, ...]] = (*INSIDER_KINDS, *INSIDER_KINDS, "resend", "strangers")

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        rng = Random(f"{self.seed}/orders")
        self.operators = {name: rng.random() < 0.5 for name in self.members}
        orders = [OrderNewKey(rng.randrange(seconds(1), plan.stop_ns), rng.choice(self.members))
                  for _ in range(rng.choice((0, 1, 2, 4)))]
        if self.world_kind == "sites":
            on_bridge = Random(f"{self.seed}/orders on the bridge")
            orders += [OrderNewKey(on_bridge.randrange(seconds(1), plan.stop_ns), name, bridge=True)
                       for name in on_bridge.choices(self.members, k=on_bridge.randint(1, 4))]
        # One when nothing fails any more, which must be carried out.
        self.last = OrderNewKey(plan.stop_ns, rng.choice(self.members))
        return attrs.evolve(plan, faults=in_order([*plan.faults, *orders, self.last]))

    def roles_of(self, member: str) -> tuple[str, ...]:
        return (MEMBER, RELAY, OPERATOR) if self.operators[member] else (MEMBER, RELAY)

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        return [*super().judged(world, found), *self.orders(world)]

    def orders(self, world: World) -> Iterator[Violation]:
        """K2: a new key is ordered by operators alone. L: what one orders is done, if its process runs to the end."""
        ordered: dict[str, str] = {}                         # number -> the incarnation
        for entry in world.history.entries:
            text = entry.text if isinstance(entry, h.Remark) else ""
            if obeyed := OBEYED.search(text):
                if not self.operators.get(obeyed["name"]):
                    yield Violation("K2", f"the order of {obeyed['name']}, no operator, is obeyed", entry.at_ns)
            elif given := GIVEN.search(text):
                ordered[given["number"]] = given["member"]
            elif answer := ANSWERED.search(text):
                member = ordered.pop(answer["number"])
                allowed = self.operators[member.partition("#")[0]]
                if (answer["answer"] == "done" and not allowed) or ("has not the role" in answer["answer"] and allowed):
                    yield Violation("K2", f"the order of {member} is answered: {answer['answer']}", entry.at_ns)
        for number, member in ordered.items():
            process = world.processes[member.partition("#")[0]]
            if process.running and process.incarnation == member:
                yield Violation("L", f"order {number} of a new key, at {member}, is not answered", world.now_ns)


class FormerMemberProfile(AuthProfile):
    """By seed % 3 a group on UDP, on TCP, or two sites; even seeds have keys of views, odd ones a shared key."""

    name = "attacker-exmember"

    def make_plan(self) -> Plan:
        self.by_view = self.seed % 2 == 0
        plan = super().make_plan()
        rng = Random(f"{self.seed}/former")
        added: list[Action] = []
        for name in rng.sample(self.members, rng.randint(1, len(self.members) - 1)):
            at_ns = rng.randrange(seconds(2), plan.stop_ns - seconds(6))
            added.append(LeaveOf(at_ns, name) if rng.random() < 0.5 else CrashOf(at_ns, name))
            if rng.random() < 0.7:
                added.append(Begin(at_ns + span(rng, 0.5, 5), name))
        for _ in range(rng.randint(1, 3)):
            kind = REMEMBERS if self.by_view else RETIRED_KEYS
            names = tuple(rng.sample(self.members, rng.randint(1, len(self.members))))
            added.append(SealedAttack(rng.randrange(seconds(5), plan.stop_ns), names, kind, self.sources,
                                      rng.randint(1, 12), span(rng, 0.5, 3), self.attacker))
        return attrs.evolve(plan, faults=in_order([*plan.faults, *added]))

    @property
    def attacker(self) -> type[SealedAttacker]:                          # type: ignore[override]
        return ViewKeysAttacker if self.by_view else FormerMember

    @property
    def attacks(self) -> tuple[str, ...]:                                # type: ignore[override]
        return (*KINDS, REMEMBERS if self.by_view else RETIRED_KEYS)

    def failures(self, sites: dict[str, tuple[str, ...]], stop_ns: int) -> Iterator[Action]:
        yield from super().failures(sites, stop_ns)
        if not self.by_view:
            rng = Random(f"{self.seed}/former keys")
            for site in sites:
                yield ChangeKey(rng.randrange(millis(100), seconds(2)), f"{site or 'group'}.keys")

    def start(self, world: World, name: str) -> Process:
        if self.by_view:
            world.encrypt_options = "view", SIGN[self.seed // 2 % 3]
        return super().start(world, name)

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        attacker = attacker_of(world)
        keys = attacker.key_violations() if isinstance(attacker, ViewKeysAttacker) else []
        return [*keys, *super().judged(world, found)]
