"""Receipts: an origin learns that every member of a site has its message.

    origin --AWAIT--> its relay --WANTED--> relays of the site --CHECK--> their members
    origin <-GRANTED- its relay <-SETTLED-- relays of the site <-CHECKED- their members

Nothing of this is needed for delivery, so it is asked for only while somebody waits. What travels are numbers that only
rise, so each step may be repeated: the origin asks again on a timer and when its relay changed, a relay asks again
whoever newly says HELLO; a failover at either end needs nothing else. A site has a message when all its relays on the
bridge say so (one for each half of a split site). Own site: the origin asks the members itself (polls.py).
"""
from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING

import attrs

from jgroups_py.address import Address
from jgroups_py.batch import Batch, Header
from jgroups_py.events import SendUntil, StopWaiting
from jgroups_py.outputs import Receipt
from jgroups_py.protocol import STOP, Protocol, on, receives, timer
from jgroups_py.protocols.relay.headers import Vector
from jgroups_py.protocols.relay.peers import Peer
from jgroups_py.protocols.relay.polls import Polls
from jgroups_py.protocols.relay.receipt_headers import Await, Check, Checked, Granted, Ranges, Settled, Wanted
from jgroups_py.protocols.relay.receiving import RELIABLE
from jgroups_py.protocols.relay.sites import OFFLINE
from jgroups_py.view import ViewId

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

ALL_SITES = "*"


@attrs.define(eq=False)
class Wait:
    """A message of ours and the sites that are to have it; those that do, with the views that said so."""

    ticket: int
    number: int
    sites: dict[str, None]
    views: dict[str, tuple[ViewId, ...]] = attrs.Factory(dict)


@attrs.frozen
class Settlement:
    """What a remote relay said last of one origin."""

    number: int
    lost: Ranges
    epoch: ViewId


class Receipts:
    """See the module."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.polls = Polls(relay, self.settled_here)
        # The origin's: site -> ticket -> what is waited for, in order of the messages' numbers
        self.waits: dict[str, dict[int, Wait]] = {}
        # The relay's:
        self.awaited: Vector = {}                            # site -> origin -> what it asked for
        self.settlements: dict[tuple[Address, Address], Settlement] = {}     # (remote relay, origin) -> what it said

    # --- the origin -------------------------------------------------------------------------------------------------

    def send(self, event: SendUntil) -> None:
        """Send the message and wait until the sites have it."""
        relay = self.relay
        number = relay.coming_number
        relay.down(Batch(relay.me, None, (event.payload,), event.headers, event.flags))
        sites = dict.fromkeys(self._all_sites() if ALL_SITES in event.sites else event.sites)
        wait = Wait(event.ticket, number, sites)
        for site in sites:
            self.waits.setdefault(site, {})[event.ticket] = wait
        self.sites_changed()
        relay.set_timer("await", 0)

    def _all_sites(self) -> list[str]:
        return [self.relay.config.site, *(site.name for site in self.relay.table if site.status != OFFLINE)]

    def give_up(self, ticket: int) -> None:
        """Nobody waits for this one any more."""
        for waits in self.waits.values():
            waits.pop(ticket, None)

    def ask(self) -> None:
        """Ask for the latest message that somebody waits for, of each site; again on a timer."""
        relay = self.relay
        self.waits = {site: waits for site, waits in self.waits.items() if waits}
        if not self.waits:
            return
        sites = {site: next(reversed(waits.values())).number + 1 for site, waits in self.waits.items()}
        own = sites.pop(relay.config.site, None)
        relay.set_timer("await", relay.config.resend_interval_ns)
        if sites and relay.is_relay:
            self.awaits(relay.me, sites)
        elif sites:
            relay.send(Await(sites), relay.view.coordinator, flags=RELIABLE)
        if own is not None:
            self.polls.want(relay.config.site, relay.me, own)

    def granted(self, header: Granted) -> None:
        """All members of a site are through with our messages up to a number."""
        waits = self.waits.get(header.site, {})
        for wait in list(takewhile(lambda wait: wait.number < header.number, waits.values())):
            if within(wait.number, header.lost):
                self._end(wait, header.site)
                continue
            del waits[wait.ticket], wait.sites[header.site]
            wait.views[header.site] = header.views
            if not wait.sites:
                self._end(wait)

    def sites_changed(self) -> None:
        """Nobody waits for what is lost for a site; while it is OFFLINE that is whatever it has not acknowledged."""
        for site in self.relay.table:
            waits = self.waits.get(site.name)
            if waits:
                lost, acked = site.lost.get(self.relay.me, ()), site.acked.get(self.relay.me, 1)
                for wait in list(waits.values()):
                    if within(wait.number, lost) or (site.status == OFFLINE and wait.number >= acked):
                        self._end(wait, site.name)

    def _end(self, wait: Wait, lost_for: str = "") -> None:
        self.give_up(wait.ticket)
        self.relay.count("receipts_lost" if lost_for else "receipts")
        self.relay.emit(Receipt(wait.ticket, wait.views, lost_for))

    # --- the origin's relay -----------------------------------------------------------------------------------------

    def awaits(self, origin: Address, sites: dict[str, int]) -> None:
        """A member of ours waits for other sites. (Said to a member that will be the relay, it waits for that.)"""
        for site, number in sites.items():
            numbers = self.awaited.setdefault(site, {})
            numbers[origin] = max(number, numbers.get(origin, 1))
            self.relay.to_relays_of(site, Wanted({origin: number}))

    def peer_came(self, peer: Peer) -> None:
        """A relay said HELLO: it may not know what is waited for."""
        numbers = self.awaited.get(peer.site.name)
        if numbers:
            self.relay.to_bridge(peer.address, Wanted(dict(numbers)))

    def settled(self, header: Settled, src: Address) -> None:
        """A remote relay: all members of its view are through with these."""
        peer = self.relay.sending.peers.get(src)
        if peer is None:
            return self.relay.count("from_strangers")
        for origin, number in header.numbers.items():
            before = self.settlements.get((src, origin))
            if before is None or number >= before.number:
                self.settlements[src, origin] = Settlement(number, header.lost.get(origin, ()), header.epoch)
            self._grant(peer.site.name, origin)
        return None

    def _grant(self, site: str, origin: Address) -> None:
        """Tell the origin how far all relays of a site on the bridge have settled."""
        relay = self.relay
        asked = self.awaited.get(site, {}).get(origin)
        peers = relay.sending.peers.of(site)
        said = [self.settlements.get((peer.address, origin)) for peer in peers]
        known = [settlement for settlement in said if settlement is not None]
        if asked is None or len(known) < len(said) or relay.sending.peers.accepted(site) is None:
            return
        number = min(settlement.number for settlement in known)
        lost = tuple(sorted({lost: None for settlement in known for lost in settlement.lost}))
        header = Granted(site, number, lost, tuple(settlement.epoch for settlement in known))
        if number >= asked:
            del self.awaited[site][origin]
            self._drop_settlements(origin, peers)
        if origin == relay.me:
            self.granted(header)
        else:
            relay.send(header, origin, flags=RELIABLE)

    def _drop_settlements(self, origin: Address, peers: list[Peer]) -> None:
        for peer in peers:
            self.settlements.pop((peer.address, origin), None)

    # --- the relay of the site that is to have it -------------------------------------------------------------------

    def wanted(self, header: Wanted, src: Address) -> None:
        """A remote relay wants to know when all our members have these."""
        peer = self.relay.sending.peers.get(src)
        if peer is None:
            return self.relay.count("from_strangers")
        for origin, number in header.numbers.items():
            self.polls.want(peer.site.name, origin, number)
        return None

    def disseminated(self, site: str, origin: Address) -> None:
        """More of an origin was multicast here."""
        self.polls.ask((site, origin))

    def settled_here(self, site: str, origin: Address, number: int, lost: Ranges) -> None:
        """All members of our view are through with an origin's messages below a number."""
        relay = self.relay
        if site == relay.config.site:
            return self.granted(Granted(site, number, lost, (relay.view.id,)))
        return relay.to_relays_of(site, Settled(relay.view.id, {origin: number}, {origin: lost} if lost else {}))

    # --- all --------------------------------------------------------------------------------------------------------

    def from_bridge(self, header: Header, src: Address) -> None:
        """WANTED or SETTLED."""
        if isinstance(header, Wanted):
            self.wanted(header, src)
        elif isinstance(header, Settled):
            self.settled(header, src)

    def view_changed(self) -> None:
        """A new view: maybe a new relay, certainly new polls."""
        if not self.relay.is_relay:
            self.awaited, self.settlements = {}, {}
        self.polls.view_changed()
        if any(self.waits.values()):
            self.relay.set_timer("await", 0)

    def forget(self, origin: Address) -> None:
        """Drop everything about an origin."""
        self.polls.forget(origin)
        for numbers in self.awaited.values():
            numbers.pop(origin, None)
        for key in [key for key in self.settlements if key[1] == origin]:
            del self.settlements[key]


def within(number: int, ranges: Iterable[tuple[int, int]]) -> bool:
    """Whether some range (half-open) contains the number."""
    return any(first <= number < stop for first, stop in ranges)


class ReceiptTalk(Protocol):
    """A base of Relay that receives what concerns receipts."""

    receipts: Receipts

    @on(SendUntil)
    def send_until(self, event: SendUntil) -> object:
        self.receipts.send(event)
        return STOP

    @on(StopWaiting)
    def stop_waiting(self, event: StopWaiting) -> object:
        self.receipts.give_up(event.ticket)
        return STOP

    @receives(Await)
    def on_await(self, header: Await, batch: Batch) -> None:
        self.receipts.awaits(batch.src, header.sites)

    @receives(Granted)
    def on_granted(self, header: Granted, batch: Batch) -> None:
        self.receipts.granted(header)

    @receives(Check)
    def on_check(self, header: Check, batch: Batch) -> None:
        self.receipts.polls.check(header, batch.src)

    @receives(Checked)
    def on_checked(self, header: Checked, batch: Batch) -> None:
        self.receipts.polls.answered(header, batch.src)

    @timer("await")
    def ask_for_receipts(self) -> None:
        self.receipts.ask()
