"""LeftEarlySessions: sessions that went on from here before all others had passed the fence of their move. Pure.

What those still bring for such a session goes on from here (handover.py), until they pass the fence, or for as long as
they may keep it.
"""
from __future__ import annotations

from collections.abc import Mapping

import attrs

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.session import GrantedOptions, LateMessages

MAX_LEFT_EARLY = 100_000


@attrs.define(eq=False)
class LeftEarly:
    """A session that went on to another node before all of `missing` had passed the fence, that of this node or of one
    before. claim: the number of the CONNECT that it left for; subscriptions, seen, late: of the session as it was
    here; is_redirected: something has gone on by another node than `dest`."""

    dest: str
    claim: int
    until_ns: int
    missing: dict[str, None]
    subscriptions: Mapping[str, GrantedOptions]
    seen: dict[int, int]
    late: LateMessages | None
    is_redirected: bool = False

    def has_had(self, publication: Publication) -> bool:
        """Whether a message has come to the session here, or before, by another way than its order. What passes here on
        its way to the session is not noted: it may come by this node once more, from where the session has just left.
        """
        return self.late is not None and self.late.has(publication)


class LeftEarlySessions:
    """See the module. by_peer: a peer that has to pass fences -> client id -> the session."""

    def __init__(self) -> None:
        self.by_client: dict[str, LeftEarly] = {}
        self.by_peer: dict[str, dict[str, LeftEarly]] = {}

    def add(self, client_id: str, left: LeftEarly) -> bool:
        """It has just left, perhaps once more: who passes this fence has passed the one of before. Whether there was
        room."""
        if client_id in self.by_client:
            self.forget(client_id)
        elif len(self.by_client) >= MAX_LEFT_EARLY:
            return False
        self.by_client[client_id] = left
        for name in left.missing:
            self.by_peer.setdefault(name, {})[client_id] = left
        return True

    def passed(self, client_id: str, name: str, claim: int) -> LeftEarly | None:
        """A peer has passed the fence of a move; the session, if it was the last one that had to."""
        left = self.by_client.get(client_id)
        if left is not None and name in left.missing and claim == left.claim:
            del left.missing[name]
            self._forget_peer(client_id, name)
            if not left.missing:
                return self.by_client.pop(client_id)
        return None

    def forget(self, client_id: str) -> None:
        """Nothing more is sent on for it."""
        left = self.by_client.pop(client_id)
        for name in left.missing:
            self._forget_peer(client_id, name)

    def peer_ended(self, name: str) -> None:
        """A peer is another process: what it had for sessions that left is gone, and it is late with nothing."""
        for client_id, left in list(self.by_peer.get(name, {}).items()):
            del left.missing[name]
            self._forget_peer(client_id, name)

    def _forget_peer(self, client_id: str, name: str) -> None:
        of_peer = self.by_peer[name]
        del of_peer[client_id]
        if not of_peer:
            del self.by_peer[name]

    def expire(self, now_ns: int) -> None:
        """Nothing more is expected for those that left long ago."""
        for client_id, left in list(self.by_client.items()):
            if now_ns >= left.until_ns:
                self.forget(client_id)
