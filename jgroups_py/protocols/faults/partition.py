"""PARTITION: groups of members that do not hear each other, made and healed while the group runs.

Every run says who sent it, by logical name, and a receiver drops what comes from another group; names in the header
and not addresses, so that it works before a view told the names. A member that no group names hears everybody and is
heard by everybody. The event SetPartition, going down, makes a new division or (empty) heals it; it concerns the
member that gets it, so all members have to be told, and telling only some makes an asymmetric partition.
Place: right above the transport. Source: JGroups PARTITION. Deviations: groups are named, not numbered; sockets of
FD_SOCK do not pass through the stack and are not cut.
"""
from __future__ import annotations

import attrs

from jgroups_py import wire
from jgroups_py.batch import Batch, Header
from jgroups_py.errors import ConfigError
from jgroups_py.events import SetPartition
from jgroups_py.protocol import on, receives
from jgroups_py.protocols.faults.gate import Gate, names_of
from jgroups_py.units import parsed

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
    """See the field."""

    groups: tuple[tuple[str, ...], ...] = parsed(
        (), parse=groups_of, unit="names", doc="Who hears whom at the start: logical names, a comma between names and "
        "a bar between groups, as in \"A,B|C,D,E\"; empty: all hear all.")


@wire.header(proto=31, kind=1)
class From(Header):
    """The logical name of the sender."""

    name: str = wire.field(wire.NAME)


class Partition(Gate):
    """See the module."""

    Config = PartitionConfig
    config: PartitionConfig

    def start(self) -> None:
        super().start()
        self.mark = From(self.me.name)
        self.divide(self.config.groups)

    @on(SetPartition)
    def set_partition(self, event: SetPartition) -> None:
        self.divide(event.groups)

    def divide(self, groups: Groups) -> None:
        """From now on only the members of our group are heard."""
        self.group_of = {name: at for at, group in enumerate(groups) for name in group}   # name -> its group's number

    def hears(self, name: str) -> bool:
        """Whether messages of this member get through to us."""
        mine, its = self.group_of.get(self.me.name), self.group_of.get(name)
        return mine is None or its is None or mine == its

    def down(self, batch: Batch) -> None:
        self.pass_down(batch.push(self.mark))

    def up(self, batch: Batch) -> None:
        """A run of a member that has no PARTITION in its stack."""
        self.let_up(batch)

    @receives(From)
    def come(self, mark: From, batch: Batch) -> None:
        if self.hears(mark.name):
            self.let_up(batch)
        else:
            self.count("separated", batch.count)
