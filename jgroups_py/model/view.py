"""Views: the members of a group in order, agreed by all of them.

A view's id is (counter, coordinator): the counter grows at every member from view to view; the coordinator's address
makes ids of views that were installed apart (in two halves of a split group) differ. The first member is the
coordinator. A MergeView also lists the views that it unites.
"""
from __future__ import annotations

from collections.abc import Mapping

import attrs

from jgroups_py.model.address import Address


@attrs.frozen(order=True)
class ViewId:
    """(counter, coordinator), compared in this order."""

    counter: int
    coordinator: Address

    def __str__(self) -> str:
        return f"{self.coordinator}|{self.counter}"

    @property
    def raw(self) -> bytes:
        """24 bytes that identify the view on the wire."""
        return self.counter.to_bytes(8, "big") + self.coordinator.raw


@attrs.frozen(eq=False)
class View:
    """An agreed membership. Equal if the ids are equal (M4: equal ids mean equal members)."""

    id: ViewId
    members: tuple[Address, ...]

    @property
    def coordinator(self) -> Address:
        """The first member."""
        return self.members[0]

    def __contains__(self, member: object) -> bool:
        return member in self.members

    def __len__(self) -> int:
        return len(self.members)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, View) and self.id == other.id)

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return f"[{self.id}] ({len(self.members)}) [{', '.join(map(str, self.members))}]"


@attrs.frozen(eq=False)
class MergeView(View):
    """A view that unites groups which had been apart.

    subgroups: their last views. missed: sender -> how many reliable multicasts of its application this member has not
    received and will not receive, because they were delivered in another of the subgroups; of members that left
    meanwhile, too (the last 64), and of those that were never in a view with this member. Empty where nothing was
    missed. It differs from member to member. With RELAY in the stack `messages_lost` names the numbers as well.
    """

    subgroups: tuple[View, ...] = ()
    missed: Mapping[Address, int] = attrs.field(factory=dict)

    def __str__(self) -> str:
        return f"Merge{View.__str__(self)}, {len(self.subgroups)} subgroups"


@attrs.frozen
class GlobalView:
    """The members of all sites, as known to RELAY: site name -> its members (ProxyUUIDs for those of other sites)."""

    sites: Mapping[str, tuple[Address, ...]]

    @property
    def members(self) -> tuple[Address, ...]:
        """All members, the sites in order of their names."""
        return tuple(member for site in sorted(self.sites) for member in self.sites[site])

    def __contains__(self, member: object) -> bool:
        return any(member in members for members in self.sites.values())

    def __str__(self) -> str:
        sites = [(site, [m.name or str(m) for m in self.sites[site]]) for site in sorted(self.sites)]
        return "; ".join(f"{site}: {', '.join(names)}" for site, names in sites)
