"""PARTITION: separates members into groups that receive nothing from each other, until it is healed.

Every batch carries its sender's logical name, and a receiver drops batches of senders in another group. The header has
the name instead of the address, since names are known before there is a view. A member that is in no group receives
from all members, and all receive from it. The event SetPartition, going down, sets other groups, or (empty) heals the
partition. It affects only the member that gets it: for a symmetric partition all members must get it.

Place: right above the transport. Source: JGroups PARTITION. Deviations: members are given by name, not by number;
links of FD_SOCK do not pass through the stack and are not cut.
"""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import declare, drop
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import SetPartition
from jgroups_py.model.units import parsed
from jgroups_py.protocols.faults.fault_layer import FaultLayer, names_of
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
        raise ConfigError(f"{twice!r} is given twice; a member is in one group, as in \"A,B|C,D,E\"")
    return groups


@attrs.frozen
class PartitionConfig:
    """The property of PARTITION."""

    groups: tuple[tuple[str, ...], ...] = parsed(
        (), parse=groups_of, unit="names", doc="The groups at the start: logical names, a comma between names and a "
        'bar between groups, as in "A,B|C,D,E"; empty: all members are together.')


@wire.header(proto=31, kind=1)
class From(Header):
    """The logical name of the sender."""

    name: str = wire.field(wire.NAME)


class Partition(FaultLayer):
    """Adds this member's name to every batch going down, and drops batches of members in other groups."""

    Config = PartitionConfig
    config: PartitionConfig
    COUNTERS = declare(
        drop("separated", "Messages of members in other groups."),
    )

    def start(self) -> None:
        super().start()
        self.header = From(self.me.name)
        self.set_groups(self.config.groups)

    @on(SetPartition)
    def on_set_partition(self, event: SetPartition) -> None:
        self.set_groups(event.groups)

    def set_groups(self, groups: Groups) -> None:
        """Receive only from members of the own group from now on."""
        self.group_of = {name: at for at, group in enumerate(groups) for name in group}   # name -> its group's number

    def receives_from(self, name: str) -> bool:
        """Whether messages of this member are let through."""
        own, other = self.group_of.get(self.me.name), self.group_of.get(name)
        return own is None or other is None or own == other

    def down(self, batch: Batch) -> None:
        self.pass_down(batch.push(self.header))

    def up(self, batch: Batch) -> None:
        """A batch without a name is let through: its sender has no PARTITION in its stack."""
        self.let_up(batch)

    @receives(From)
    def on_from(self, header: From, batch: Batch) -> None:
        if self.receives_from(header.name):
            self.let_up(batch)
        else:
            self.drop("separated", batch, f"{header.name} is in another group")
