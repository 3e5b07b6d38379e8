"""Safeguards of RELAY, by its rules."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.model.batch import NO_RELAY, NO_RELIABILITY
from jgroups_py.model.events import BridgeView
from jgroups_py.model.units import NS_PER_S
from jgroups_py.protocols.gms.round_trips import RoundTrips
from jgroups_py.protocols.relay.announcements import OriginForgotten, PeerGone, PrefixDelivered
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import HelloHeader, Numbered, ViewHeader
from jgroups_py.protocols.relay.inbound.acknowledger import Acknowledger
from jgroups_py.protocols.relay.inbound.delivery import RemoteDelivery
from jgroups_py.protocols.relay.inbound.disseminator import Disseminator
from jgroups_py.protocols.relay.inbound.synchronizer import Synchronizer
from jgroups_py.protocols.relay.origin.copies import Copies
from jgroups_py.protocols.relay.origin.divergence import Divergence
from jgroups_py.protocols.relay.origin.origin_gc import OriginCollector
from jgroups_py.protocols.relay.outbound.bridge_link import BridgeLink
from jgroups_py.protocols.relay.outbound.forwarder import Forwarder
from jgroups_py.protocols.relay.outbound.introducer import Introducer
from jgroups_py.protocols.relay.outbound.peers import RelayPeers
from jgroups_py.protocols.relay.protocol import Relay
from jgroups_py.protocols.relay.sites.admin import Admin
from jgroups_py.protocols.relay.sites.status import SiteDecisions
from jgroups_py.protocols.relay.sites.table import OFFLINE, Site, SiteTable
from jgroups_py.protocols.relay.unicast.outbox import UnicastInbox
from jgroups_py.protocols.relay.unicast.router import UnicastRouter
from tests.simulator.planted_bugs.group import nothing
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

have, start_sync, sync = Synchronizer.have, Synchronizer.start_sync, Synchronizer.sync
on_goodbye = Introducer.on_goodbye
disseminate = RemoteDelivery.disseminate


def reports_nothing(self: Divergence, origin: Any, first: int, stop: int) -> bool:
    return True


def to_anyone(self: RoundTrips, view_id: Any, coordinator: Any, now_ns: int) -> int:
    return self.longest_ns(now_ns)


# --- rules 1 to 3: numbers, holders, cursors --------------------------------------------------------------------------

def one_number_for_a_site(self: Relay, batch: Any) -> None:
    if batch.dest is not None:
        return self.unicast_router.route(batch.dest, batch)
    if batch.flags & (NO_RELAY | NO_RELIABILITY):
        return self.pass_down(batch)
    numbering = self.numbering
    first = max([numbering.next_number, *numbering.numbers.values()])
    numbering.next_number = first + batch.count
    return self.pass_down(batch.push(Numbered(first)))


def all_are_numbered(self: Relay, batch: Any) -> None:
    if batch.dest is not None:
        return self.unicast_router.route(batch.dest, batch)
    first = self.numbering.next_number
    self.numbering.next_number = first + batch.count
    return self.pass_down(batch if batch.flags & NO_RELIABILITY else batch.push(Numbered(first)))


def no_backups(self: LocalGroup, member: Any) -> bool:
    return False


def what_any_site_has(self: Forwarder, peer: Any) -> None:
    for site in self.layer.table:                # type: ignore[attr-defined]
        peer.site.acknowledge(site.acked)
    pump_to(self, peer)


pump_to = Forwarder.pump_to


# --- rules 4 to 6: dissemination, dedupe, acknowledgement -------------------------------------------------------------

def no_dedupe(self: RemoteDelivery, header: Any, batch: Any) -> None:
    if self.synchronizer.synced:
        self.seen.setdefault(header.site, {})[header.origin] = header.first + batch.count
        self.deliver(header, batch, batch.src)


def before_sync_and_from_any_relay(self: RemoteDelivery, header: Any, batch: Any) -> None:
    numbers = self.seen.setdefault(header.site, {})
    wanted = max(numbers.get(header.origin, header.first), header.base)
    stop = header.first + batch.count
    if header.first <= wanted < stop:
        numbers[header.origin] = stop
        self.deliver(header, batch.cut(wanted - header.first, batch.count), batch.src)
        self.announce(PrefixDelivered(header.site, header.origin, stop))


def the_highest_number(self: RemoteDelivery, header: Any, batch: Any) -> None:
    numbers = self.seen.setdefault(header.site, {})
    if self.synchronizer.synced and header.first > numbers.get(header.origin, header.first):
        numbers[header.origin] = header.first
    disseminate(self, header, batch)


def ahead_is_taken(self: Disseminator, header: Any, batch: Any) -> None:
    if self.introducer.accepted_sender(header.site, header.epoch, header, batch) is not None:
        self.next_out.setdefault(header.site, {})[header.origin] = header.first
    forward(self, header, batch)


forward = Disseminator.forward


def acknowledged_before_backups_have_it(self: Acknowledger, site: str, origin: Any) -> int:
    return self.delivery.seen.get(site, {}).get(origin, 1)


def acknowledged_before_all_answered(self: Synchronizer) -> None:
    start_sync(self)
    self.complete = True
    self.layer.introducer.introduce()            # type: ignore[attr-defined]


# --- rules 7 and 10: trimming, leaving --------------------------------------------------------------------------------

def acknowledged_by_any_site(self: SiteTable, origins: Any, ends: Any) -> Any:
    holding = [site.trimmable for site in self.sites.values() if site.status != OFFLINE]
    if not holding:
        return {origin: ends[origin] for origin in origins if origin in ends}
    return {origin: max(acked.get(origin, 1) for acked in holding) for origin in origins}


def one_half_is_enough(self: RelayPeers, site: str) -> Any:
    peers = self.of(site)
    return {origin: max(peer.acked.get(origin, 1) for peer in peers)
            for origin in dict.fromkeys(origin for peer in peers for origin in peer.acked)}


def nothing_is_replayed(self: Forwarder, peer: Any) -> None:
    begun: dict[Any, None] = self.__dict__.setdefault("begun", {})
    if peer.address not in begun:
        begun[peer.address] = None
        peer.cursor.update(self.layer.numbering.current_numbers())       # type: ignore[attr-defined]
    pump_to(self, peer)


def goodbye_acknowledges_all(self: Introducer, header: Any, batch: Any) -> None:
    peer = self.peers.get(batch.src)
    if peer is not None:
        peer.site.acknowledge(self.numbering.current_numbers())
    on_goodbye(self, header, batch)


# --- rule 11: fencing -------------------------------------------------------------------------------------------------

def every_epoch_is_obeyed(self: Site, epoch: Any) -> bool:
    self.epoch = epoch
    return True


def only_counters_are_compared(self: Site, epoch: Any) -> bool:
    if self.epoch is not None and epoch.counter < self.epoch.counter:
        return False
    self.epoch = epoch
    return True


# --- rule 12: unicasts ------------------------------------------------------------------------------------------------

def unicasts_as_they_come(self: UnicastInbox, origin: Any, first: int, base: int, batch: Any) -> Any:
    return batch


def no_base(self: UnicastInbox, origin: Any, first: int, base: int, batch: Any) -> Any:
    return take(self, origin, first, 1, batch)


take = UnicastInbox.take


# --- rule 14: operators' orders ---------------------------------------------------------------------------------------

def whenever_it_comes(self: Admin, order: Any, batch: Any) -> None:
    carry_out(self, attrs.evolve(order, order_count=1 << 32), batch)


carry_out = Admin.carry_out


# --- rule 17: sync ----------------------------------------------------------------------------------------------------

def own_vector(self: Synchronizer, header: Any, batch: Any) -> None:
    have(self, attrs.evolve(header, vector={}), batch)


def no_ranges(self: Synchronizer, header: Any, batch: Any) -> None:
    have(self, attrs.evolve(header, held={}), batch)


def no_vector(self: Synchronizer, header: Any, batch: Any) -> None:
    self.fresh = False
    sync(self, header, batch)


def no_table(self: Synchronizer, header: Any, batch: Any) -> None:
    sync(self, attrs.evolve(header, table=()), batch)


def backwards(self: SiteTable, rows: Any, trimmed: Any) -> None:
    follow(self, rows, trimmed)
    for row in rows:
        site = self.sites[row.site]
        site.epoch, site.view_epoch, site.members = row.epoch, row.epoch, row.members


follow = SiteTable.follow


# --- rules 18 and 19: lost, forget ------------------------------------------------------------------------------------

def lost_for_now(self: Site, numbers: Any) -> int:
    acked = dict(self.acked)
    count = lose(self, numbers)
    self.acked = acked
    return count


lose = Site.lose


def forgotten_at_once(self: OriginCollector) -> None:
    present = dict.fromkeys([*self.group.view.members, *self.site_news.site_of_member])
    for origin in self.known():
        if origin not in present:
            self.announce(OriginForgotten(origin))
    self.set_timer("forget", NS_PER_S)


def forgets_early(self: OriginCollector, event: Any) -> None:
    self.set_timer("forget", NS_PER_S)


def guard(
    name: str, rule: int, left: str, owner: type, method: str, without: Any, profile: str, breaks: str, *more: Patch,
) -> Safeguard:
    """A safeguard of a rule."""
    return Safeguard(name, f"RELAY {rule}", left, (Patch(owner, method, without), *more), profile, breaks)


def stays_unsettled(self: Introducer, peer: Any, *, graceful: bool) -> None:
    self.peers.remove(peer.address)
    self.announce(PeerGone(peer))
    if not graceful:
        self.status.start_grace(peer.site)
    self.status.watch_absent()


# --- the standby (relay rule 11) --------------------------------------------------------------------------------------

view_changed = BridgeLink.view_changed


def speaks_early(self: BridgeLink, event: Any) -> None:
    """The standby introduces itself to the relays of other sites, in the epoch of the relay."""
    bridge_view_changed(self, event)
    if self.waits:
        for member in event.view.members:
            if member != event.me:
                self.send_to(member, ViewHeader(self.config.site, self.group.view.id, self.group.view.members))
                self.send_to(member, HelloHeader(self.config.site, self.group.view.id, {}, False))


bridge_view_changed = BridgeLink.bridge_view_changed


def stays_under_its_address(self: BridgeLink, event: Any) -> None:
    """A relay that is not the relay any more, and next in line, waits on the bridge under the address it had."""
    if self.group.was_relay and not self.group.is_relay and self.group.is_standby and self.view is not None:
        waiting_view = BridgeView(self.view, self.own_address)       # type: ignore[arg-type]
        self.wanted = False
        self._lose_peers(for_good=True)
        self.waits, self.waiting_view = True, waiting_view
    else:
        view_changed(self, event)


RELAY_SAFEGUARDS = (
    guard("numbers per origin", 1, "one number for all messages of a site", Relay, "down", one_number_for_a_site,
          "relay", "R3"),
    guard("unreliable messages are not numbered", 1, "they take numbers, so that their loss is a hole", Relay, "down",
          all_are_numbered, "relay", "R3"),
    guard("backups", 2, "only origin and relay hold batches", LocalGroup, "is_backup", no_backups, "relay-crash", "R3"),
    guard("new backups get what is held", 2, "they hold only later messages", Copies,
          "to_backups", nothing, "interleavings", "R3"),
    guard("each site is sent what that site lacks", 3, "what one site has acknowledged is not sent to any other",
          Forwarder, "pump_to", what_any_site_has, "scale", "R3"),
    guard("requests for holes", 4, "NEED is ignored", Forwarder, "on_need", nothing, "split-brain", "R3"),
    guard("contiguous prefix", 4, "messages beyond a hole are taken, the highest number counts", RemoteDelivery,
          "disseminate", the_highest_number, "interleavings", "R3", Patch(Disseminator, "forward", ahead_is_taken)),
    guard("SYNC before dissemination", 4, "members take what any relay disseminates at any time", RemoteDelivery,
          "disseminate", before_sync_and_from_any_relay, "split-brain", "R8"),
    guard("dedupe at every member", 5, "members deliver all that is disseminated", RemoteDelivery, "disseminate",
          no_dedupe, "relay", "R3"),
    guard("backups confirm", 6, "the relay acknowledges before backups have delivered", Acknowledger, "ackable",
          acknowledged_before_backups_have_it, "interleavings", "R3"),
    guard("all answer SYNC before acknowledgements", 6, "the relay acknowledges at once what it has", Synchronizer,
          "start_sync", acknowledged_before_all_answered, "interleavings", "R9"),
    guard("TRIM waits for all sites", 7, "what one site has acknowledged is dropped", SiteTable, "droppable",
          acknowledged_by_any_site, "scale", "R3"),
    guard("TRIM waits for both halves", 7, "what one half has acknowledged is dropped", RelayPeers, "acknowledged",
          one_half_is_enough, "interleavings", "R3"),
    guard("split_grace", 7, "no grace after members of a site vanished", SiteDecisions, "start_grace", nothing,
          "split-brain", "R3"),
    guard("a standby is silent", 11, "it sends HELLO in the epoch of the relay, before it is one", BridgeLink,
          "bridge_view_changed", speaks_early, "standby", "R12"),
    guard("a former relay leaves the bridge", 7, "it waits there as standby, under its address", BridgeLink,
          "view_changed", stays_under_its_address, "standby", "R12"),
    guard("graces are taken over", 7, "a new relay keeps only the graces that it began itself", SiteDecisions,
          "take_over_graces", nothing, "interleavings", "R3"),
    guard("replay at failover", 8, "a new relay sends on from the current numbers", Forwarder, "pump_to",
          nothing_is_replayed, "relay-storm", "R3"),
    guard("GOODBYE acknowledges nothing", 10, "a site that sends GOODBYE counts as having acknowledged all",
          Introducer, "on_goodbye", goodbye_acknowledges_all, "interleavings", "R9"),
    guard("fencing", 11, "every epoch is obeyed", Site, "accepts", every_epoch_is_obeyed, "split-brain", "R8"),
    guard("order of epochs", 11, "only view counters are compared", Site, "accepts", only_counters_are_compared,
          "split-brain", "R8"),
    guard("raised view", 11, "a refused relay waits for ever", Introducer, "on_refused", nothing, "limits", "R7"),
    guard("windows of unicasts", 12, "unicasts of other sites go up in the order of arrival", UnicastInbox, "take",
          unicasts_as_they_come, "relay", "S2"),
    guard("base of unicasts", 12, "later unicasts wait for those that were dropped", UnicastInbox, "take", no_base,
          "limits", "R6"),
    guard("repeating unicasts between sites", 12, "each is sent once", UnicastRouter, "retransmit", nothing,
          "relay-storm", "R6"),
    guard("views of sites go forward", 13, "members follow the table of any relay", SiteTable, "follow", backwards,
          "relay", "R7"),
    guard("late orders are refused", 14, "an operator's order counts whenever it comes", Admin, "carry_out",
          whenever_it_comes, "interleavings", "R3"),
    guard("joiners adopt the vector", 17, "they begin with the first message that arrives", Synchronizer, "sync",
          no_vector, "scale", "R3", Patch(RemoteDelivery, "adopt", nothing)),
    guard("what the other half multicast is reported", 17, "gaps in a site's own messages are passed over", Divergence,
          "missed", reports_nothing, "split-brain", "S9"),
    guard("the lowest vector", 17, "the relay's own vector counts for the site", Synchronizer, "have", own_vector,
          "split-brain", "R3"),
    guard("held ranges in HAVE", 17, "the relay requests nothing that it does not hold", Synchronizer, "have",
          no_ranges, "interleavings", "R3"),
    guard("the site table in SYNC", 17, "the site table of a relay that ends is lost", Synchronizer, "sync", no_table,
          "interleavings", "R6"),
    guard("what a lost relay lacked is settled", 7, "it stays unacknowledged when the relay is gone",
          Introducer, "peer_gone", stays_unsettled, "split-brain", "R12"),
    guard("LOST is final", 18, "a site that returns is sent what was declared lost", Site, "lose", lost_for_now,
          "limits", "R9"),
    guard("forget_after", 19, "an origin is forgotten a second after it left", OriginCollector, "forget",
          forgotten_at_once, "split-brain", "S2", Patch(OriginCollector, "view_changed", forgets_early)),
    guard("a merge waits for its partners' groups", 7, "a coordinator of the bridge that is gone is waited for as long "
          "as the farthest member needs", RoundTrips, "longest_in_ns", to_anyone, "relay-storm", "R3"),
)
