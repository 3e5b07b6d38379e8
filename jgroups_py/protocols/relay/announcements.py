"""Announcements: facts inside RELAY that several of its parts act on.

`announce(PrefixDelivered(...))` calls every handler that is marked `@on_announcement(PrefixDelivered)` (part.py) before
it returns, in the order in which `Relay.components` lists the parts. So the part that announces does not depend on
those that act, and each part changes its own tables only.

They stay inside RELAY. What travels through the stack in order with batches is an event (model/events).
"""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.protocols.relay.headers import Have
from jgroups_py.protocols.relay.outbound.peers import RelayPeer
from jgroups_py.protocols.relay.sites.table import Site


class RelayAnnouncement:
    """Base of all announcements."""

    __slots__ = ()


@attrs.frozen
class SyncCompleted(RelayAnnouncement):
    """As relay: every member of the view has answered SYNC. haves: their answers; the relay itself gives none."""

    haves: dict[Address, Have]


@attrs.frozen
class PrefixDelivered(RelayAnnouncement):
    """This member has delivered everything below `number` of an origin at `site`, which may be its own site."""

    site: str
    origin: Address
    number: int


@attrs.frozen
class PrefixSkipped(RelayAnnouncement):
    """This member will never get `first` to `stop` - 1 of an origin: they are lost, or were sent before it joined."""

    origin: Address
    first: int
    stop: int


@attrs.frozen
class TrustChanged(RelayAnnouncement):
    """As relay: the trust file names other sites, or other rights."""


@attrs.frozen
class SiteAcknowledged(RelayAnnouncement):
    """As relay: the numbers that all relays of the site on the bridge have acknowledged rose."""

    site: Site


@attrs.frozen
class PeerAcknowledged(RelayAnnouncement):
    """As relay: one remote relay acknowledged something new, and was sent what its window then allowed."""

    peer: RelayPeer


@attrs.frozen
class PeerIntroduced(RelayAnnouncement):
    """As relay: the HELLO of a remote relay arrived, its first one or a later one; it is a peer."""

    peer: RelayPeer


@attrs.frozen
class PeerGone(RelayAnnouncement):
    """As relay: a remote relay left the bridge, or sent GOODBYE."""

    peer: RelayPeer


@attrs.frozen
class BridgeGone(RelayAnnouncement):
    """The bridge stack is closed, or about to be: no peer can be reached.

    for_good: since this member is no longer the relay; otherwise the bridge is opened again.
    """

    for_good: bool


@attrs.frozen
class SiteNoLongerUp(RelayAnnouncement):
    """A site that was reported to the application as UP is now DOWN or OFFLINE."""

    site: str


@attrs.frozen
class SitesChanged(RelayAnnouncement):
    """The site table or the view changed: statuses, what is acknowledged or lost."""


@attrs.frozen
class EpochRaised(RelayAnnouncement):
    """The table shows a higher epoch of some site: its view changed, and with it perhaps its relay."""


@attrs.frozen
class NumbersSettledAfterMerge(RelayAnnouncement):
    """ENDS arrived: what this member lacks of its own site's messages is reported (relay rule 17)."""


@attrs.frozen
class OriginsRestored(RelayAnnouncement):
    """The journal was read: batches of these origins are held again, from before this member was restarted."""

    origins: tuple[Address, ...]


@attrs.frozen
class OriginForgotten(RelayAnnouncement):
    """All state about an origin is to be dropped (relay rule 19)."""

    origin: Address


@attrs.frozen
class UnicastsAcknowledged(RelayAnnouncement):
    """A unicast of this member was acknowledged by its destination."""


@attrs.frozen
class DiskCaughtUp(RelayAnnouncement):
    """hold_sync=every: held batches that had to be on disk before they are sent are there, or need not be any more."""
