"""Faults of the disks that journals are written to."""
from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from jgroups_py.model.units import NS_PER_S
from jgroups_py.simulator.disks import SYNC_NS
from jgroups_py.simulator.faults.actions import Action, Starter

if TYPE_CHECKING:
    from jgroups_py.simulator.disks import Disk
    from jgroups_py.simulator.world import World


@attrs.frozen
class SlowDisk(Action):
    """Each sync of a member's disk takes `sync_ns`, for a while."""

    kind = "slow disk"
    name: str
    sync_ns: int
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        disk = world.disks.of(self.name)
        disk.sync_ns = self.sync_ns
        world.remark(f"the disk of {self.name} takes {self.sync_ns / NS_PER_S:.3f} s for a sync")
        world.after(self.for_ns, self._end, disk)
        return True

    def _end(self, disk: Disk) -> None:
        disk.sync_ns = SYNC_NS

    def describe(self) -> str:
        return f"{self.name}'s disk takes {self.sync_ns / NS_PER_S:.3f} s a sync, for {self.for_ns / NS_PER_S:.3f} s"


@attrs.frozen
class FullDisk(Action):
    """Nothing can be written to a member's disk, for a while."""

    kind = "full disk"
    name: str
    for_ns: int

    def do(self, world: World, start: Starter) -> bool:
        disk = world.disks.of(self.name)
        disk.full = True
        world.remark(f"the disk of {self.name} is full")
        world.after(self.for_ns, self._end, disk)
        return True

    def _end(self, disk: Disk) -> None:
        disk.full = False

    def describe(self) -> str:
        return f"{self.name}'s disk is full for {self.for_ns / NS_PER_S:.3f} s"
