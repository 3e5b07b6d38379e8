"""What a broker knows of one peer, which it knows by name."""
from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from jgroups_py.blocks.mqtt.federation.stream import OutgoingStream, PeerEvent
from jgroups_py.model.units import NS_PER_S

FIRST_PATIENCE_NS = NS_PER_S // 2
"""The first patience with a peer, and the longest unless an option wants more. It is waited for twice, which is the
second of RFC 6298, section 2.1."""

@attrs.define(eq=False)
class HeldPeerAck:
    """Events below `next` may be acknowledged once nothing `waits`, nor for those before."""

    next: int
    waits: int = 0


class FederationPeer:
    """Both streams, and what is kept while it is away.

    handle: what the link gave with the name, another one after each start of the peer; incarnation: its life as it said
    last; in_session, in_next: where its stream stands here.
    """

    def __init__(self, name: str, session: int, settle: Callable[[int, int], None]) -> None:
        self.name = name
        self.handle: Any = None
        self.is_up = False
        self.is_awaited = False                          # acknowledgements wait for it: it is up, and not silent
        self.awaited_since_ns = 0
        self.silent_since_ns = 0                         # since when it owes an answer; 0: it owes none
        self.asked_silent_ns = 0                         # that was longer than `patience_ns`, so it was asked then
        self.patience_ns = FIRST_PATIENCE_NS
        self.unawaited = 0                               # messages that no acknowledgement waited for though it is up
        self._usual_ns = self._deviation_ns = 0          # of the time until something comes; 0: not known
        self.is_welcomed = False                         # it has answered PeerHello since it is up
        self.is_cut = False                              # its queue was full, with the policy to disconnect
        self.incarnation = 0                             # 0: of this process it is not known yet
        self.former_incarnation = 0                      # of the process before
        self.stream = OutgoingStream(session, settle)
        self.in_session = 0
        self.in_next = 1
        self.keeps_copies = False                        # it has said so since it is up
        self.owes_ack = False                            # we owe it one
        self.held_acks: deque[HeldPeerAck] = deque()     # of events that other nodes do not have yet
        self.acked_next = 1                              # what was below was acknowledged
        self.came_ns = self.went_ns = 0
        self.hello_ns, self.hello_next = 0, 1            # when it was asked last, and what was to be sent next then
        self.resume_at = 0                               # its answer, which waits for its tree
        self.progress_ns = 0                             # when it acknowledged last, or had nothing to
        self.tree_due_ns = 0                             # when it is to be asked for its tree; 0: not
        self.asked_next, self.asked_ns = 0, 0            # what was asked for again, and when
        self.remembered: dict[str, None] = {}            # filters of its former life
        self.restarted_ns = 0
        self.parked: deque[PeerEvent] = deque()          # messages for these
        self.parked_bytes = 0
        self.undecided: deque[PeerEvent] = deque()       # messages of before its first tree
        self.undecided_bytes = 0
        self.waiting_for_room: list[int] = []            # tokens

    def heard(self, now_ns: int, least_ns: int) -> None:
        """Something has come from it while it owed an answer. The patience becomes what RFC 6298 would wait before it
        sends again, at least `least_ns`."""
        if self.is_awaited:                              # else what came ends a silence, which is not usual
            took_ns = now_ns - self.silent_since_ns
            if self._usual_ns:
                self._deviation_ns += (abs(took_ns - self._usual_ns) - self._deviation_ns) // 4
                self._usual_ns += (took_ns - self._usual_ns) // 8
            else:
                self._usual_ns, self._deviation_ns = max(1, took_ns), took_ns // 2
            self.patience_ns = max(least_ns, min(self._usual_ns + 4 * self._deviation_ns, FIRST_PATIENCE_NS))
        elif self.is_up:
            self.is_awaited, self.awaited_since_ns = True, now_ns
        self.silent_since_ns = self.asked_silent_ns = 0

    def came(self, now_ns: int, least_ns: int) -> None:
        """It can be reached, and owes nothing yet."""
        self.is_up = self.is_awaited = True
        self.came_ns = self.awaited_since_ns = self.progress_ns = now_ns
        self.silent_since_ns = self.asked_silent_ns = 0
        self._usual_ns = self._deviation_ns = 0
        self.patience_ns = max(least_ns, FIRST_PATIENCE_NS)

    def has_undecided(self) -> bool:
        """Whether an acknowledgement waits for a message that may be for it, by a tree that has not come."""
        return any(event.token for event in self.undecided)

    def hold_ack(self, waits: int) -> HeldPeerAck:
        """What has come so far is acknowledged later, when so much that it waits for is done."""
        held = HeldPeerAck(self.in_next, waits)
        self.held_acks.append(held)
        return held

    def ack_next(self) -> int:
        """What may be acknowledged: all events below."""
        while self.held_acks and not self.held_acks[0].waits:
            self.acked_next = self.held_acks.popleft().next
        if not self.held_acks:
            self.acked_next = self.in_next
        return self.acked_next

    @property
    def size(self) -> int:
        """Bytes that are kept for it."""
        return self.stream.size + self.parked_bytes

    def report(self, now_ns: int) -> dict[str, Any]:
        """The ledger and the state, for operators: accepted = acknowledged + held + dropped."""
        stream = self.stream
        return {
            "name": self.name, "state": self.state, "session": stream.session, "next_event_id": stream.next,
            "accepted": stream.accepted, "acknowledged": stream.total_acknowledged,
            "queued": len(stream.queued) + len(self.parked), "unacknowledged": len(stream.under_way),
            "bytes": self.size, "dropped": dict(stream.dropped), "unawaited": self.unawaited,
            "away_s": 0.0 if self.is_up else (now_ns - self.went_ns) / 1e9,
        }

    @property
    def state(self) -> str:
        """In a word, with the reason."""
        if self.is_cut:
            return "cut: its queue was full"
        if not self.is_up:
            return "away: not in the group"
        if not self.is_awaited:
            return "silent: acknowledgements do not wait for it"
        return "connected" if self.is_welcomed else "joining: it has not answered yet"
