"""Delivery of other sites' messages at every member: what extends the vector, and nothing else (relay rule 5).

Every member keeps a vector, `seen`: site -> origin -> next number. A DISSEMINATE counts from the coordinator only, and
only after its SYNC in this view: before it, this member may begin with an origin at another number than the others.

A member without an entry for an origin has to choose its first number. Messages of a site are meant for every member
that had a BASE or a message of that site when they were sent. Such a member begins at the first number owed to it, and
reports what it missed as lost; any other (a joiner, or the founder of a group that merged) begins at the first number
that arrives. If `base` is above the next number, nothing below `base` will come any more: the member continues there,
and its application gets `messages_lost`.
"""
from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import Batch
from jgroups_py.model.counter_jumps import MAX_JUMP, TOP
from jgroups_py.model.events import ViewChange
from jgroups_py.model.outputs import MessagesLost
from jgroups_py.protocols.relay.announcements import OriginForgotten, PrefixDelivered, PrefixSkipped
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import BaseHeader, Disseminate, Vector
from jgroups_py.protocols.relay.inbound.vectors import copied
from jgroups_py.protocols.relay.part import RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import DeliveryPort, SiteNewsPort, SyncPort, UnicastPort
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import on, receives
from jgroups_py.wire.topic_headers import PassedBy


class RemoteDelivery(RelayPart, DeliveryPort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    synchronizer: SyncPort = needs(SyncPort)
    site_news: SiteNewsPort = needs(SiteNewsPort)
    unicasts: UnicastPort = needs(UnicastPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.seen: Vector = {}                       # other site -> origin -> next number
        # Sites from which a BASE or a message came to this member, or to the members whose vector it adopted: from then
        # on every number of theirs is owed here.
        self.sites_with_base: dict[str, None] = {}
        self.sites_before_view: dict[str, None] = {}     # those, and all reported to the application, before this view
        self.from_first: dict[Address, None] = {}    # origins of which others here have messages and this member none
        self.proxies: dict[Address, ProxyUUID] = {}  # origin -> as the application sees it

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.proxies = {}                            # a proxy names the relay, and this view may have another one
        # Taken before this view's SYNC adds sites: these are what HAVE lists (relay rule 17).
        self.sites_before_view = {**self.sites_with_base, **dict.fromkeys(self.site_news.statuses)}

    # --- DISSEMINATE and BASE ---------------------------------------------------------------------------------------

    @receives(Disseminate)
    def disseminate(self, header: Disseminate, batch: Batch) -> None:
        """Deliver what extends the vector (relay rule 5)."""
        self.unicasts.traffic_from(header.site)
        if not self.synchronizer.synced or batch.src != self.group.view.coordinator:
            # From the relay of an earlier view it may reach this member and no other one (relay rule 4).
            return self.drop("disseminate_before_sync", batch, "not of the coordinator, or before its SYNC", header)
        if header.first > TOP:
            return self.drop("implausible_dropped", batch, "no number is so high", header)
        self.sites_with_base[header.site] = None
        numbers = self.seen.setdefault(header.site, {})
        wanted = numbers.get(header.origin)
        if wanted is None:
            # A joiner, or an origin that is new: begin here. What came before was not meant for this member. BASE,
            # which precedes the first FORWARD of an epoch, has made an entry where something before this was owed.
            wanted = header.first
            self.announce(PrefixSkipped(header.origin, 1, wanted))
        elif header.base > wanted:
            if not self.jump(header.site, header.origin, header.base):
                return None
            wanted = header.base
        stop = header.first + batch.count
        if header.first > wanted:
            # A member that is behind: its HAVE has made the relay go back, so these come again from `wanted` on.
            return self.drop("disseminate_ahead", batch, f"{wanted} of its origin has not arrived", header)
        if stop > wanted:
            numbers[header.origin] = stop
            self.deliver(header, batch.cut(wanted - header.first, batch.count), batch.src)
        else:
            # Usual after a failover: the new relay repeats what its predecessor may have multicast (relay rule 8).
            self.drop("disseminate_again", batch, "it was delivered before", header)
            numbers.setdefault(header.origin, wanted)
        return self.announce(PrefixDelivered(header.site, header.origin, numbers[header.origin]))

    @receives(BaseHeader)
    def base(self, header: BaseHeader, batch: Batch) -> None:
        """From the relay: nothing below these numbers will come any more.

        Below `owed` nothing was meant for this site. What lies from there to these numbers was, and is lost here.
        """
        if not self.synchronizer.synced or batch.src != self.group.view.coordinator:
            return self.drop("base_before_sync", batch, "not of the coordinator, or before its SYNC", header)
        seen = self.seen.setdefault(header.site, {})
        for origin, number in header.numbers.items():
            owed, before = header.owed.get(origin, 1), seen.get(origin, 1)
            if origin not in seen:
                # A member that had a BASE of the site before was to get everything from `owed` on. For any other one
                # the site's messages begin with this BASE: it misses nothing.
                seen[origin] = owed if header.site in self.sites_with_base else number
            elif origin in self.from_first and before == 1:
                seen[origin] = max(1, min(owed, number))
            self.from_first.pop(origin, None)
            self.announce(PrefixSkipped(origin, before, seen[origin]))
            if number > seen[origin]:
                self.jump(header.site, origin, number)
            if seen[origin] > before:
                # A later life of the site may send from its disk what lies below: it is acknowledged as present, for
                # which a backup has to confirm that it begins here.
                self.announce(PrefixDelivered(header.site, origin, seen[origin]))
        self.sites_with_base[header.site] = None
        return None

    def jump(self, site: str, origin: Address, number: int) -> bool:
        """Continue at `number`, and report what lies before it as lost. False: the number is implausible."""
        numbers = self.seen[site]
        if number - numbers[origin] > MAX_JUMP:
            # No origin sends 2^32 messages between two frames: a damaged or hostile number would end this stream.
            self.drop("implausible_dropped", None, f"base {number} of {origin} is far ahead of {numbers[origin]}")
            return False
        self.notify(MessagesLost(site, origin, numbers[origin], number))
        self.drop("lost", None, f"site {site} sends nothing of {origin} below {number}",
                  number=number - numbers[origin])
        self.announce(PrefixSkipped(origin, numbers[origin], number))
        numbers[origin] = number
        return True

    def deliver(self, header: Disseminate, batch: Batch, relay_address: Address) -> None:
        """Pass a batch up, with a ProxyUUID of the origin as its source (relay rule 4)."""
        proxy = self.proxies.get(header.origin)
        if proxy is None or proxy.relay != relay_address:
            proxy = self.proxies[header.origin] = ProxyUUID(header.origin, relay_address, header.site)
        mark = batch.headers[-1] if batch.headers else None
        if isinstance(mark, PassedBy) and not mark.topics:
            # Withheld by a trust file, or for other sites, not filtered by interest: no layer above asks for it,
            # ARCHIVE alone records it.
            self.drop("withheld_dropped", batch, "only its numbers came: it is withheld, or for other sites", header)
            if len(batch.headers) == 1:
                return
        self.count("delivered_remote", batch.count)
        remote = Batch(proxy, None, batch.payloads, batch.headers, header.flags)
        self.pass_up(remote.placed(batch.place) if batch.place else remote)

    # --- where to begin ---------------------------------------------------------------------------------------------

    def begin_at(self, vector: Vector) -> None:
        self.seen = copied(vector)

    def adopt(self, vector: Vector) -> None:
        """Begin where the others are, with sites of which nothing was meant for this member before this view.

        That concerns a member that had founded a group and merged: like a joiner, it gets what the others had delivered
        by then as state, if at all. But it was there when that was sent, so no receipt counts it as having it.
        """
        for site, numbers in vector.items():
            if site not in self.sites_before_view:
                mine = self.seen.setdefault(site, {})
                for origin, number in numbers.items():
                    if origin not in mine:
                        mine[origin] = number
                        self.announce(PrefixSkipped(origin, 1, number))

    def begin_at_first(self, site: str, origin: Address) -> None:
        self.seen.setdefault(site, {})[origin] = 1
        self.from_first[origin] = None

    def add_sites_with_base(self, sites: Iterable[str]) -> None:
        self.sites_with_base.update(dict.fromkeys(sites))

    def skip_to(self, vector: Vector) -> tuple[tuple[str, Address, int, int], ...]:
        skipped = []
        for site, numbers in vector.items():
            seen = self.seen.setdefault(site, {})
            for origin, number in numbers.items():
                before = seen.get(origin, 1)
                if number > before:
                    skipped.append((site, origin, before, number))
                    seen[origin] = number
                    self.announce(PrefixDelivered(site, origin, number))
        self.add_sites_with_base(vector)
        return tuple(skipped)

    @on_announcement(OriginForgotten)
    def forget(self, event: OriginForgotten) -> None:
        self.proxies.pop(event.origin, None)
        self.from_first.pop(event.origin, None)
        for numbers in self.seen.values():
            numbers.pop(event.origin, None)
