"""FederationCore: what makes a broker one of several that act as one. Pure: the link gives peers, frames and the clock.

    interest.py   which peers want a topic         stream.py   what one peer still has to get
    broker_tables.py  retained messages, owners    wire.py     the bytes
    handover.py   sessions that move                sites.py   other sites, over RELAY
    site_rules.py what may cross between them
    copies.py     copies of sessions                orphans.py sessions of nodes that have ended
    late_asks.py  what comes late for sessions, and would come by a node that is away
    held_acks.py  when the events of peers are acknowledged
    group_members.py  who serves a shared subscription  parked.py  what is kept for peers that come anew

A publish of a client goes once to each node with a match, by the stream of that node; interest goes to all nodes when a
filter gets its first subscriber or loses its last. What came from a peer goes to no other, but for shared
subscriptions whose last member here has ended. design/mqtt.md has the reasons.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Any

import attrs

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.options import AckWhen, WhenFull
from jgroups_py.blocks.mqtt.broker.ports import NOWHERE, Forwarding, GroupChoice
from jgroups_py.blocks.mqtt.broker.publication import SECOND, Publication
from jgroups_py.blocks.mqtt.broker.session import ClientSession
from jgroups_py.blocks.mqtt.federation.broker_tables import BrokerTables, SendToMember
from jgroups_py.blocks.mqtt.federation.copies import SessionCopies
from jgroups_py.blocks.mqtt.federation.group_members import GroupMembers
from jgroups_py.blocks.mqtt.federation.handover import Handovers
from jgroups_py.blocks.mqtt.federation.held_acks import HeldAcks
from jgroups_py.blocks.mqtt.federation.interest import (
    InterestOfPeers,
    OwnInterest,
    group_count,
    plain_filters,
)
from jgroups_py.blocks.mqtt.federation.late_asks import LateAsks
from jgroups_py.blocks.mqtt.federation.message_record import MessageRecord
from jgroups_py.blocks.mqtt.federation.options import COUNTERS, FederationOptions, federation_counters
from jgroups_py.blocks.mqtt.federation.orphans import Orphans
from jgroups_py.blocks.mqtt.federation.parked import ParkedMessages
from jgroups_py.blocks.mqtt.federation.peer import FederationPeer
from jgroups_py.blocks.mqtt.federation.sites import SendToSites, Sites
from jgroups_py.blocks.mqtt.federation.stream import (
    OnwardEvent,
    PeerEvent,
    control_event,
    message_event,
    onward_event,
)
from jgroups_py.blocks.mqtt.federation.tables import SessionOwner
from jgroups_py.blocks.mqtt.federation.wire import (
    CopyAck,
    EventKind,
    ForwardedMessage,
    GroupCount,
    InterestChange,
    InterestDigest,
    InterestTree,
    KnownTopics,
    OrphanFence,
    PeerAck,
    PeerEvents,
    PeerFrame,
    PeerHello,
    PeerReceived,
    PeerWelcome,
    RouteFence,
    SiteServed,
    TableExchange,
    Target,
    WantTree,
    decode_frame,
    encode_frame,
    message_event_bytes,
    read_message,
    read_plain_message,
    split_events,
)
from jgroups_py.model.errors import WireError

SESSION_BITS = 61
LOOKS_PER_RETRY = 4
MAX_ORIGINS = 10_000
STEPS_TO_SILENCE = 2
"""The patience with a peer passes, it is asked, and its patience passes once more."""
LATE_PART = 4
"""A look that comes this part of `silent_s` too late says that this broker stood still, and nothing of peers."""
NO_DEADLINE = 1 << 62
MESSAGE = EventKind.MESSAGE
FENCE_PASSED = EventKind.FENCE_PASSED
NO_TARGETS: Sequence[Target] = ()


@attrs.frozen(eq=False)
class SendToPeer:
    """A frame for one peer, or for all that are up (None)."""

    name: str | None
    data: bytes


PlainMatches = tuple[tuple[str, tuple[GroupCount, ...]], ...]
"""The peers that want a topic, with the counts of their filters, as the cache of matches has them."""


@attrs.define(eq=False)
class _LastForwarding:
    """How the last message was forwarded. The next ones of that client for the same peers share its token."""

    forwarding: Forwarding
    has_token: bool
    publisher: str
    wanting: PlainMatches


class FederationCore:
    """See the module. wall_offset_ns: the wall clock less `now_ns`; rng: ids, and which peer tables are compared with.

    After each call of the broker or of this object the host sends what `drain` gives. It calls `tick` at
    `next_deadline_ns()`.
    """

    COUNTERS = COUNTERS

    def __init__(
        self, options: FederationOptions, rng: Random, *, now_ns: int, wall_offset_ns: int = 0,
        match_cache: int = 100_000,
    ) -> None:
        self.options = options
        self.counters = federation_counters()
        self.incarnation = rng.getrandbits(SESSION_BITS) | 1
        self.wall_offset_ns = wall_offset_ns
        self.peers: dict[str, FederationPeer] = {}
        self.interest_of_peers = InterestOfPeers(match_cache)
        self.own = OwnInterest()
        self.seen: dict[int, int] = {}                   # origin -> highest number of its plain messages here
        self._recorded: dict[int, int] = {}              # the same of all that were recorded
        self.broker_tables = BrokerTables(self, rng)
        self.handovers = Handovers(self, options.handover_s)
        self.copies = SessionCopies(self, options.session_copies)
        self.orphans = Orphans(self, self.copies, self.handovers, options.adopt_s)
        self.late_asks = LateAsks(self, self.handovers)
        self.held_acks = HeldAcks(self, self.copies, self.handovers)
        self.sites = Sites(self, now_ns)
        self.groups = GroupMembers(self)
        self.parked = ParkedMessages(self)
        self._fences: list[tuple[str | None, RouteFence | OrphanFence]] = []
        self.release: Callable[[int, int], None] = lambda token, now_ns: self.broker.release(token, now_ns)
        self.record: MessageRecord | None = None         # the link's, if the group has an archive
        self.wake: Callable[[], None] | None = None      # the link's: called once when there is something to drain
        self._is_stirred = False
        self._rng = rng
        self._broker: Broker | None = None
        self._number = 0
        self._positions: dict[str, tuple[int, int]] = {}  # peers that are forgotten -> where their streams stood
        self._tokens: dict[int, int] = {}                # token -> for how much it waits
        self._last: _LastForwarding | None = None        # until frames are sent
        self.shares_tokens = True                        # messages may have the same token, see ports.Forwarding
        self._topics = KnownTopics()
        self._queue_bytes = options.queue_bytes
        self._last_token = 0
        self._released: list[int] = []
        self._outputs: list[SendToPeer] = []
        self._look_ns = now_ns
        self._digest_ns = now_ns
        self._silent_ns = round(options.silent_s * SECOND)
        self._patience_ns = self._silent_ns // STEPS_TO_SILENCE          # the least
        self._silence_ns = NO_DEADLINE                   # when the peers that owe an answer are looked at
        self._now_ns = now_ns
        self._handlers = {
            PeerHello: self._on_hello, PeerWelcome: self._on_welcome, PeerEvents: self._on_events,
            PeerAck: self._on_ack, InterestChange: self._on_change, InterestTree: self._on_tree,
            InterestDigest: self._on_digest, WantTree: self._on_want_tree, TableExchange: self._on_table,
            RouteFence: self._on_fence, SiteServed: self._on_site_served, OrphanFence: self._on_orphan_fence,
            CopyAck: self._on_copy_ack, PeerReceived: self._on_received,
        }

    def attach(self, broker: Broker) -> None:
        """The broker that this is the federation of."""
        self._broker = broker

    @property
    def broker(self) -> Broker:
        """The broker."""
        assert self._broker is not None, "attach comes first"
        return self._broker

    # --- what the broker asks (ports.Federation) ----------------------------------------------------------------------

    def interest(self, group: str, filter: str, members: int, online: int) -> None:
        """See ports.Federation."""
        text = f"$share/{group}/{filter}" if group else filter
        self.own.set(text, group_count(members, online))
        self.sites.touched((text,))
        self._stir()

    def publish(
        self, publication: Publication, groups: Sequence[GroupChoice], now_ns: int, served: Collection[Target] = (),
    ) -> Forwarding:
        """See ports.Federation. served: shared subscriptions that another federation of this broker serves."""
        if not self._is_stirred:
            self._stir()
        self._number += 1
        publication.origin, publication.number = self.incarnation, self._number
        if self.record is not None:
            self.record.sent(publication, now_ns)
        matches = self.interest_of_peers.tree.match(publication.topic)
        if not (matches.shared or self.parked.remembered.size or self.parked.unknown or self.sites.others):
            return self._publish_plain(publication, matches.plain, now_ns) if matches.plain else NOWHERE
        plain = {name: None for name, _ in matches.plain if name not in self.parked.unknown}
        nodes: dict[str, list[Target]] = {name: [] for name in plain}
        elsewhere: dict[Target, None] = {}
        here = {(each.group, each.filter): each for each in groups}
        for match in matches.shared:
            target = match.group, match.filter
            winner = "" if target in served else self.groups.choose(target, here.get(target))
            if winner:
                elsewhere[target] = None
                nodes.setdefault(winner, []).append(target)
        token = self._new_token() if publication.qos else 0      # held until all nodes have been asked
        bytes_once: PeerEvent | None = None
        for name, targets in nodes.items():
            if targets:
                event = message_event(ForwardedMessage(publication, tuple(targets), name not in plain), now_ns)
            else:
                if bytes_once is None:
                    bytes_once = message_event(ForwardedMessage(publication), now_ns)
                event = PeerEvent(bytes_once.data, bytes_once.item)
            self.send_message(self.peers[name], event, token)
        self.parked.published(publication, plain, token, now_ns)
        in_site = (*here, *served, *((match.group, match.filter) for match in matches.shared))
        sites = self.sites.send(publication, in_site, token, now_ns)
        if token:
            token = self.made(token)
        return Forwarding(token, frozenset(elsewhere), len(nodes) + sites)

    def _publish_plain(self, publication: Publication, wanting: PlainMatches, now_ns: int) -> Forwarding:
        """The common case: plain subscribers at some peers, and nothing to decide."""
        qos, token, send, peers = publication.qos, 0, self.send_message, self.peers
        forwarding = self._forwarding(publication.publisher, wanting, qos > 0)
        if qos:
            token = forwarding.token
            self._tokens[token] += 1                     # held until all peers have been asked
        item = ForwardedMessage(publication)
        data = message_event_bytes(item, now_ns)
        for name, _ in wanting:
            send(peers[name], PeerEvent(data, item), token)
        if token:
            left = self._tokens[token] = self._tokens[token] - 1
            if not left:                                 # nobody can be waited for
                del self._tokens[token]
                return Forwarding(peers=len(wanting))
        return forwarding

    def _forwarding(self, publisher: str, wanting: PlainMatches, has_token: bool) -> Forwarding:
        """What a client publishes in a row for the same peers is sent to them in a row, and is acknowledged so: one
        token does for all of it, until the frames are sent."""
        last = self._last
        if last is not None and last.has_token is has_token and (
                last.wanting is wanting or last.wanting == wanting) and (
                not has_token or (self.shares_tokens and last.publisher == publisher
                                  and last.forwarding.token in self._tokens)):
            return last.forwarding
        token = 0
        if has_token:
            token = self._new_token()
            self._tokens[token] = 0                      # nothing has been published with it yet
        forwarding = Forwarding(token, peers=len(wanting))
        self._last = _LastForwarding(forwarding, has_token, publisher, wanting)
        return forwarding

    def retained(self, publication: Publication, now_ns: int) -> None:
        """See ports.Federation."""
        self._stir()
        self.sites.multicast(self.broker_tables.retain(publication, now_ns), publication.topic)

    def number_as_own(self, publication: Publication) -> None:
        """Give it the number of a message that begins at this node."""
        self._number += 1
        publication.origin, publication.number = self.incarnation, self._number

    def retained_in_table(self, topic: str) -> Publication | None:
        """What the table of all nodes has for a topic."""
        return self.broker_tables.retained(topic)

    def move(self, publication: Publication, group: str, filter: str, now_ns: int) -> bool:
        """See ports.Federation."""
        target, here = (group, filter), self.groups.here((group, filter))
        return (self.groups.give_on(ForwardedMessage(publication), target, here, now_ns)
                or (here is None and self.groups.give_back(publication, target, now_ns)))

    def connecting(self, client_id: str, clean_start: bool, now_ns: int) -> bool:
        """See ports.Federation."""
        self._stir()
        return self.handovers.connecting(client_id, clean_start, now_ns)

    def ended(self, client_id: str, now_ns: int) -> None:
        """See ports.Federation."""
        self._stir()
        owner = self.handovers.owner_of(client_id)
        self.handovers.ended(client_id, now_ns)
        self.copies.ended(client_id, is_owner=owner is None or owner.node == self.name)

    def dropped(self, client_id: str) -> None:
        """See ports.Federation."""
        self._stir()
        self.handovers.ended(client_id, self._now_ns)
        self.copies.ended(client_id, is_owner=False)

    def routed(self, token: int) -> int:
        """See ports.Federation."""
        copies = self.copies
        if not (copies.is_on and copies.is_dirty):
            return token
        if token:
            self._tokens[token] += 1
        else:
            token = self._new_token()
        waits_for = token
        copies.wait(lambda: self._settle(waits_for))
        return token

    def attached(self, session: ClientSession, now_ns: int) -> None:
        """See ports.Federation."""
        self.copies.attached(session, now_ns)

    def detached(self, session: ClientSession, now_ns: int) -> None:
        """See ports.Federation."""
        self.copies.detached(session)

    def leaving(self, session: ClientSession) -> None:
        """See ports.Federation."""
        self.copies.leaving(session)

    # --- what copies and orphans ask (copies.CopiesHost, orphans.OrphansHost) -----------------------------------------

    def names_ready(self) -> list[str]:
        """The peers that events reach now."""
        return [peer.name for peer in self.peers.values() if self._is_ready(peer)]

    def names_keeping(self) -> list[str]:
        """The peers that can be reached and keep copies."""
        return [peer.name for peer in self.peers.values() if peer.is_up and peer.keeps_copies]

    def names_perhaps_keeping(self, now_ns: int) -> list[str]:
        """These, and those that came so lately that their word may be under way."""
        since_ns = now_ns - round(self.options.adopt_s * SECOND)
        return [peer.name for peer in self.peers.values()
                if peer.is_up and (peer.keeps_copies or peer.came_ns > since_ns)]

    def session_node(self, client_id: str) -> str | None:
        """The node that the table of owners has for a client id."""
        owner = self.handovers.owner_of(client_id)
        return None if owner is None else owner.node

    def peer_keeps(self, name: str) -> None:
        """A peer keeps copies."""
        self.peers[name].keeps_copies = True
        self.copies.peer_keeps()
        self._stir()

    def new_token(self) -> int:
        """A token that waits for one more than it is given to."""
        return self._new_token()

    def stir(self) -> None:
        """There is something to drain."""
        self._stir()

    def sent_on_to(self, name: str) -> list[bytes]:
        """The bodies of QUEUED, for sessions that had moved there, that this node still has for a peer."""
        peer = self.peers.get(name)
        events = () if peer is None else (*peer.stream.under_way, *peer.stream.queued)
        return [event.body for event in events if event.__class__ is OnwardEvent]

    def held_for(self, name: str) -> list[Publication]:
        """The messages of QoS 1 and 2 for plain subscribers that this node still has for a peer, in order."""
        peer = self.peers.get(name)
        if peer is None:
            return []
        events = [*peer.stream.under_way, *peer.stream.queued, *peer.parked, *peer.undecided]
        return [event.item.publication for event in events
                if event.item is not None and event.item.publication.qos and not event.item.shared_only]

    def session_joined(self, session: ClientSession, now_ns: int) -> None:
        """A session has got what it had elsewhere, or stays here though another node had claimed it."""
        self.copies.rewritten(session, now_ns)

    def late_expected(self, now_ns: int) -> None:
        """A session has come here for which more may come: by nodes that may be away by now, from others that may be
        back by now."""
        for name in self.names_ready():
            self.handovers.peer_ready(name)
        self.late_asks.ask(now_ns)

    def origin_of(self, name: str) -> int:
        """The incarnation of a peer, which is the origin of what its clients publish; 0: not known."""
        peer = self.peers.get(name)
        return 0 if peer is None else peer.incarnation

    def is_on_its_way(self, client_id: str) -> bool:
        """Whether another node may still send a session of this client, or more of it."""
        return self.handovers.is_on_its_way(client_id)

    def is_orphan_awaited(self, client_id: str, name: str) -> bool:
        """Whether a session of a node that is away may come from a copy."""
        return self.orphans.is_awaited(client_id, name)

    def orphan_claimed(self, client_id: str, name: str, claim: int, now_ns: int) -> None:
        """A client has connected here whose session such a node had; it waits."""
        self.orphans.claimed(client_id, name, claim, now_ns)

    @property
    def has_copies(self) -> bool:
        """Whether a session may come although its node has ended."""
        return self.copies.is_on

    # --- what handovers ask (handover.HandoverHost) --------------------------------------------------------

    @property
    def name(self) -> str:
        """Of this node."""
        return self.options.name

    def names_up(self) -> list[str]:
        """The peers that can be reached."""
        return [peer.name for peer in self.peers.values() if peer.is_up]

    def names_away(self) -> list[str]:
        """The others that are known: they may still have something for this node, for `keep_ns`."""
        return [peer.name for peer in self.peers.values() if not peer.is_up]

    @property
    def keep_ns(self) -> int:
        """How long peers keep what is for one that is away."""
        return round(self.options.keep_peer_s * SECOND)

    def is_present(self, name: str, life: int) -> bool:
        """Whether a node can be reached in this life, as far as is known. life: 0 for any."""
        peer = self.peers.get(name)
        return peer is not None and peer.is_up and (
            not life or (life == peer.incarnation if peer.incarnation else life != peer.former_incarnation))

    def send_event(self, name: str, kind: int, body: bytes, token: int = 0, is_onward: bool = False) -> bool:
        """Put an event into a peer's stream; False: there is no such peer. token: waits for it; is_onward: see
        `send_onward`."""
        peer = self.peers.get(name)
        if peer is not None:
            event = onward_event(kind, body) if is_onward else control_event(kind, body)
            if token:
                event.token = token
                self._tokens[token] += 1
            if kind == FENCE_PASSED and peer.undecided:
                peer.undecided.append(event)             # behind the messages of before (seed 40168)
                peer.undecided_bytes += event.size
            else:
                peer.stream.accept(event)
            self._stir()
        return peer is not None

    def fence(self, fence: RouteFence | OrphanFence, name: str | None = None) -> None:
        """Send it to a peer, or to all (None), behind all interest of before."""
        self._fences.append((name, fence))
        self._stir()

    def owner(self, key: bytes) -> bytes | None:
        """The entry of a client id."""
        return self.broker_tables.owner(key)

    def owner_keys(self) -> Collection[bytes]:
        """The keys of all client ids in the table."""
        return self.broker_tables.owner_keys()

    def set_owner(self, key: bytes, value: bytes | None, now_ns: int) -> None:
        """Write it."""
        self.broker_tables.set_owner(key, value, now_ns)

    # --- what the tables ask (broker_tables.BrokerTablesHost) ---------------------------------------------------------

    def owner_changed(self, before: SessionOwner | None, after: SessionOwner | None, now_ns: int) -> None:
        """The entry of a client id in the table of owners."""
        if after is not None:
            self.handovers.owner_changed(after, before, now_ns)
            self.copies.owner_changed(after.client_id, after.node)
        elif before is not None:
            self.copies.owner_changed(before.client_id, "")
            self.handovers.owner_deleted(before, now_ns)

    # --- what sites ask (sites.SiteHost) ------------------------------------------------------------------------------

    def counts(self, filter: str) -> list[GroupCount]:
        """The members of a filter at each broker of this site."""
        found = [known.filters.get(filter) for known in self.interest_of_peers.peers.values()]
        return [count for count in (self.own.filters.get(filter), *found) if count is not None]

    def all_filters(self) -> list[str]:
        """The filters of all brokers of this site."""
        return [*self.own.filters, *(filter for known in self.interest_of_peers.peers.values()
                                     for filter in known.filters)]

    def retain(self, token: int) -> None:
        """A token waits for one more."""
        self._tokens[token] += 1

    def settle(self, token: int) -> None:
        """One of those that a token waits for is done."""
        self._settle(token)

    def made(self, token: int) -> int:
        """No more is added to what a token waits for: the token, or 0 if it waits for nothing."""
        self._tokens[token] -= 1
        if self._tokens[token]:
            return token
        del self._tokens[token]
        return 0

    def from_site(self, publication: Publication, source: Any, shared_only: bool, now_ns: int) -> None:
        """A message of another site, to plain subscribers here."""
        if self.record is not None and (not shared_only
                                        or publication.number > self._recorded.get(publication.origin, 0)):
            _note_number(self._recorded, publication)
            self.record.delivered(publication, source, now_ns)
        if not shared_only:
            self._note(publication)
            self.broker.deliver(publication, (), now_ns)

    def serve(self, publication: Publication, target: Target, now_ns: int) -> int | None:
        """A message of another site, to a member of a shared subscription anywhere in this one."""
        here = self.groups.here(target)
        winner = self.groups.choose(target, here)
        if winner:
            token = self._new_token()
            item = ForwardedMessage(publication, (target,), shared_only=True)
            self.send_message(self.peers[winner], message_event(item, now_ns), token)
            return self.made(token)
        elif here is not None:
            self.broker.deliver(publication, (target,), now_ns, shared_only=True)
        else:
            return None
        return 0

    def rules_changed(self, site: str) -> None:
        """Another site has announced other rules."""
        self.broker_tables.rules_changed(site)

    # --- what the link gives ------------------------------------------------------------------------------------------

    def peers_changed(self, present: Mapping[str, Any], now_ns: int) -> None:
        """The peers that can be reached now: name -> handle. A peer that was started again has another handle."""
        self._now_ns = now_ns
        gone = [peer for peer in self.peers.values()
                if peer.is_up and (peer.name not in present or peer.handle != present[peer.name])]
        for peer in gone:
            self._went(peer, now_ns)
        self.orphans.peers_went([peer.name for peer in gone], now_ns)
        for peer in gone:
            self.late_asks.peer_went(peer.name)
        if gone:
            self.late_asks.ask(now_ns)
        for name, handle in present.items():
            if name != self.options.name:
                known = self.peers.get(name)
                if known is None:
                    known = self.peers[name] = FederationPeer(name, self.new_session(), self._settle)
                    known.in_session, known.in_next = self._positions.pop(name, (0, 1))
                if not known.is_up:
                    self._came(known, handle, now_ns)

    def receive(self, name: str, data: bytes, now_ns: int) -> None:
        """A frame of a peer."""
        self._now_ns = now_ns
        peer = self.peers.get(name)
        if peer is None or not peer.is_up:
            self.counters.add("foreign")
            return
        if peer.silent_since_ns:
            peer.heard(now_ns, self._patience_ns)
        try:
            frame = decode_frame(data)
            handler = self._handlers.get(frame.__class__)
            if handler is None:
                raise WireError("a frame that nothing here asked for")
            handler(peer, frame, now_ns)                 # type: ignore[operator]
        except WireError:
            self.counters.add("malformed")

    def sites_changed(
        self, name: str, others: Mapping[str, tuple[str, tuple[Any, ...]]], is_coordinator: bool, epoch: int,
        now_ns: int,
    ) -> None:
        """See Sites.changed."""
        self._now_ns = now_ns
        self.sites.changed(name, others, is_coordinator, epoch, now_ns)
        self._stir()

    def receive_from_site(self, site: str, handle: Any, data: bytes, now_ns: int) -> None:
        """A frame of a member of another site."""
        self._now_ns = now_ns
        try:
            frame = decode_frame(data)
            if isinstance(frame, TableExchange):
                self.broker_tables.from_site(site, handle, frame, now_ns)
                return
            self.sites.received(site, handle, frame, now_ns)
        except WireError:
            self.counters.add("malformed")

    def sites_have(self, tokens: Iterable[int]) -> None:
        """The own site has the messages that these tokens came with, so it brings them to the others."""
        for token in tokens:
            self._settle(token)
        self._stir()

    def drain_sites(self, now_ns: int) -> tuple[list[SendToSites], list[SendToMember]]:
        """What goes to other sites: multicasts, and frames for single members; after `drain`."""
        return self.sites.drain(now_ns), self.broker_tables.drain()

    def tick(self, now_ns: int) -> None:
        """Time has passed."""
        self._now_ns = now_ns
        if now_ns >= self._silence_ns:
            self._look_for_silence(now_ns)
        if now_ns < self._look_ns:
            return
        self._look_ns = now_ns + self._retry_ns // LOOKS_PER_RETRY
        for peer in list(self.peers.values()):
            self._look_at(peer, now_ns)
        self.parked.look(now_ns)
        self.handovers.look(now_ns)
        if self.copies.is_on:
            self.copies.look(round(self.broker.options.ack_timeout_s * SECOND), now_ns)
            self.orphans.look(now_ns)
        self.held_acks.look(now_ns)
        self.sites.tick(now_ns)
        if now_ns >= self._digest_ns:
            self._digest_ns = now_ns + round(self.options.digest_s * SECOND)
            self._compare(now_ns)

    def next_deadline_ns(self) -> int:
        """When `tick` is to be called."""
        return min(self._look_ns, self._silence_ns)

    def drain(self, now_ns: int) -> list[SendToPeer]:
        """What is to be sent, in order; empty afterwards. Acknowledgements that have waited are released."""
        self._is_stirred = False
        if self.handovers.leaving or self.handovers.given_up:
            self.handovers.look(now_ns)
        self.held_acks.look_at_arrivals()
        if self.interest_of_peers.changed:
            self.sites.touched(self.interest_of_peers.changed)
            self.interest_of_peers.changed.clear()
        self.sites.prepare()
        self._last = None
        deltas = self.own.changes()
        if deltas and any(peer.is_up for peer in self.peers.values()):
            self.counters.add("interest_sent", len(deltas))
            self.say(None, InterestChange(self.incarnation, self.own.number, deltas))
        fences, self._fences = self._fences, []
        for name, fence in fences:
            self.say(name, fence)
        while True:
            self.copies.flush(now_ns)
            acks, self.copies.acks = self.copies.acks, {}
            for name, number in acks.items():
                self.say(name, CopyAck(number))
            for peer in self.peers.values():
                self._pump(peer, now_ns)
            if not self._released:
                break
            released, self._released = self._released, []
            for token in released:
                if self.sites.settled(token):
                    self._stir()
                elif self.held_acks.came(token):
                    continue
                elif not self.copies.settled(token):
                    self.release(token, now_ns)
        found, self._outputs = self._outputs, []
        return found

    def _stir(self) -> None:
        if self.wake is not None and not self._is_stirred:
            self._is_stirred = True
            self.wake()

    def report(self, now_ns: int) -> list[dict[str, Any]]:
        """Of each peer the ledger and the state."""
        return [peer.report(now_ns) for peer in self.peers.values()]

    def where(self, client_id: str) -> dict[str, Any] | None:
        """At which node a session is, as far as this node knows, for operators. None: there is none. copies_at: node ->
        whether it has all that clients were told of, which only the session's own node knows; copy_here: whether this
        node has a copy."""
        owner, kept = self.handovers.owner_of(client_id), self.copies.kept.get(client_id)
        node = self.name if owner is None else owner.node
        if node == self.name and client_id not in self.broker.sessions and client_id not in self.handovers.arriving:
            return None
        peer, session = self.peers.get(node), self.broker.sessions.get(client_id)
        return {
            "client_id": client_id, "node": node, "is_up": node == self.name or (peer is not None and peer.is_up),
            "is_here": session is not None, "connected": session is not None and session.connection is not None,
            "is_moving": client_id in self.handovers.arriving or client_id in self.handovers.leaving,
            "copies_at": {} if kept is None else self.copies.state_of(kept),
            "copy_here": node in self.copies.here.get(client_id, {})}

    # --- peers come and go --------------------------------------------------------------------------------------------

    def _came(self, peer: FederationPeer, handle: Any, now_ns: int) -> None:
        is_same_life = peer.handle == handle
        self.orphans.peer_came(peer.name, is_same_life)
        if not is_same_life:
            # What is said to the new process from now on may wait for its tree, which ends what was for the former one.
            peer.stream.drop_controls("restarted")
            self.handovers.left_early.peer_ended(peer.name)
            peer.former_incarnation, peer.incarnation = peer.incarnation or peer.former_incarnation, 0
        peer.handle, peer.is_welcomed = handle, False
        peer.came(now_ns, self._patience_ns)
        self.parked.unknown[peer.name] = peer
        self._want_tree(peer, now_ns)
        self._hello(peer, now_ns)
        self._send_tree(peer)
        self.broker_tables.peer_came(peer.name, now_ns)
        self.handovers.peer_came(peer.name, now_ns)

    def _went(self, peer: FederationPeer, now_ns: int) -> None:
        """A peer cannot be reached any more. No acknowledgement waits for it. What is queued for it stays, except for
        shared subscriptions with members elsewhere."""
        peer.is_up = peer.is_welcomed = peer.owes_ack = peer.keeps_copies = peer.is_awaited = False
        peer.went_ns = now_ns
        peer.silent_since_ns = peer.asked_silent_ns = 0
        peer.tree_due_ns = 0
        self.parked.decide(peer)
        self.copies.peer_went(peer.name)
        self.handovers.peer_went(peer.name, now_ns)
        peer.stream.release_tokens()
        self._room(peer, of_all=True)
        queued, peer.stream.queued = list(peer.stream.queued), type(peer.stream.queued)()
        peer.stream.queued_bytes = 0
        for event in queued:
            left = self.groups.reroute_event(event, now_ns)
            if left is None:
                peer.stream.give_up([event], "rerouted")
            else:
                peer.stream.accept_again(left)

    def _forget(self, peer: FederationPeer, now_ns: int) -> None:
        """It stayed away for too long."""
        under_way = list(peer.stream.under_way)
        events = [*peer.parked, *peer.stream.take_all()]
        left = []
        sent = {id(event) for event in under_way}
        del self.peers[peer.name]
        self.copies.forget_owner(peer.name)
        self.interest_of_peers.forget(peer.name)
        self.parked.clear_remembered(peer)
        for event in events:
            item = event.item
            if item is not None and item.targets and (item.publication.qos == 1 or id(event) not in sent):
                item = self.groups.reroute(item, now_ns)
                if item is None:
                    peer.stream.give_up([event], "rerouted")
                    continue
            left.append(event)
        self.counters.add("dropped_peer_gone", peer.stream.give_up(left, "peer_gone"))
        while len(self._positions) >= self.options.max_peers:
            del self._positions[next(iter(self._positions))]
        self._positions[peer.name] = peer.in_session, peer.in_next

    def _look_at(self, peer: FederationPeer, now_ns: int) -> None:
        """Repeat what was not answered; give up what was kept for too long."""
        keep_ns = round(self.options.keep_peer_s * SECOND)
        if not peer.is_up:
            if now_ns - peer.went_ns >= keep_ns:
                self._forget(peer, now_ns)
            return
        if peer.remembered and now_ns - peer.restarted_ns >= keep_ns:
            self.parked.clear_remembered(peer)
            self.counters.add("dropped_unclaimed", peer.stream.give_up(peer.parked, "unclaimed"))
            peer.parked.clear()
            peer.parked_bytes = 0
        if not peer.stream.under_way and self._is_ready(peer):
            peer.progress_ns = now_ns
        waits = not peer.is_welcomed or now_ns - peer.progress_ns >= self._retry_ns
        if waits and now_ns - peer.hello_ns >= self._retry_ns:
            self._hello(peer, now_ns)
        if peer.tree_due_ns and now_ns >= peer.tree_due_ns:
            peer.tree_due_ns = now_ns + self._retry_ns
            self.counters.add("trees_wanted")
            self.say(peer.name, WantTree())

    def _owes_answer(self, peer: FederationPeer, now_ns: int) -> None:
        """Something has been sent to a peer that it is to answer."""
        peer.silent_since_ns = now_ns
        self._silence_ns = min(self._silence_ns, now_ns + peer.patience_ns)

    def _look_for_silence(self, now_ns: int) -> None:
        """A peer that owes an answer is asked, and if that brings nothing, no acknowledgement waits for it. Some answer
        late with good reason: PeerAck waits for other nodes. But what they are asked here they answer at once."""
        is_late = now_ns - self._silence_ns > self._silent_ns // LATE_PART
        self._silence_ns = NO_DEADLINE
        for peer in self.peers.values():
            if not peer.silent_since_ns or not peer.is_awaited:
                continue
            due_ns = (peer.asked_silent_ns or peer.silent_since_ns) + peer.patience_ns
            if now_ns >= due_ns:
                if peer.asked_silent_ns and not is_late:
                    self._fell_silent(peer)
                    continue
                self._ask(peer, now_ns)
                due_ns = now_ns + peer.patience_ns
            self._silence_ns = min(self._silence_ns, due_ns)

    def _ask(self, peer: FederationPeer, now_ns: int) -> None:
        """Make it answer: no events are acknowledged at once, as all are, and PeerHello is answered."""
        if self._is_ready(peer):
            self.say(peer.name, PeerEvents(peer.stream.session, peer.stream.next, b""))
        else:
            self._hello(peer, now_ns)
        peer.asked_silent_ns = now_ns
        self._stir()

    def _fell_silent(self, peer: FederationPeer) -> None:
        """What is queued for it stays queued, and is sent as before. What waits for room in its queue, for copies of
        sessions, or for a session's next node goes on waiting."""
        peer.is_awaited = False
        self.counters.add("silences")
        number = peer.stream.release_messages()
        for event in peer.undecided:
            if event.token:
                number += 1
                token, event.token = event.token, 0
                self._settle(token)
        self.not_awaited(peer, number)
        self._stir()

    def not_awaited(self, peer: FederationPeer, number: int = 1) -> None:
        if self.broker.options.ack is not AckWhen.PEERS:
            return                                       # no acknowledgement waits for any peer
        peer.unawaited += number
        self.counters.add("unawaited_messages", number)

    def _hello(self, peer: FederationPeer, now_ns: int) -> None:
        peer.hello_ns, peer.hello_next = now_ns, peer.stream.next
        if not peer.silent_since_ns:
            self._owes_answer(peer, now_ns)
        self.say(peer.name, PeerHello(self.incarnation, peer.stream.session, peer.stream.first))

    def _on_hello(self, peer: FederationPeer, frame: PeerHello, now_ns: int) -> None:
        is_known = frame.session == peer.in_session
        if not is_known:
            peer.in_session, peer.in_next = frame.session, frame.first
            peer.held_acks.clear()
        elif frame.first > peer.in_next:
            self.counters.add("missed_events", frame.first - peer.in_next)
            peer.in_next = frame.first
            peer.held_acks.clear()
        if frame.incarnation != self._filters_incarnation(peer):
            self._want_tree(peer, now_ns)
        peer.owes_ack = False
        self.say(peer.name, PeerWelcome(self.incarnation, frame.session, is_known, peer.ack_next()))

    def _on_welcome(self, peer: FederationPeer, frame: PeerWelcome, now_ns: int) -> None:
        stream = peer.stream
        if frame.session != stream.session:
            return
        if not frame.next:
            peer.is_welcomed = False
            if now_ns - peer.hello_ns >= self._retry_ns // LOOKS_PER_RETRY:
                self._hello(peer, now_ns)
            return
        stream.check(frame.next)
        if frame.next < stream.first:
            return                                       # an answer from before its last acknowledgement
        peer.incarnation = frame.incarnation
        peer.is_welcomed, peer.is_cut = True, False
        peer.progress_ns = now_ns
        if self._filters_incarnation(peer) == peer.incarnation:
            self._resume(peer, frame.next)
        else:
            peer.resume_at = frame.next
            self._want_tree(peer, now_ns)

    def _resume(self, peer: FederationPeer, next: int) -> None:
        """Send again what it lacks, of what was sent before it was asked."""
        peer.resume_at = 0
        peer.stream.resend(next, peer.hello_next)
        self._room(peer)
        self.orphans.peer_ready(peer.name)
        self.handovers.peer_ready(peer.name)
        self.late_asks.ask(self._now_ns, peer.name)

    def _is_ready(self, peer: FederationPeer) -> bool:
        """Whether events may be sent to a peer: it has answered PeerHello in the life whose filters are known here."""
        return peer.is_up and peer.is_welcomed and self._filters_incarnation(peer) == peer.incarnation

    def _filters_incarnation(self, peer: FederationPeer) -> int:
        known = self.interest_of_peers.peers.get(peer.name)
        return 0 if known is None else known.incarnation

    # --- interest -----------------------------------------------------------------------------------------------------

    def _send_tree(self, peer: FederationPeer) -> None:
        self.counters.add("trees_sent")
        # What the next InterestChange will tell has a higher number and comes behind this tree.
        told = dict(self.own.filters)
        self.say(peer.name, InterestTree(self.incarnation, self.own.number, tuple(told.items())))

    def _want_tree(self, peer: FederationPeer, now_ns: int) -> None:
        if not peer.tree_due_ns:
            peer.tree_due_ns = now_ns + self._retry_ns // LOOKS_PER_RETRY

    def _on_change(self, peer: FederationPeer, frame: InterestChange, now_ns: int) -> None:
        added = self.interest_of_peers.change(peer.name, frame)
        if added is None:
            self._want_tree(peer, now_ns)
        else:
            self.parked.unpark(peer, added, now_ns)

    def _on_tree(self, peer: FederationPeer, frame: InterestTree, now_ns: int) -> None:
        before = self._filters_incarnation(peer)
        _, ended = self.interest_of_peers.replace(peer.name, frame)
        peer.tree_due_ns = 0
        if before and before != frame.incarnation:
            self.parked.restarted(peer, plain_filters(ended), now_ns)
        self.parked.unpark(peer, [filter for filter, _ in frame.filters], now_ns)
        self.parked.decide(peer)                               # these are the newest
        if peer.is_welcomed and peer.incarnation != frame.incarnation:
            peer.is_welcomed = False
        if not peer.is_welcomed:
            self._hello(peer, now_ns)
        elif peer.resume_at:
            self._resume(peer, peer.resume_at)

    def _on_digest(self, peer: FederationPeer, frame: InterestDigest, now_ns: int) -> None:
        known = self.interest_of_peers.peers.get(peer.name)
        if known is None or known.misses(frame.incarnation, frame.number):
            self._want_tree(peer, now_ns)

    def _on_want_tree(self, peer: FederationPeer, frame: WantTree, now_ns: int) -> None:
        self._send_tree(peer)

    # --- messages to peers --------------------------------------------------------------------------------------------

    def send_message(self, peer: FederationPeer, event: PeerEvent, token: int) -> None:
        stream, item = peer.stream, event.item
        assert item is not None, "a message"
        if not peer.is_up and not item.publication.qos:
            self.counters.add("dropped_away_qos_0")
            return
        size = stream.accept(event)
        if peer.is_cut:
            self.counters.add("dropped_disconnected", stream.give_up([stream.queued.pop()], "disconnected"))
            stream.queued_bytes -= event.size
            return
        if token:
            if peer.is_awaited:
                event.token = token
                self._tokens[token] += 1
            elif peer.is_up:
                self.not_awaited(peer)
        if size + peer.parked_bytes > self._queue_bytes:
            self._full(peer, token)

    def _full(self, peer: FederationPeer, token: int) -> None:
        """Its queue is at its bound."""
        policy, most = self.options.when_full, self.options.queue_bytes
        if policy is WhenFull.DISCONNECT:
            self.copies.peer_went(peer.name)
            self.counters.add("dropped_disconnected", peer.stream.give_up(peer.stream.take_all(), "disconnected"))
            peer.stream.begin_again(self.new_session())
            peer.is_cut, peer.is_welcomed, peer.resume_at = True, False, 0
            return                                       # copies there are made again when it answers
        if policy is WhenFull.BLOCK:
            if token:
                self._tokens[token] += 1
                peer.waiting_for_room.append(token)
            most *= 2
        self.counters.add("dropped_queue_full", peer.stream.drop_oldest(max(0, most - peer.parked_bytes)))

    def _room(self, peer: FederationPeer, of_all: bool = False) -> None:
        """Acknowledgements that wait for room in its queue go on."""
        if peer.waiting_for_room and (of_all or 2 * peer.size <= self.options.queue_bytes):
            waiting, peer.waiting_for_room = peer.waiting_for_room, []
            for token in waiting:
                self._settle(token)

    def _pump(self, peer: FederationPeer, now_ns: int) -> None:
        if not peer.is_up:
            return
        if peer.owes_ack:
            peer.owes_ack = False
            next = peer.ack_next()
            self.say(peer.name, PeerAck(peer.in_session, next))
            if next != peer.in_next:
                self.say(peer.name, PeerReceived(peer.in_session, peer.in_next))
        if peer.undecided and peer.is_awaited and not peer.silent_since_ns and peer.has_undecided():
            self._owes_answer(peer, now_ns)              # its tree (seed 40007)
        if not self._is_ready(peer):
            return
        stream = peer.stream
        if not stream.under_way:
            peer.progress_ns = now_ns
        if stream.queued or stream.resend_from:
            expired = stream.dropped["expired"]
            for sent in stream.frames(self.options.window_bytes, self.options.batch_bytes, now_ns):
                self.counters.add("events_sent", sent.first_time)
                self.counters.add("messages_sent", sent.messages)
                self.counters.add("events_resent", sent.again)
                self._outputs.append(SendToPeer(peer.name, sent.frame))
            self.counters.add("dropped_expired", stream.dropped["expired"] - expired)
        if not peer.silent_since_ns and stream.under_way:
            self._owes_answer(peer, now_ns)

    def _on_ack(self, peer: FederationPeer, frame: PeerAck, now_ns: int) -> None:
        if frame.session != peer.stream.session:
            return
        peer.stream.check(frame.next)
        if peer.stream.acknowledge(frame.next):
            peer.progress_ns = now_ns
        self._room(peer)

    def _on_received(self, peer: FederationPeer, frame: PeerReceived, now_ns: int) -> None:
        if frame.session == peer.stream.session:
            peer.stream.check(frame.next)
            peer.stream.received(frame.next)
            self._stir()

    def _settle(self, token: int, number: int = 1) -> None:
        """Some of those that a token waits for are done."""
        left = self._tokens[token] - number
        if left:
            self._tokens[token] = left
        else:
            del self._tokens[token]
            self._released.append(token)

    # --- messages from peers ------------------------------------------------------------------------------------------

    def _new_events(
        self, peer: FederationPeer, frame: PeerEvents, now_ns: int,
    ) -> list[tuple[int, int, int]] | None:
        """The events of a frame that have not been carried out, as split_events; None if some before them
        are missing."""
        if frame.session != peer.in_session:
            self.say(peer.name, PeerWelcome(self.incarnation, frame.session, False, 0))
            return None
        events = split_events(frame.events)
        if frame.first > peer.in_next:
            self.counters.add("early_events", len(events))
            if peer.asked_next != peer.in_next or now_ns - peer.asked_ns >= self._retry_ns:
                peer.asked_next, peer.asked_ns = peer.in_next, now_ns
                self.say(peer.name, PeerWelcome(self.incarnation, frame.session, True, 0))
            return None
        known = min(peer.in_next - frame.first, len(events))
        peer.owes_ack = True
        if known:
            self.counters.add("repeated_events", known)
            events = events[known:]
        self.counters.add("events_received", len(events))
        return events

    def _on_events(self, peer: FederationPeer, frame: PeerEvents, now_ns: int) -> None:
        events = self._new_events(peer, frame, now_ns)
        if events is not None:
            self.held_acks.begin()
            try:
                self._carry_out(peer, events, frame.events, now_ns)
            finally:
                self.held_acks.finish(peer, now_ns)

    def _carry_out(
        self, peer: FederationPeer, events: list[tuple[int, int, int]], data: bytes, now_ns: int,
    ) -> None:
        messages, unwanted, topics, seen, deliver = 0, 0, self._topics, self.seen, self.broker.deliver
        is_late, record = peer.name in self.handovers.left_early.by_peer, self.record
        for kind, begin, end in events:
            peer.in_next += 1
            try:
                if kind == MESSAGE:
                    publication, targets, shared_only = read_plain_message(data, begin, end, topics), NO_TARGETS, False
                    if publication is None:
                        item = read_message(data[begin:end], now_ns, topics)
                        publication, shared_only = item.publication, item.shared_only
                        targets = self.groups.served_here(peer, item, now_ns)
                    messages += 1
                    if record is not None and (not shared_only
                                               or publication.number > self._recorded.get(publication.origin, 0)):
                        # Shared subscriptions alone: what came before it was for the others here, or for them too.
                        self._record(record, publication, now_ns)
                    if not shared_only:
                        number, known_number = publication.number, seen.get(publication.origin)
                        if known_number is None:
                            self._note(publication)
                        elif number > known_number:
                            seen[publication.origin] = number
                        is_wanted = deliver(publication, targets, now_ns)
                    else:                                # `served_here` counts those that have no member here
                        is_wanted = True
                        if targets:
                            deliver(publication, targets, now_ns, True)
                    if targets and self.handovers.arriving:
                        self.held_acks.hold_for_members(publication)
                    if is_late and not shared_only and self.handovers.sent_late(peer.name, publication, now_ns):
                        is_wanted = True
                    if not is_wanted:
                        unwanted += 1
                    continue
                if not (self.handovers.event_came(peer.name, kind, data[begin:end], now_ns)
                          or self.late_asks.event_came(peer.name, kind, data[begin:end], now_ns)
                          or self.orphans.event_came(peer.name, kind, data[begin:end], now_ns)):
                    self.counters.add("unknown_events")
                is_late = peer.name in self.handovers.left_early.by_peer
            except WireError:
                self.counters.add("malformed")
        self.counters.add("messages_received", messages)
        if unwanted:
            self.counters.add("dropped_unwanted", unwanted)

    def send_onward(self, name: str, kind: int, body: bytes) -> None:
        """Put into a peer's stream what belongs to a session that has moved there. The events that are carried out now
        are acknowledged once the peer has it, which it says when the copies of its sessions do."""
        peer = self.peers.get(name)
        token = self.held_acks.onward_token() if peer is not None and peer.is_up else 0
        if not self.send_event(name, kind, body, token, is_onward=True):
            self.counters.add("dropped_handover")

    def hold_for_arrival(self, client_id: str) -> None:
        """What has just come is acknowledged when a session is here that is on its way."""
        self.held_acks.hold_for_arrival(client_id)

    def _on_fence(self, peer: FederationPeer, frame: RouteFence, now_ns: int) -> None:
        self.handovers.fence_came(peer.name, frame)

    def _on_copy_ack(self, peer: FederationPeer, frame: CopyAck, now_ns: int) -> None:
        self.copies.acknowledged(peer.name, frame.number)
        self._stir()

    def _on_orphan_fence(self, peer: FederationPeer, frame: OrphanFence, now_ns: int) -> None:
        self.orphans.fence_came(peer.name, frame, now_ns)

    def _on_site_served(self, peer: FederationPeer, frame: SiteServed, now_ns: int) -> None:
        self.sites.served(frame)

    def _record(self, record: MessageRecord, publication: Publication, now_ns: int) -> None:
        """Record a message of a peer for the archive, under the address of the node where it was published, if that is
        known."""
        _note_number(self._recorded, publication)
        for name, known in self.interest_of_peers.peers.items():
            if known.incarnation == publication.origin:
                record.delivered(publication, self.peers[name].handle, now_ns)
                return

    def _note(self, publication: Publication) -> None:
        """The highest number of each origin, for sessions that move. Not of what came for a shared subscription alone:
        another node may have given it on, so it is in no order with what its origin sends (seed 30657)."""
        _note_number(self.seen, publication)

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _compare(self, now_ns: int) -> None:
        """Once in a while: whether all peers have all."""
        if self.names_up():
            self.say(None, InterestDigest(self.incarnation, self.own.number))
        self.broker_tables.compare(now_ns)
        if self.sites.is_coordinator:
            self.broker_tables.compare_with_sites(now_ns)

    def _on_table(self, peer: FederationPeer, frame: TableExchange, now_ns: int) -> None:
        self.broker_tables.from_peer(peer.name, frame, now_ns)

    def say(self, name: str | None, frame: PeerFrame) -> None:
        """A frame for a peer, or for all that are up (None)."""
        self._outputs.append(SendToPeer(name, encode_frame(frame)))

    def new_session(self) -> int:
        """The number of a stream to a peer."""
        return self._rng.getrandbits(SESSION_BITS) | 1

    def _new_token(self) -> int:
        self._last_token += 1
        self._tokens[self._last_token] = 1
        return self._last_token

    @property
    def _retry_ns(self) -> int:
        return round(self.options.retry_s * SECOND)

    @property
    def number(self) -> int:
        """Publications of clients of this broker so far."""
        return self._number


def _note_number(highest: dict[int, int], publication: Publication) -> None:
    """Note the number of a message, if it is the highest of its origin."""
    origin, number = publication.origin, publication.number
    if number > highest.get(origin, 0):
        if origin not in highest and len(highest) >= MAX_ORIGINS:
            del highest[next(iter(highest))]
        highest[origin] = number
