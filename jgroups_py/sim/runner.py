"""Runs seeds: safety under faults first, then heal everything and judge liveness (as TigerBeetle's VOPR does).

An outcome is a value that travels between processes. What is run may be a part of the seed's plan (parts.py), which is
how shrink.py finds the few actions that a failure needs.
"""
from __future__ import annotations

import gc
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import attrs

from jgroups_py.children import workers
from jgroups_py.protocols.relay.buffer import missing
from jgroups_py.protocols.relay.sites import UP
from jgroups_py.protocols.unicast.protocol import Unicast
from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import Violation, check
from jgroups_py.sim.coverage import reached
from jgroups_py.sim.lossless import undue_losses
from jgroups_py.sim.parts import WHOLE, Part
from jgroups_py.sim.picture import picture
from jgroups_py.sim.profiles import PROFILES, REST_LIMIT_NS, Profile
from jgroups_py.sim.world import World
from jgroups_py.units import millis, seconds

FINAL_RUN = 3                            # messages of each member once all is at rest
ARRIVAL_LIMIT_NS = seconds(45)
LINGER_NS = seconds(1)                   # late duplicates may still come
COLLECT_AFTER = 100_000                  # new objects after which Python looks for garbage among them
REST_ROUNDS = 2                          # a merge that was under way may bring back one who has just left


@attrs.frozen
class Outcome:
    """What came of one seed, or of a part of its plan.

    found_ns: when the first violation shows; groups: how many groups the run had; events, frames: how often a node was
    given something to do, how many frames were sent; injected: kind -> how many faults of it were done (those that did
    not fit the moment are not); reached: state -> how often (coverage.py); history, picture: their lines, kept for
    failing seeds.
    """

    profile: str
    seed: int
    part: Part
    violations: tuple[str, ...]
    guarantees: tuple[str, ...]
    found_ns: int
    digest: str
    sim_ns: int
    groups: int
    events: int
    frames: int
    faults: tuple[str, ...]
    traffic: tuple[str, ...]
    injected: dict[str, int]
    cpu_s: float
    reached: dict[str, int] = attrs.Factory(dict)
    history: tuple[str, ...] = ()
    picture: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """What reproduces it."""
        return f"jgroups sim --profile {self.profile} --seed {self.seed}{self.part.words()}"


Judge = Callable[[World, Profile], list[Violation]]

APPLICATIONS: dict[str, Callable[[int, Part, bool], Outcome]] = {}
"""Profile whose members run an application -> what runs a part of a seed (and keeps its history, if asked to). Outer
rings put it in: jgroups_py/simulation/replicas.py."""


def run_seed(profile: str, seed: int, part: Part = WHOLE, *, keep: bool = False) -> Outcome:
    """Run one seed, or a part of it; keep: keep the history even if all is well."""
    if PROFILES[profile].application:
        return APPLICATIONS[profile](seed, part, keep)
    return run_setting(PROFILES[profile](seed), World(seed), part, judged, keep=keep)


def run_setting(setting: Profile, world: World, part: Part, judge: Judge, *, keep: bool = False) -> Outcome:
    """Run a part of a plan in a new world."""
    began_s = time.process_time()
    actions = part.actions(setting.plan)
    injected: Counter[str] = Counter()
    violations: list[Violation] = []
    try:
        carry_out(world, setting, part, injected)
    except Exception:                    # noqa: BLE001  any exception of the core is a finding, with its seed
        violations.append(Violation("core", "failed\n" + traceback.format_exc(limit=-6), world.now_ns))
    violations += judge(world, setting)
    keep = keep or bool(violations)
    faults = len(setting.plan.faults)
    return Outcome(
        profile=setting.name, seed=setting.seed, part=part, violations=tuple(map(str, violations)),
        guarantees=tuple(dict.fromkeys(found.guarantee for found in violations)),
        found_ns=violations[0].at_ns if violations else 0, digest=world.history.digest(), sim_ns=world.now_ns,
        groups=len(setting.plan.sites), events=world.step_count, frames=world.frame_count,
        faults=tuple(f"#{number} {action}" for number, action in actions if number < faults),
        traffic=tuple(f"#{number} {action}" for number, action in actions if number >= faults),
        injected=dict(injected), cpu_s=time.process_time() - began_s,
        reached=reached(world.history, world.all_processes), history=tuple(world.history.lines()) if keep else (),
        picture=tuple(picture(world.history, violations[:1])) if keep else ())


def judged(world: World, setting: Profile) -> list[Violation]:
    """What the checkers find; where nothing may be lost, also every loss that was declared."""
    undue = undue_losses(world.history, splits=setting.splits) if setting.lossless else ()
    return setting.judged(world, [*check(world.history), *undue])


def carry_out(world: World, setting: Profile, part: Part = WHOLE, injected: Counter[str] | None = None) -> None:
    """The whole run, from the first start to the end of the liveness phase. `injected` counts faults by their kind."""
    def start(name: str) -> object:
        return setting.start(world, name)

    for net, weather in setting.weather.items():
        world.network.set_fair(net, weather)
    for name in setting.names:
        world.ip(name)                                    # addresses are handed out in order of names
    for number, action in part.actions(setting.plan):
        world.run_until(action.at_ns)
        done = action.do(world, start)
        if done and injected is not None and number < len(setting.plan.faults):
            injected[action.kind] += 1
    world.run_until(part.stop_ns(setting.plan))
    heal(world, setting, start)
    for _ in range(REST_ROUNDS):
        world.run_while(lambda: not setting.rested(world), REST_LIMIT_NS)
        last_words(world, setting)
        if setting.rested(world):
            break
    write_ledgers(world, setting)
    live = {world.address(name): world.node(name).pending_bytes() for name in setting.live(world)}
    world.history.add(h.End(world.now_ns, live))


def heal(world: World, setting: Profile, start: Callable[[str], object]) -> None:
    """Nothing fails any more; a site with nobody left gets its first member back."""
    world.heal()
    for name in setting.names:
        if name in world.processes:
            world.resume(name)
    world.history.add(h.Healed(world.now_ns))
    for names in setting.plan.sites.values():
        if not any(name in setting.live(world) for name in names):
            revive(world, names[0], start)


def revive(world: World, name: str, start: Callable[[str], object]) -> None:
    """Start a member once it is gone: it may be about to leave. If it never gets out, the checker of L says so."""
    if world.run_while(lambda: name in world.running(), REST_LIMIT_NS):
        start(name)


def last_words(world: World, setting: Profile) -> None:
    """Everybody says something in the final view; time passes until all have heard it and nothing is kept back."""
    live = [name for name in setting.live(world) if world.view_of(name) is not None]
    wanted: dict[bytes, None] = {}
    for name, following in zip(live, [*live[1:], *live[:1]], strict=True):
        process = world.process(name)
        first = process.sent.get("*", 0)
        world.post(name, count=FINAL_RUN)
        world.post(name, following)
        wanted[f"{process.incarnation}>*/{first + FINAL_RUN - 1}".encode()] = None

    def unheard() -> bool:
        return any(world.node(name).pending_bytes() or letters(world, name) or owes(world, name)
                   or unacknowledged(world, name) for name in live) or \
            any(payload not in world.process(name).app.log for name in live for payload in wanted)
    world.run_while(unheard, ARRIVAL_LIMIT_NS, millis(200))
    world.run_for(LINGER_NS)
    world.run_while(lambda: not world.has_settled(), ARRIVAL_LIMIT_NS, millis(200))


def unacknowledged(world: World, name: str) -> bool:
    """Whether a unicast to a member of its view is still repeated: after a long cut seconds may pass in between."""
    node, view = world.node(name), world.view_of(name)
    unicast = node.local.find(Unicast)
    running = [world.address(other) for other in world.running()]
    return unicast is not None and view is not None and any(
        out.window for peer, out in unicast.outgoing.items() if peer in view and peer in running)


def owes(world: World, name: str) -> bool:
    """Whether a relay has yet to send, or to tell as lost, something that a site which is UP does not have."""
    books = world.process(name).books
    if books is None or not books.relay.is_relay:
        return False
    numbers = books.relay.current_numbers()
    hold = books.relay.hold
    return any(
        any(site.acked.get(origin, 1) < number for origin, number in numbers.items())
        or any(kept < acked and                                          # what is gone or lost is told after the grace
               (origin in site.lost or missing(((kept, acked),), hold.ranges(origin)))
               for origin, acked in site.acked.items() for kept in (site.trimmable.get(origin, 1),))
        for site in books.relay.table if site.status == UP)


def write_ledgers(world: World, setting: Profile) -> None:
    """What the relays of sites that hold on disk say became of everything."""
    for name in setting.live(world):
        books = world.process(name).books
        if books is not None and books.relay.is_relay and world.disks.has_journal(name):
            relay = books.relay
            for site in relay.table:
                lost = {origin: tuple(ranges) for origin, ranges in site.lost.items()}
                world.history.add(h.Ledger(world.now_ns, relay.me, site.name, dict(site.acked),
                                           relay.current_numbers(), lost))


def letters(world: World, name: str) -> int:
    """Unicasts to other sites that are neither acknowledged nor given up."""
    books = world.process(name).books
    return 0 if books is None else books.relay.post.out.waiting


def run_seeds(profile: str, seeds: Iterable[int], jobs: int = 1, part: Part = WHOLE) -> Iterator[Outcome]:
    """Outcomes in order of the seeds, from so many processes."""
    work = [(profile, seed, part) for seed in seeds]
    with seldom_collecting():
        if jobs <= 1:
            yield from map(_run, work)
            return
        with workers(jobs) as pool:
            yield from pool.imap(_run, work, chunksize=4)


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """A run makes many objects and few cycles; looking for garbage as often as usual takes a tenth of its time."""
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def _run(work: tuple[str, int, Part]) -> Outcome:
    return run_seed(*work)
