"""Profile sealed-disks: the worlds of profile site-crash with `hold_keyring`, whose keys change, and a process that
writes to the disks of members that are down.

All guarantees hold as without. Besides, nothing is on a disk in clear (K1), nothing is believed that was planted there
(K2), and no two files have one key (K13; within a file a nonce is an offset).
"""
from __future__ import annotations

from random import Random

import attrs

from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import AppendSegment
from jgroups_py.model.units import millis, seconds
from jgroups_py.protocols.relay.journal.records import (
    SEAL,
    SEALED,
    BatchRecord,
    batch_record,
    heads,
)
from jgroups_py.protocols.relay.journal.seals import place
from jgroups_py.sealing.files import SALT_BYTES, FileCipher, preamble
from jgroups_py.sealing.keyring import ACTIVE, group_key
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.faults.actions import Action, Begin, Starter
from jgroups_py.simulator.process import Process
from jgroups_py.simulator.profiles.base import Plan, span
from jgroups_py.simulator.profiles.site_crash import SiteCrashProfile
from jgroups_py.simulator.secrets import virtual_key
from jgroups_py.simulator.world import World

PATH = "hold.keys"
PHASE_NS = seconds(7)                    # longer than members take to see that the file has changed
PLANTED = b"PLANTED"


@attrs.frozen
class ChangeHoldKey(Action):
    """One more key, which is active a phase later. None is retired: members that are down have files under it."""

    kind = "key"

    def do(self, world: World, start: Starter) -> bool:
        added = world.keyring(PATH).with_key(virtual_key(f"{world.seed}/{PATH}/{self.at_ns}"))
        new = added.keys[-1].name
        world.keyrings[PATH] = added
        world.after(PHASE_NS, world.change_keyring, PATH, lambda keyring: keyring.activated(new))
        return True

    def describe(self) -> str:
        return "the key of hold_dir is changed"


@attrs.frozen
class PlantRecords(Action):
    """A process without keys appends records to the newest file of a member that is down: in clear, under a key of its
    own, and one that stands there already. Their checksums are right, their numbers follow those of the file."""

    kind = "planted records"
    name: str

    def do(self, world: World, start: Starter) -> bool:
        process, disk = world.processes.get(self.name), world.disks.of(self.name)
        records = [found for found in world.disks.records(self.name, world.keys()) if isinstance(found, BatchRecord)]
        if process is None or process.alive or not records or not disk.files:
            return False
        last = records[-1]
        forged = batch_record(last.origin, last.first + last.batch.count, last.since_ns,
                              Batch(last.origin, None, (PLANTED,)))
        name = max(disk.files)
        file = disk.files[name]
        own = group_key(virtual_key(f"{world.seed}/somebody"), ACTIVE)
        cipher = FileCipher(own, preamble(own, bytes(SALT_BYTES)), place(name))
        known = [data[found.at:found.stop] for data in [bytes(file.data)] for found in heads(data)
                 if found.kind == SEALED]
        for made in (bytes(forged), forged.sealed(cipher, len(file.data)), *known[-1:]):
            file.data += made
        file.synced_bytes = len(file.data)
        world.remark(f"another process writes to the disk of {self.name}")
        return True

    def describe(self) -> str:
        return f"records are planted on {self.name}'s disk, if it is down"


class SealedDisksProfile(SiteCrashProfile):
    """See the module."""

    name = "sealed-disks"
    reaches = (
        "sites that died as a whole", "messages read from disk", "messages sent from disk", "torn files",
        "disks that failed")

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        self.settings = (*self.settings, ("hold_keyring", PATH))
        rng = Random(f"{self.seed}/sealed-disks")
        made: list[Action] = [ChangeHoldKey(rng.randrange(millis(100), plan.stop_ns))
                              for _ in range(rng.choice((0, 1, 1, 2)))]
        # Just before members come back: until then their disks are written to by nobody else.
        for fault in plan.faults:
            if isinstance(fault, Begin) and fault.at_ns > seconds(2) and rng.random() < 0.5:
                made.append(PlantRecords(max(0, fault.at_ns - span(rng, 0.001, 0.05)), fault.name))
        return attrs.evolve(plan, faults=tuple(sorted((*plan.faults, *made), key=lambda fault: fault.at_ns)))

    def start(self, world: World, name: str) -> Process:
        world.keyring(PATH)
        if world.disks.watcher is None:
            world.disks.watcher = DiskWatcher(world)
        return super().start(world, name)

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        assert isinstance(world.disks.watcher, DiskWatcher), "`start` makes it"
        return [*found, *world.disks.watcher.violations.values()]


class DiskWatcher:
    """Sees all that members write to disks. violations: the first of each guarantee."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.preambles: dict[bytes, str] = {}            # -> whose file begins with it
        self.violations: dict[str, Violation] = {}

    def __call__(self, process: Process, asked: AppendSegment) -> None:
        """A member appends to a file."""
        kind = next(heads(asked.data)).kind
        who = f"{process.name}#{process.incarnation} {asked.name}"
        if kind not in (SEAL, SEALED):
            self.add("K1", f"{who} has a record in clear")
        elif kind == SEAL and self.preambles.setdefault(asked.data, who) != who:
            self.add("K13", f"{who} has the key of {self.preambles[asked.data]}")

    def add(self, guarantee: str, text: str) -> None:
        """A guarantee is broken."""
        self.violations.setdefault(guarantee, Violation(guarantee, text, self.world.now_ns))
