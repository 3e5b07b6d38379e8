"""PARTITION: divides members into groups that cannot hear each other, and heals, while the members run.

Every batch carries its sender's logical name, and a receiver drops what comes from another group. The header has the
name and not the address, so that it works before a view has brought the names. A member that is in no group hears all
members and is heard by all. The event SetPartition, going down, sets a new division or (empty) heals it. It concerns
only the member that gets it: all members must get it, and a partition is asymmetric if only some do.

Place: right above the transport. Source: JGroups PARTITION. Deviations: groups are named, not numbered; sockets of
FD_SOCK do not pass through the stack and are not cut.
"""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import declare, drop
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import SetPartition
from jgroups_py.model.units import parsed
from jgroups_py.protocols.faults.gate import FaultLayer, names_of
from jgroups_py.stack.protocol import on, receives

Groups = tuple[tuple[str, ...], ...]


def groups_of(value: str | Groups) -> Groups:
    """The groups in "A,B | C,D,E".

    >>> groups_of("A,B | C")
    (('A', 'B'), ('C',))
    """
    groups = tuple(filter(None, map(names_of, value.split("|")))) if isinstance(value, str) else value
    names = [name for group in groups for name in group]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise ConfigError(f"{twice!r} stands twice; a member is in one group, as in \"A,B|C,D,E\"")
    return groups


@attrs.frozen
class PartitionConfig:
    """The property of PARTITION."""

    groups: tuple[tuple[str, ...], ...] = parsed(
        (), parse=groups_of, unit="names", doc="The parts of the group at the start: logical names, a comma between "
        'names and a bar between parts, as in "A,B|C,D,E"; empty: one part.')


@wire.header(proto=31, kind=1)
class From(Header):
    """The logical name of the sender."""

    name: str = wire.field(wire.NAME)


class Partition(FaultLayer):
    """Marks what goes down with the own name, and drops what members of other groups sent."""

    Config = PartitionConfig
    config: PartitionConfig
    COUNTERS = declare(
        drop("separated", "Messages of members that are cut off by `divide`."),
    )

    def start(self) -> None:
        super().start()
        self.mark = From(self.me.name)
        self.divide(self.config.groups)

    @on(SetPartition)
    def set_partition(self, event: SetPartition) -> None:
        self.divide(event.groups)

    def divide(self, groups: Groups) -> None:
        """Hear only members of our group from now on."""
        self.group_of = {name: at for at, group in enumerate(groups) for name in group}   # name -> its group's number

    def hears(self, name: str) -> bool:
        """Whether messages of this member are let through."""
        mine, its = self.group_of.get(self.me.name), self.group_of.get(name)
        return mine is None or its is None or mine == its

    def down(self, batch: Batch) -> None:
        self.pass_down(batch.push(self.mark))

    def up(self, batch: Batch) -> None:
        """Let a batch through that carries no name: its sender has no PARTITION in its stack."""
        self.let_up(batch)

    @receives(From)
    def come(self, mark: From, batch: Batch) -> None:
        if self.hears(mark.name):
            self.let_up(batch)
        else:
            self.drop("separated", batch, f"{mark.name} is in another part")
