"""Sessions that move: a client id has one session, at the node where its client connected last.

A table that all nodes share has the owner of each client id (last writer wins). A node that a client connects to
writes itself there; the former owner sees that, closes its connection (0x8E) and hands over:

    new node                         all others                      former node
    owner := new node  ------------------------------------------->  closes the connection; the session goes on without
    <--------------------------------------------------------------  OFFER: subscriptions
    subscribes, so its interest
    goes to all; RouteFence  ----->  FENCE_PASSED in the stream  -->  when all have: what they publish from now on goes
                                     to the former node               to both, and what they did before is here
    <--------------------------------------------------------------  QUEUED ..., MOVED with the highest number of each
    joins: what came directly and                                    origin; its session is gone
    is not in what was sent

So a message is in what the former node sends, or comes directly, and where it is both the numbers say so. The CONNECT
waits meanwhile, at most `handover_s`. After a split both sides may have a session; the later owner stays, and gets the
other one's in the same way, into a session that is in use.

The former node waits for the fence of all that can be reached for 4/5 of `handover_s`, so that its session is there
before the client has waited for too long. What the others (left_early.py) still bring to the former node for the
session goes on from there, as QUEUED behind MOVED, and may come directly as well: the session remembers what it has got
since, and takes each message once (session.LateMessages). What they bring is acknowledged to them when the new node,
and the copies of its sessions, have it, after the broker's `ack_timeout_s` at most. If the former node ends before they
have reached it, the session's node, which may be another one by then, asks them for what they have for it
(late_asks.py).
"""
from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

import attrs

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.publication import SECOND, Publication
from jgroups_py.blocks.mqtt.broker.session import (
    ANY_ORIGIN,
    ClientSession,
    Delivery,
    LateMessages,
    LateSource,
)
from jgroups_py.blocks.mqtt.federation.left_early import LeftEarly, LeftEarlySessions
from jgroups_py.blocks.mqtt.federation.sessions import (
    QueuedDelivery,
    SessionMoved,
    SessionOffer,
    deliveries_of,
    delivery_for,
    followed_body,
    passed_body,
    read_followed,
    read_passed,
)
from jgroups_py.blocks.mqtt.federation.tables import SessionOwner, key_of
from jgroups_py.blocks.mqtt.federation.wire import EventKind, RouteFence
from jgroups_py.model.counters import Counters
from jgroups_py.model.errors import WireError

MAX_ARRIVING = 100_000
READ_AT_ONCE = 1_000
"""Entries of the table of owners."""
MAX_OUTLIVED = 10_000
"""Owners that are kept for some time behind their sessions."""
KEPT_TIMES = 10
"""So many times `handover_s` a session, or a message for it, may still come for which nothing waits any more."""
COMING = ""
"""In place of the former node of a session that is on its way: what comes directly meanwhile may be in it."""


class HandoverHost(Protocol):
    """What a handover asks of the federation. seen: origin -> highest number of its messages here."""

    counters: Counters
    seen: dict[int, int]
    incarnation: int

    @property
    def broker(self) -> Broker:
        """The broker."""

    @property
    def name(self) -> str:
        """Of this node."""

    @property
    def number(self) -> int:
        """Publications of clients of this broker so far."""

    def names_up(self) -> list[str]:
        """The peers that can be reached."""

    def names_away(self) -> list[str]:
        """The others that are known: they may still have something for this node, for `keep_ns`."""

    @property
    def keep_ns(self) -> int:
        """How long peers keep what is for one that is away."""

    def is_present(self, name: str, life: int) -> bool:
        """Whether a node can be reached in this life, as far as is known. life: 0 for any."""

    def origin_of(self, name: str) -> int:
        """The incarnation of a peer, which is the origin of what its clients publish; 0: not known."""

    def send_event(self, name: str, kind: int, body: bytes) -> bool:
        """Put an event into a peer's stream; False: there is no such peer."""

    def send_onward(self, name: str, kind: int, body: bytes) -> None:
        """The same for a message that a peer brings for a session that has moved on: the peer's publisher waits."""

    def fence(self, fence: RouteFence, name: str | None = None) -> None:
        """Send it to a peer, or to all (None), behind all interest of before."""

    def owner(self, key: bytes) -> bytes | None:
        """The entry of a client id."""

    def owner_keys(self) -> Collection[bytes]:
        """The keys of all client ids in the table."""

    def set_owner(self, key: bytes, value: bytes | None, now_ns: int) -> None:
        """Write it."""

    def session_joined(self, session: ClientSession, now_ns: int) -> None:
        """A session has got what it had elsewhere, or stays here though another node had claimed it."""

    def hold_for_arrival(self, client_id: str) -> None:
        """What has just come is acknowledged when a session is here that is on its way, see `is_incomplete`."""

    def late_expected(self, now_ns: int) -> None:
        """A session has come here for which more may come, by nodes that may be away by now."""

    def is_orphan_awaited(self, client_id: str, name: str) -> bool:
        """Whether a session of a node that is away may come from a copy."""

    def orphan_claimed(self, client_id: str, name: str, claim: int, now_ns: int) -> None:
        """A client has connected here whose session such a node had; it waits."""

    @property
    def has_copies(self) -> bool:
        """Whether a session may come although its node has ended."""


@attrs.define(eq=False)
class ArrivingPart:
    """What has come of a session from one node. is_offered: it has one; after a split two nodes may. is_away: that node
    has gone since, and is not waited for; if it was only cut off, the rest comes when it is back. late: what may come
    behind it; behind: what has come so already."""

    queued: list[QueuedDelivery] = attrs.field(factory=list)
    is_offered: bool = False
    is_away: bool = False
    late: LateMessages | None = None
    behind: list[QueuedDelivery] = attrs.field(factory=list)


@attrs.define(eq=False)
class ArrivingSession:
    """A session that comes from another node. waits: whether a CONNECT waits for it; parts: (the claim under which it
    may come, the node that sends it) -> what has come so far; is_copy: there was no session here before, and the former
    node still has all of it; then: the node that it goes on to afterwards; by_client: its client has connected here
    for it."""

    until_ns: int
    waits: bool
    parts: dict[tuple[int, str], ArrivingPart] = attrs.field(factory=dict)
    is_copy: bool = False
    then: SessionOwner | None = None
    by_client: bool = False

    @property
    def is_all_away(self) -> bool:
        """Whether nobody sends anything of it, as far as is known."""
        return all(part.is_away for part in self.parts.values())


@attrs.define(eq=False)
class LeavingSession:
    """A session that goes to another node, when all of `missing` have passed the fence. asked: those that could be
    reached all the time since it began to go, so that they have got the fence."""

    dest: str
    claim: int
    until_ns: int
    missing: dict[str, None]
    asked: dict[str, None]


class Handovers:
    """See the module."""

    def __init__(self, host: HandoverHost, handover_s: float) -> None:
        self._host = host
        self._patience_ns = round(handover_s * SECOND)
        self._claim = 0
        self._copied: dict[str, list[Delivery]] = {}     # what sessions that are untouched have of shared subscriptions
        self.arriving: dict[str, ArrivingSession] = {}
        self.leaving: dict[str, LeavingSession] = {}
        self.left_early = LeftEarlySessions()
        self.followed: dict[str, None] = {}              # sessions here that late messages may come for
        self.given_up: list[ArrivingSession] = []        # not waited for any more; see _give_away
        self._outlived: dict[str, tuple[int, int]] = {}  # of sessions that have ended: client id -> (claim, when)
        self._away_ns = 0                                # when others were away last
        self._began_ns = 0                               # when this node did
        self._unread: deque[bytes] | None = None         # keys of the table, to be looked at once

    # --- what the broker says -----------------------------------------------------------------------------------------

    def connecting(self, client_id: str, clean_start: bool, now_ns: int) -> bool:
        """See ports.Federation."""
        before = self._owner(client_id)
        me = self._host.name
        is_here = before is not None and before.node == me and client_id in self._host.broker.sessions
        if is_here and not clean_start:                  # which another part of a split group has to know of
            if self._stay(client_id):                    # a node with a claim that is not in the table asked for it
                self._take_back(client_id, now_ns)
            return self._is_awaited(client_id)
        self._own(client_id, clean_start, now_ns)
        if self._stay(client_id):
            self._copy_again(client_id, now_ns)
            return False                                 # all of it is still here
        under_way = self.arriving.get(client_id)
        is_present = before is not None and self._host.is_present(before.node, before.life)
        has_source = before is not None and before.node != me and (
            is_present or self._host.is_orphan_awaited(client_id, before.node))
        if clean_start:
            if under_way is not None:
                self.given_up.append(self.arriving.pop(client_id))
            return False
        if not has_source and (under_way is None or under_way.is_all_away):
            return False
        if under_way is None:
            under_way = self.arriving[client_id] = ArrivingSession(0, True)
        under_way.until_ns, under_way.waits, under_way.then = now_ns + self._patience_ns, True, None
        under_way.by_client = True
        if has_source and before is not None:
            claim = self._claim
            under_way.parts[claim, before.node] = ArrivingPart()
            if not is_present:                           # another process of its name has nothing (seed 48714)
                self._host.orphan_claimed(client_id, before.node, claim, now_ns)
        return self._is_awaited(client_id)               # of a copy that is here it may have come (seed 1001251)

    def _is_awaited(self, client_id: str) -> bool:
        """Whether CONNECT waits for a session."""
        return client_id in self.arriving and self.arriving[client_id].waits

    def _own(self, client_id: str, is_clean: bool, now_ns: int) -> int:
        """Write this node as the owner; the claim."""
        self._claim = max(self._claim + 1, now_ns)       # another one in each life
        owner = SessionOwner(client_id, self._host.name, self._claim, is_clean, self._host.incarnation)
        self._host.set_owner(key_of(client_id), owner.encode(), now_ns)
        return self._claim

    def ended(self, client_id: str, now_ns: int) -> None:
        """A session is no more: nor is its owner, if that is this node, after some time. Meanwhile the client may have
        connected again, and what deletes the entry would delete the next one (mqtt-expiry 217)."""
        self._copied.pop(client_id, None)
        owner = self._owner(client_id)
        if owner is not None and owner.node == self._host.name:
            self._outlived.pop(client_id, None)          # they are in order
            self._outlived[client_id] = owner.claim, now_ns
            if len(self._outlived) > MAX_OUTLIVED:
                self._forget_owner(next(iter(self._outlived)), now_ns)

    def _forget_owners(self, now_ns: int) -> None:
        """Those of sessions that have ended. Not while others are away, nor soon after: they may have another session
        of the client, which goes on, or ends for a clean start, where the table says, and stays where nobody finds it
        if the table says nothing."""
        if self._host.names_away():
            self._away_ns = now_ns
        if self._away_ns and now_ns - self._away_ns < KEPT_TIMES * self._patience_ns:
            return
        for client_id, (_, at_ns) in list(self._outlived.items()):
            if now_ns - at_ns < self._patience_ns:
                break
            self._forget_owner(client_id, now_ns)

    def _forget_former_lives(self, now_ns: int) -> None:
        """The owners of sessions that former lives of this node had, and which nobody has adopted, once no other node
        keeps anything for those any more. Some at a time."""
        if self._unread is None:
            self._began_ns = self._began_ns or now_ns
            if now_ns - self._began_ns < max(KEPT_TIMES * self._patience_ns, self._host.keep_ns):
                return
            self._unread = deque(self._host.owner_keys())
        for _ in range(min(READ_AT_ONCE, len(self._unread))):
            key = self._unread.popleft()
            owner = self._read(self._host.owner(key))
            if owner is not None and owner.node == self._host.name and owner.life not in (0, self._host.incarnation):
                self._host.set_owner(key, None, now_ns)

    def _forget_owner(self, client_id: str, now_ns: int) -> None:
        claim, _ = self._outlived.pop(client_id)
        owner = self._owner(client_id)
        if owner is not None and (owner.node, owner.claim) == (self._host.name, claim) and (
                client_id not in self.arriving and client_id not in self._host.broker.sessions):
            self._host.set_owner(key_of(client_id), None, now_ns)

    # --- what the table and the peers say -----------------------------------------------------------------------------

    def owner_changed(self, owner: SessionOwner, before: SessionOwner | None, now_ns: int) -> None:
        """A node has a session now, which another one may have had before."""
        leaving = self.leaving.get(owner.client_id)
        if leaving is not None and (leaving.dest, leaving.claim) == (owner.node, owner.claim):
            return                                       # it is on its way there, and has been written again
        if owner.node != self._host.name:
            self._leave(owner, now_ns, was_here=before is not None and before.node == self._host.name
                        and before.life in (0, self._host.incarnation))

    def owner_deleted(self, owner: SessionOwner, now_ns: int) -> None:
        """A former session of this client has ended elsewhere, and with it the entry of the one that is here."""
        if owner.node == self._host.name and owner.life in (0, self._host.incarnation) and (
                owner.client_id in self._host.broker.sessions or owner.client_id in self.arriving):
            self._host.set_owner(key_of(owner.client_id), owner.encode(), now_ns)

    def peer_came(self, name: str, now_ns: int) -> None:
        """What its sessions are, that began while it was away, is handed over."""
        for client_id in list(self._host.broker.sessions):
            owner = self._owner(client_id)
            if owner is not None and owner.node == name and client_id not in self.leaving:
                self._leave(owner, now_ns)

    def peer_went(self, name: str, now_ns: int) -> None:
        """Nothing more comes from it, and nothing goes to it."""
        # With copies orphans.py says which of its sessions still come, and from where.
        for client_id, arriving in list(self.arriving.items()) if not self._host.has_copies else ():
            for claim, source in list(arriving.parts):
                if source == name:
                    self.nothing_comes(client_id, claim, name, now_ns)
        for client_id, leaving in list(self.leaving.items()):
            leaving.missing.pop(name, None)
            leaving.asked.pop(name, None)                # if it comes back, it may bring something (seed 1000821)
            if leaving.dest == name:
                del self.leaving[client_id]              # the session stays, without a connection
            elif not leaving.missing:
                self._finish(client_id, leaving, now_ns)

    def fence_came(self, name: str, fence: RouteFence) -> None:
        """A node's interest of before this is known here."""
        if fence.holder == self._host.name:
            leaving = self.leaving.get(fence.client_id)
            if leaving is not None and leaving.claim == fence.claim:
                leaving.missing.pop("", None)
        else:
            self._host.send_event(fence.holder, EventKind.FENCE_PASSED, passed_body(fence.client_id, fence.claim))

    def event_came(self, name: str, kind: int, body: bytes, now_ns: int) -> bool:
        """An event of a stream; False: it is none of a handover. Raises WireError."""
        if kind == EventKind.FENCE_PASSED:
            client_id, claim = read_passed(body)
            leaving = self.leaving.get(client_id)
            if leaving is not None and leaving.claim == claim:
                leaving.missing.pop(name, None)
            else:
                left = self.left_early.passed(client_id, name, claim)
                if left is not None and not left.is_redirected:
                    self._host.send_event(left.dest, EventKind.ALL_PASSED, passed_body(client_id, left.claim))
                self._passed_here(client_id, name, claim)
        elif kind == EventKind.OFFER:
            self._offered(name, SessionOffer.decode(body), now_ns)
        elif kind == EventKind.QUEUED:
            queued = QueuedDelivery.decode(body, now_ns)
            arriving = self.arriving.get(queued.client_id)
            part = None if arriving is None else arriving.parts.get((queued.claim, name))
            if part is None:
                self.came_late(name, queued, now_ns)
            else:
                part.queued.append(queued)
        elif kind == EventKind.ALL_PASSED:
            self._all_passed(name, *read_passed(body))
        elif kind == EventKind.FOLLOWED:
            client_id, late = read_followed(body, now_ns)
            arriving = self.arriving.get(client_id)
            part = None if arriving is None else arriving.parts.get((late.claim, name))
            if part is not None:
                part.late = late
        elif kind == EventKind.MOVED:
            self._moved(name, SessionMoved.decode(body), now_ns)
        else:
            return False
        return True

    # --- sessions of nodes that have ended (orphans.py) ---------------------------------------------------------------

    def owner_of(self, client_id: str) -> SessionOwner | None:
        """The owner of a client id, as far as it is known here."""
        return self._owner(client_id)

    def adopt(self, client_id: str, now_ns: int) -> int:
        """This node takes over a session whose node has ended. Returns the claim under which it will come. CONNECT
        waits for it."""
        return self.arrives(client_id, self._own(client_id, False, now_ns), now_ns)

    def reclaim(self, client_id: str, now_ns: int) -> None:
        """The node that was to get a session from here has ended. Another process of its name may have come since, and
        may get it by now (seed 102427)."""
        if client_id in self._host.broker.sessions:
            self._stay(client_id)
            self._take_back(client_id, now_ns)

    def arrives(self, client_id: str, claim: int, now_ns: int) -> int:
        """A session will be made of a copy here. claim: under which it comes, 0 for a new one, which no other node
        knows. Returns the claim."""
        if not claim:
            claim = self._claim = max(self._claim + 1, now_ns)
        arriving = self.arriving.get(client_id)
        if arriving is None:
            arriving = self.arriving[client_id] = ArrivingSession(now_ns + self._patience_ns, True)
        for part in [part for part in arriving.parts if part[0] == claim]:
            del arriving.parts[part]
        arriving.parts[claim, self._host.name] = ArrivingPart(is_offered=True)
        return claim

    def waiting_for(self, name: str) -> list[tuple[str, int]]:
        """(client id, claim) of the sessions that are to come from a node."""
        return [(client_id, claim) for client_id, arriving in self.arriving.items()
                for claim, source in arriving.parts if source == name]

    def is_coming(self, owner: SessionOwner, name: str) -> bool:
        """Whether this node is the owner of a session and still waits for a node to send it."""
        arriving = self.arriving.get(owner.client_id)
        return owner.node == self._host.name and arriving is not None and (owner.claim, name) in arriving.parts

    def comes_from(self, client_id: str, claim: int, former: str, name: str) -> None:
        """A session comes from this node, which has the best copy, and not from its former node."""
        parts = self.arriving[client_id].parts
        parts.pop((claim, former), None)
        parts.setdefault((claim, name), ArrivingPart())

    def nothing_comes(self, client_id: str, claim: int, former: str, now_ns: int) -> None:
        """A former node has gone, and no other has a copy. What it has offered may come yet (seed 67732)."""
        arriving = self.arriving.get(client_id)
        part = None if arriving is None else arriving.parts.get((claim, former))
        if arriving is None or part is None:
            return
        part.is_away = part.is_offered
        if part.is_away:
            self._proceed_without_those_away(client_id, arriving, now_ns)
        else:
            self._no_more(client_id, arriving, [(claim, former)], now_ns)

    def is_on_its_way(self, client_id: str) -> bool:
        """Whether another node may still send a session, or more of it."""
        arriving = self.arriving.get(client_id)
        return arriving is not None and bool(arriving.parts)

    def is_incomplete(self, client_id: str) -> bool:
        """Whether a session is on its way that has got something here which no other node has."""
        arriving = self.arriving.get(client_id)
        return arriving is not None and (arriving.is_copy or any(part.behind for part in arriving.parts.values()))

    def hand_on(self, owner: SessionOwner, now_ns: int) -> None:
        """A node has claimed a session that is here, or comes."""
        leaving, arriving = self.leaving.get(owner.client_id), self.arriving.get(owner.client_id)
        if leaving is not None and (leaving.dest, leaving.claim) == (owner.node, owner.claim):
            return
        if arriving is None or arriving.then != owner:
            self._leave(owner, now_ns)

    def arrived(
        self, moved: SessionMoved, deliveries: list[QueuedDelivery], late: LateMessages | None, now_ns: int,
    ) -> None:
        """All of a session that was adopted is here. late: what may come behind it."""
        arriving, session = self.arriving.get(moved.client_id), self._host.broker.sessions.get(moved.client_id)
        part = moved.claim, self._host.name
        if arriving is None or part not in arriving.parts:
            return                                       # a clean start has ended it
        if session is not None:
            is_new = session.connection is None and not session.in_flight
            self._join(session, moved, deliveries, late, now_ns)
            if is_new:
                session.is_untouched = True
                self._copied[moved.client_id] = [each.delivery for each in deliveries if each.delivery.group]
        self._no_more(moved.client_id, arriving, [part], now_ns)

    def is_adopting(self, client_id: str, claim: int) -> bool:
        """Whether a session is still to be made of a copy here."""
        arriving = self.arriving.get(client_id)
        return arriving is not None and (claim, self._host.name) in arriving.parts

    def look(self, now_ns: int) -> None:
        """Finish what is complete, and what took too long."""
        for client_id, leaving in list(self.leaving.items()):
            is_early = bool(leaving.missing)
            if is_early and now_ns >= leaving.until_ns:
                self._host.counters.add("handover_timeouts")
            if not is_early or now_ns >= leaving.until_ns:
                self._finish(client_id, leaving, now_ns)
        self.left_early.expire(now_ns)
        for client_id in list(self.followed):
            session = self._host.broker.sessions.get(client_id)
            if session is None or session.late is None:
                del self.followed[client_id]
            elif not session.late.expire(now_ns):
                session.late = None
                del self.followed[client_id]
        for client_id, arriving in list(self.arriving.items()):
            if now_ns >= arriving.until_ns and (arriving.waits or arriving.then is not None):
                self._host.counters.add("handover_timeouts")
                self._proceed(client_id, arriving, now_ns)
            elif now_ns >= arriving.until_ns + KEPT_TIMES * self._patience_ns:
                self.given_up.append(self.arriving.pop(client_id))
        self._give_away(now_ns)
        self._forget_owners(now_ns)
        self._forget_former_lives(now_ns)

    # --- the former node ----------------------------------------------------------------------------------------------

    def _leave(self, owner: SessionOwner, now_ns: int, was_here: bool = True) -> None:
        """Another node has a client's session from now on. was_here: the table had this node before, so the other one
        waits for its answer."""
        broker, client_id = self._host.broker, owner.client_id
        arriving = self.arriving.get(client_id)
        if arriving is not None:
            # First all that comes, then on to the next one.
            arriving.waits, arriving.then = False, owner
            # Whether there is one is not known here, so it is not told while that node waits (seed 60292). What comes
            # of one that is here may be right behind this word of its next owner, after a cut (seed 67732).
            patience_ns = self._patience_ns if client_id not in broker.sessions else self._patience_ns // 5
            arriving.until_ns = max(arriving.until_ns, now_ns + patience_ns)
            broker.refuse_claimed(client_id, now_ns)
            broker.take_connection(client_id, now_ns)
            self._proceed_without_those_away(client_id, arriving, now_ns)
            return
        self._stay(client_id)
        if self._is_in_use(client_id) and not self._host.is_present(owner.node, owner.life):
            # The table does not say that a client uses a session here, as that node's clock was ahead, and it has ended
            # or is out of reach. Those that have an older session must know (seed 110839); a later process of that
            # node has no use for this one.
            self._take_back(client_id, now_ns)
            return
        if owner.node not in self._host.names_up():
            return                                           # its own word comes when it does, unless it has ended
        session = broker.take_connection(client_id, now_ns)
        if session is None or owner.clean:
            last_id = 0
            if session is not None:
                # The client may have been here since, as clean start was not known here: it may have QoS 2 of these.
                last_id = session.last_id
                broker.end_session(client_id, now_ns)
            if was_here or last_id:
                moved = SessionMoved(client_id, owner.claim, False, last_id=last_id)
                self._host.send_event(owner.node, EventKind.MOVED, moved.encode())
            return
        asked = dict.fromkeys(self._host.names_up())
        self.leaving[client_id] = LeavingSession(
            owner.node, owner.claim, now_ns + self._patience_ns * 4 // 5, {"": None, **asked}, asked)
        offer = SessionOffer(client_id, owner.claim, session.expiry_s, tuple(session.subscriptions.items()),
                             session.last_id)
        self._host.send_event(owner.node, EventKind.OFFER, offer.encode())

    def _is_in_use(self, client_id: str) -> bool:
        session = self._host.broker.sessions.get(client_id)
        return session is not None and session.connection is not None

    def _stay(self, client_id: str) -> bool:
        """Stop handing over a session: it stays here, and the other node gives up its copy. Returns whether it was
        being handed over."""
        leaving = self.leaving.pop(client_id, None)
        if leaving is not None:
            redirected = SessionMoved(client_id, leaving.claim, False, is_redirected=True)
            self._host.send_event(leaving.dest, EventKind.MOVED, redirected.encode())
        return leaving is not None

    def _take_back(self, client_id: str, now_ns: int) -> None:
        """A session stays here that another node had claimed."""
        self._own(client_id, False, now_ns)
        self._copy_again(client_id, now_ns)

    def _copy_again(self, client_id: str, now_ns: int) -> None:
        """The other node may have declared the copies of a session void that stays here."""
        session = self._host.broker.sessions.get(client_id)
        if session is not None:
            self._host.session_joined(session, now_ns)

    def _finish(self, client_id: str, leaving: LeavingSession, now_ns: int) -> None:
        """All that was published before is here, or was waited for long enough: send the rest, forget the session."""
        del self.leaving[client_id]
        session = self._host.broker.sessions.get(client_id)
        if session is None:
            self._host.send_event(leaving.dest, EventKind.MOVED, SessionMoved(client_id, leaving.claim, False).encode())
            return
        for each in deliveries_of(session, leaving.claim):
            self._host.send_event(leaving.dest, EventKind.QUEUED, each.encode(now_ns))
        seen = _highest({**self._host.seen, self._host.incarnation: self._host.number}, session.seen)
        missing = self._missing(leaving)
        late = self._late_behind(session, leaving, missing, seen, now_ns)
        if late is not None:
            self._host.send_event(leaving.dest, EventKind.FOLLOWED, followed_body(client_id, late, now_ns))
        will, will_ns = (None, 0) if session.will_due is None else (session.will, session.will_due.at_ns - now_ns)
        moved = SessionMoved(client_id, leaving.claim, True, False, session.last_id, tuple(session.recorded),
                             tuple(seen.items()), late is not None, will, will_ns)
        self._host.send_event(leaving.dest, EventKind.MOVED, moved.encode())
        if late is not None and not self.left_early.add(client_id, LeftEarly(
                leaving.dest, leaving.claim, now_ns + self._late_ns, missing, dict(session.subscriptions),
                session.seen, session.late)):
            self._host.counters.add("dropped_left_early")
        self._host.counters.add("sessions_out")
        self._host.broker.forget_session(client_id)

    def _missing(self, leaving: LeavingSession) -> dict[str, None]:
        """The peers that may still bring something for a session that goes: those that had no time to pass the fence,
        those that are away, and those that came too late to be asked (seed 941139)."""
        away = self._host.names_away()
        late = [name for name in self._host.names_up() if name in leaving.missing or name not in leaving.asked]
        return dict.fromkeys([*away, *late])

    def _late_behind(
        self, session: ClientSession, leaving: LeavingSession, missing: Collection[str], seen: dict[int, int],
        now_ns: int,
    ) -> LateMessages | None:
        """What may come behind a session that goes, from the nodes that it has left early, and from this one."""
        before = session.late
        sources = {} if before is None else {
            name: source for name, source in before.sources.items()
            if name not in (COMING, self._host.name) and now_ns < source.until_ns}
        if not missing and not sources:
            return None
        sources[self._host.name] = self.left_without(
            leaving.claim, self._host.incarnation, seen, missing, now_ns)
        if before is None:
            return LateMessages(leaving.claim, sources)
        return LateMessages(leaving.claim, sources, before.had, before.of_groups)

    def sent_late(self, name: str, publication: Publication, now_ns: int) -> bool:
        """A peer brings a message: send it on to sessions that were here when the peer sent it. Returns whether there
        is one. If a session is on its way back, the message goes to the node that it comes from all the same: that node
        may have got later ones directly, and what is not above its numbers counts as had when the session is here. If
        the session is back already, it knows whether it has had it (seed 74378)."""
        is_wanted = False
        for client_id, left in self.left_early.by_peer[name].items():
            session = self._host.broker.sessions.get(client_id)
            if session is not None and not self._comes_back(session, left):
                if session.late is not None and self._host.name in session.late.sources:
                    is_wanted = True
                    self.held_came(client_id, session.late.sources[self._host.name], publication, now_ns)
                continue
            delivery = delivery_for(client_id, publication, left.subscriptions)
            if delivery is not None:
                is_wanted = True
                if left.has_had(publication) or 0 < publication.number <= left.seen.get(publication.origin, 0):
                    continue                             # before it was here (seed 41675)
                if session is not None:
                    session.take_back(publication)       # it comes from there, once
                self._send_onward(client_id, left, delivery, now_ns)
        return is_wanted

    def _send_onward(self, client_id: str, left: LeftEarly, delivery: Delivery, now_ns: int) -> None:
        """Behind a session that has left; to the node that has it by now, if its next one is away."""
        dest, claim, owner = left.dest, left.claim, self._owner(client_id)
        up = self._host.names_up()
        if dest not in up and owner is not None and owner.node in up:
            dest, claim, left.is_redirected = owner.node, owner.claim, True
        late = QueuedDelivery(client_id, claim, 0, delivery)
        self._host.send_onward(dest, EventKind.QUEUED, late.encode(now_ns))

    def _comes_back(self, session: ClientSession, left: LeftEarly) -> bool:
        arriving = self.arriving.get(session.client_id)
        return (arriving is not None and arriving.is_copy and session.connection is None
                and left.dest in self._host.names_up() and any(node == left.dest for _, node in arriving.parts))

    def sent_late_to_member(
        self, name: str, publication: Publication, target: tuple[str, str], now_ns: int,
    ) -> bool:
        """The same for a shared subscription that a session had which was here: no other node has been chosen for the
        message. Returns whether there is one."""
        filter = f"$share/{target[0]}/{target[1]}"
        for client_id, left in self.left_early.by_peer.get(name, {}).items():
            granted = left.subscriptions.get(filter)
            if granted is not None and client_id not in self._host.broker.sessions:
                delivery = Delivery(publication, min(publication.qos, granted.qos),
                                    publication.wants_retain and granted.retain_as_published, granted.identifiers,
                                    filter)
                self._send_onward(client_id, left, delivery, now_ns)
                return True
        return False

    # --- the new node -------------------------------------------------------------------------------------------------

    def _offered(self, name: str, offer: SessionOffer, now_ns: int) -> None:
        client_id, claim = offer.client_id, offer.claim
        arriving = self.arriving.get(client_id)
        if arriving is None or all(known != claim for known, _ in arriving.parts):
            owner = self._owner(client_id)
            if owner is None or (owner.node, owner.claim) != (self._host.name, claim):
                return                                   # the table tells the other node of a later one
            if arriving is None:
                if len(self.arriving) >= MAX_ARRIVING:
                    raise WireError("more sessions arrive than there can be")
                arriving = self.arriving[client_id] = ArrivingSession(now_ns + self._patience_ns, False)
        arriving.parts[claim, name] = ArrivingPart(is_offered=True)
        arriving.is_copy = arriving.is_copy or client_id not in self._host.broker.sessions
        # Its client may go on before the rest has come, and have QoS 2 under earlier packet ids (seed 47817).
        self._host.broker.adopt(client_id, offer.expiry_s, offer.subscriptions, now_ns, last_id=offer.last_id)
        self._follow(self._host.broker.sessions[client_id], self._from_somewhere(claim, now_ns))
        self._host.fence(RouteFence(name, client_id, claim))
        self._host.send_event(name, EventKind.FENCE_PASSED, passed_body(client_id, claim))

    def _follow(self, session: ClientSession, late: LateMessages) -> None:
        """More may come late for a session here."""
        if session.late is None:
            session.late = late
        else:
            session.late.join(late)
        self.followed[session.client_id] = None

    def came_late(self, name: str, queued: QueuedDelivery, now_ns: int) -> None:
        """A message of a session that has come before it: see LeftEarly."""
        client_id, publication, group = queued.client_id, queued.delivery.publication, queued.delivery.group
        session, owner = self._host.broker.sessions.get(client_id), self._owner(client_id)
        left, arriving = self.left_early.by_client.get(client_id), self.arriving.get(client_id)
        if left is not None and not group and left.has_had(publication):
            return                                       # directly, when it was here; so it has moved with it
        for (claim, source), part in arriving.parts.items() if arriving is not None else ():
            # It is on its way back here, from there or, as that node knows, from another one (seeds 74378, 88487).
            if (source == name or claim == queued.claim) and not queued.packet_id:
                part.behind.append(queued)
                self._host.hold_for_arrival(client_id)
                return
        if session is None and owner is not None and owner.node in self._host.names_up():
            onward = attrs.evolve(queued, claim=owner.claim)             # where the session has gone meanwhile
            self._host.send_onward(owner.node, EventKind.QUEUED, onward.encode(now_ns))
        elif session is None or session.late is None or queued.packet_id or not session.late.is_of(queued.claim):
            self._to_other_members((queued,), now_ns)    # that session has ended since (seed 957625)
        elif session.late.takes(queued.claim, publication, group):
            self._host.counters.add("late_messages")
            session.deliver_late(queued.delivery, now_ns)

    def _to_other_members(self, queued: Iterable[QueuedDelivery], now_ns: int) -> None:
        """What came of a session that has ended: messages of shared subscriptions go to other members, but for those of
        QoS 2 that were begun, which may have arrived [MQTT-4.8.2-5]."""
        for each in queued:
            if each.delivery.group and not (each.packet_id and each.delivery.qos == 2):
                self._host.broker.move((each.delivery,), now_ns)
            else:
                self._host.counters.add("dropped_handover")

    def _give_away(self, now_ns: int) -> None:
        """What has come of sessions that are not waited for any more."""
        given_up, self.given_up = self.given_up, []
        for arriving in given_up:
            for part in arriving.parts.values():
                self._to_other_members(part.queued, now_ns)
            self._come_behind(arriving.parts, now_ns)

    def _all_passed(self, name: str, client_id: str, claim: int) -> None:
        """Nothing comes late any more by a node that a session came from. What came that way may be on its way here
        directly, until those that sent it pass a fence here as well."""
        source = self._late_source(client_id, name, claim)
        if source is not None:
            source.ending = [each for each in self._host.names_up()
                             if self._host.origin_of(each) in source.numbers or ANY_ORIGIN in source.numbers]
            for each in source.ending:
                self._host.fence(RouteFence(self._host.name, client_id, claim), each)

    def _passed_here(self, client_id: str, name: str, claim: int) -> None:
        """A peer has passed such a fence. When all have, the session has had all of before, whichever way it came."""
        session = self._host.broker.sessions.get(client_id)
        if session is None or session.late is None:
            return
        for source_name, source in list(session.late.sources.items()):
            if source.claim == claim and name in source.ending:
                source.ending.remove(name)
                if not source.ending:
                    session.seen = _highest(session.seen, session.late.forget(source_name))

    def _late_source(self, client_id: str, name: str, claim: int) -> LateSource | None:
        session = self._host.broker.sessions.get(client_id)
        source = None if session is None or session.late is None else session.late.sources.get(name)
        return None if source is None or source.claim != claim else source

    @property
    def _late_ns(self) -> int:
        """How long something may still come for a session that has gone on."""
        return max(KEPT_TIMES * self._patience_ns, self._host.keep_ns)

    def left_without(
        self, claim: int, life: int, seen: dict[int, int], missing: Collection[str], now_ns: int,
    ) -> LateSource:
        """What a node is to a session that has left it, or goes on without it: `missing` may still have something for
        that node. seen: the highest numbers that the session was given there."""
        numbers = {origin: seen.get(origin, 0) for origin in map(self._host.origin_of, missing)}
        if 0 in numbers:                                 # it came a moment ago
            numbers = {**seen, **numbers, ANY_ORIGIN: 0}
        return LateSource(claim, life, now_ns + 2 * self._late_ns, numbers)

    def peer_ready(self, name: str) -> None:
        """A peer is back that may have something for nodes which sessions here have left without it: what it has passes
        their fence."""
        origin = self._host.origin_of(name)
        for client_id, source_name, source in self.late_sources():
            if source_name not in (COMING, name, self._host.name) and name not in source.fenced and (
                    origin in source.numbers or ANY_ORIGIN in source.numbers):
                source.fenced[name] = None
                self._host.fence(RouteFence(source_name, client_id, source.claim), name)

    def held_came(self, client_id: str, source: LateSource, publication: Publication, now_ns: int) -> None:
        """A peer has a message for a node that a session here has left early, or this is that node."""
        session = self._host.broker.sessions.get(client_id)
        if session is None or session.late is None or source not in session.late.sources.values():
            return                                       # another one by now
        delivery = delivery_for(client_id, publication, session.subscriptions)
        if delivery is not None and source.awaits(publication) and session.late.is_new(publication):
            self._host.counters.add("late_messages")
            session.deliver_late(delivery, now_ns)

    def late_sources(self) -> Iterator[tuple[str, str, LateSource]]:
        """(client id, node, what it is to the session) of the nodes that sessions here have left early."""
        for client_id in self.followed:
            session = self._host.broker.sessions.get(client_id)
            if session is not None and session.late is not None:
                for name, source in session.late.sources.items():
                    yield client_id, name, source

    def _moved(self, name: str, moved: SessionMoved, now_ns: int) -> None:
        client_id = moved.client_id
        arriving, part = self.arriving.get(client_id), (moved.claim, name)
        session = self._host.broker.sessions.get(client_id)
        if session is not None and not moved.is_found:
            session.pass_ids(moved.last_id)              # of one that a clean start has ended (seed 953282)
        if arriving is None or part not in arriving.parts:
            return
        if not moved.is_found:
            if moved.is_redirected and arriving.is_copy and len(arriving.parts) == 1:
                # What is here is at the former node too, which keeps it or sends it on.
                del self.arriving[client_id]
                self._host.broker.refuse_claimed(client_id, now_ns)
                if session is not None:
                    self._host.broker.forget_copy(client_id, now_ns)
                self._come_behind(arriving.parts, now_ns)
            else:
                self._no_more(client_id, arriving, [part], now_ns)
            return
        if session is not None:
            self._host.counters.add("sessions_in")
            self._host.broker.withdraw_adopted_will(client_id)
            has_another = session.will_due is not None and not arriving.by_client
            if moved.will is not None and (not session.had_client or has_another):
                # It waits as if it had always been here. If one waits here too, both are of parts of a split group, and
                # it is not known which connection was the later one (seed 970400).
                self._host.broker.adopt_will(client_id, moved.will, now_ns, left_ns=moved.will_ns)
            found = arriving.parts[part]
            self._join(session, moved, found.queued, found.late, now_ns)
        # It had one session, which came under its latest claim; others may have one of another part of the group.
        self._no_more(client_id, arriving, [each for each, found in arriving.parts.items()
                                            if each[1] == name or not found.is_offered], now_ns)

    def _no_more(
        self, client_id: str, arriving: ArrivingSession, parts: list[tuple[int, str]], now_ns: int,
    ) -> None:
        """Nothing comes of these any more."""
        ended = {part: arriving.parts.pop(part) for part in parts if part in arriving.parts}
        if parts:
            self._proceed_without_those_away(client_id, arriving, now_ns)
        self._come_behind(ended, now_ns)

    def _come_behind(self, parts: dict[tuple[int, str], ArrivingPart], now_ns: int) -> None:
        """What has come late for a session that was on its way."""
        for (_, name), part in parts.items():
            for each in part.behind:
                self.came_late(name, each, now_ns)

    def _proceed_without_those_away(self, client_id: str, arriving: ArrivingSession, now_ns: int) -> None:
        """Unless somebody else still sends something, or that was done before."""
        if arriving.is_all_away and (not arriving.parts or arriving.waits or arriving.then is not None):
            self._proceed(client_id, arriving, now_ns)

    def _join(
        self, session: ClientSession, moved: SessionMoved, deliveries: list[QueuedDelivery], late: LateMessages | None,
        now_ns: int,
    ) -> None:
        """Join what came from the former node and, behind it, what came directly; what is in both is taken once."""
        seen = dict(moved.seen)
        copied = self._copied.pop(session.client_id, ())
        if session.is_untouched:
            # It was made of a copy, and its former node still was there: what that sends is newer.
            session.in_flight = {}
            session.queue = deque(each for each in session.queue if all(each is not other for other in copied))
        # A message of a shared subscription went to one node alone, so it is in no other queue. What the former node
        # got late is in what it sends, above its numbers (seed 82101).
        sent = [each.delivery for each in deliveries if not each.delivery.group]
        had = {(each.publication.origin, each.publication.number): None for each in sent}
        direct = [each for each in session.queue
                  if each.group or (each.publication.number > seen.get(each.publication.origin, 0)
                                    and (each.publication.origin, each.publication.number) not in had)]
        session.pass_ids(moved.last_id)                  # of both, if two are joined (seed 82101)
        if session.connection is None and not session.in_flight:
            session.in_flight = {each.packet_id: each.delivery for each in deliveries if each.packet_id}
            # What a peer has sent to both nodes may come directly yet.
            session.seen = _highest(seen, session.seen)
            for packet_id in moved.recorded:
                session.recorded.setdefault(packet_id, 0)
            queued = [each.delivery for each in deliveries if not each.packet_id]
        else:
            queued = self._new_ones(session, deliveries)
            direct = list(session.queue)
        session.queue = deque([*queued, *direct])
        session.queue_bytes = sum(each.publication.size for each in session.queue)
        if moved.is_followed:
            self._follow(session, late or self._from_somewhere(moved.claim, now_ns))
        if session.late is not None:
            if late is not None or not moved.is_followed:
                session.late.forget(COMING)
            for each in (*sent, *direct):                # seed 80982
                if not each.group:
                    session.late.is_new(each.publication)
        self._host.session_joined(session, now_ns)
        session.pump(now_ns)
        if moved.is_followed:
            self._host.late_expected(now_ns)

    def _from_somewhere(self, claim: int, now_ns: int) -> LateMessages:
        """Of a session that is on its way, or came from a node whose version does not say what may come behind it."""
        until_ns = now_ns + 2 * self._late_ns
        return LateMessages(claim, {COMING: LateSource(claim, 0, until_ns, {ANY_ORIGIN: 0})})

    def _new_ones(self, session: ClientSession, moved: list[QueuedDelivery]) -> list[Delivery]:
        """For a session that is in use: the messages that it does not have, without their packet ids. QoS 2 that was
        begun is dropped, since it may have arrived."""
        had = {(each.publication.origin, each.publication.number, each.group): None
               for each in [*session.in_flight.values(), *session.queue]}
        if session.late is not None:
            had.update(((origin, number, ""), None) for origin, number in session.late.had)
        found = []
        for each in moved:
            delivery = each.delivery
            if each.packet_id and delivery.qos == 2:
                self._host.counters.add("dropped_handover")
            elif (delivery.publication.origin, delivery.publication.number, delivery.group) not in had:
                found.append(delivery)
        return found

    def _proceed(self, client_id: str, arriving: ArrivingSession, now_ns: int) -> None:
        """Wait no longer: answer CONNECT, or hand the session on. What comes later goes into the session in use."""
        waits, then = arriving.waits, arriving.then
        arriving.waits, arriving.then, arriving.is_copy = False, None, False
        if not arriving.parts or then is not None:
            del self.arriving[client_id]
        if waits:
            self._host.broker.claimed(client_id, now_ns)
        if client_id not in self.arriving:
            self._come_behind(arriving.parts, now_ns)
        if then is not None:
            self._leave(then, now_ns)

    def _owner(self, client_id: str) -> SessionOwner | None:
        return self._read(self._host.owner(key_of(client_id)))

    @staticmethod
    def _read(value: bytes | None) -> SessionOwner | None:
        try:
            return None if value is None else SessionOwner.decode(value)
        except WireError:
            return None                                  # as good as none; the next CONNECT writes a better one


def _highest(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    """The higher number of each origin."""
    return {**one, **{origin: max(number, one.get(origin, 0)) for origin, number in other.items()}}
