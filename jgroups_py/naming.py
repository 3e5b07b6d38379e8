"""What layers and the world say to each other about names of hosts: two events and an output."""
from __future__ import annotations

import attrs

from jgroups_py.address import PhysicalAddress
from jgroups_py.events import Event
from jgroups_py.outputs import Output
from jgroups_py.resolver import Chain


@attrs.frozen
class ResolveName(Event):
    """Down, from whoever was given names of hosts: find where `name` receives; NameResolved follows.

    parameter: what it is for, for resolvers that care; again: what was found before has fallen silent.
    """

    name: str
    port: int
    parameter: str = "endpoint"
    again: bool = False


@attrs.frozen
class NameResolved(Event):
    """Up: `name`, asked for with `port`, receives at `place`; None: nobody knows it now."""

    name: str
    port: int
    place: PhysicalAddress | None


@attrs.frozen(eq=False)
class Resolve(Output):
    """Ask the resolvers of `chain` for a name, off the node's thread; NameResolved follows up the stack of `net`."""

    net: int
    name: str
    port: int
    chain: Chain
    parameter: str
    again: bool
