"""Safeguards of RELAY, by its rules."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.batch import NO_RELAY, NO_RELIABILITY
from jgroups_py.protocols.relay.copies import Copies
from jgroups_py.protocols.relay.divergence import Divergence
from jgroups_py.protocols.relay.headers import Numbered
from jgroups_py.protocols.relay.letters import Inbox
from jgroups_py.protocols.relay.memory import Memory
from jgroups_py.protocols.relay.orders import Orders
from jgroups_py.protocols.relay.peers import Peers
from jgroups_py.protocols.relay.post import Post
from jgroups_py.protocols.relay.receiving import Receiving
from jgroups_py.protocols.relay.relay import Relay
from jgroups_py.protocols.relay.sending import Sending
from jgroups_py.protocols.relay.sites import OFFLINE, Site, SiteTable
from jgroups_py.protocols.relay.status import Status
from jgroups_py.units import NS_PER_S
from tests.sim.planted_bugs.group import nothing
from tests.sim.planted_bugs.safeguard import Patch, Safeguard

have, start_sync, sync = Receiving.have, Receiving.start_sync, Receiving.sync
on_goodbye = Sending.on_goodbye
disseminate = Receiving.disseminate


def told_nothing(self: Divergence, origin: Any, first: int, stop: int) -> bool:
    return True


# --- rules 1 to 3: numbers, holders, cursors --------------------------------------------------------------------------

def one_number_for_a_site(self: Relay, batch: Any) -> None:
    if batch.dest is not None:
        return self.unicast(batch.dest, batch)
    if batch.flags & (NO_RELAY | NO_RELIABILITY):
        return self.pass_down(batch)
    first = max([self.next_number, *self.numbers.values()])
    self.next_number = first + batch.count
    return self.pass_down(batch.push(Numbered(first)))


def all_are_numbered(self: Relay, batch: Any) -> None:
    if batch.dest is not None:
        return self.unicast(batch.dest, batch)
    first = self.next_number
    self.next_number = first + batch.count
    return self.pass_down(batch if batch.flags & NO_RELIABILITY else batch.push(Numbered(first)))


def no_backups(self: Relay, member: Any) -> bool:
    return False


def what_any_site_has(self: Sending, peer: Any) -> None:
    for site in self.relay.table:
        peer.site.acknowledge(site.acked)
    pump_to(self, peer)


pump_to = Sending.pump_to


# --- rules 4 to 6: dissemination, dedupe, acknowledgement -------------------------------------------------------------

def no_dedupe(self: Receiving, header: Any, batch: Any) -> None:
    if self.synced:
        self.seen.setdefault(header.site, {})[header.origin] = header.first + batch.count
        self.deliver(header, batch, batch.src)


def before_sync_and_from_anybody(self: Receiving, header: Any, batch: Any) -> None:
    numbers = self.seen.setdefault(header.site, {})
    wanted = max(numbers.get(header.origin, header.first), header.base)
    stop = header.first + batch.count
    if header.first <= wanted < stop:
        numbers[header.origin] = stop
        self.deliver(header, batch.cut(wanted - header.first, batch.count), batch.src)
        self.delivered(header.site, header.origin, stop)


def the_highest_number(self: Receiving, header: Any, batch: Any) -> None:
    numbers = self.seen.setdefault(header.site, {})
    if self.synced and header.first > numbers.get(header.origin, header.first):
        numbers[header.origin] = header.first
    disseminate(self, header, batch)


def ahead_is_taken(self: Receiving, header: Any, batch: Any, peer: Any) -> None:
    self.next_out.setdefault(header.site, {})[header.origin] = header.first
    forward(self, header, batch, peer)


forward = Receiving.forward


def acknowledged_before_backups_have_it(self: Receiving, site: str, origin: Any) -> int:
    return self.seen.get(site, {}).get(origin, 1)


def acknowledged_before_all_answered(self: Receiving) -> None:
    start_sync(self)
    self.complete = True
    self.relay.sending.introduce()


# --- rules 7 and 10: trimming, leaving --------------------------------------------------------------------------------

def whoever_has_it(self: SiteTable, origins: Any, ends: Any) -> Any:
    holding = [site.trimmable for site in self.sites.values() if site.status != OFFLINE]
    if not holding:
        return {origin: ends[origin] for origin in origins if origin in ends}
    return {origin: max(acked.get(origin, 1) for acked in holding) for origin in origins}


def one_half_is_enough(self: Peers, site: str) -> Any:
    peers = self.of(site)
    return {origin: max(peer.acked.get(origin, 1) for peer in peers)
            for origin in dict.fromkeys(origin for peer in peers for origin in peer.acked)}


def nothing_is_replayed(self: Sending, peer: Any) -> None:
    begun: dict[Any, None] = self.__dict__.setdefault("begun", {})
    if peer.address not in begun:
        begun[peer.address] = None
        peer.cursor.update(self.relay.current_numbers())
    pump_to(self, peer)


def goodbye_is_believed(self: Sending, header: Any, src: Any) -> None:
    peer = self.peers.get(src)
    if peer is not None:
        peer.site.acknowledge(self.relay.current_numbers())
    on_goodbye(self, header, src)


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

def letters_as_they_come(self: Inbox, origin: Any, first: int, base: int, batch: Any) -> Any:
    return batch


def no_base(self: Inbox, origin: Any, first: int, base: int, batch: Any) -> Any:
    return take(self, origin, first, 1, batch)


take = Inbox.take


# --- rule 14: operators' orders ---------------------------------------------------------------------------------------

def whenever_it_comes(self: Orders, order: Any, src: Any) -> None:
    obey(self, attrs.evolve(order, decree=1 << 32), src)


obey = Orders.obey


# --- rule 17: sync ----------------------------------------------------------------------------------------------------

def own_vector(self: Receiving, header: Any, batch: Any) -> None:
    have(self, attrs.evolve(header, vector={}), batch)


def no_ranges(self: Receiving, header: Any, batch: Any) -> None:
    have(self, attrs.evolve(header, held={}), batch)


def no_vector(self: Receiving, header: Any, batch: Any) -> None:
    self.fresh = False
    sync(self, header, batch)


def no_table(self: Receiving, header: Any, batch: Any) -> None:
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


def forgotten_at_once(self: Memory) -> None:
    present = dict.fromkeys([*self.relay.view.members, *self.relay.site_of_member])
    for origin in self.known():
        if origin not in present:
            self.forget_origin(origin)


def each_second(self: Relay) -> None:
    self.memory.forget()
    self.set_timer("forget", NS_PER_S)


view_changed = Relay.view_changed


def forgets_early(self: Relay, event: Any) -> None:
    view_changed(self, event)
    self.set_timer("forget", NS_PER_S)


def guard(
    name: str, rule: int, left: str, owner: type, method: str, without: Any, profile: str, breaks: str, *more: Patch,
) -> Safeguard:
    """A safeguard of a rule."""
    return Safeguard(name, f"RELAY {rule}", left, (Patch(owner, method, without), *more), profile, breaks)


def stays_unsettled(self: Sending, peer: Any, *, graceful: bool) -> None:
    self.peers.drop(peer.address)
    self.relay.states.carrier.peer_gone(peer)
    if not graceful:
        self.relay.status.start_grace(peer.site)
    self.relay.status.watch_absent()


RELAY_SAFEGUARDS = (
    guard("numbers per origin", 1, "one number for all messages of a site", Relay, "down", one_number_for_a_site,
          "relay", "R3"),
    guard("unreliable messages are not numbered", 1, "they take numbers, so that their loss is a hole", Relay, "down",
          all_are_numbered, "relay", "R3"),
    guard("backups", 2, "only origin and relay hold runs", Relay, "is_backup", no_backups, "relay-crash", "R3"),
    guard("new backups get what is held", 2, "they hold only what comes from then on", Copies,
          "to_backups", nothing, "interleavings", "R3"),
    guard("each site is sent what it lacks itself", 3, "what one site has is not sent to any other", Sending, "pump_to",
          what_any_site_has, "scale", "R3"),
    guard("asking for holes", 4, "NEED is ignored", Sending, "on_need", nothing, "split-brain", "R3"),
    guard("contiguous prefix", 4, "what is ahead is taken, the highest number counts", Receiving, "disseminate",
          the_highest_number, "interleavings", "R3", Patch(Receiving, "forward", ahead_is_taken)),
    guard("SYNC before dissemination", 4, "members take what any relay disseminates at any time", Receiving,
          "disseminate", before_sync_and_from_anybody, "split-brain", "R8"),
    guard("dedupe at every member", 5, "members deliver whatever is disseminated", Receiving, "disseminate", no_dedupe,
          "relay", "R3"),
    guard("backups confirm", 6, "the relay acknowledges before backups have delivered", Receiving, "ackable",
          acknowledged_before_backups_have_it, "interleavings", "R3"),
    guard("all answer SYNC before acknowledgements", 6, "the relay acknowledges at once what it has", Receiving,
          "start_sync", acknowledged_before_all_answered, "interleavings", "R9"),
    guard("TRIM waits for all sites", 7, "what one site has is dropped", SiteTable, "droppable", whoever_has_it,
          "relay", "R3"),
    guard("TRIM waits for both halves", 7, "what one half has is dropped", Peers, "acknowledged", one_half_is_enough,
          "interleavings", "R3"),
    guard("split_grace", 7, "no grace after members of a site vanished", Status, "start_grace", nothing,
          "split-brain", "R3"),
    guard("graces are taken over", 7, "a new relay knows only the graces that it began itself", Status,
          "take_over_graces", nothing, "split-brain", "R3"),
    guard("replay at failover", 8, "a new relay sends on from the current numbers", Sending, "pump_to",
          nothing_is_replayed, "relay-storm", "R3"),
    guard("GOODBYE is not believed", 10, "a site that says GOODBYE counts as having all", Sending, "on_goodbye",
          goodbye_is_believed, "interleavings", "R9"),
    guard("fencing", 11, "every epoch is obeyed", Site, "accepts", every_epoch_is_obeyed, "split-brain", "R8"),
    guard("order of epochs", 11, "only view counters are compared", Site, "accepts", only_counters_are_compared,
          "split-brain", "R8"),
    guard("raised view", 11, "a refused relay waits for ever", Sending, "on_refused", nothing, "limits", "R7"),
    guard("windows of unicasts", 12, "unicasts of other sites go up as they come", Inbox, "take", letters_as_they_come,
          "relay", "S2"),
    guard("base of unicasts", 12, "later unicasts wait for those that were given up", Inbox, "take", no_base, "limits",
          "R6"),
    guard("resending unicasts between sites", 12, "each is sent once", Post, "send_again", nothing, "relay-storm",
          "R6"),
    guard("views of sites go forward", 13, "members follow the table of any relay", SiteTable, "follow", backwards,
          "relay", "R7"),
    guard("late orders are refused", 14, "an operator's order counts whenever it comes", Orders, "obey",
          whenever_it_comes, "operators", "R6"),
    guard("joiners adopt the vector", 17, "they begin with what comes first", Receiving, "sync", no_vector, "scale",
          "R3", Patch(Receiving, "adopt", nothing)),
    guard("what the other half multicast is told", 17, "gaps in a site's own messages are passed over", Divergence,
          "missed", told_nothing, "split-brain", "S9"),
    guard("the lowest vector", 17, "the relay's own vector counts for the site", Receiving, "have", own_vector,
          "split-brain", "R3"),
    guard("held ranges in HAVE", 17, "the relay asks nobody for what it does not hold", Receiving, "have", no_ranges,
          "relay", "R3"),
    guard("the site table in SYNC", 17, "a relay takes what it knows of sites with it", Receiving, "sync", no_table,
          "interleavings", "R6"),
    guard("what a lost relay lacked is settled", 7, "it counts on as not acknowledged when the relay is gone", Sending,
          "peer_gone", stays_unsettled, "split-brain", "R12"),
    guard("LOST is final", 18, "a site that returns is sent what was declared lost", Site, "lose", lost_for_now,
          "limits", "R9"),
    guard("forget_after", 19, "an origin is forgotten a second after it left", Memory, "forget", forgotten_at_once,
          "split-brain", "S2", Patch(Relay, "forget", each_second), Patch(Relay, "view_changed", forgets_early)),
)
