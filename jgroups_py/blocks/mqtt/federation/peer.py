"""What a broker knows of one peer, which it knows by name."""
from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from jgroups_py.blocks.mqtt.federation.stream import OutgoingStream, PeerEvent


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
        self.is_welcomed = False                         # it has answered PeerHello since it is up
        self.is_cut = False                              # its queue was full, with the policy to disconnect
        self.incarnation = 0
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
            "bytes": self.size, "dropped": dict(stream.dropped),
            "away_s": 0.0 if self.is_up else (now_ns - self.went_ns) / 1e9,
        }

    @property
    def state(self) -> str:
        """In a word, with the reason."""
        if self.is_cut:
            return "cut: its queue was full"
        if not self.is_up:
            return "away: not in the group"
        return "connected" if self.is_welcomed else "joining: it has not answered yet"
