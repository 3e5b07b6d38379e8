"""Sessions that move: a client id has one session, at the node where its client connected last.

A table that all nodes share has the owner of each client id (last writer wins). A node that a client connects to
writes itself there; the former owner sees that, closes its connection (0x8E) and hands over:

    new node                         all others                      former node
    owner := new node  ------------------------------------------->  closes the connection; the session goes on without
    <--------------------------------------------------------------  OFFER: subscriptions
    subscribes, so its interest
    goes to all; Fence  ---------->  FENCE_PASSED in the stream  -->  when all have: what they publish from now on goes
                                     to the former node               to both, and what they did before is here
    <--------------------------------------------------------------  QUEUED ..., MOVED with the highest number of each
    joins: what came directly and                                    origin; its session is gone
    is not in what was sent

So a message is in what the former node sends, or comes directly, and where it is both the numbers say so. The CONNECT
waits meanwhile, at most `handover_s`. After a split both sides may have a session; the later owner stays, and gets the
other one's in the same way, into a session that is in use.
"""
from __future__ import annotations

from collections import deque
from typing import Protocol

import attrs

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.publication import SECOND
from jgroups_py.blocks.mqtt.broker.session import ClientSession, Delivery
from jgroups_py.blocks.mqtt.federation.sessions import (
    QueuedDelivery,
    SessionMoved,
    SessionOffer,
    deliveries_of,
    passed_body,
    read_passed,
)
from jgroups_py.blocks.mqtt.federation.tables import SessionOwner, key_of
from jgroups_py.blocks.mqtt.federation.wire import EventKind, Fence
from jgroups_py.model.counters import Counters
from jgroups_py.model.errors import WireError

MAX_ARRIVING = 100_000
KEPT_TIMES = 10
"""So many times `handover_s` a session may still come for which nothing waits any more."""


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

    def send_event(self, name: str, kind: int, body: bytes) -> bool:
        """Put an event into a peer's stream; False: there is no such peer."""

    def fence(self, fence: Fence) -> None:
        """Send it to all, behind all interest of before."""

    def owner(self, key: bytes) -> bytes | None:
        """The entry of a client id."""

    def set_owner(self, key: bytes, value: bytes | None, now_ns: int) -> None:
        """Write it."""


@attrs.define(eq=False)
class ArrivingSession:
    """A session that comes from another node. waits: whether a CONNECT waits for it; claims: under which it may come
    -> from where, as far as is known, and what has come; is_copy: the session here is but a copy, until all has come;
    then: the node that it goes on to."""

    until_ns: int
    waits: bool
    claims: dict[int, tuple[str, list[QueuedDelivery]]]
    is_copy: bool = False
    then: SessionOwner | None = None


@attrs.define(eq=False)
class LeavingSession:
    """A session that goes to another node, when all of `missing` have passed the fence."""

    dest: str
    claim: int
    until_ns: int
    missing: dict[str, None]


class Handovers:
    """See the module."""

    def __init__(self, host: HandoverHost, handover_s: float) -> None:
        self._host = host
        self._patience_ns = round(handover_s * SECOND)
        self._claim = 0
        self.arriving: dict[str, ArrivingSession] = {}
        self.leaving: dict[str, LeavingSession] = {}

    # --- what the broker says -----------------------------------------------------------------------------------------

    def connecting(self, client_id: str, clean_start: bool, now_ns: int) -> bool:
        """See ports.Federation."""
        before = self._owner(client_id)
        me = self._host.name
        is_here = before is not None and before.node == me and client_id in self._host.broker.sessions
        if is_here and not clean_start:                  # which another part of a split group has to know of
            return client_id in self.arriving and self.arriving[client_id].waits
        self._claim = max(self._claim + 1, now_ns)       # another one in each life
        self._host.set_owner(key_of(client_id), SessionOwner(client_id, me, self._claim, clean_start).encode(), now_ns)
        if self._stay(client_id):
            return False                                 # all of it is still here
        under_way = self.arriving.get(client_id)
        has_source = before is not None and before.node in self._host.names_up() and before.node != me
        if clean_start or (under_way is None and not has_source):
            self.arriving.pop(client_id, None)
            return False
        if under_way is None:
            under_way = self.arriving[client_id] = ArrivingSession(0, True, {})
        under_way.until_ns, under_way.waits, under_way.then = now_ns + self._patience_ns, True, None
        if has_source and before is not None:
            under_way.claims[self._claim] = before.node, []
        return True

    def ended(self, client_id: str, now_ns: int) -> None:
        """A session is no more: nor is its owner, if that is this node."""
        owner = self._owner(client_id)
        if owner is not None and owner.node == self._host.name and client_id not in self.arriving:
            self._host.set_owner(key_of(client_id), None, now_ns)

    # --- what the table and the peers say -----------------------------------------------------------------------------

    def owner_changed(self, owner: SessionOwner, before: SessionOwner | None, now_ns: int) -> None:
        """A node has a session now, which another one may have had before."""
        if owner.node != self._host.name:
            self._leave(owner, now_ns, was_here=before is not None and before.node == self._host.name)

    def peer_came(self, name: str, now_ns: int) -> None:
        """What its sessions are, that began while it was away, is handed over."""
        for client_id in list(self._host.broker.sessions):
            owner = self._owner(client_id)
            if owner is not None and owner.node == name and client_id not in self.leaving:
                self._leave(owner, now_ns)

    def peer_went(self, name: str, now_ns: int) -> None:
        """Nothing more comes from it, and nothing goes to it."""
        for client_id, arriving in list(self.arriving.items()):
            for claim in [claim for claim, (source, _) in arriving.claims.items() if source == name]:
                self._no_more(client_id, arriving, claim, now_ns)
        for client_id, leaving in list(self.leaving.items()):
            leaving.missing.pop(name, None)
            if leaving.dest == name:
                del self.leaving[client_id]              # the session stays, without a connection
            elif not leaving.missing:
                self._finish(client_id, leaving, now_ns)

    def fence_came(self, name: str, fence: Fence) -> None:
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
        elif kind == EventKind.OFFER:
            self._offered(name, SessionOffer.decode(body), now_ns)
        elif kind == EventKind.QUEUED:
            queued = QueuedDelivery.decode(body, now_ns)
            arriving = self.arriving.get(queued.client_id)
            if arriving is None or queued.claim not in arriving.claims:
                self._host.counters.add("dropped_handover")
            else:
                arriving.claims[queued.claim][1].append(queued)
        elif kind == EventKind.MOVED:
            self._moved(name, SessionMoved.decode(body), now_ns)
        else:
            return False
        return True

    def look(self, now_ns: int) -> None:
        """Finish what is complete, and what took too long."""
        for client_id, leaving in list(self.leaving.items()):
            if now_ns >= leaving.until_ns and leaving.missing:
                self._host.counters.add("handover_timeouts")
                leaving.missing.clear()
            if not leaving.missing:
                self._finish(client_id, leaving, now_ns)
        for client_id, arriving in list(self.arriving.items()):
            if now_ns >= arriving.until_ns and (arriving.waits or arriving.then is not None):
                self._host.counters.add("handover_timeouts")
                self._proceed(client_id, arriving, now_ns)
            elif now_ns >= arriving.until_ns + KEPT_TIMES * self._patience_ns:
                del self.arriving[client_id]

    # --- the former node ----------------------------------------------------------------------------------------------

    def _leave(self, owner: SessionOwner, now_ns: int, was_here: bool = True) -> None:
        """Another node has a client's session from now on. was_here: so it waits for an answer of this one."""
        broker, client_id = self._host.broker, owner.client_id
        arriving = self.arriving.get(client_id)
        if arriving is not None:
            # First all that comes, then on to the next one.
            arriving.waits, arriving.then = False, owner
            broker.refuse_claimed(client_id, now_ns)
            broker.take_connection(client_id, now_ns)
            return
        self._stay(client_id)
        if owner.node not in self._host.names_up():
            return                                       # its own word comes when it does
        session = broker.take_connection(client_id, now_ns)
        if session is None or owner.clean:
            if session is not None:
                broker.end_session(client_id, now_ns)
            if not was_here:
                return
            self._host.send_event(owner.node, EventKind.MOVED, SessionMoved(client_id, owner.claim, False).encode())
            return
        missing = dict.fromkeys(["", *self._host.names_up()])
        self.leaving[client_id] = LeavingSession(owner.node, owner.claim, now_ns + self._patience_ns, missing)
        offer = SessionOffer(client_id, owner.claim, session.expiry_s, tuple(session.subscriptions.items()))
        self._host.send_event(owner.node, EventKind.OFFER, offer.encode())

    def _stay(self, client_id: str) -> bool:
        """A session goes no further where it was to go; whether it was to go anywhere. What is there is a copy."""
        leaving = self.leaving.pop(client_id, None)
        if leaving is not None:
            redirected = SessionMoved(client_id, leaving.claim, False, is_redirected=True)
            self._host.send_event(leaving.dest, EventKind.MOVED, redirected.encode())
        return leaving is not None

    def _finish(self, client_id: str, leaving: LeavingSession, now_ns: int) -> None:
        """All that was published before is here: send the rest, and forget the session."""
        del self.leaving[client_id]
        session = self._host.broker.sessions.get(client_id)
        if session is None:
            self._host.send_event(leaving.dest, EventKind.MOVED, SessionMoved(client_id, leaving.claim, False).encode())
            return
        for each in deliveries_of(session, leaving.claim):
            self._host.send_event(leaving.dest, EventKind.QUEUED, each.encode(now_ns))
        seen = _highest({**self._host.seen, self._host.incarnation: self._host.number}, session.seen)
        moved = SessionMoved(client_id, leaving.claim, True, False, session.last_id, tuple(session.recorded),
                             tuple(seen.items()))
        self._host.send_event(leaving.dest, EventKind.MOVED, moved.encode())
        self._host.counters.add("sessions_out")
        self._host.broker.forget_session(client_id)

    # --- the new node -------------------------------------------------------------------------------------------------

    def _offered(self, name: str, offer: SessionOffer, now_ns: int) -> None:
        client_id, claim = offer.client_id, offer.claim
        arriving = self.arriving.get(client_id)
        if arriving is None or claim not in arriving.claims:
            owner = self._owner(client_id)
            if owner is None or (owner.node, owner.claim) != (self._host.name, claim):
                return                                   # the table tells the other node of a later one
            if arriving is None:
                if len(self.arriving) >= MAX_ARRIVING:
                    raise WireError("more sessions arrive than there can be")
                arriving = self.arriving[client_id] = ArrivingSession(now_ns + self._patience_ns, False, {})
        arriving.claims[claim] = name, []
        arriving.is_copy = arriving.is_copy or client_id not in self._host.broker.sessions
        self._host.broker.adopt(client_id, offer.expiry_s, offer.subscriptions, now_ns)
        self._host.fence(Fence(name, client_id, claim))
        self._host.send_event(name, EventKind.FENCE_PASSED, passed_body(client_id, claim))

    def _moved(self, name: str, moved: SessionMoved, now_ns: int) -> None:
        client_id = moved.client_id
        arriving = self.arriving.get(client_id)
        if arriving is None or moved.claim not in arriving.claims:
            return
        session = self._host.broker.sessions.get(client_id)
        if not moved.is_found:
            if moved.is_redirected and arriving.is_copy and len(arriving.claims) == 1:
                # What is here is at the former node too, which keeps it or sends it on.
                del self.arriving[client_id]
                self._host.broker.refuse_claimed(client_id, now_ns)
                if session is not None:
                    self._host.broker.forget_copy(client_id, now_ns)
            elif arriving.claims[moved.claim][0] == name:
                self._no_more(client_id, arriving, moved.claim, now_ns)
            return
        if session is not None:
            self._host.counters.add("sessions_in")
            self._join(session, moved, arriving.claims[moved.claim][1], now_ns)
        arriving.claims.clear()
        self._proceed(client_id, arriving, now_ns)

    def _no_more(self, client_id: str, arriving: ArrivingSession, claim: int, now_ns: int) -> None:
        """Nothing comes under this claim."""
        del arriving.claims[claim]
        if not arriving.claims:
            self._proceed(client_id, arriving, now_ns)

    def _join(
        self, session: ClientSession, moved: SessionMoved, deliveries: list[QueuedDelivery], now_ns: int,
    ) -> None:
        """What came from the former node goes before what came directly, without what is in both."""
        seen = dict(moved.seen)
        # A message of a shared subscription went to one node alone, so it is in no other queue.
        direct = [each for each in session.queue
                  if each.group or each.publication.number > seen.get(each.publication.origin, 0)]
        if session.connection is None and not session.in_flight:
            session.in_flight = {each.packet_id: each.delivery for each in deliveries if each.packet_id}
            session.last_id = moved.last_id
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
        session.pump(now_ns)

    def _new_ones(self, session: ClientSession, moved: list[QueuedDelivery]) -> list[Delivery]:
        """For a session in use: what it does not have, with packet ids of its own. QoS 2 that was begun stays away."""
        had = {(each.publication.origin, each.publication.number): None
               for each in [*session.in_flight.values(), *session.queue]}
        found = []
        for each in moved:
            delivery = each.delivery
            if each.packet_id and delivery.qos == 2:
                self._host.counters.add("dropped_handover")
            elif (delivery.publication.origin, delivery.publication.number) not in had:
                found.append(delivery)
        return found

    def _proceed(self, client_id: str, arriving: ArrivingSession, now_ns: int) -> None:
        """Wait no longer: CONNECT is answered, or the session goes on. What comes yet goes into the session in use."""
        waits, then = arriving.waits, arriving.then
        arriving.waits, arriving.then, arriving.is_copy = False, None, False
        if not arriving.claims or then is not None:
            del self.arriving[client_id]
        if waits:
            self._host.broker.claimed(client_id, now_ns)
        if then is not None:
            self._leave(then, now_ns)

    def _owner(self, client_id: str) -> SessionOwner | None:
        value = self._host.owner(key_of(client_id))
        try:
            return None if value is None else SessionOwner.decode(value)
        except WireError:
            return None                                  # as good as none; the next CONNECT writes a better one


def _highest(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    """The higher number of each origin."""
    return {**one, **{origin: max(number, one.get(origin, 0)) for origin, number in other.items()}}
