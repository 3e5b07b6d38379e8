"""Sessions whose node has ended: the node with the best copy adopts them (copies.py makes the copies).

    a peer goes          each node tells all others which copies it has of that peer's sessions: COPIES_HERE
    all have told        each knows for each client id the best copy, so which node adopts the session
    that node            owner := itself; subscribes, without a connection, so what is published reaches the session
                         OrphanFence to all, behind its interest
    all others           ORPHANED, what they have in their streams for the node that has ended, then ORPHANS_PASSED
    that node            joins: the copy, what came as ORPHANED and is not in it, what came directly and is in neither

A client that connects meanwhile waits, and gets its session from there, as if that had always been its node
(handover.py); a node that has claimed a session asks the one with the best copy for it: COPY_WANTED. Wills are
published by the node that adopts. If nodes see different peers, two may adopt one session: the table of owners decides,
as after any split.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Protocol

import attrs

from jgroups_py.blocks.mqtt.broker.publication import SECOND, Publication
from jgroups_py.blocks.mqtt.broker.session import MAX_PACKET_ID, NO_MESSAGE, LateMessages
from jgroups_py.blocks.mqtt.federation.copies import CopiesHost, SessionCopies
from jgroups_py.blocks.mqtt.federation.copy_bytes import (
    CopyRank,
    SessionCopy,
    StoredDelivery,
    here_body,
    read_delivery,
    read_here,
    read_text,
    read_wanted,
    text_body,
    wanted_body,
)
from jgroups_py.blocks.mqtt.federation.handover import Handovers
from jgroups_py.blocks.mqtt.federation.sessions import QueuedDelivery, SessionMoved, delivery_for
from jgroups_py.blocks.mqtt.federation.tables import SessionOwner
from jgroups_py.blocks.mqtt.federation.wire import EventKind, ForwardedMessage, OrphanFence, message_body, read_message
from jgroups_py.model.errors import WireError

LIVE = CopyRank(2, 0, 0)
"""Of a session that is no copy."""
NOBODY = ""
"""In place of a node that has ended: the sender keeps copies at all, which one without them never says."""
MAX_EARLY = 10_000
APART = 1 << 14
"""Packet ids between those of a session and those of its copy that goes on: the former node may have used some since,
and a client that has one of QoS 2 takes another message under the same id for a repetition [MQTT-4.3.3-10]."""
HERE_ENTRIES = 1_000
"""Copies in an event of COPIES_HERE."""
REMEMBERED_S = 60
"""How long it is known which copies there were of the sessions of a node that has ended."""


class OrphansHost(CopiesHost, Protocol):
    """What this asks of the federation."""

    def names_up(self) -> list[str]:
        """The peers that can be reached."""

    def names_away(self) -> list[str]:
        """The others that are known."""

    def origin_of(self, name: str) -> int:
        """The incarnation of a peer, or of the process before, if it is away."""

    def peer_keeps(self, name: str) -> None:
        """A peer keeps copies."""

    def names_perhaps_keeping(self, now_ns: int) -> list[str]:
        """The peers that can be reached and keep copies, or came so lately that they may not have said so yet."""

    def fence(self, fence: OrphanFence, name: str | None = None) -> None:
        """Send it to a peer, or to all (None), behind all interest of before."""

    def sent_on_to(self, name: str) -> list[bytes]:
        """The bodies of QUEUED, for sessions that had moved there, that this node still has for a peer."""

    def held_for(self, name: str) -> list[Publication]:
        """The messages of QoS 1 and 2 for plain subscribers that this node still has for a peer, in order."""


@attrs.define(eq=False)
class EndedNode:
    """What is known of the copies of the sessions of a node that has ended. life: its incarnation; told: peer -> client
    id -> its copy there; missing: peers that have not told all; is_decided: it is known who adopts what, as far as was
    told in time; unknown: (client id, claim) of sessions that are waited for, and of which those may have a copy."""

    name: str
    life: int
    at_ns: int
    told: dict[str, dict[str, CopyRank]] = attrs.field(factory=dict)
    missing: dict[str, None] = attrs.field(factory=dict)
    is_decided: bool = False
    unknown: dict[tuple[str, int], None] = attrs.field(factory=dict)

    def best(self, client_id: str) -> str | None:
        """The node with the best copy of a session; equals take turns by the client id. None: there is no copy. That of
        the session which the node that has ended had is better than one that was on its way there: the node with this
        one hands it over to the node that adopts, and what the other one had is in its copies alone (seed 102427)."""
        is_last = self._had(client_id)                   # where LIVE comes, behind those of the node's own session
        found = [(not is_last or copies[client_id] != LIVE, copies[client_id], _draw(client_id, name), name)
                 for name, copies in self.told.items() if client_id in copies]
        return max(found)[3] if found else None

    def _had(self, client_id: str) -> bool:
        """Whether the node that has ended had a session of this client, as far as copies show."""
        return any(copies[client_id].is_owners == 1 for copies in self.told.values() if client_id in copies)


@attrs.define(eq=False)
class Adoption:
    """Sessions that are being adopted. sessions: client id -> (claim, its copy); missing: peers that have not passed
    the fence; orphaned: what they had for the node that has ended; sent_on: what they had sent on to it, for sessions
    that had moved there."""

    name: str
    until_ns: int
    sessions: dict[str, tuple[int, SessionCopy]]
    missing: dict[str, None]
    orphaned: list[Publication] = attrs.field(factory=list)
    sent_on: list[QueuedDelivery] = attrs.field(factory=list)


class Orphans:
    """See the module."""

    def __init__(self, host: OrphansHost, copies: SessionCopies, handovers: Handovers, adopt_s: float) -> None:
        self._host = host
        self._copies = copies
        self._handovers = handovers
        self._patience_ns = round(adopt_s * SECOND)
        self.ended: dict[str, EndedNode] = {}
        self.adoptions: dict[int, Adoption] = {}
        self._early: dict[tuple[str, str], tuple[int, dict[str, CopyRank]]] = {}     # (peer, ended) -> when, copies
        self._last_number = 0

    # --- a node ends --------------------------------------------------------------------------------------------------

    def peers_went(self, names: Collection[str], now_ns: int) -> None:
        """Peers are away: tell the others which copies are here. All at once that went at once, since a session may be
        at one of them, and claimed by another."""
        if not self._copies.is_on or not names:
            return
        for name in names:
            # One that has not said yet that it keeps copies may have the only one (seed 46049).
            self.ended[name] = EndedNode(
                name, self._host.origin_of(name), now_ns, {}, dict.fromkeys(self._host.names_perhaps_keeping(now_ns)))
        for name in names:
            self._tell_copies(self.ended[name], now_ns)
        for name in names:
            for other in self.ended.values():
                other.missing.pop(name, None)
                other.told.pop(name, None)
                self._ask_again(other, now_ns)
            for adoption in self.adoptions.values():
                adoption.missing.pop(name, None)
        self.look(now_ns)

    def _tell_copies(self, node: EndedNode, now_ns: int) -> None:
        """Tell the others which copies of the sessions of a node are here, and take what they have told already."""
        name = node.name
        mine = {client_id: rank for client_id, copies in self._copies.here.items()
                if (rank := self._rank(client_id, copies, name)) is not None}
        for client_id in self._host.broker.sessions:
            owner = self._handovers.owner_of(client_id)
            if owner is not None and owner.node == name and client_id not in self._handovers.arriving:
                mine[client_id] = LIVE                   # it was on its way there
        node.told[self._host.name] = mine
        entries = list(mine.items())
        for peer in node.missing:
            for at in range(0, len(entries) + 1, HERE_ENTRIES):
                is_last = at + HERE_ENTRIES > len(entries)
                self._host.send_event(peer, EventKind.COPIES_HERE,
                                      here_body(name, is_last, entries[at:at + HERE_ENTRIES]))
        for (peer, ended), (at_ns, copies) in list(self._early.items()):
            if ended == name:
                del self._early[peer, ended]
                if peer in node.missing and now_ns - at_ns < 2 * self._patience_ns:
                    node.told[peer] = copies
                    del node.missing[peer]

    def peer_came(self, name: str, is_same_life: bool) -> None:
        """A peer is back. In the same life it still has its sessions: what is not adopted yet stays there, and so do
        the wills of its clients. They may have come back since, which their copies here do not show (seed 952747)."""
        if is_same_life:
            self.ended.pop(name, None)
            self._host.broker.withdraw_adopted_wills(name)

    def is_awaited(self, client_id: str, name: str) -> bool:
        """Whether a session of a node that has ended may come yet: another node has a copy, or it is not known yet."""
        node = self.ended.get(name)
        return node is not None and (not node.is_decided or bool(node.missing) or node.best(client_id) is not None)

    def claimed(self, client_id: str, name: str, claim: int, now_ns: int) -> None:
        """A client has connected here whose session was at a node that has ended: ask for it, once it is known where
        the best copy is."""
        node = self.ended.get(name)
        if node is not None and node.is_decided:
            self._ask(node, client_id, claim, now_ns)

    def _rank(self, client_id: str, copies: dict[str, SessionCopy], name: str) -> CopyRank | None:
        """The copy here of a session of a node; of one that it had just adopted, that of the owner before. The node may
        also have waited for a session of one that had ended before it, and a third one for it by now: then there are
        copies of that session which nobody has declared void."""
        own = copies.get(name)
        if own is not None:
            return CopyRank(1, own.begin, own.turn)
        owner = self._handovers.owner_of(client_id)
        found = [copy for node, copy in copies.items()
                 if owner is not None and (owner.node == name or node in self.ended)]
        best = max(found, key=lambda copy: (copy.begin, copy.turn), default=None)
        return None if best is None else CopyRank(0, best.begin, best.turn)

    def _copy(self, client_id: str, name: str) -> tuple[str, SessionCopy] | None:
        """The copy that `_rank` is of, and the node whose session it is of."""
        copies = self._copies.here.get(client_id, {})
        if name in copies:
            return name, copies[name]
        return max(copies.items(), key=lambda found: (found[1].begin, found[1].turn), default=None)

    # --- events -------------------------------------------------------------------------------------------------------

    def event_came(self, name: str, kind: int, body: bytes, now_ns: int) -> bool:
        """An event of a stream; False: it is none of copies. Raises WireError."""
        if kind == EventKind.COPY:
            self._copies.copy_came(name, body, now_ns)
        elif kind == EventKind.COPIES_VOID:
            self._copies.void_came(name, *read_text(body))
        elif kind == EventKind.COPIES_HERE:
            self._told(name, *read_here(body), now_ns)
        elif kind == EventKind.COPY_WANTED:
            self._wanted(name, *read_wanted(body), now_ns)
        elif kind == EventKind.ORPHANED:
            number, message = int.from_bytes(body[:8], "big"), read_message(body[8:], now_ns)
            adoption = self.adoptions.get(number)
            if adoption is not None and name in adoption.missing:
                adoption.orphaned.append(message.publication)
        elif kind == EventKind.ORPHANED_QUEUED:
            adoption = self.adoptions.get(int.from_bytes(body[:8], "big"))
            if adoption is not None and name in adoption.missing:
                adoption.sent_on.append(QueuedDelivery.decode(body[8:], now_ns))
        elif kind == EventKind.ORPHANS_PASSED:
            _, number = read_text(body)
            adoption = self.adoptions.get(number)
            if adoption is not None:
                adoption.missing.pop(name, None)
                self.look(now_ns)
        else:
            return False
        return True

    def fence_came(self, name: str, fence: OrphanFence, now_ns: int) -> None:
        """A node adopts sessions of one that has ended: it gets what is here for that one."""
        number = fence.number.to_bytes(8, "big")
        for publication in self._host.held_for(fence.name):
            body = message_body(ForwardedMessage(publication), now_ns)
            self._host.send_event(name, EventKind.ORPHANED, number + body)
        for body in self._host.sent_on_to(fence.name):
            self._host.send_event(name, EventKind.ORPHANED_QUEUED, number + body)
        self._host.send_event(name, EventKind.ORPHANS_PASSED, text_body(fence.name, fence.number))

    def peer_ready(self, name: str) -> None:
        """Events reach a peer: tell it that this node keeps copies."""
        if self._copies.is_on:
            self._host.send_event(name, EventKind.COPIES_HERE, here_body(NOBODY, True, ()))

    def _told(self, peer: str, name: str, is_last: bool, copies: dict[str, CopyRank], now_ns: int) -> None:
        if name == NOBODY:
            self._host.peer_keeps(peer)
            return
        node = self.ended.get(name)
        if node is None or (node.is_decided and peer not in node.missing):
            if len(self._early) >= MAX_EARLY:
                del self._early[next(iter(self._early))]
            _, known = self._early.pop((peer, name), (0, {}))
            self._early[peer, name] = now_ns, {**known, **copies}
            return
        node.told[peer] = {**node.told.get(peer, {}), **copies}
        if is_last:
            node.missing.pop(peer, None)
            self._ask_again(node, now_ns)
            self.look(now_ns)

    # --- who adopts what ----------------------------------------------------------------------------------------------

    def look(self, now_ns: int) -> None:
        """Decide what can be decided, finish what is complete, and what took too long."""
        for node in list(self.ended.values()):
            if not node.is_decided and (not node.missing or now_ns - node.at_ns >= self._patience_ns):
                node.is_decided = True
                self._decide(node, now_ns)
            if node.is_decided and now_ns - node.at_ns >= REMEMBERED_S * SECOND:
                del self.ended[node.name]
        for number, adoption in list(self.adoptions.items()):
            if not adoption.missing or now_ns >= adoption.until_ns:
                del self.adoptions[number]
                self._complete(adoption, now_ns)
        for key, (at_ns, _) in list(self._early.items()):
            if now_ns - at_ns >= 2 * self._patience_ns:
                del self._early[key]

    def _decide(self, node: EndedNode, now_ns: int) -> None:
        me, adopted = self._host.name, dict[str, dict[str, tuple[int, SessionCopy]]]()
        for client_id in list(node.told[me]):
            found = self._copy(client_id, node.name)
            if node.best(client_id) != me:
                continue
            if node.told[me][client_id] == LIVE:
                self._handovers.reclaim(client_id, now_ns)
                continue
            if found is None or client_id in self._host.broker.sessions:
                continue
            of_node, copy = found
            owner = self._handovers.owner_of(client_id)
            if self._has_left(owner, node):
                continue                                 # the new owner asks for it, unless it has all
            if copy.expiry_s:
                claim = self._handovers.adopt(client_id, now_ns)
            else:
                claim = 0                                # the session has ended with its node: its will alone
                del node.told[me][client_id]
            adopted.setdefault(of_node, {})[client_id] = claim, copy
        for of_node, sessions in adopted.items():
            self._adopt(of_node, sessions, now_ns)
        for client_id, claim in self._handovers.waiting_for(node.name):
            self._ask(node, client_id, claim, now_ns)

    def _ask_again(self, node: EndedNode, now_ns: int) -> None:
        """More is known of the copies. Sessions that are claimed since from a later process of that name are not meant
        (seed 73141)."""
        unknown, node.unknown = node.unknown, {}
        for client_id, claim in unknown:
            if (client_id, claim) in self._handovers.waiting_for(node.name):
                self._ask(node, client_id, claim, now_ns)

    def _has_left(self, owner: SessionOwner | None, node: EndedNode) -> bool:
        """Whether a session that is not here has moved, or moves, from a node that has ended to another one. This node
        may have claimed it, and was told that it stays, though the table has not the other claim yet (seed 50170)."""
        if owner is None or owner.node == node.name:
            return False
        me = self._host.name
        if owner.node == me:
            return owner.client_id in self._handovers.arriving or not node.told[me][owner.client_id].is_owners
        return not node.told[me][owner.client_id].is_owners or owner.node in self._host.names_up()

    def _ask(self, node: EndedNode, client_id: str, claim: int, now_ns: int) -> None:
        """For a session that this node has claimed. If there is no copy, but some have not told which they have, those
        are waited for, as long as a handover may take (seed 67665)."""
        best = node.best(client_id)
        if best is None and node.missing:
            node.unknown[client_id, claim] = None
            return
        if best is None:
            self._handovers.nothing_comes(client_id, claim, node.name, now_ns)
        elif best == self._host.name:
            self._wanted_here(node.name, client_id, claim, now_ns)
        else:
            self._handovers.comes_from(client_id, claim, node.name, best)
            self._host.send_event(best, EventKind.COPY_WANTED, wanted_body(node.name, client_id, claim))

    def _wanted_here(self, name: str, client_id: str, claim: int, now_ns: int) -> None:
        found = self._copy(client_id, name)
        if found is None or client_id in self._adopting():
            return
        of_node, copy = found
        if copy.expiry_s:
            self._handovers.arrives(client_id, claim, now_ns)
        self._adopt(of_node, {client_id: (claim, copy)}, now_ns)
        if not copy.expiry_s:                            # it has ended with its node (mqtt-expiry 184)
            self._handovers.nothing_comes(client_id, claim, name, now_ns)

    def _wanted(self, peer: str, name: str, client_id: str, claim: int, now_ns: int) -> None:
        """A peer has claimed a session, and the best copy is here."""
        found, owner = self._copy(client_id, name), self._handovers.owner_of(client_id)
        if owner is not None and self._handovers.is_coming(owner, peer):
            # This node has claimed it since, and waits for the peer, which asks for it in turn: it comes from here.
            # The peer gets no answer, see below (seed 30621).
            if found is None or not found[1].expiry_s or client_id in self._adopting():
                self._handovers.nothing_comes(client_id, owner.claim, peer, now_ns)
            else:
                self._handovers.comes_from(client_id, owner.claim, peer, self._host.name)
                self._wanted_here(name, client_id, owner.claim, now_ns)
            return
        if owner is not None and owner.node == self._host.name and owner.claim > claim and (
                client_id not in self._handovers.arriving):
            return                                       # it is here; the table tells the peer (seed 102632)
        if owner is None or owner.node in (peer, name) or owner.node not in self._host.names_up():
            owner = SessionOwner(client_id, peer, claim, False)
        # Else another node has claimed it since, from this peer or because the peer was away when it asked: that node
        # gets it, and the peer no answer, which it might pass on to that node before the session comes.
        if client_id in self._adopting() or client_id in self._host.broker.sessions:
            self._handovers.hand_on(owner, now_ns)
        elif found is None or not found[1].expiry_s or owner.clean:
            self._host.send_event(peer, EventKind.MOVED, SessionMoved(client_id, claim, False).encode())
        else:
            own = self._handovers.arrives(client_id, 0, now_ns)
            self._adopt(found[0], {client_id: (own, found[1])}, now_ns)
            self._handovers.hand_on(owner, now_ns)

    def _adopting(self) -> dict[str, None]:
        return {client_id: None for adoption in self.adoptions.values() for client_id in adoption.sessions}

    # --- adoption -----------------------------------------------------------------------------------------------------

    def _adopt(self, name: str, sessions: dict[str, tuple[int, SessionCopy]], now_ns: int) -> None:
        """Begin sessions of copies."""
        for client_id, (_, copy) in sessions.items():
            if copy.expiry_s:
                self._host.broker.adopt(client_id, copy.expiry_s, list(copy.subscriptions.items()), now_ns,
                                        copy.away_ns(now_ns), last_id_of(copy))
            if copy.will is not None:
                will, copy.will = copy.will, None
                delay_ns = (will.properties.will_delay_interval or 0) * SECOND
                self._host.broker.adopt_will(
                    client_id, will, now_ns, left_ns=delay_ns - copy.away_ns(now_ns), of_node=name)
            if not copy.expiry_s:                        # that session has ended, not one of another node
                self._copies.forget(client_id, name)
        lasting = {client_id: found for client_id, found in sessions.items() if found[1].expiry_s}
        if not lasting:
            return
        self._host.counters.add("sessions_adopted", len(lasting))
        self._last_number += 1
        self.adoptions[self._last_number] = Adoption(
            name, now_ns + self._patience_ns, lasting, dict.fromkeys(self._host.names_up()),
            self._host.held_for(name),
            [QueuedDelivery.decode(body, now_ns) for body in self._host.sent_on_to(name)])
        self._host.fence(OrphanFence(name, self._last_number))
        self.look(now_ns)

    def _complete(self, adoption: Adoption, now_ns: int) -> None:
        """All that there is has come."""
        if adoption.missing:
            self._host.counters.add("adoptions_late")
        for client_id, (claim, copy) in adoption.sessions.items():
            queued = list(self._deliveries(client_id, claim, copy))
            seen = dict(copy.seen)
            for publication in adoption.orphaned:
                delivery = delivery_for(client_id, publication, copy.subscriptions)
                if delivery is not None and publication.number > seen.get(publication.origin, 0):
                    seen[publication.origin] = publication.number
                    queued.append(QueuedDelivery(client_id, claim, 0, delivery))
                    if copy.late is not None:
                        copy.late.is_new(publication)
            late = self._late_of(adoption, copy, claim, seen, now_ns)
            for each in adoption.sent_on:
                if late is not None and each.client_id == client_id and not each.packet_id and late.takes(
                        each.claim, each.delivery.publication, each.delivery.group):
                    self._host.counters.add("late_messages")
                    queued.append(each)
            moved = SessionMoved(client_id, claim, True, False, last_id_of(copy), tuple(copy.recorded),
                                 tuple(seen.items()), late is not None)
            self._handovers.arrived(moved, queued, late, now_ns)
            self._copies.forget(client_id, adoption.name)

    def _late_of(
        self, adoption: Adoption, copy: SessionCopy, claim: int, seen: dict[int, int], now_ns: int,
    ) -> LateMessages | None:
        """What may come behind a session that is made of a copy: what would have come late to its former node, and what
        peers have for that node that are away, or have not answered."""
        late = copy.late or LateMessages(claim, {})
        missing = [name for name in (*self._host.names_away(), *adoption.missing) if name != adoption.name]
        if missing:
            ended = self.ended.get(adoption.name)
            life = self._host.origin_of(adoption.name) if ended is None else ended.life
            late.join(LateMessages(
                claim, {adoption.name: self._handovers.left_without(claim, life, seen, missing, now_ns)}))
        late.claim = claim
        return late if late.expire(now_ns) else None

    def _deliveries(self, client_id: str, claim: int, copy: SessionCopy) -> Iterable[QueuedDelivery]:
        in_flight: Iterable[tuple[int, StoredDelivery | None]] = copy.in_flight.items()
        queue: deque[StoredDelivery] = copy.queue
        for packet_id, stored in (*in_flight, *((0, each) for each in queue)):
            if stored is None:
                yield QueuedDelivery(client_id, claim, packet_id, NO_MESSAGE)
                continue
            try:
                delivery = read_delivery(stored)
            except WireError:
                self._host.counters.add("dropped_copy")
                continue
            yield QueuedDelivery(client_id, claim, packet_id, delivery)


def last_id_of(copy: SessionCopy) -> int:
    """The packet id behind which those of a session begin that is made of a copy."""
    return (copy.last_id + APART) % MAX_PACKET_ID


def _draw(client_id: str, name: str) -> bytes:
    return blake2b(f"{client_id}\0{name}".encode(), digest_size=8).digest()
