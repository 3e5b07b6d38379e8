"""The coordinator's register of the members' interests, and their union. Pure."""
from __future__ import annotations

from collections.abc import Iterable

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.topics import EVERYTHING, NOTHING, Interest
from jgroups_py.protocols.topics.headers import InterestHeader

MAX_NON_MEMBERS = 1000                   # interests kept of processes that a view yet to be installed may contain


@attrs.define(eq=False)
class Register:
    """latest: member -> its latest header; since: member -> counter of the first view whose headers are valid.

    A header is valid if its member sent it in a view since which it has been in the group without a break, with this
    member as coordinator. So an interest from before a partition is not taken for the present one.
    """

    latest: dict[Address, InterestHeader] = attrs.Factory(dict)
    since: dict[Address, int] = attrs.Factory(dict)

    def view_changed(self, members: Iterable[Address], counter: int, *, begins: bool) -> None:
        """A view with this member as coordinator; begins: in the view before another member was."""
        known = {} if begins else self.since
        self.since = {member: known.get(member, counter) for member in members}
        self.latest = {member: header for member, header in self.latest.items()
                       if member in self.since and header.view_id.counter >= self.since[member]}

    def store(self, member: Address, header: InterestHeader) -> bool:
        """Store a member's header; True if it is valid now.

        One that is not may become valid: its view may be one that this member installs a moment later.
        """
        if member not in self.since and len(self.latest) >= len(self.since) + MAX_NON_MEMBERS:
            return False
        self.latest[member] = header
        return self.is_valid(member)

    def is_valid(self, member: Address) -> bool:
        """Whether the register has a valid header of a member of the view."""
        return member in self.since and member in self.latest and (
            self.latest[member].view_id.counter >= self.since[member])

    def union(self) -> Interest:
        """The union of all interests; a member without a valid header counts as interested in everything."""
        found = NOTHING
        for member in self.since:
            found = found.union(self.latest[member].interest if self.is_valid(member) else EVERYTHING)
        return found.announced

    def versions(self) -> dict[Address, int]:
        """Member -> the version of its valid header, of those whose interest has changed since their start."""
        return {member: self.latest[member].version for member in self.since
                if self.is_valid(member) and self.latest[member].version}
