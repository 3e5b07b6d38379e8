"""The leave client: asks to be excluded from the next view, waits until it is installed (or leave_timeout), and ends.

The leaver takes part in the flush, so that what it sent is delivered by all members. A coordinator that leaves runs the
change itself, hands over, and ends when all that stay have confirmed the view. A member that is alone ends at once.
"""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import Disconnect
from jgroups_py.model.units import millis
from jgroups_py.model.view import View
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.gms.headers import LeaveRequest
from jgroups_py.protocols.gms.ports import GmsPort, JoinPort, MemberLink, ProposerPort
from jgroups_py.protocols.gms.state import GroupState, Lifecycle
from jgroups_py.stack.component import Component, on, receives, timer

REPEAT_NS = millis(200)


class LeaveClient(Component):
    """Our way out of the group, and the requests of other leavers. leavers: members that asked to leave our view."""

    config: GmsConfig
    layer: GmsPort
    proposer: ProposerPort              # set by Gms.assemble

    def __init__(self, layer: GmsPort, group: GroupState, links: MemberLink, joining: JoinPort) -> None:
        super().__init__(layer)
        self.group = group
        self.links = links
        self.joining = joining
        self.leavers: dict[Address, None] = {}

    @receives(LeaveRequest)
    def on_leave_request(self, header: LeaveRequest, batch: Batch) -> None:
        """A member wants to leave, or is gone; or a joiner gave up."""
        src, group = batch.src, self.group
        if group.view is None or group.installed is None:
            return None
        if header.view_id is None:
            # No view id: the sender is in no view any more (its leave timed out), or it is a joiner that gives up.
            self.proposer.member_gone(src)
            return self.proposer.joiner_withdrew(src)
        if src not in group.view:
            return self.send(group.installed, src)                   # it has left already, as the view shows it
        self.leavers[src] = None
        return self.proposer.consider()

    # --- our own leave ------------------------------------------------------------------------------------------------

    @on(Disconnect)
    def on_disconnect(self, event: Disconnect) -> None:
        """The channel wants to leave."""
        group, view = self.group, self.group.view
        if group.lifecycle in (Lifecycle.LEAVING, Lifecycle.HANDED_OVER, Lifecycle.LEFT):
            return
        if view is None and self.joining.coordinator is not None:
            # A joiner gives up. Without this the coordinator's ballot would wait for it, with the whole group stopped.
            self.send(LeaveRequest(None), self.joining.coordinator)
        if view is None or len(view) == 1:
            return self.layer.leave_group()
        group.become(Lifecycle.LEAVING)
        self.leavers[self.me] = None
        self.set_timer("leave_timeout", self.config.leave_timeout_ns)
        self.ask()

    @timer("leave")
    def ask(self) -> None:
        """Ask the acting coordinator, which may be this member, and repeat until a view answers.

        The coordinator may crash before it acts, and the next in line has not received the request.
        """
        group = self.group
        if group.view is None or group.lifecycle is Lifecycle.HANDED_OVER:
            return
        if group.acts():
            self.proposer.consider()
        else:
            self.send(LeaveRequest(group.view.id), group.acting_coordinator())
        self.set_timer("leave", REPEAT_NS)

    def view_installed(self, view: View) -> None:
        """Leavers that are out of the view are done."""
        self.leavers = {member: None for member in self.leavers if member in view}

    def still_in_view(self) -> None:
        """The view changed, and this leaver is in it still: the change was under way when it asked."""
        assert self.group.view is not None
        if len(self.group.view) == 1:
            self.layer.leave_group()
        else:
            self.ask()

    @timer("leave_timeout")
    def on_leave_timeout(self) -> None:
        """No view without us came in time: leave without one, and announce that, so that no member suspects us."""
        view = self.group.view
        if view is not None and self.group.lifecycle is not Lifecycle.HANDED_OVER:
            self.links.send_each(LeaveRequest(None), [member for member in view.members if member != self.me])
        self.layer.leave_group()

    def stop(self) -> None:
        """This member is out of the group."""
        self.cancel_timer("leave")
        self.cancel_timer("leave_timeout")
