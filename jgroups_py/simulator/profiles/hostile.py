"""Profile hostile: a group, or two sites, with an attacker on every link.

Frames carry no proof of their source, so some harm can be prevented by authentication only. Which guarantees are
suspended depends on the seed's attacker:

* a **stranger** (a non-member) uses addresses of its own, and replays frames of members unchanged. All guarantees hold;
  only deliveries of its own unicasts, and of its multicasts without reliability, which need no view, do not count.
* a **forger** claims members' addresses, and changes payloads. It can send as a member (S1), use a member's numbers so
  that the member's own messages are dropped as duplicates, acknowledge and vote as that member (S2, S4, S5, F, R1 to
  R11, M4, S7, S8). What must hold: M1 and M2 for views, and L for messages sent after the attack: multicasts in the
  final view, unicasts to or from a member that started after the attack (older connections may be broken).

In either case: no exception, no member ends unless its application requested it (H1), the memory of a node is bounded
(H2), and after the attack the groups come to rest. The attack ends early enough for members to leave and rejoin, so
that the attacker has read no frame of the final view.

The two words are in the text of an attack, from which its frames are drawn: other words would change every history.
"""
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import attrs

from jgroups_py.model.batch import NO_RELIABILITY
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.simulator import history as h
from jgroups_py.simulator.attack.attacker import Attacker
from jgroups_py.simulator.attack.forging import Forger
from jgroups_py.simulator.checkers import Violation, check
from jgroups_py.simulator.checkers.facts import Facts
from jgroups_py.simulator.checkers.liveness import liveness
from jgroups_py.simulator.faults.actions import (
    Action,
    Begin,
    CrashOf,
    LeaveOf,
    PauseOf,
    SendMessages,
    Split,
    Starter,
    Storm,
)
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.base import Plan, Profile, halves, span, stack, storm
from jgroups_py.simulator.profiles.sites import SitesProfile
from jgroups_py.simulator.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

NON_MEMBER, FORGER = "stranger", "forger"
KINDS = {NON_MEMBER: ("edges", "replays", "fragments", "unicasts", "joins"),
         FORGER: ("edges", "edges", "replays", "ahead", "fragments", "leaves")}
STRIKE_NS = millis(5)                    # time between two strikes of an attack
MOST_FRAMES = {"edges": 12, "replays": 4, "fragments": 3, "unicasts": 10, "joins": 2, "ahead": 5, "leaves": 1}
AFTERWARDS_NS = seconds(10)              # time between the last attack and the healing of everything


@attrs.frozen
class Attack(Action):
    """Frames of one kind, injected at some members for a while. sources: NON_MEMBER or FORGER."""

    kind = "attack"
    names: tuple[str, ...]
    what: str
    sources: str
    count: int                           # frames a strike
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        attacker = attacker_of(world)
        forger = Forger(Random(f"{world.seed}/{self}"), claims_members=self.sources == FORGER)
        stop_ns = world.now_ns + self.for_ns

        def strike() -> None:
            attacker.strike(forger.rng.choice(self.names), self.what, self.count, forger)
            if world.now_ns < stop_ns:
                world.after(STRIKE_NS, strike)
            else:
                attacker.weigh_all()
        strike()
        return True

    def describe(self) -> str:
        return (f"a {self.sources} attacks {' '.join(self.names)} by {self.what} for {self.for_ns / NS_PER_S:.3f} s, "
                f"{self.count} frames each {STRIKE_NS / NS_PER_S:g} s")


def attacker_of(world: World) -> Attacker:
    """The attacker of a world; if there is none, one is made and reads all frames from now on."""
    if world.tap is None:
        world.tap = Attacker(world).intercept
    found = getattr(world.tap, "__self__", None)
    assert isinstance(found, Attacker), "no other tap is installed"
    return found


class HostileProfile(SitesProfile):
    """By seed % 3 a group of three or four on UDP, on TCP, or two sites of two or three; a stranger or a forger."""

    name = "hostile"

    def make_plan(self) -> Plan:
        rng = self.rng
        self.world_kind = ("udp", "tcp", "sites")[self.seed % 3]
        self.sources = rng.choice((NON_MEMBER, FORGER))
        if self.world_kind == "sites":
            sites = self.draw_sites(2, 2, 3)
        else:
            self.members = list("ABCD"[:rng.randint(3, 4)])
            sites = {"": tuple(self.members)}
            self.sites, self.site_of = sites, dict.fromkeys(self.members, "")
        attacked_ns = span(rng, 6, 10)                       # attacks begin before it
        attacks = [self.attack(rng.randrange(millis(100), attacked_ns)) for _ in range(rng.randint(1, 5))]
        faults = [*attacks, *self.failures(sites, attacked_ns)]
        last_ns = max(attack.at_ns + attack.for_ns for attack in attacks) + millis(10)
        self.over_ns = last_ns
        name = self.members[0]
        again = [LeaveOf(last_ns, name)]
        again += [LeaveOf(last_ns, names[0]) for names in list(sites.values())[1:]]
        returns = [Begin(last_ns + seconds(5), leave.name) for leave in again]
        stop_ns = last_ns + AFTERWARDS_NS
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        messages = self.draw_messages([], stop_ns, rng.randint(15, 40))
        traffic = sorted((*begins, *again, *returns, *messages), key=lambda action: action.at_ns)
        return Plan(sites, tuple(sorted(faults, key=lambda fault: fault.at_ns)), tuple(traffic), stop_ns)

    def attack(self, at_ns: int) -> Attack:
        rng = self.rng
        what = rng.choice(KINDS[self.sources])
        names = tuple(rng.sample(self.members, rng.randint(1, len(self.members))))
        return Attack(at_ns, names, what, self.sources, rng.randint(1, MOST_FRAMES[what]), span(rng, 0.2, 3))

    def failures(self, sites: dict[str, tuple[str, ...]], stop_ns: int) -> Iterator[Action]:
        """Up to two ordinary faults, so that the attack meets groups in more states."""
        rng = self.rng
        for _ in range(rng.choice((0, 1, 1, 2))):
            at_ns, name = rng.randrange(seconds(1.5), stop_ns), rng.choice(self.members)
            local_members = list(sites[self.site_of[name]])
            match rng.choice(("crash", "pause", "split", "storm")):
                case "crash":
                    yield CrashOf(at_ns, name)
                    yield Begin(at_ns + span(rng, 0.2, 3), name)
                case "pause":
                    yield PauseOf(at_ns, name, span(rng, 0.2, 8))
                case "split":
                    yield Split(at_ns, halves(rng, local_members), span(rng, 0.5, 7))
                case "storm":
                    yield Storm(at_ns, storm(rng), span(rng, 0.5, 3))

    def draw_message(self, at_ns: int, far_ratio: float) -> SendMessages:
        if self.world_kind == "sites":
            return super().draw_message(at_ns, far_ratio)
        return Profile.draw_message(self, at_ns, far_ratio)

    def start(self, world: World, name: str) -> Process:
        attacker_of(world)
        if self.world_kind == "sites":
            return super().start(world, name)
        properties = {} if self.world_kind == "udp" else {
            "initial_hosts": ",".join(f"{world.ip(other)}[7800]" for other in self.members[:3]), "port_range": "0"}
        return world.start(name, stack(self.world_kind, tuple(properties.items())), app=App())

    def rested(self, world: World) -> bool:
        if self.world_kind == "sites":
            return super().rested(world)
        live = self.live(world)
        return world.agreed(live) and live == [name for name in self.names if name in world.running()]

    # --- verdict ------------------------------------------------------------------------------------------------------

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        """The violations of the guarantees that hold under this seed's attacker; see the module."""
        hurt = self.harm(world, found)
        if self.sources == NON_MEMBER:
            return [*hurt, *check(without_attacker_traffic(world.history))]
        return [*hurt, *check(world.history, ("M1", "M2")), *self.check_liveness(world)]

    def harm(self, world: World, found: list[Violation]) -> list[Violation]:
        """Exceptions, members that ended (H1), and excesses of memory (H2)."""
        attacker = attacker_of(world)
        hurt = [violation for violation in found if violation.guarantee == "core"]
        hurt += [Violation("H1", f"{process.incarnation} ended, which its application had not requested: "
                           f"{process.closed_reason}", world.now_ns)
                 for process in world.all_processes
                 if process.alive and process.node.closed and not process.leaving]
        return [*hurt, *(Violation("H2", excess.text, excess.at_ns) for excess in attacker.excesses[:1])]

    def check_liveness(self, world: World) -> list[Violation]:
        """L for messages sent after the attack."""
        facts = Facts(world.history)
        began = {entry.member: entry.at_ns for entry in world.history.entries if isinstance(entry, h.Start)}
        final = {member: installs[-1].at_ns for member, installs in facts.installs_of.items()}
        facts.messages = {
            payload: message for payload, message in facts.messages.items()
            if message.at_ns > self.over_ns and final.get(message.sender, 0) > self.over_ns and (
                message.dest is None or max(began.get(message.sender, 0), began.get(message.dest, 0)) > self.over_ns)}
        return list(liveness(facts))


def without_attacker_traffic(history: h.History) -> h.History:
    """The history without deliveries of the attacker's unicasts and unreliable multicasts."""
    kept = h.History()
    kept.__dict__.update(history.__dict__)
    kept.entries = [entry for entry in history.entries
                    if not (isinstance(entry, h.MessageDelivered) and entry.src not in history.names
                            and (entry.dest is not None or entry.flags & NO_RELIABILITY))]
    return kept
