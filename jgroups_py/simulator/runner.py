"""Runs seeds: safety under faults first, then heal everything and judge liveness (as TigerBeetle's VOPR does).

An outcome is a value that is passed between processes. A run may cover a part of the seed's plan (plan_parts.py); so
shrink.py finds the few actions that a failure needs.
"""
from __future__ import annotations

import gc
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.origin.hold import missing
from jgroups_py.protocols.relay.sites.table import UP
from jgroups_py.protocols.unicast.protocol import Unicast
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import Violation, check
from jgroups_py.simulator.coverage import reached
from jgroups_py.simulator.lossless import undue_losses
from jgroups_py.simulator.picture import picture
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.profiles import PROFILES, REST_LIMIT_NS, Profile
from jgroups_py.simulator.symbolic import symbolic_signatures
from jgroups_py.simulator.world import World
from jgroups_py.system.child_processes import workers
from jgroups_py.windows.ranges import Ranges

FINAL_MESSAGES = 3                       # of each member, once all is at rest
ARRIVAL_LIMIT_NS = seconds(45)
LINGER_NS = seconds(1)                   # late duplicates may still arrive
COLLECT_AFTER = 100_000                  # new objects between two runs of Python's garbage collector
REST_ROUNDS = 2                          # a merge that was under way may bring back a member that has just left


@attrs.frozen
class Outcome:
    """The outcome of one seed, or of a part of its plan.

    found_ns: time of the first violation; groups: how many groups the run had; events, frames: steps of nodes, frames
    sent; injected: kind -> how many faults of it were carried out (faults that did not fit the moment do not count);
    reached: state -> how often (coverage.py); history, picture: their lines, kept for failing seeds.
    """

    profile: str
    seed: int
    part: PlanPart
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
        """The command line that reproduces it."""
        return f"jgroups sim --profile {self.profile} --seed {self.seed}{self.part.options()}"


Judge = Callable[[World, Profile], list[Violation]]

APPLICATIONS: dict[str, Callable[[int, PlanPart, bool], Outcome]] = {}
"""Profile whose members run an application -> function of (seed, part, whether to keep the history). Outer rings
register theirs: jgroups_py/testing/simulation/applications.py."""


def run_seed(
    profile: str, seed: int, part: PlanPart = WHOLE, *, keep: bool = False, real_signatures: bool = False,
) -> Outcome:
    """Run one seed, or a part of it; keep: keep the history even if all is well; real_signatures: also in a profile
    that chooses symbolic ones."""
    setting = PROFILES[profile]
    if setting.application:
        return APPLICATIONS[profile](seed, part, keep)
    with symbolic_signatures(setting.symbolic and not real_signatures):
        return run_setting(setting(seed), World(seed), part, judged, keep=keep)


def run_setting(setting: Profile, world: World, part: PlanPart, judge: Judge, *, keep: bool = False) -> Outcome:
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
        reached={**reached(world.history, world.all_processes), **setting.met},
        history=tuple(world.history.lines()) if keep else (),
        picture=tuple(picture(world.history, violations[:1])) if keep else ())


def judged(world: World, setting: Profile) -> list[Violation]:
    """The violations that the checkers find; where nothing may be lost, every declared loss as well."""
    undue = undue_losses(world.history, splits=setting.splits) if setting.lossless else ()
    return setting.judged(world, [*check(world.history), *undue])


def carry_out(world: World, setting: Profile, part: PlanPart = WHOLE, injected: Counter[str] | None = None) -> None:
    """The whole run, from the first start to the end of the liveness phase. `injected` counts faults by their kind."""
    def start(name: str) -> object:
        return setting.start(world, name)

    for net, weather in setting.weather.items():
        world.network.set_fair(net, weather)
    for name in setting.names:
        world.ip(name)                                    # addresses are assigned in order of names
    for number, action in part.actions(setting.plan):
        world.run_until(action.at_ns)
        done = action.do(world, start)
        if done and injected is not None and number < len(setting.plan.faults):
            injected[action.kind] += 1
    world.run_until(part.stop_ns(setting.plan))
    heal(world, setting, start)
    for _ in range(REST_ROUNDS):
        world.run_while(lambda: not setting.rested(world), REST_LIMIT_NS)
        send_final_messages(world, setting)
        if setting.rested(world):
            break
    write_ledgers(world, setting)
    live = {world.address(name): world.node(name).pending_bytes() for name in setting.live(world)}
    world.history.add(h.End(world.now_ns, live))


def heal(world: World, setting: Profile, start: Callable[[str], object]) -> None:
    """End all faults; a site without a running member gets its first member back."""
    world.heal()
    for name in setting.names:
        if name in world.processes:
            world.resume(name)
    world.history.add(h.Healed(world.now_ns))
    for names in setting.plan.sites.values():
        if not any(name in setting.live(world) for name in names):
            revive(world, names[0], start)


def revive(world: World, name: str, start: Callable[[str], object]) -> None:
    """Start a member once its previous incarnation has ended, which may be leaving; if it never ends, L is violated."""
    if world.run_while(lambda: name in world.running(), REST_LIMIT_NS):
        start(name)


def send_final_messages(world: World, setting: Profile) -> None:
    """Each member sends in the final view; time passes until all of it is delivered and acknowledged everywhere."""
    live = [name for name in setting.live(world) if world.view_of(name) is not None]
    wanted: dict[bytes, None] = {}
    for name, following in zip(live, [*live[1:], *live[:1]], strict=True):
        process = world.process(name)
        first = process.sent.get("*", 0)
        world.post(name, count=FINAL_MESSAGES)
        world.post(name, following)
        wanted[f"{process.incarnation}>*/{first + FINAL_MESSAGES - 1}".encode()] = None

    def undelivered() -> bool:
        return any(world.node(name).pending_bytes() or unicasts_waiting(world, name) or has_unsettled(world, name)
                   or unacknowledged(world, name) for name in live) or \
            any(payload not in world.process(name).app.log for name in live for payload in wanted)
    world.run_while(undelivered, ARRIVAL_LIMIT_NS, millis(200))
    world.run_for(LINGER_NS)
    world.run_while(lambda: not world.has_settled(), ARRIVAL_LIMIT_NS, millis(200))


def unacknowledged(world: World, name: str) -> bool:
    """Whether a unicast to a member of its view is still retransmitted: after a long cut, every few seconds."""
    node, view = world.node(name), world.view_of(name)
    unicast = node.local.find(Unicast)
    running = [world.address(other) for other in world.running()]
    return unicast is not None and view is not None and any(
        out.window for peer, out in unicast.outgoing.items() if peer in view and peer in running)


def has_unsettled(world: World, name: str) -> bool:
    """Whether a relay has yet to send, or to declare lost, a message that a site that is UP lacks."""
    audit = world.audit_of(name)
    if audit is None or not audit.relay.group.is_relay:
        return False
    numbers = audit.relay.numbering.current_numbers()
    hold = audit.relay.hold
    return any(
        any(site.acked.get(origin, 1) < number for origin, number in numbers.items())
        or any(kept < acked and                                          # such losses are declared after the grace
               (origin in site.lost or missing(((kept, acked),), hold.ranges(origin)))
               for origin, acked in site.acked.items() for kept in (site.trimmable.get(origin, 1),))
        for site in audit.relay.table if site.status == UP)


def write_ledgers(world: World, setting: Profile) -> None:
    """Record the ledgers of relays whose sites hold on disk, for R11."""
    for name in setting.live(world):
        audit = world.audit_of(name)
        if audit is not None and audit.relay.group.is_relay and world.disks.has_journal(name):
            relay = audit.relay
            for site in relay.table:
                lost = {origin: tuple(ranges) for origin, ranges in site.lost.items()}
                received = received_at(world, site.name, relay.config.site)
                world.history.add(h.LedgerReading(world.now_ns, relay.me, site.name, dict(site.acked),
                                                  relay.numbering.current_numbers(), lost, received))


def received_at(world: World, site: str, origin_site: str) -> dict[Address, tuple[tuple[int, int], ...]]:
    """Origin of one site -> ranges of numbers that members of `site`, ended ones included, passed up to TOPICS."""
    found: dict[Address, Ranges] = {}
    for audit in world.audits.values():
        if audit.relay.config.site == site:
            for origin, ranges in audit.received.get(origin_site, {}).items():
                for first, stop in ranges:
                    found.setdefault(origin, Ranges()).add(first, stop)
    return {origin: tuple(ranges) for origin, ranges in found.items()}


def unicasts_waiting(world: World, name: str) -> int:
    """The number of unicasts to other sites that are neither acknowledged nor given up."""
    audit = world.audit_of(name)
    return 0 if audit is None else audit.relay.unicast_router.unicasts_waiting


def run_seeds(
    profile: str, seeds: Iterable[int], jobs: int = 1, part: PlanPart = WHOLE, *, real_signatures: bool = False,
) -> Iterator[Outcome]:
    """Yield outcomes in order of the seeds, computed by `jobs` processes."""
    work = [(profile, seed, part, real_signatures) for seed in seeds]
    with rare_collections():
        if jobs <= 1:
            yield from map(_run, work)
            return
        with workers(jobs) as pool:
            yield from pool.imap(_run, work, chunksize=4)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely: a run makes many objects and few cycles; usual thresholds cost a tenth of its time."""
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def _run(work: tuple[str, int, PlanPart, bool]) -> Outcome:
    profile, seed, part, real_signatures = work
    return run_seed(profile, seed, part, real_signatures=real_signatures)
