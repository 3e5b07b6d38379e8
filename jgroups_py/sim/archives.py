"""What simulated members record: kept in memory, in order, for tests to compare with the history."""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.disk import ArchiveDurability, ArchiveOpened, OpenArchive, Record
from jgroups_py.outputs import LOCAL
from jgroups_py.sim.process import Process
from jgroups_py.units import NS_PER_MS

if TYPE_CHECKING:
    from jgroups_py.sim.engine import Engine

OPEN_NS = 5 * NS_PER_MS                  # how long opening takes


class Archives:
    """All archives of a world: carries out what ARCHIVE asks."""

    def __init__(self, world: Engine) -> None:
        self.world = world
        self.records: dict[Address, list[Record]] = {}       # recorder -> what it was given, in order

    def open(self, process: Process, asked: OpenArchive) -> None:
        """Begin to record."""
        self.records[process.me] = []
        self.world.after(OPEN_NS, self.world.tell, process, ArchiveOpened(), LOCAL)

    def record(self, process: Process, record: Record) -> None:
        """Keep it."""
        self.records[process.me].append(record)

    def durability(self, process: Process, output: ArchiveDurability) -> None:
        """The application is told."""
        self.world.remark(f"{process.incarnation} records again" if not output.reason else
                          f"{process.incarnation} does not record: {output.reason}")
