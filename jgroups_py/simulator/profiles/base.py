"""The base of all profiles: a plan drawn from a seed, stacks, traffic."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from random import Random
from types import MappingProxyType
from typing import ClassVar

import attrs

from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.batch import NO_RELIABILITY, OOB
from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import NS_PER_MS, NS_PER_S, millis, seconds
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.faults.actions import (
    Action,
    Begin,
    Burst,
    CrashOf,
    CrashOfCoordinator,
    LeaveOf,
    SendMessages,
    is_up,
)
from jgroups_py.simulator.network import Weather
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.world import World

STARTED_NS = seconds(1.5)                # faults begin when a first view can be expected
REST_LIMIT_NS = seconds(60)              # the longest time that a healed world may take to come to rest
BURSTY_SEEDS, BURSTY_AMONG = (5, 8, 10, 15, 17), 20      # by seed % 20; no seed of test_found_seeds.py is among them
BURST_S = 0.15                           # length of the longest burst
STREAMS = 4                              # streams of unicasts, along with bursts
STREAM_NS, BURST_NS = seconds(2), millis(60)


@attrs.frozen
class Plan:
    """The actions of a run."""

    sites: dict[str, tuple[str, ...]]    # site -> names; "" without RELAY
    faults: tuple[Action, ...]
    traffic: tuple[Action, ...]
    stop_ns: int                         # when everything heals


@lru_cache(maxsize=64)
def stack(name: str, properties: tuple[tuple[str, str], ...]) -> StackSpec:
    """A shipped stack with its properties filled in."""
    return load(name, dict(properties))


def span(rng: Random, least: float, most: float) -> int:
    """A duration (ns) between `least` and `most` seconds."""
    return seconds(rng.uniform(least, most))


class Profile:
    """Draws a plan from a seed, and starts its members. There is one object for each run.

    reaches: the states (of coverage.py) that its seeds must reach. lossless: the faults of this run are so few that a
    declared loss is a violation; splits: they include splits of sites (see lossless.py).
    """

    name = ""
    reaches: ClassVar[tuple[str, ...]] = ()
    lossless = False
    splits = False
    bursts = False                       # some seeds (BURSTY_SEEDS) also have bursts of loss on single paths
    weather: Mapping[int, Weather] = MappingProxyType({})    # net -> weather without faults, if it is not CLEAR
    symbolic = False                     # signatures of Ed25519 are symbolic (symbolic.py)
    met: Mapping[str, int] = MappingProxyType({})        # states that `judged` met, beside those of coverage.py
    application = False                  # members run the application that is registered in runner.APPLICATIONS

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(f"{seed}/plan/{self.name}")
        self.plan = self.make_plan()
        if self.bursts and seed % BURSTY_AMONG in BURSTY_SEEDS:
            self.plan = with_bursts(self.plan, Random(f"{seed}/bursts/{self.name}"))
        self.names = [name for names in self.plan.sites.values() for name in names]

    def make_plan(self) -> Plan:
        """Draw the plan."""
        raise NotImplementedError

    def start(self, world: World, name: str) -> Process:
        """Start a member with its stack."""
        raise NotImplementedError

    def rested(self, world: World) -> bool:
        """Whether all live members agree on a view and no member is leaving."""
        raise NotImplementedError

    def live(self, world: World) -> list[str]:
        """The members that run and are not leaving."""
        return [name for name in self.names if is_up(world, name)]

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        """The violations of a run: those of `found`, by the checkers, that count here, and further ones."""
        return found

    def draw_messages(
        self, faults: list[Action], stop_ns: int, number: int, far_ratio: float = 0.4,
    ) -> list[SendMessages]:
        """Draw sends of all kinds at random times, and more of them around each fault."""
        rng = self.rng
        times = [rng.randrange(millis(600), stop_ns) for _ in range(number)]
        for fault in faults:
            times += [max(0, fault.at_ns + span(rng, -0.05, 0.3)) for _ in range(rng.choice((0, 1, 3, 8)))]
        return [self.draw_message(at_ns, far_ratio) for at_ns in sorted(times)]

    def draw_message(self, at_ns: int, far_ratio: float) -> SendMessages:
        rng = self.rng
        name = rng.choice(self.members)
        dest = rng.choice(self.members) if rng.random() < far_ratio else ""
        count = rng.choice((1, 1, 2, 3, 5, 8, 40))
        size = rng.choice((0, 0, 0, 30, 30, 1000, 5000))
        if rng.random() < 0.02:
            count, size = 1, 150_000                      # in fragments
        return SendMessages(at_ns, name, dest, count, size, rng.choice((0,) * 12 + (OOB, NO_RELIABILITY)))

    members: list[str]


def halves(rng: Random, names: list[str]) -> tuple[tuple[str, ...], ...]:
    """The names in two random groups, sometimes in three."""
    mixed = rng.sample(names, len(names))
    first = rng.randint(1, len(mixed) - 1)
    if len(mixed) - first > 1 and rng.random() < 0.2:
        return tuple(mixed[:first]), tuple(mixed[first:first + 1]), tuple(mixed[first + 1:])
    return tuple(mixed[:first]), tuple(mixed[first:])


def storm(rng: Random) -> Weather:
    """Draw weather with loss, duplication, reordering and delay: one of them or several."""
    return Weather(
        latency_ns=rng.choice((NS_PER_MS // 5, NS_PER_MS, 10 * NS_PER_MS, NS_PER_S // 20)),
        jitter_ns=rng.choice((NS_PER_MS // 5, 2 * NS_PER_MS, 20 * NS_PER_MS)),
        loss_ratio=rng.choice((0.0, 0.02, 0.1, 0.3)), duplicate_ratio=rng.choice((0.0, 0.1, 0.3)),
        reorder_ratio=rng.choice((0.0, 0.1, 0.3)))


def with_bursts(plan: Plan, rng: Random) -> Plan:
    """The plan with bursts of total loss on single paths, many of them around its other faults, and with a stream of
    unicasts on these paths, so that some of these are unacknowledged at every view change.

    Both are drawn from a separate generator, and only for some seeds, so that plans of recorded seeds do not change.
    """
    names = [name for members in plan.sites.values() for name in members]
    times = [rng.randrange(plan.stop_ns) for _ in range(rng.randint(5, 25))]
    times += [max(0, fault.at_ns + span(rng, -0.1, 0.5)) for fault in plan.faults for _ in range(rng.choice((0, 2, 6)))]
    bursts: list[Action] = []
    for at_ns in times:
        src, dest = rng.sample(names, 2)
        near = any(src in members and dest in members for members in plan.sites.values())
        bursts.append(Burst(at_ns, src, dest, span(rng, 0.001, BURST_S), LOCAL if near else BRIDGE))
    unicasts: list[Action] = []
    changes = [fault for fault in plan.faults if isinstance(fault, Begin | CrashOf | CrashOfCoordinator | LeaveOf)]
    groups = [members for members in plan.sites.values() if len(members) > 1]
    for fault in rng.sample(changes, min(STREAMS, len(changes))):
        for _ in range(2 if groups else 0):
            src, dest = rng.sample(rng.choice(groups), 2)
            first_ns = max(0, fault.at_ns - millis(100))
            times = list(range(first_ns, first_ns + STREAM_NS, BURST_NS // 2))
            unicasts += [SendMessages(at_ns, src, dest, 1, 0) for at_ns in times]
            bursts += [Burst(at_ns, src, dest, BURST_NS) for at_ns in times[::4]]
    return attrs.evolve(plan, faults=in_order([*plan.faults, *bursts]), traffic=in_order([*plan.traffic, *unicasts]))


def in_order(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions, sorted by time."""
    return tuple(sorted(actions, key=lambda action: action.at_ns))
