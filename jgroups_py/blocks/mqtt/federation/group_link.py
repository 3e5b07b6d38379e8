"""GroupLink: a group as the carrier of a federation: views give the peers, unicasts and multicasts carry the frames.

Pure: views, messages and the clock go in, messages go out by `send`. A member is a peer under its logical name, which
has to be the name of its broker; of two members of one name (the former life of a node is still in the view) the one
that joined later is meant. channel_link.py joins it with a channel.
"""
from __future__ import annotations

from collections.abc import Callable

from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.model.address import Address
from jgroups_py.model.view import View


class GroupLink:
    """See the module. send: a frame to one member, or to all of the view (None)."""

    def __init__(self, core: FederationCore, send: Callable[[Address | None, bytes], None]) -> None:
        self.core = core
        self._send = send
        self._me: Address | None = None
        self._members: dict[str, Address] = {}
        self._names: dict[Address, str] = {}

    def view_installed(self, view: View, me: Address, now_ns: int) -> None:
        """The members that can be reached now."""
        self._me = me
        self._members = {member.name: member for member in view.members
                         if member != me and member.name != self.core.options.name}
        self._names = {member: name for name, member in self._members.items()}
        self.core.peers_changed(self._members, now_ns)

    def ended(self, now_ns: int) -> None:
        """This member is in no group any more."""
        self._members, self._names = {}, {}
        self.core.peers_changed({}, now_ns)

    def received(self, src: Address, data: bytes, now_ns: int) -> None:
        """A message of a member. One that is no peer, as a former life of a peer, is counted."""
        if src == self._me:
            return                                       # our own multicasts
        name = self._names.get(src)
        if name is None:
            self.core.counters.add("foreign")
        else:
            self.core.receive(name, data, now_ns)

    def flush(self, now_ns: int) -> None:
        """Send what is to be sent."""
        for each in self.core.drain(now_ns):
            dest = None if each.name is None else self._members.get(each.name)
            if each.name is None or dest is not None:
                self._send(dest, each.data)
