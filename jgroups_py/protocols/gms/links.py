"""Sending to members, this one included."""
from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.protocols.gms.ports import GmsPort

FEW = 2                   # so many receivers get a message each even where one multicast would reach them


class MemberLinks:
    """Sends headers of GMS to members.

    A member takes part in its own ballots like any other: a header to itself is handled at once, by the handler that a
    frame would reach. So a handler changes its own state before it sends, and has to expect the answer of this member
    within the call.
    """

    def __init__(self, layer: GmsPort) -> None:
        self.layer = layer

    def send(self, header: Header, dest: Address) -> None:
        """Send to one member."""
        layer = self.layer
        if dest == layer.me:
            layer.dispatch(header, Batch(layer.me, layer.me))
        else:
            layer.send(header, dest)

    def send_each(self, header: Header, targets: Iterable[Address]) -> None:
        """Send to each of `targets`, by one multicast where that is cheaper. Members not meant ignore it."""
        layer, targets = self.layer, list(targets)
        others = [member for member in targets if member != layer.me]
        # With keys of views a view's Install has its key: it goes to each member apart, as does what joiners get.
        if len(others) > FEW and not layer.has_view_keys() and layer.addresses.has_multicast():
            layer.send(header, None)
        else:
            for member in others:
                layer.send(header, member)
        if len(others) < len(targets):
            self.send(header, layer.me)

    def book_of(self, members: Iterable[Address]) -> dict[Address, PhysicalAddress]:
        """Where `members` receive, as far as it is known."""
        places = {member: self.layer.addresses.physical_of(member) for member in members}
        return {member: place for member, place in places.items() if place is not None}
