"""What is known of each other node, and which of its starts is meant."""
from __future__ import annotations

import attrs

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.members import Member
from jgroups_py.protocols.swim.headers import ALIVE, DEAD, LEFT, STATE_NAMES, SUSPECT, Alive
from jgroups_py.protocols.swim.metadata import unpack_tags
from jgroups_py.protocols.swim.suspicion import Suspicion

UP = (ALIVE, SUSPECT)
GONE = (DEAD, LEFT)


@attrs.define(eq=False)
class Node:
    """One other node. changed_ns: when its state changed here.

    challenger: another start under its name, which is let in once this one proves to be gone; challenged_ns: when that
    was last looked into. first: its incarnation when it became known here, since_ns.
    """

    name: str
    member: Address
    place: PhysicalAddress | None = None
    listener: PhysicalAddress | None = None
    incarnation: int = 0
    state: int = ALIVE
    meta: bytes = b""
    changed_ns: int = 0
    suspicion: Suspicion | None = None
    rtt_ns: int | None = None
    challenger: Alive | None = None
    challenged_ns: int | None = None
    first: int = 0
    since_ns: int = 0

    @property
    def is_up(self) -> bool:
        """Alive as far as is known, though it may be suspected."""
        return self.state in UP

    def learn(self, alive: Alive) -> None:
        """It says who and where it is."""
        self.member, self.place, self.listener = alive.member, alive.place, alive.listener
        self.incarnation, self.meta = alive.incarnation, alive.meta

    def says(self) -> Alive:
        """The Alive that would tell others what is known of it."""
        return Alive(self.incarnation, self.name, self.place, self.member, self.listener, self.meta)

    def shown(self, name: str) -> Member:
        """What the application sees of it, under this name."""
        tags, weight = unpack_tags(self.meta)
        address = self.member if self.member.name else Address(self.member.raw, name)
        return Member(name, address, self.place, STATE_NAMES[self.state], self.incarnation, tags, weight,
                      self.rtt_ns)
