"""The table entry of another node: its state, and the facts of its current start."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.swim_member import Member
from jgroups_py.protocols.swim.headers import ALIVE, DEAD, LEFT, STATE_NAMES, SUSPECT, Alive
from jgroups_py.protocols.swim.metadata import unpack_tags
from jgroups_py.protocols.swim.suspicion import Suspicion

UP = (ALIVE, SUSPECT)
GONE = (DEAD, LEFT)


@attrs.define(eq=False)
class SwimNode:
    """One other node. changed_ns: when its state changed in this table.

    pending_start: the Alive of another start under its name, applied once the current start proves to be gone;
    checked_ns: when that was last checked. first: the incarnation of its first update, which arrived at since_ns.
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
    pending_start: Alive | None = None
    checked_ns: int | None = None
    first: int = 0
    since_ns: int = 0

    @property
    def is_up(self) -> bool:
        """Alive, or suspected and not yet failed."""
        return self.state in UP

    def update(self, alive: Alive) -> None:
        """Take over the facts of an Alive."""
        self.member, self.place, self.listener = alive.member, alive.place, alive.listener
        self.incarnation, self.meta = alive.incarnation, alive.meta

    def as_alive(self) -> Alive:
        """The Alive with the facts of this entry."""
        return Alive(self.incarnation, self.name, self.place, self.member, self.listener, self.meta)

    def shown(self, name: str) -> Member:
        """This entry as the application gets it, under `name`."""
        tags, weight = unpack_tags(self.meta)
        address = self.member if self.member.name else Address(self.member.raw, name)
        return Member(name, address, self.place, STATE_NAMES[self.state], self.incarnation, tags, weight,
                      self.rtt_ns)
