"""The local group as RELAY sees it: the view, and this member's place in it."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.events import ViewChange
from jgroups_py.model.view import View, ViewId
from jgroups_py.protocols.relay.part import RelayPart, RelayPort
from jgroups_py.stack.protocol import on


class LocalGroup(RelayPart):
    """The first of RELAY's parts: when another one handles a view change, the new view stands here already.

    previous: the view before this one, None in the first; was_relay: whether this member was the relay in it;
    is_standby: whether it is the one that becomes the relay if the relay dies, and waits on the bridge for that.
    """

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.view = View(ViewId(0, self.me), (self.me,))          # until the first ViewChange
        self.has_view = False
        self.is_relay = False
        self.is_standby = False
        self.previous: View | None = None
        self.was_relay = False

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.previous = self.view if self.has_view else None
        self.was_relay = self.is_relay
        self.view, self.has_view = event.view, True
        self.is_relay = event.view.coordinator == self.me
        self.is_standby = self.config.standby and event.view.members[1:2] == (self.me,)

    @property
    def relay_changed(self) -> bool:
        """Whether this view has another relay than the one before it; False in the first view."""
        return self.previous is not None and self.previous.coordinator != self.view.coordinator

    def is_backup(self, member: Address) -> bool:
        """Whether the member is one of the `backups` next in line, which hold what the relay holds (relay rule 2)."""
        return member in self.view.members[1:1 + self.config.backups]
