"""LateAsks: what comes late for a session, and would come by a node that is away. Pure.

A session that left a node before all others had passed its fence (left_early.py) gets what these have for it by
that node, once they reach it. If that node has ended, or is cut off, the session's node asks each of them for what they
have for that one:

    the session's node   OrphanFence, behind its interest
    all others           ORPHANED, what they have in their streams for the node that is away; ORPHANED_QUEUED, what they
                         have sent on to it for sessions that had moved there; then ORPHANS_PASSED

A message is taken for the sessions that left that node without it (session.LateSource), each once, whatever other way
it takes. Each peer is asked once about each source of a session: when the source goes, when the session comes, or when
the peer can be reached.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.session import LateSource
from jgroups_py.blocks.mqtt.federation.copy_bytes import read_text
from jgroups_py.blocks.mqtt.federation.handover import COMING, Handovers
from jgroups_py.blocks.mqtt.federation.sessions import QueuedDelivery
from jgroups_py.blocks.mqtt.federation.wire import EventKind, OrphanFence, read_message

FIRST_NUMBER = 1 << 60
"""Of the fences of this; those of orphans.py begin with 1."""
KEPT = 1_000
"""Questions that an answer may still come to."""


class LateAsksHost(Protocol):
    """What this asks of the federation."""

    @property
    def name(self) -> str:
        """Of this node."""

    def is_present(self, name: str, life: int) -> bool:
        """Whether a node can be reached in this life, as far as is known. life: 0 for any."""

    def names_ready(self) -> list[str]:
        """The peers that events reach now."""

    def fence(self, fence: OrphanFence, name: str | None = None) -> None:
        """Send it to a peer, or to all (None), behind all interest of before."""

    def held_for(self, name: str) -> list[Publication]:
        """The messages of QoS 1 and 2 for plain subscribers that this node still has for a peer, in order."""

    def sent_on_to(self, name: str) -> list[bytes]:
        """The bodies of QUEUED, for sessions that had moved there, that this node still has for a peer."""


@attrs.define(eq=False)
class LateAsk:
    """A question to a peer: what it has for the node `name`. sources: (client id, what that node is to its session)."""

    name: str
    peer: str
    sources: list[tuple[str, LateSource]]


class LateAsks:
    """See the module."""

    def __init__(self, host: LateAsksHost, handovers: Handovers) -> None:
        self._host = host
        self._handovers = handovers
        self._last_number = FIRST_NUMBER
        self._asks: dict[int, LateAsk] = {}

    def ask(self, now_ns: int, peer: str | None = None) -> None:
        """Ask all peers, or one that has just come, and look at what this node has itself."""
        if not self._handovers.followed:
            return
        away: dict[str, list[tuple[str, LateSource]]] = {}
        for client_id, name, source in self._handovers.late_sources():
            if name in (COMING, self._host.name):
                continue
            if self._host.is_present(name, source.life):
                source.asked.clear()                     # others may send something on to it before it goes again
            else:
                away.setdefault(name, []).append((client_id, source))
        for name, sources in away.items():
            for each in [self._host.name, *self._host.names_ready()] if peer is None else [peer]:
                self._ask_one(each, name, [found for found in sources if each not in found[1].asked], now_ns)

    def _ask_one(self, peer: str, name: str, sources: list[tuple[str, LateSource]], now_ns: int) -> None:
        if not sources or peer == name:
            return
        for _, source in sources:
            source.asked[peer] = None
        if peer == self._host.name:
            self._held(sources, self._host.held_for(name), now_ns)
            for body in self._host.sent_on_to(name):
                self._handovers.came_late(peer, QueuedDelivery.decode(body, now_ns), now_ns)
            return
        self._last_number += 1
        if len(self._asks) >= KEPT:
            del self._asks[next(iter(self._asks))]
        self._asks[self._last_number] = LateAsk(name, peer, sources)
        self._host.fence(OrphanFence(name, self._last_number), peer)

    def peer_went(self, name: str) -> None:
        """It answers nothing any more; it is asked again when it is back."""
        for number, ask in list(self._asks.items()):
            if ask.peer == name:
                del self._asks[number]
                for _, source in ask.sources:
                    source.asked.pop(name, None)

    def event_came(self, name: str, kind: int, body: bytes, now_ns: int) -> bool:
        """An event of a stream; False: it is no answer to a question of this. Raises WireError."""
        if kind not in (EventKind.ORPHANED, EventKind.ORPHANED_QUEUED, EventKind.ORPHANS_PASSED):
            return False
        number = read_text(body)[1] if kind == EventKind.ORPHANS_PASSED else int.from_bytes(body[:8], "big")
        if number < FIRST_NUMBER:
            return False
        ask = self._asks.get(number)
        if ask is None or ask.peer != name:
            return True
        if kind == EventKind.ORPHANS_PASSED:
            del self._asks[number]
        elif kind == EventKind.ORPHANED:
            self._held(ask.sources, [read_message(body[8:], now_ns).publication], now_ns)
        else:
            self._handovers.came_late(name, QueuedDelivery.decode(body[8:], now_ns), now_ns)
        return True

    def _held(
        self, sources: Iterable[tuple[str, LateSource]], publications: Iterable[Publication], now_ns: int,
    ) -> None:
        for publication in publications:
            for client_id, source in sources:
                self._handovers.held_came(client_id, source, publication, now_ns)
