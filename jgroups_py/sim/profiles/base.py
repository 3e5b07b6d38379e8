"""What all profiles have in common: a plan drawn from a seed, stacks, runs of messages."""
from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import ClassVar

import attrs

from jgroups_py.batch import NO_RELIABILITY, OOB
from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.sim.checkers import Violation
from jgroups_py.sim.faults import Action, Talk, is_up
from jgroups_py.sim.network import Weather
from jgroups_py.sim.process import Process
from jgroups_py.sim.world import World
from jgroups_py.units import NS_PER_MS, NS_PER_S, millis, seconds

STARTED_NS = seconds(1.5)                # faults begin when a first view can be expected
REST_LIMIT_NS = seconds(60)              # how long a healed world may take to come to rest


@attrs.frozen
class Plan:
    """What happens in a run: faults may be left out one by one, the rest is fixed."""

    sites: dict[str, tuple[str, ...]]    # site -> names; "" without RELAY
    faults: tuple[Action, ...]
    traffic: tuple[Action, ...]
    stop_ns: int                         # then everything heals


@lru_cache(maxsize=64)
def stack(name: str, properties: tuple[tuple[str, str], ...]) -> StackSpec:
    """A shipped stack with its properties filled in."""
    return load(name, dict(properties))


def span(rng: Random, least: float, most: float) -> int:
    """A duration between so many seconds."""
    return seconds(rng.uniform(least, most))


class Profile:
    """How to make a plan of a seed and carry it out. One object a run.

    reaches: the states (of coverage.py) that its seeds must get into. lossless: the faults of this run are so few that
    even a declared loss is a violation; splits: among them are splits of sites (see lossless.py).
    """

    name = ""
    reaches: ClassVar[tuple[str, ...]] = ()
    lossless = False
    splits = False
    application = False                  # its members run an application, which the runner is told (APPLICATIONS)

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(f"{seed}/plan/{self.name}")
        self.plan = self.make_plan()
        self.names = [name for names in self.plan.sites.values() for name in names]

    def make_plan(self) -> Plan:
        """Draw the plan."""
        raise NotImplementedError

    def start(self, world: World, name: str) -> Process:
        """Start a member with its stack."""
        raise NotImplementedError

    def rested(self, world: World) -> bool:
        """Whether all live members agree and nobody is about to leave."""
        raise NotImplementedError

    def live(self, world: World) -> list[str]:
        """Who runs and wants to stay."""
        return [name for name in self.names if is_up(world, name)]

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        """What counts of the violations that checkers found, and what the profile itself finds."""
        return found

    def talk(self, faults: list[Action], stop_ns: int, number: int, far_ratio: float = 0.4) -> list[Talk]:
        """Runs of messages of all kinds at random times, and some more around each fault."""
        rng = self.rng
        times = [rng.randrange(millis(600), stop_ns) for _ in range(number)]
        for fault in faults:
            times += [max(0, fault.at_ns + span(rng, -0.05, 0.3)) for _ in range(rng.choice((0, 1, 3, 8)))]
        return [self.one_talk(at_ns, far_ratio) for at_ns in sorted(times)]

    def one_talk(self, at_ns: int, far_ratio: float) -> Talk:
        rng = self.rng
        name = rng.choice(self.members)
        dest = rng.choice(self.members) if rng.random() < far_ratio else ""
        count = rng.choice((1, 1, 2, 3, 5, 8, 40))
        size = rng.choice((0, 0, 0, 30, 30, 1000, 5000))
        if rng.random() < 0.02:
            count, size = 1, 150_000                      # in fragments
        return Talk(at_ns, name, dest, count, size, rng.choice((0,) * 12 + (OOB, NO_RELIABILITY)))

    members: list[str]


def halves(rng: Random, names: list[str]) -> tuple[tuple[str, ...], ...]:
    """The names in two groups, or three if there are enough."""
    mixed = rng.sample(names, len(names))
    first = rng.randint(1, len(mixed) - 1)
    if len(mixed) - first > 1 and rng.random() < 0.2:
        return tuple(mixed[:first]), tuple(mixed[first:first + 1]), tuple(mixed[first + 1:])
    return tuple(mixed[:first]), tuple(mixed[first:])


def storm(rng: Random) -> Weather:
    """Loss, duplication, reordering, delay: one or several."""
    return Weather(
        latency_ns=rng.choice((NS_PER_MS // 5, NS_PER_MS, 10 * NS_PER_MS, NS_PER_S // 20)),
        jitter_ns=rng.choice((NS_PER_MS // 5, 2 * NS_PER_MS, 20 * NS_PER_MS)),
        loss_ratio=rng.choice((0.0, 0.02, 0.1, 0.3)), duplicate_ratio=rng.choice((0.0, 0.1, 0.3)),
        reorder_ratio=rng.choice((0.0, 0.1, 0.3)))
