"""What the coordinator knows of its members' interests: who said what, in which view, and what follows from it."""
from __future__ import annotations

from collections.abc import Iterable

import attrs

from jgroups_py.address import Address
from jgroups_py.protocols.topics.headers import Interested
from jgroups_py.topics import EVERYTHING, NOTHING, Interest

MAX_STRANGERS = 1000                   # who told us before we have the view that we share


@attrs.define(eq=False)
class Register:
    """told: member -> what it said last; since: member -> the counter of the view from which on its words count.

    A word counts if its member said it after it had come into the group, as we saw that, and after we had become
    coordinator. So what a member said before it was cut off from us is not taken for what it wants now.
    """

    told: dict[Address, Interested] = attrs.Factory(dict)
    since: dict[Address, int] = attrs.Factory(dict)

    def view_changed(self, members: Iterable[Address], counter: int, *, begins: bool) -> None:
        """A view with us as its coordinator; begins: in the one before it was somebody else."""
        known = {} if begins else self.since
        self.since = {member: known.get(member, counter) for member in members}
        self.told = {member: word for member, word in self.told.items()
                     if member in self.since and word.view_id.counter >= self.since[member]}

    def hear(self, member: Address, word: Interested) -> bool:
        """Note what a member says; whether that counts now. (Its view may be one that we install in a moment.)"""
        if member not in self.since and len(self.told) >= len(self.since) + MAX_STRANGERS:
            return False
        self.told[member] = word
        return self.counts(member)

    def counts(self, member: Address) -> bool:
        """Whether we know what a member of our view wants."""
        return member in self.since and member in self.told and (
            self.told[member].view_id.counter >= self.since[member])

    def union(self) -> Interest:
        """What any member wants; everything while that is not known of all."""
        found = NOTHING
        for member in self.since:
            found = found.union(self.told[member].interest if self.counts(member) else EVERYTHING)
        return found.told

    def versions(self) -> dict[Address, int]:
        """Member -> the version of its interest that we go by, where it has changed its mind."""
        return {member: self.told[member].version for member in self.since
                if self.counts(member) and self.told[member].version}
