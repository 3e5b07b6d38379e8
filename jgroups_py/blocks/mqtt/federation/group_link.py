"""GroupLink: a group as the carrier of a federation: views give the peers, unicasts and multicasts carry the frames.

Pure: views, messages and the clock go in, messages go out by the carrier. A member is a peer under its logical name,
which has to be the name of its broker; of two members of one name (the former life of a node is still in the view) the
one that joined later is meant. With RELAY other sites are reached by multicasts that cross sites, and the coordinator
of the view announces what its site wants. channel_link.py joins it with a channel.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Protocol

from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.model.view import GlobalView, View


class Carrier(Protocol):
    """What carries the frames."""

    def send(self, dest: Address | None, data: bytes) -> None:
        """To one member of any site, or to all of the view (None)."""
        ...

    def send_to_sites(self, frames: Sequence[bytes], tokens: Sequence[int], sites: tuple[str, ...] | None) -> None:
        """To all members of these sites, or of all others (None), in order. Once the own site holds them,
        `FederationCore.sites_have` gets the tokens."""
        ...


def lost_counter(loss: MessagesLost, own_site: str) -> str | None:
    """What a loss that is reported counts as; None: no message between sites is lost. Members of the own site keep what
    is multicast for others, and have their own messages by the streams. So what one part of a split site missed of
    another part is no loss.

    >>> origin = Address(bytes(16), "node1")
    >>> [lost_counter(MessagesLost(site, origin, 1, 2, dest), "NYC")
    ...  for site, dest in (("SFO", None), ("NYC", "SFO"), ("NYC", None), ("", None))]
    ['lost_from_sites', 'lost_at_sites', None, None]
    """
    if loss.dest_site is not None:
        return "lost_at_sites"
    return "lost_from_sites" if loss.site not in ("", own_site) else None


class GroupLink:
    """See the module."""

    def __init__(self, core: FederationCore, carrier: Carrier) -> None:
        self.core = core
        self._carrier = carrier
        self._me: Address | None = None
        self._members: dict[str, Address] = {}
        self._names: dict[Address, str] = {}
        self._view: View | None = None

    def view_installed(self, view: View, me: Address, now_ns: int) -> None:
        """The members that can be reached now."""
        self._me, self._view = me, view
        self._members = {member.name: member for member in view.members
                         if member != me and member.name != self.core.options.name}
        self._names = {member: name for name, member in self._members.items()}
        self.core.peers_changed(self._members, now_ns)

    def sites_changed(
        self, site: str, statuses: Mapping[str, str], global_view: GlobalView | None, now_ns: int,
    ) -> None:
        """With RELAY, after each view, global view and change of a status: site -> status of the others."""
        if self._view is None:
            return
        members = {} if global_view is None else global_view.sites
        others = {name: (status, tuple(members.get(name, ()))) for name, status in statuses.items() if name != site}
        self.core.sites_changed(site, others, self._view.coordinator == self._me, self._view.id.counter, now_ns)

    def ended(self, now_ns: int) -> None:
        """This member is in no group any more."""
        self._members, self._names, self._view = {}, {}, None
        self.core.peers_changed({}, now_ns)

    def received(self, src: Address, data: bytes, now_ns: int) -> None:
        """A message of a member. One that is no peer, as a former life of a peer, is counted."""
        if src == self._me:
            return                                       # our own multicasts
        if isinstance(src, ProxyUUID):
            self.core.receive_from_site(src.site, src, data, now_ns)
            return
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
                self._carrier.send(dest, each.data)
        if self._view is None:
            return                                       # what other sites are to get waits for the group
        to_sites, to_members = self.core.drain_sites(now_ns)
        for sites, run in groupby(to_sites, key=attrgetter("sites")):
            frames = list(run)
            self._carrier.send_to_sites([each.data for each in frames],
                                        [each.token for each in frames if each.token], sites)
        for answer in to_members:
            self._carrier.send(answer.handle, answer.data)
