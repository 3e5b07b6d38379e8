"""The state of a transfer at the requester and at the provider."""
from __future__ import annotations

import enum
from collections import deque

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.windows.pacing import PacedBytes


@attrs.frozen(eq=False)
class Position:
    """A position in the stream of multicasts: how many of each sender were delivered in the current view.

    unordered: those that have no place in the order of all senders, counted by themselves, as they and others may
    overtake each other (TOTAL). A count names messages only if they come in one order at all members.
    """

    delivered: dict[Address, int] = attrs.Factory(dict)
    unordered: dict[Address, int] = attrs.Factory(dict)

    def counts(self, *, is_ordered: bool) -> dict[Address, int]:
        """The counts of ordered messages, or of the others."""
        return self.delivered if is_ordered else self.unordered

    def covers(self, other: Position) -> bool:
        """Whether every multicast counted in the other one is counted here."""
        return all(mine.get(sender, 0) >= number
                   for mine, its in ((self.delivered, other.delivered), (self.unordered, other.unordered))
                   for sender, number in its.items())

    def copied(self) -> Position:
        """The same counts, which will not change."""
        return Position(dict(self.delivered), dict(self.unordered))


class Phase(enum.Enum):
    """The phases of a transfer, as its requester sees it."""

    REQUESTING = "a provider got a request; multicasts are kept back until its cut is known"
    CATCHING_UP = "the cut is known; multicasts above it are kept back until all below it have arrived"
    RECEIVING = "the state is arriving"
    WAITING = "all members refused; they get requests again after retry_interval"


class RequestedState:
    """A transfer at its requester.

    target: the member that gets the first request; provider: the one that got the present request, None between two
    rounds; refused: members that refused in this round; cut: the multicasts that the state contains; kept: multicasts
    kept back, in order of arrival; received: bytes of the state that arrived; stop: the byte up to which the provider
    may send; progress_ns: time of the last progress; why: the last refusal.
    """

    __slots__ = ("attempt", "cut", "kept", "kept_bytes", "phase", "progress_ns", "provider", "received", "refused",
                 "stop", "target", "timeout_ns", "why")

    def __init__(self, target: Address, timeout_ns: int, now_ns: int) -> None:
        self.target = target
        self.timeout_ns = timeout_ns
        self.progress_ns = now_ns
        self.phase = Phase.REQUESTING
        self.provider: Address | None = None
        self.attempt = 0
        self.refused: dict[Address, None] = {}
        self.why = ""
        self.cut = Position()
        self.kept: deque[Batch] = deque()
        self.kept_bytes = 0
        self.received = 0
        self.stop = 0

    @property
    def keeps_back(self) -> bool:
        """Whether multicasts are kept back."""
        return self.phase is Phase.REQUESTING or self.phase is Phase.CATCHING_UP

    def keep(self, batch: Batch) -> None:
        """Keep a batch back."""
        self.kept.append(batch)
        self.kept_bytes += batch.nbytes

    def release(self) -> deque[Batch]:
        """All that was kept back; it no longer is."""
        kept, self.kept, self.kept_bytes = self.kept, deque(), 0
        return kept

    def next_provider(self, members: tuple[Address, ...], me: Address) -> Address | None:
        """The next provider: the target, then all members in view order; None if all refused."""
        return next((member for member in (self.target, *members)
                     if member in members and member != me and member not in self.refused), None)


class PendingRequest:
    """A request that the provider answers when it has delivered all up to `position` of `view`."""

    __slots__ = ("attempt", "position", "view")

    def __init__(self, attempt: int, view: bytes, position: Position) -> None:
        self.attempt = attempt
        self.view = view
        self.position = position


class ProvidedState(PacedBytes):
    """A transfer at its provider: a queue of the bytes that the application wrote and the requester does not allow yet.

    ended: the application wrote its last byte, or failed with `error`.
    """

    __slots__ = ("attempt", "ended", "error", "requester")

    def __init__(self, requester: Address, attempt: int) -> None:
        super().__init__()
        self.requester = requester
        self.attempt = attempt
        self.ended = False
        self.error = ""
