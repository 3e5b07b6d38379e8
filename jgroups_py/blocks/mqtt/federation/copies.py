"""Copies of sessions at other nodes, so that a session outlives its node (`sessions: replicated`).

The owner of a session, the node that it is at, sends its changes in its streams to so many other nodes, the *keepers*
of the session. What anybody could rely on waits for them:

    a client's SUBACK, UNSUBACK, PUBCOMP, PUBREL and QoS 2   the changes that it follows from (broker/journal.py)
    a publisher's PUBACK and PUBREC                          that the message is in the copies of the sessions here
    PeerAck to the node that a message came from             the same, so the publisher there waits too

All changes of a turn of the event loop go together, in the order of the stream, and one `Barrier` waits for them. A
keeper that goes is replaced: another one gets the whole session, and what waited for the former waits for it. Nobody
waits longer than `ack_timeout_s`, or for anybody if no other node can be reached. What becomes of the sessions of a
node that has ended: orphans.py.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

import attrs

from jgroups_py.blocks.mqtt.broker.broker import Broker
from jgroups_py.blocks.mqtt.broker.journal import Barrier, Entry, SessionJournal
from jgroups_py.blocks.mqtt.broker.session import ClientSession
from jgroups_py.blocks.mqtt.federation.copy_bytes import (
    PART_BYTES,
    CopyPart,
    SessionCopy,
    change_bytes,
    number_bytes,
    part_bytes,
    parts_of,
    read_parts,
    text_body,
    whole_session,
)
from jgroups_py.blocks.mqtt.federation.wire import EventKind
from jgroups_py.blocks.placement import Candidate, Placement
from jgroups_py.model.counters import Counters
from jgroups_py.model.errors import WireError

MAX_COPIES = 1_000_000
OWN, OTHERS, ALL = range(3)
"""Which copies of a session are void: those of the node that says so, those of other owners, or all."""


class CopiesHost(Protocol):
    """What copies ask of the federation. seen: origin -> highest number of its messages here."""

    counters: Counters
    seen: dict[int, int]
    incarnation: int
    wall_offset_ns: int

    @property
    def broker(self) -> Broker:
        """The broker."""

    @property
    def name(self) -> str:
        """Of this node."""

    @property
    def number(self) -> int:
        """Publications of clients of this broker so far."""

    def names_ready(self) -> list[str]:
        """The peers that events reach now."""

    def names_keeping(self) -> list[str]:
        """The peers that can be reached and keep copies."""

    def send_event(self, name: str, kind: int, body: bytes, token: int = 0) -> bool:
        """Put an event into a peer's stream; False: there is no such peer. token: `settled` gets it when the peer has
        the event, or will not have it."""

    def new_token(self) -> int:
        """A token that waits for one more than it is given to."""

    def retain(self, token: int) -> None:
        """A token waits for one more."""

    def settle(self, token: int) -> None:
        """One of those that a token waits for is done."""

    def stir(self) -> None:
        """There is something to drain."""

    def session_node(self, client_id: str) -> str | None:
        """The node that the table of owners has for a client id."""

    def is_on_its_way(self, client_id: str) -> bool:
        """Whether another node may still send a session of this client, or more of it."""


@attrs.define(eq=False)
class KeptSession:
    """A session here that other nodes have copies of. begin: since when it is here, by the wall clock; turn: of its
    latest changes; safe_turn: the keepers have all changes up to it; under_way: later turns whose changes they may not
    have; keepers: the nodes -> the turn with which the whole session went there, 0: it has to go yet; is_clean: no
    other copies are about, or they are declared void when the keepers have the session."""

    session: ClientSession
    journal: SessionJournal
    begin: int
    turn: int = 0
    safe_turn: int = 0
    under_way: dict[int, None] = attrs.field(factory=dict)
    keepers: dict[str, int] = attrs.field(factory=dict)
    is_clean: bool = False


@attrs.define(eq=False)
class LeftSession:
    """Changes of a session that is not here any more. Its copies get them, in case the next owner needs the copies."""

    client_id: str
    begin: int
    turn: int
    keepers: tuple[str, ...]
    entries: list[Entry]


class SessionCopies:
    """See the module. copies: how many of each session, 0 for none."""

    def __init__(self, host: CopiesHost, copies: int) -> None:
        self._host = host
        self._wanted = copies
        self.is_on = copies > 0                          # sessions are copied
        self.kept: dict[str, KeptSession] = {}
        self.here: dict[str, dict[str, SessionCopy]] = {}            # client id -> owner -> its copy here
        self._building: dict[tuple[str, str], SessionCopy] = {}      # (client id, owner) -> what has come of a whole
        self._voided: dict[str, str] = {}                # client id -> the node that has, see void_came
        self._dirty: dict[str, KeptSession] = {}
        self._left: list[LeftSession] = []
        self._waits: list[Callable[[], None]] = []       # for the next turn
        self._under_way: deque[Barrier] = deque()
        self._number = 0                                 # of the latest turn
        self._of_token: dict[int, tuple[str, int, Barrier]] = {}     # -> (keeper, number, what waits for it)
        self.acks: dict[str, int] = {}                   # owner -> the number of its that is to be acknowledged
        self._placement: tuple[tuple[str, ...], Placement] = (), Placement(())

    # --- what the broker says -----------------------------------------------------------------------------------------

    def attached(self, session: ClientSession, now_ns: int) -> None:
        """A client connects: from now on its session has copies, if it outlives the connection or has a will."""
        if not self.is_on:
            return
        if session.journal is None:
            if not session.expiry_s and session.will is None:
                self._void(session.client_id, OTHERS)    # of one before, which a clean start has ended
                return
            self.keep(session, now_ns)
        journal = session.journal
        assert journal is not None, "it is kept"
        if journal.with_messages is not session.expiry_s > 0:
            journal.with_messages = session.expiry_s > 0
            journal.changed_wholly()
        journal.connection(session.expiry_s, True, session.will)

    def keep(self, session: ClientSession, now_ns: int) -> None:
        """Begin to copy a session."""
        if not self.is_on or session.journal is not None:
            return
        client_id = session.client_id
        session.journal = SessionJournal(self._host.broker.outgoing, lambda: self._changed(client_id))
        former = max((copy.begin for copy in self.here.get(client_id, {}).values()), default=0)
        session.journal.with_messages = session.expiry_s > 0
        begin = max(now_ns + self._host.wall_offset_ns, former + 1)
        self.kept[client_id] = KeptSession(session, session.journal, begin)
        self._changed(client_id)

    def rewritten(self, session: ClientSession, now_ns: int) -> None:
        """A session has got what it had elsewhere, or stays here though another node was to get it, which may have
        declared its copies void: the copies get all of it, and take the place of those that the other node had."""
        if session.expiry_s or session.will is not None:
            self.keep(session, now_ns)
        if session.journal is not None:
            self.kept[session.client_id].is_clean = False
            session.journal.changed_wholly()

    def detached(self, session: ClientSession) -> None:
        """A session goes on without a connection."""
        if session.journal is not None:
            session.journal.connection(session.expiry_s, False, session.will)

    def leaving(self, session: ClientSession) -> None:
        """A session is taken out of the broker: the copies stay, until its next owner, or `ended`, voids them."""
        kept = self.kept.pop(session.client_id, None)
        if kept is None:
            return
        self._dirty.pop(session.client_id, None)
        entries, is_whole = kept.journal.entries, kept.journal.is_whole
        session.journal = None
        keepers = tuple(name for name, since in kept.keepers.items() if since)
        if entries and not is_whole and keepers:
            self._left.append(LeftSession(session.client_id, kept.begin, kept.turn + 1, keepers, entries))

    def ended(self, client_id: str, is_owner: bool) -> None:
        """A session is no more. is_owner: nor is one elsewhere."""
        if self.is_on:
            self._left = [each for each in self._left if each.client_id != client_id]
            self._void(client_id, ALL if is_owner else OWN)

    def _void(self, client_id: str, which: int) -> None:
        """Nobody needs copies of it any more."""
        if which != OWN:
            self.here.pop(client_id, None)
        for name in self._host.names_ready():
            self._host.send_event(name, EventKind.COPIES_VOID, text_body(client_id, which))

    def _changed(self, client_id: str) -> None:
        kept = self.kept.get(client_id)
        if kept is not None:
            self._dirty[client_id] = kept
            self._host.stir()

    # --- what waits ---------------------------------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        """Whether something has changed that is not on its way."""
        return bool(self._dirty or self._left)

    def wait(self, then: Callable[[], None]) -> bool:
        """Call `then` once the copies have all that has changed so far. Returns False, and does not call it, if they
        have it now."""
        if self.is_dirty:
            self._waits.append(then)
            return True
        return False

    def settled(self, token: int) -> bool:
        """A peer has an event of copies, or will not have it; whether the token is of one."""
        found = self._of_token.pop(token, None)
        if found is None:
            return False
        found[2].arrived()
        return True

    def acknowledged(self, name: str, number: int) -> None:
        """A keeper has all up to this number."""
        for token, (keeper, sent, barrier) in list(self._of_token.items()):
            if sent > number:
                break                                    # they are in order
            if keeper == name:
                del self._of_token[token]
                barrier.arrived()

    # --- keepers ------------------------------------------------------------------------------------------------------

    def peer_went(self, name: str) -> None:
        """A keeper is gone: others take its place, and what waits for it waits for them."""
        self.acks.pop(name, None)
        for token, (keeper, _, barrier) in list(self._of_token.items()):
            if keeper == name:
                del self._of_token[token]
                self._waits.append(barrier.arrived)
        for client_id, kept in self.kept.items():
            if kept.keepers.pop(name, None) is not None:
                self._dirty[client_id] = kept

    def peer_keeps(self) -> None:
        """Another peer keeps copies now: it may be a keeper of sessions that have too few."""
        for client_id, kept in self.kept.items():
            if len(kept.keepers) < self._wanted:
                self._dirty[client_id] = kept

    def _choose(self, kept: KeptSession, names: tuple[str, ...]) -> None:
        """Keepers stay; where they are too few, others are added, by the placement of partitions."""
        if len(kept.keepers) >= min(self._wanted, len(names)):
            return
        if self._placement[0] != names:
            self._placement = names, Placement([Candidate(name) for name in names], "sessions")
        for name in self._placement[1].place(kept.session.client_id, len(names)).ids:
            if len(kept.keepers) < self._wanted and name not in kept.keepers:
                kept.keepers[name] = 0

    # --- turns --------------------------------------------------------------------------------------------------------

    def flush(self, now_ns: int) -> None:
        """Send what has changed."""
        if not (self._dirty or self._left or self._waits):
            return
        dirty, self._dirty = self._dirty, {}
        left, self._left = self._left, []
        waits, self._waits = self._waits, []
        barrier = Barrier(now_ns)
        self._number += 1
        names = tuple(sorted(self._host.names_keeping()))
        parts: dict[str, list[CopyPart]] = {}
        for each in left:
            changes = [change_bytes(entry, now_ns) for entry in each.entries]
            for name in each.keepers:
                parts.setdefault(name, []).extend(
                    parts_of(each.client_id, each.begin, each.turn, False, changes))
        for kept in dirty.values():
            self._parts_of(kept, names, barrier, parts, now_ns)
        # What waits comes behind what the barrier lets go: acknowledgements of what a client was told of.
        barrier.then += waits
        for name in sorted(parts):
            self._send(name, parts[name], barrier)
        self._under_way.append(barrier)
        barrier.arrived()
        self._clear_passed()

    def _parts_of(
        self, kept: KeptSession, names: tuple[str, ...], barrier: Barrier, parts: dict[str, list[CopyPart]],
        now_ns: int,
    ) -> None:
        """Of one session, for each of its keepers."""
        kept.keepers = {name: since for name, since in kept.keepers.items() if name in names}
        self._choose(kept, names)
        entries, is_whole = kept.journal.take(barrier)
        turn = kept.turn = kept.turn + 1
        kept.under_way[turn] = None
        barrier.when_complete.append(lambda: self._is_safe(kept, turn))
        session = kept.session
        changes: list[bytes] | None = None
        for name, since in kept.keepers.items():
            made: Iterable[bytes]
            if is_whole or not since:
                made = whole_session(session, self.seen_by(session), now_ns)
                kept.keepers[name] = since or turn
                self._host.counters.add("copies_sent_whole")
            elif entries:
                if changes is None:
                    changes = [change_bytes(entry, now_ns) for entry in entries]
                made = changes
            else:
                continue
            parts.setdefault(name, []).extend(
                parts_of(session.client_id, kept.begin, kept.turn, is_whole or not since, made))
        if not kept.is_clean and kept.keepers:
            kept.is_clean = True
            client_id = session.client_id
            barrier.then.append(lambda: self._others_are_void(client_id, kept))

    def _is_safe(self, kept: KeptSession, turn: int) -> None:
        """The keepers have the changes of this turn, or there were none for them. Those of earlier ones may still be
        under way (seed 45456)."""
        kept.under_way.pop(turn, None)
        kept.safe_turn = next(iter(kept.under_way), kept.turn + 1) - 1

    def _others_are_void(self, client_id: str, kept: KeptSession) -> None:
        """The copies have all of a session: those of former owners are not needed any more, unless something of what
        those have is still to come (seed 944824), or a former owner has the session again."""
        if self.kept.get(client_id) is not kept or self._host.session_node(client_id) != self._host.name:
            return
        if self._host.is_on_its_way(client_id):
            kept.is_clean = False                        # with its next changes
        else:
            self._void(client_id, OTHERS)

    def _send(self, name: str, parts: list[CopyPart], barrier: Barrier) -> None:
        bodies, size = [bytearray(number_bytes(self._number - 1))], 0
        for part in parts:
            if size >= PART_BYTES:
                bodies.append(bytearray(number_bytes(self._number - 1)))
                size = 0
            made = part_bytes(part)
            bodies[-1] += made
            size += len(made)
        self._host.counters.add("copy_events_sent", len(bodies))
        bodies[-1][:8] = number_bytes(self._number)      # what is before it is not all of the turn
        for body in bodies[:-1]:
            self._host.send_event(name, EventKind.COPY, bytes(body))
        token = self._host.new_token()
        self._of_token[token] = name, self._number, barrier
        barrier.left += 1
        self._host.send_event(name, EventKind.COPY, bytes(bodies[-1]), token)
        self._host.settle(token)                         # what it was given at its making

    def look(self, timeout_ns: int, now_ns: int) -> None:
        """Nobody waits longer than this."""
        self._clear_passed()
        while self._under_way and now_ns - self._under_way[0].at_ns >= timeout_ns:
            self._host.counters.add("copies_late")
            self._under_way[0].give_up()
            self._clear_passed()

    def _clear_passed(self) -> None:
        while self._under_way and self._under_way[0].is_passed:
            self._under_way.popleft()

    def state_of(self, kept: KeptSession) -> dict[str, bool]:
        """Keeper -> whether it has all that clients were told of."""
        is_safe = kept.safe_turn == kept.turn and not kept.journal.entries
        return {name: is_safe and since > 0 for name, since in kept.keepers.items()}

    def seen_by(self, session: ClientSession) -> dict[int, int]:
        """Origin -> the highest number that a session here was given."""
        here = {**self._host.seen, self._host.incarnation: self._host.number}
        return {**here, **{origin: max(number, here.get(origin, 0)) for origin, number in session.seen.items()}}

    # --- a keeper -----------------------------------------------------------------------------------------------------

    def copy_came(self, name: str, body: bytes, now_ns: int) -> None:
        """Changes of sessions of a peer. Raises WireError."""
        number, parts = read_parts(body)
        self.acks[name] = number
        for part in parts:
            key = part.client_id, name
            if part.is_whole:
                if len(self.here) >= MAX_COPIES and part.client_id not in self.here:
                    raise WireError("more copies of sessions than there can be")
                copy = self._building[key] = SessionCopy(part.begin)
            else:
                found = self._building.get(key) or self.here.get(part.client_id, {}).get(name)
                if found is None or found.begin != part.begin:
                    self._host.counters.add("dropped_copy")
                    continue
                copy = found
            try:
                copy.apply(part.changes, now_ns)
            except WireError:
                self._building.pop(key, None)
                self.forget(part.client_id, name)
                raise
            if part.is_last:
                copy.turn = part.turn
                if key in self._building:
                    self.here.setdefault(part.client_id, {})[name] = self._building.pop(key)

    def void_came(self, name: str, client_id: str, which: int) -> None:
        """A peer has a session now, with copies, or it has ended there: copies are of no use any more.

        What a former owner says of others may come behind the copy of the next one, by another stream. It stays, unless
        the table of owners, which may be late as well, has the sender next (seed 40586).
        """
        copies = self.here.get(client_id, {})
        present = None if which == OWN else self._host.session_node(client_id)
        for owner in list(copies):
            if owner == present != name:
                if which == OTHERS:
                    self._voided[client_id] = name
            elif which == ALL or (owner == name) is (which == OWN):
                del copies[owner]
        if not copies:
            self.here.pop(client_id, None)

    def owner_changed(self, client_id: str, node: str) -> None:
        """The table of owners has another node for a session, or none ("")."""
        if self._voided.pop(client_id, None) == node:
            self.void_came(node, client_id, OTHERS)

    def forget(self, client_id: str, name: str) -> None:
        """The copy of a session that a node had is of no use any more."""
        copies = self.here.get(client_id, {})
        if copies.pop(name, None) is not None and not copies:
            del self.here[client_id]

    def forget_owner(self, name: str) -> None:
        """A peer is gone for good, and its sessions are elsewhere."""
        for client_id in list(self.here):
            self.forget(client_id, name)
        for key in [key for key in self._building if key[1] == name]:
            del self._building[key]
