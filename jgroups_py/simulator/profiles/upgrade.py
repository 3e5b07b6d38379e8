"""Profile upgrade: a group without ENCRYPT is restarted with it one by one (accept_clear), under the faults of group.

In some seeds the time in which frames in clear count ends before all members are upgraded: the others are excluded
then, and come back with a key. An attacker sends frames in clear that claim to be of members; where their receivers
know that these have a key, none may be believed (S1). All guarantees of the group hold; members whose time is over, or
that know that all of their view have a key, send nothing in clear (K1).
"""
from __future__ import annotations

from random import Random

import attrs

from jgroups_py.model.batch import NO_RELIABILITY, Batch
from jgroups_py.model.outputs import LOCAL, Frame
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.simulator.attack.attacker import PLACE
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.faults.actions import Action, LeaveOf, Starter
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.base import Plan, span
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.secrets import with_encrypt
from jgroups_py.simulator.world import World
from jgroups_py.wire import cluster_id, encode_frame
from jgroups_py.wire.frame import MULTICAST

KEYRING, CLUSTER = "group.keys", "demo"
CLEAR, UNSEALED = ("3s", "8s", "1h", "1h"), b"JP\1"
FLAGS = 3                                # where the flags of a frame stand
NEEDLESS_NS = seconds(1)                 # frames in clear of a round in which the last key was shown may leave
FORGED = b"forged in clear"


@attrs.frozen
class Upgrade(Action):
    """A member runs with ENCRYPT from now on; one that has not left by now crashes."""

    kind = "upgrade"
    name: str

    def do(self, world: World, start: Starter) -> bool:
        process = world.processes.get(self.name)
        if process is not None and process.running:
            if encrypt_of(process) is not None:
                return False
            world.crash(self.name)
        start(self.name)
        return True

    def describe(self) -> str:
        return f"{self.name} is upgraded"


@attrs.frozen
class ForgeClear(Action):
    """Each upgraded member gets a frame in clear of each member that it knows to have a key."""

    kind = "forge"

    def do(self, world: World, start: Starter) -> bool:
        done = False
        for process in [process for process in world.processes.values() if process.running]:
            encrypt, socket = encrypt_of(process), process.sockets.get(LOCAL)
            if encrypt is None or encrypt.clear is None or socket is None:
                continue
            for other in world.processes.values():
                if other is not process and other.me.raw in encrypt.clear.proven:
                    batch = Batch(other.me, None, (FORGED,), (), NO_RELIABILITY)
                    world.inject_frame(socket, b"".join(encode_frame(cluster_id(CLUSTER), batch)), PLACE)
                    done = True
        return done

    def describe(self) -> str:
        return "frames in clear of members that have a key"


def encrypt_of(process: Process) -> Encrypt | None:
    """The ENCRYPT of a member."""
    stack = process.stack(LOCAL)
    found: Encrypt | None = stack.find(Encrypt) if stack is not None else None
    return found


class UpgradeProfile(GroupProfile):
    """One group of three to six members, even seeds on UDP, odd ones on TCP."""

    name = "upgrade"
    bursts = False

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        rng = Random(f"{self.seed}/upgrade")
        self.accept_clear = rng.choice(CLEAR)
        self.upgraded_ns: dict[str, int] = {}
        self.violations: list[Violation] = []
        self.needless_ns: dict[str, int] = {}                # incarnation -> since when it need not send in clear
        added: list[Action] = []
        for name in rng.sample(self.members, len(self.members)):
            at_ns = rng.randrange(seconds(1), plan.stop_ns - millis(200))
            self.upgraded_ns[name] = min(at_ns + span(rng, 0.1, 2), plan.stop_ns - millis(10))
            added += [LeaveOf(at_ns, name), Upgrade(self.upgraded_ns[name], name)]
        added += [ForgeClear(rng.randrange(seconds(1), plan.stop_ns + seconds(1))) for _ in range(rng.randint(3, 12))]
        return attrs.evolve(plan, faults=tuple(sorted((*plan.faults, *added), key=lambda action: action.at_ns)))

    def start(self, world: World, name: str) -> Process:
        world.tap, world.shows_places = self.intercept, True
        spec = self.spec(world)
        if world.now_ns >= self.upgraded_ns[name]:
            world.keyring(KEYRING)
            spec = with_encrypt(spec, KEYRING, accept_clear=self.accept_clear)
        return world.start(name, spec, app=App(rate=300) if name == self.slow else None)

    def intercept(self, process: Process, frame: Frame, data: bytes) -> None:
        """K1: nothing is sent in clear that need not be."""
        encrypt = encrypt_of(process)
        if data[:3] != UNSEALED or encrypt is None or self.violations:
            return
        window, now_ns = encrypt.clear, encrypt.now_ns
        if window is None or now_ns >= window.until_ns:
            text = f"{process.incarnation} sends in clear when its time is over"
            self.violations.append(Violation("K1", text, now_ns))
        elif not data[FLAGS] & MULTICAST:
            return                                           # to one that may have left: nothing is known of it
        elif not window.members or any(window.unproven()) or window.heard:
            self.needless_ns.pop(process.incarnation, None)
        elif now_ns - self.needless_ns.setdefault(process.incarnation, now_ns) > NEEDLESS_NS:
            text = f"{process.incarnation} sends in clear, and all that it hears have keys"
            self.violations.append(Violation("K1", text, now_ns))

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        return [*found, *self.violations]
