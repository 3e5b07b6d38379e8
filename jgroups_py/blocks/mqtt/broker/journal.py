"""What changes of a session, for its copies at other nodes, and what its client may see of it before they have it.

A session with a journal tells it each change: a copy that carries out the same ones is the same session, but for
messages of QoS 0. What the client could rely on (SUBACK, UNSUBACK, PUBREL, PUBCOMP, a PUBLISH of QoS 2) waits until the
copies have what it follows from, so that another node can go on from there; see federation/copies.py.
"""
from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import attrs

from jgroups_py.blocks.mqtt.broker.outputs import Output
from jgroups_py.blocks.mqtt.codec.packets import Will


class Queued(Protocol):
    """A session.Delivery."""

    qos: int


class SessionChange(enum.IntEnum):
    """What a change of a session is, with what follows it."""

    CONNECTION = 1
    """expiry_s, is_connected, will: of the connection that has begun, or ended."""
    SUBSCRIBED = 2
    """filter, options."""
    UNSUBSCRIBED = 3
    """filter."""
    RECORDED = 4
    """packet id of QoS 2 from the client."""
    UNRECORDED = 5
    """packet id: PUBREL came."""
    QUEUED = 6
    """delivery, behind the others."""
    UNQUEUED = 7
    """Nothing: the first of the queue is out of it."""
    TAKEN = 8
    """packet id: the first of the queue is in flight under it."""
    SENT = 9
    """packet id, delivery: in flight, and was never queued."""
    RELEASED = 10
    """packet id: PUBREL was sent, the message is the client's."""
    DONE = 11
    """packet id: free."""


Entry = tuple[Any, ...]
"""(SessionChange, what follows it)."""


@attrs.define(eq=False)
class Barrier:
    """What waits until copies have what they were sent. left: how many of them have not; then: what waits, for
    `ack_timeout_s` at most; when_complete: what is called once all have it, however late."""

    at_ns: int
    left: int = 1
    then: list[Callable[[], None]] = attrs.field(factory=list)
    when_complete: list[Callable[[], None]] = attrs.field(factory=list)
    is_given_up: bool = False

    @property
    def is_passed(self) -> bool:
        """Whether nothing waits any more."""
        return self.left <= 0 or self.is_given_up

    def arrived(self) -> None:
        """One has it."""
        if self.left > 0:
            self.left -= 1
            if not self.left:
                for each in self.when_complete:
                    each()
                self._pass()

    def give_up(self) -> None:
        """Wait no longer."""
        self.is_given_up = True
        self._pass()

    def _pass(self) -> None:
        then, self.then = self.then, []
        for each in then:
            each()


class SessionJournal:
    """The changes of a session that are not on their way yet, and what waits for those that are.

    changed: called at the first change since `take`.
    """

    __slots__ = ("_changed", "_held", "_outputs", "_popped", "barrier", "entries", "is_whole", "with_messages")

    def __init__(self, outputs: Callable[[], list[Output]], changed: Callable[[], None]) -> None:
        self.entries: list[Entry] = []
        self.with_messages = True                        # False: of the connection alone, with which all ends
        self.is_whole = True                             # the next is the whole session, whatever the entries say
        self.barrier: Barrier | None = None              # of what is on its way
        self._held: deque[tuple[Barrier | None, Output]] = deque()     # None: for what is not on its way yet
        self._outputs = outputs
        self._changed = changed
        self._popped: Queued | None = None

    # --- what the session says ----------------------------------------------------------------------------------------

    def connection(self, expiry_s: int, is_connected: bool, will: Will | None) -> None:
        """The connection has begun, or ended."""
        self._add((SessionChange.CONNECTION, expiry_s, is_connected, will))

    def subscribed(self, filter: str, granted: object) -> None:
        """A subscription is set."""
        self._add((SessionChange.SUBSCRIBED, filter, granted))

    def unsubscribed(self, filter: str) -> None:
        """A subscription has ended."""
        self._add((SessionChange.UNSUBSCRIBED, filter))

    def recorded(self, packet_id: int) -> None:
        """QoS 2 of the client is routed under this id."""
        self._add((SessionChange.RECORDED, packet_id))

    def unrecorded(self, packet_id: int) -> None:
        """PUBREL of the client came."""
        self._add((SessionChange.UNRECORDED, packet_id))

    def queued(self, delivery: Queued) -> None:
        """A message is behind the others in the queue."""
        if delivery.qos:
            self._add((SessionChange.QUEUED, delivery))

    def unqueued(self, delivery: Queued) -> None:
        """The first one is out of the queue; `began` may follow at once."""
        if delivery.qos:
            self._add((SessionChange.UNQUEUED,))
            self._popped = delivery

    def began(self, packet_id: int, delivery: Queued) -> None:
        """A message is in flight."""
        if self._popped is delivery and self.entries and self.entries[-1][0] is SessionChange.UNQUEUED:
            self.entries[-1] = (SessionChange.TAKEN, packet_id)     # so its bytes need not go again
        else:
            self._add((SessionChange.SENT, packet_id, delivery))
        self._popped = None

    def released(self, packet_id: int) -> None:
        """PUBREL goes to the client."""
        self._add((SessionChange.RELEASED, packet_id))

    def done(self, packet_id: int) -> None:
        """A packet id is free."""
        self._add((SessionChange.DONE, packet_id))

    def changed_wholly(self) -> None:
        """More than changes can say: the copies get all of it."""
        self.is_whole = True
        self.entries.clear()
        self._changed()

    def _add(self, entry: Entry) -> None:
        if not self.with_messages and entry[0] is not SessionChange.CONNECTION:
            return
        if not self.entries:
            self._changed()
        self.entries.append(entry)

    # --- what the client may see --------------------------------------------------------------------------------------

    def put(self, output: Output, waits: bool) -> None:
        """Send it: at once, or if it `waits`, when the copies have all changes so far; those that wait keep their
        order."""
        if waits and self.with_messages and (self._held or self.entries or self.is_whole
                      or (self.barrier is not None and not self.barrier.is_passed)):
            self._held.append((None if self.entries or self.is_whole else self.barrier, output))
        else:
            self._outputs().append(output)

    @property
    def holds(self) -> bool:
        """Whether something waits that is for the client."""
        return bool(self._held)

    def forget_held(self) -> None:
        """The connection is no more."""
        self._held.clear()

    # --- what copies.py says ------------------------------------------------------------------------------------------

    def take(self, barrier: Barrier) -> tuple[list[Entry], bool]:
        """(changes, whether the whole session has to go): they are on their way, up to this barrier."""
        found, is_whole = self.entries, self.is_whole
        self.entries, self.is_whole, self._popped = [], False, None
        self.barrier = barrier
        if self._held:
            self._held = deque((barrier if waits_for is None else waits_for, output)
                               for waits_for, output in self._held)
        barrier.then.append(self.let_go)                 # also what is put behind this while it is on its way
        return found, is_whole

    def let_go(self) -> None:
        """A barrier was passed: send what waited for it."""
        held = self._held
        while held:
            waits_for = held[0][0]
            if waits_for is None or not waits_for.is_passed:
                return
            self._outputs().append(held.popleft()[1])
