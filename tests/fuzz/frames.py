"""Edge fuzz: well-formed frames with edge values, fed to groups of the packaged stacks in all their states.

An episode is one simulated world that is attacked with some thousand frames while members start, crash, split, send and
leave; then the attack stops and the group has to work again. Everything follows from the stack, the seed and the
episode's number. What counts as an escape: an exception (an assertion is one), a member that ends without an order
it to, a frame that costs more CPU than it may, a node that keeps more bytes than it may, something for the sockets that
they would refuse, a group that does not recover.
"""
from __future__ import annotations

import gc
import signal
import traceback
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from time import process_time
from types import FrameType

import attrs

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.outputs import BRIDGE, LOCAL
from jgroups_py.model.units import NS_PER_MS, millis
from jgroups_py.simulator.attack.forging import Forger
from jgroups_py.simulator.object_sizes import weigh
from tests.fuzz.worlds import Groups

EPISODE_FRAMES = 2000
FRAME_SECONDS = 0.25                     # of CPU, for one frame and what follows from it at once
BURST_SECONDS = 20.0                     # of CPU, after which a burst counts as endless
NODE_BYTES = 32 << 20                    # what a node may keep at the end of an attack
STEPS_NS = (NS_PER_MS // 5, NS_PER_MS // 5, millis(1), millis(1), millis(5), millis(50))
FORMER_FRAMES = 12
ATTACKER: PhysicalAddress = ("10.66.6.6", 6666)


class Endless(Exception):
    """A burst does not come to an end."""


@attrs.frozen
class Escape:
    """Something that hostile frames must not bring about. where: distinguishes causes; frames: the last ones fed."""

    kind: str
    where: str
    detail: str
    command: str
    frames: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        """What it is counted under."""
        return f"{self.kind}: {self.where}"


@attrs.define
class Tally:
    """What a campaign found."""

    frames: int = 0
    episodes: int = 0
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    heaviest: int = 0
    causes: Counter[str] = attrs.field(factory=Counter)
    first: dict[str, Escape] = attrs.field(factory=dict)

    def add(self, escape: Escape) -> None:
        """One more escape; the first of each cause is kept whole."""
        self.causes[escape.cause] += 1
        self.first.setdefault(escape.cause, escape)


def campaign(stack: str, seed: int, frames: int, tally: Tally, first: int = 0) -> Iterator[Tally]:
    """Attack until so many frames were fed; yields after each episode, from number `first` on."""
    number = first
    began_s = process_time() - tally.cpu_s
    while tally.frames < frames:
        episode = Episode(stack, seed, number)
        episode.run(min(EPISODE_FRAMES, frames - tally.frames), tally)
        tally.episodes += 1
        tally.cpu_s = process_time() - began_s
        number += 1
        yield tally


class Episode:
    """One world under attack."""

    def __init__(self, stack: str, seed: int, number: int) -> None:
        self.rng = Random(f"{stack}/{seed}/{number}")
        self.command = f"python -m tests.fuzz frames --stack {stack} --seed {seed} --episode {number}"
        self.groups = Groups(stack, f"{stack}/{seed}/{number}")
        self.world = self.groups.world
        self.fed: deque[str] = deque(maxlen=FORMER_FRAMES)
        self.forger = Forger(self.rng)
        self.bridge_ratio = 1.0 if stack == "bridge" else 0.3
        for pool in self.groups.pools.values():
            pool.large_ratio = 0.5 if self.rng.random() < 0.1 else 0.01

    def run(self, frames: int, tally: Tally) -> None:
        """Attack with so many frames, see what the group does afterwards."""
        escape = self.attacked(frames, tally)
        if escape is None:
            escape = self.judged(tally)
        if escape is not None:
            tally.add(escape)

    def attacked(self, frames: int, tally: Tally) -> Escape | None:
        rng, world, groups = self.rng, self.world, self.groups
        for name in list(groups.site_of)[:1 + rng.randrange(len(groups.site_of))]:
            groups.start(name)
        left = frames
        while left > 0:
            burst = min(left, rng.choice((1, 5, 20, 60)))
            left -= burst
            tally.frames += burst
            try:
                with cpu_limit(BURST_SECONDS):
                    if rng.random() < 0.15:
                        groups.happen()
                    groups.refresh()
                    for _ in range(burst):
                        self.feed(tally)
                    world.run_for(rng.choice(STEPS_NS) if rng.random() < 0.97 else millis(rng.randrange(3000)))
            except Exception as error:           # noqa: BLE001  whatever it is, it is what we look for
                return self.escape("exception", *described(error))
            ended = self.ended()
            if ended is not None:
                return ended
            for reason in world.refused:                  # the world goes on without the frame, as sockets do
                tally.add(self.escape("refused by sockets", reason.partition(" ")[0], reason))
            world.refused.clear()
        return None

    def judged(self, tally: Tally) -> Escape | None:
        """Memory, and whether the group works again."""
        for name in self.groups.running():
            node = self.world.process(name).node
            nbytes = weigh(node, (self.world,))
            tally.heaviest = max(tally.heaviest, nbytes)
            if nbytes > NODE_BYTES:
                return self.escape("memory", "a node", f"{name} keeps {nbytes:,} bytes")
        try:
            with cpu_limit(3 * BURST_SECONDS):
                problem = self.groups.recover()
        except Exception as error:               # noqa: BLE001  as above
            return self.escape("exception after the attack", *described(error))
        ended = self.ended()
        if ended is not None:
            return ended
        return self.escape("no recovery", problem.partition(":")[0], problem) if problem else None

    def ended(self) -> Escape | None:
        """A member whose channel closed, though it was not asked to leave."""
        for process in self.world.processes.values():
            if process.alive and process.node.closed and not process.leaving:
                return self.escape("ended", str(process.closed_reason), f"{process.incarnation} ended")
        return None

    def escape(self, kind: str, where: str, detail: str) -> Escape:
        return Escape(kind, where, detail, self.command, tuple(self.fed))

    # --- feeding ------------------------------------------------------------------------------------------------------

    def feed(self, tally: Tally) -> None:
        """One frame to one member."""
        world, rng = self.world, self.rng
        awake = [name for name in self.groups.running() if not world.process(name).paused]
        if not awake:
            return
        process = world.process(awake[int(rng.random() * len(awake))])
        net = BRIDGE if process.node.bridge is not None and rng.random() < self.bridge_ratio else LOCAL
        stack = process.stack(net)
        if stack is None:
            return
        pool = self.groups.pools[net, process.site if net == LOCAL else ""]
        frame = self.forger.replayed(pool) if pool.raw and rng.random() < 0.05 else self.forger.frame(pool, stack)
        place = None if process.sockets.get(net) is not None and process.sockets[net].stream else (
            ATTACKER if rng.random() < 0.7 or not pool.places else rng.choice(pool.places))
        self.fed.append(f"{process.incarnation} net {net}: {frame[:4000].hex()}")
        gc.disable()                                # a collection costs what all tests before have left in memory
        began_s = process_time()
        try:
            process.node.receive(((frame, place),), world.now_ns, net)
            world._settle(process)
        finally:
            cost_s = process_time() - began_s
            gc.enable()
        if cost_s > tally.slowest_s:
            tally.slowest_s = cost_s
        if cost_s > FRAME_SECONDS:
            raise Endless(f"a frame took {cost_s:.2f} s of CPU")


def described(error: Exception) -> tuple[str, str]:
    """Where an exception was raised, and its trace."""
    steps = [step for step in traceback.extract_tb(error.__traceback__) if "jgroups_py" in step.filename]
    where = " <- ".join(f"{step.filename.rpartition('jgroups_py/')[2]}:{step.name}" for step in reversed(steps[-2:]))
    return f"{type(error).__name__} in {where}", "".join(traceback.format_exception(error))[-3000:]


@contextmanager
def cpu_limit(limit_s: float) -> Iterator[None]:
    """Raise Endless inside the block once it has used so much CPU."""
    def stop(number: int, frame: FrameType | None) -> None:
        raise Endless(f"no end after {limit_s:g} s of CPU")
    former = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
