"""Profiles: what kind of world a seed makes, its faults and its traffic, and when it counts as at rest again.

Every seed first chooses which kinds of fault it uses at all (swarm testing, Groce et al. 2012): few kinds at a time
reach deeper than all at once. The stacks are the shipped files, so what is tested is what people run.
"""
from __future__ import annotations

from functools import lru_cache
from random import Random

import attrs

from jgroups_py.batch import NO_RELAY, NO_RELIABILITY, OOB, Batch
from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.outputs import BRIDGE, LOCAL
from jgroups_py.sim.faults import (
    Action,
    Begin,
    Clog,
    CrashOf,
    CrashOfFirst,
    LeaveOf,
    OneWay,
    PauseOf,
    Split,
    Storm,
    Talk,
    is_up,
)
from jgroups_py.sim.network import Weather
from jgroups_py.sim.process import App, Process
from jgroups_py.sim.world import World
from jgroups_py.units import NS_PER_MS, NS_PER_S, millis, seconds

STARTED_NS = seconds(1.5)                # faults begin when a first view can be expected
REST_LIMIT_NS = seconds(60)              # how long a healed world may take to come to rest
REPLY_EVERY = 7                          # in profile relay, every so many-th remote message is answered


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
    """How to make a plan of a seed and carry it out. One object a run."""

    name = ""
    lossless = False                     # its faults are so few that even a declared loss is a violation

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


class Group(Profile):
    """One group of three to six members, UDP and TCP by turns."""

    name = "group"

    def make_plan(self) -> Plan:
        rng = self.rng
        self.transport = "tcp" if self.seed % 2 else "udp"
        self.members = list("ABCDEF"[:rng.randint(3, 6)])
        self.slow = rng.choice(self.members) if rng.random() < 0.15 else None
        stop_ns = span(rng, 8, 16)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        for at, name in enumerate(self.members[2:], 2):
            if rng.random() < 0.3:
                begins[at] = Begin(rng.randrange(stop_ns), name)
        if self.transport == "tcp":
            # Somebody of initial_hosts must be there in the end, else two groups have nobody through whom to meet.
            begins.append(Begin(stop_ns - millis(1), self.members[0]))
        kinds = [kind for kind in GROUP_FAULTS if rng.random() < 0.4] or [rng.choice(GROUP_FAULTS)]
        faults = [self.fault(rng.choice(kinds), rng.randrange(STARTED_NS, stop_ns)) for _ in range(rng.randint(2, 8))]
        again = [Begin(fault.at_ns + span(rng, 0.2, 5), fault.name) for fault in faults
                 if isinstance(fault, CrashOf | LeaveOf) and rng.random() < 0.6]
        faults = sorted([*faults, *(begin for begin in again if begin.at_ns < stop_ns)], key=lambda x: x.at_ns)
        traffic = (*begins, *self.talk(faults, stop_ns, rng.randint(15, 50)))
        return Plan({"": tuple(self.members)}, tuple(faults), traffic, stop_ns)

    def fault(self, kind: str, at_ns: int) -> Action:
        rng, names = self.rng, self.members
        one, other = rng.sample(names, 2)
        match kind:
            case "crash":
                return CrashOf(at_ns, one, power=rng.random() < 0.2)
            case "leave":
                return LeaveOf(at_ns, one)
            case "pause":
                return PauseOf(at_ns, one, span(rng, 0.2, 9))
            case "split":
                return Split(at_ns, halves(rng, names), span(rng, 0.5, 9))
            case "one-way":
                return OneWay(at_ns, one, other, span(rng, 0.5, 9))
            case "clog":
                slow = Weather(latency_ns=span(rng, 0.05, 1), jitter_ns=span(rng, 0.01, 0.5))
                return Clog(at_ns, one, other, slow, span(rng, 0.5, 5))
        return Storm(at_ns, storm(rng), span(rng, 0.5, 5))

    def start(self, world: World, name: str) -> Process:
        properties = {} if self.transport == "udp" else {
            "initial_hosts": ",".join(f"{world.ip(other)}[7800]" for other in self.members[:3]), "port_range": "0"}
        app = App(rate=300) if name == self.slow else None
        return world.start(name, stack(self.transport, tuple(properties.items())), app=app)

    def rested(self, world: World) -> bool:
        live = self.live(world)
        return world.agreed(live) and live == [name for name in self.names if name in world.running()]


GROUP_FAULTS = ("crash", "leave", "pause", "split", "one-way", "clog", "storm")


class Replier(App):
    """Answers some messages of other sites by unicast."""

    def delivered(self, batch: Batch) -> None:
        super().delivered(batch)
        if batch.dest is None and self.world.history.sites.get(batch.src) != self.process.site:
            for payload in batch.payloads:
                number = payload.rpartition(b"/")[2].rstrip(b".")
                if number.isdigit() and int(number) % REPLY_EVERY == 0:
                    self.world.after(millis(1), self._reply, batch)

    def _reply(self, batch: Batch) -> None:
        world, process = self.world, self.process
        if world.processes[process.name] is process and is_up(world, process.name) and process.view is not None:
            world.post(process.name, batch.src)


class Relay(Profile):
    """Two or three sites of two or three members. At most one member of a site is missing at a time."""

    name = "relay"
    kinds: tuple[str, ...] = ()          # kinds of fault to draw from; empty: all

    def make_plan(self) -> Plan:
        rng = self.rng
        letters = iter("ABCDEFGHI")
        count = rng.choice((2, 2, 2, 3))
        sites = {site: tuple(next(letters) for _ in range(rng.randint(2, 3))) for site in ("NYC", "SFO", "LON")[:count]}
        self.site_of = {name: site for site, names in sites.items() for name in names}
        self.members = list(self.site_of)
        stop_ns = span(rng, 12, 22)
        begins = [Begin(rng.randrange(millis(500)), name) for name in self.members]
        kinds = [kind for kind in self.kinds or RELAY_FAULTS if rng.random() < 0.5]
        faults: list[Action] = []
        first_ns, together = span(rng, 2, 8), rng.random() < 0.5
        for names in sites.values():
            # Half of the seeds hit all sites at nearly the same time: failovers at both ends at once.
            at_ns = first_ns + span(rng, 0, 1.5) if together else span(rng, 2, 9)
            faults += self.member_faults(kinds, names, at_ns, stop_ns)
        net_kinds = [kind for kind in kinds if kind in RELAY_NET_FAULTS]
        if net_kinds:
            faults += [self.net_fault(rng.choice(net_kinds), sites, rng.randrange(seconds(3), stop_ns))
                       for _ in range(rng.randint(1, 4))]
        faults.sort(key=lambda fault: fault.at_ns)
        traffic = (*begins, *self.talk(faults, stop_ns, rng.randint(20, 60), far_ratio=0.25))
        return Plan(sites, tuple(faults), traffic, stop_ns)

    def one_talk(self, at_ns: int, far_ratio: float) -> Talk:
        talk = super().one_talk(at_ns, far_ratio)
        stays = not talk.dest and self.rng.random() < 0.1
        return attrs.evolve(talk, flags=talk.flags | NO_RELAY) if stays else talk

    def member_faults(self, kinds: list[str], names: tuple[str, ...], at_ns: int, stop_ns: int) -> list[Action]:
        """Faults of one site's members, so far apart that the site recovers in between."""
        rng, made = self.rng, list[Action]()
        chosen = [kind for kind in kinds if kind not in RELAY_NET_FAULTS]
        while chosen and at_ns < stop_ns:
            kind, name = rng.choice(chosen), rng.choice(names)
            for_ns = span(rng, 0.2, 9)
            match kind:
                case "relay crash":
                    made.append(CrashOfFirst(at_ns, name))
                    made += [Begin(at_ns + for_ns, other) for other in names]
                case "crash":
                    made += [CrashOf(at_ns, name), Begin(at_ns + for_ns, name)]
                case "leave":
                    made += [LeaveOf(at_ns, name), Begin(at_ns + seconds(3) + for_ns, name)]
                case "pause":
                    made.append(PauseOf(at_ns, name, for_ns))
                case "site split":
                    made.append(Split(at_ns, halves(rng, list(names)), for_ns, (LOCAL,)))
            at_ns += for_ns + span(rng, 8, 14)
        return made

    def net_fault(self, kind: str, sites: dict[str, tuple[str, ...]], at_ns: int) -> Action:
        rng, names = self.rng, self.members
        one = rng.choice(names)
        other = rng.choice([name for name in names if self.site_of[name] != self.site_of[one]])
        match kind:
            case "bridge split":
                away = rng.choice(list(sites))
                rest = tuple(name for name in names if self.site_of[name] != away)
                return Split(at_ns, (sites[away], rest), span(rng, 0.5, 9), (BRIDGE,))
            case "bridge one-way":
                return OneWay(at_ns, one, other, span(rng, 0.5, 9), (BRIDGE,))
            case "bridge storm":
                return Storm(at_ns, storm(rng), span(rng, 0.5, 6), BRIDGE)
        return Storm(at_ns, storm(rng), span(rng, 0.5, 3), LOCAL)

    def start(self, world: World, name: str) -> Process:
        site = self.site_of[name]
        port = 45601 + list(self.plan.sites).index(site)
        hosts = ",".join(f"{world.ip(other)}[7900]" for other in self.members)
        local = stack("nyc", (("site", site), ("mcast_port", str(port))))
        bridge = stack("bridge", (("bridge_hosts", hosts), ("bridge_port_range", "0")))
        return world.start(name, local, f"group of {site}", bridge=bridge, app=Replier())

    def rested(self, world: World) -> bool:
        live = self.live(world)
        wanted = {site: sorted(world.address(name) for name in names if name in live)
                  for site, names in self.plan.sites.items()}
        for names in self.plan.sites.values():
            here = [name for name in names if name in live]
            if here != [name for name in names if name in world.running()] or (here and not world.agreed(here)):
                return False
        for name in live:
            seen = world.process(name).global_view
            if seen is None or {site: sorted(seen.sites.get(site, ())) for site in wanted} != wanted:
                return False
        return True


class RelayCrash(Relay):
    """Only crashes, bad networks and cuts on the bridge: no more than one member of a site is missing, nobody is cut
    off from its own group. So nothing may be lost, declared or not."""

    name = "relay-crash"
    lossless = True

    def make_plan(self) -> Plan:
        self.kinds = ("relay crash", "relay crash", "crash", "storm", "bridge split", "bridge one-way", "bridge storm")
        return super().make_plan()


RELAY_NET_FAULTS = ("bridge split", "bridge one-way", "bridge storm", "storm")
RELAY_FAULTS = ("relay crash", "relay crash", "crash", "leave", "pause", "site split", *RELAY_NET_FAULTS)

PROFILES: dict[str, type[Profile]] = {"group": Group, "relay": Relay, "relay-crash": RelayCrash}


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
