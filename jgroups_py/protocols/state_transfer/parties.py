"""What a requester and a provider remember of a transfer."""
from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.windows.paced import PacedBytes

Delivered = Mapping[Address, int]
"""Sender -> how many of its multicasts were delivered in the present view."""


def covers(mine: Delivered, its: Delivered) -> bool:
    """Whether everything in `its` was delivered by `mine`."""
    return all(mine.get(sender, 0) >= number for sender, number in its.items())


class Phase(enum.Enum):
    """How far a transfer is."""

    ASKING = "multicasts are kept back until a provider has said what its state will hold"
    CATCHING_UP = "the cut is known; multicasts above it are kept back until all below it have arrived"
    RECEIVING = "the state is arriving"
    RESTING = "everybody refused; all will be asked again soon"


class Transfer:
    """The requester's side.

    provider: who is being asked, None between two rounds; refused: who was asked in this round; cut: what the state
    holds; held: multicasts kept back, in order of arrival; stop: up to which byte we asked; moved_ns: when something
    last arrived; why: the last refusal.
    """

    __slots__ = ("attempt", "cut", "held", "held_bytes", "moved_ns", "phase", "provider", "received", "refused", "stop",
                 "target", "timeout_ns", "why")

    def __init__(self, target: Address, timeout_ns: int, now_ns: int) -> None:
        self.target = target
        self.timeout_ns = timeout_ns
        self.moved_ns = now_ns
        self.phase = Phase.ASKING
        self.provider: Address | None = None
        self.attempt = 0
        self.refused: dict[Address, None] = {}
        self.why = ""
        self.cut: Delivered = {}
        self.held: deque[Batch] = deque()
        self.held_bytes = 0
        self.received = 0
        self.stop = 0

    @property
    def holding(self) -> bool:
        """Whether multicasts are kept back."""
        return self.phase is Phase.ASKING or self.phase is Phase.CATCHING_UP

    def hold(self, batch: Batch) -> None:
        """Keep a run back."""
        self.held.append(batch)
        self.held_bytes += batch.nbytes

    def release(self) -> deque[Batch]:
        """Everything kept back."""
        held, self.held, self.held_bytes = self.held, deque(), 0
        return held

    def next_provider(self, members: tuple[Address, ...], me: Address) -> Address | None:
        """Whom to ask now: the wanted one, then all in view order; None if all refused."""
        return next((member for member in (self.target, *members)
                     if member in members and member != me and member not in self.refused), None)


class Waiting:
    """A request that the provider cannot answer yet."""

    __slots__ = ("attempt", "delivered", "view")

    def __init__(self, attempt: int, view: bytes, delivered: Delivered) -> None:
        self.attempt = attempt
        self.view = view
        self.delivered = delivered


class Session(PacedBytes):
    """The provider's side of one transfer: what the application wrote and the requester has not asked for yet.

    ended: the application wrote its last; error: why it failed, if it did.
    """

    __slots__ = ("attempt", "ended", "error", "requester")

    def __init__(self, requester: Address, attempt: int) -> None:
        super().__init__()
        self.requester = requester
        self.attempt = attempt
        self.ended = False
        self.error = ""
