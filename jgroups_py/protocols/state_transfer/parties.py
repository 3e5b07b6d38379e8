"""The state of a transfer at the requester and at the provider."""
from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.windows.pacing import PacedBytes

Delivered = Mapping[Address, int]
"""Sender -> number of its multicasts delivered in the current view."""


def covers(mine: Delivered, its: Delivered) -> bool:
    """Whether `mine` holds every multicast of `its`."""
    return all(mine.get(sender, 0) >= number for sender, number in its.items())


class Phase(enum.Enum):
    """The phases of a transfer, as its requester sees it."""

    ASKING = "a provider was asked; multicasts are kept back until its cut is known"
    CATCHING_UP = "the cut is known; multicasts above it are kept back until all below it have arrived"
    RECEIVING = "the state is arriving"
    RESTING = "all members refused; they are asked again after retry_interval"


class RequestedState:
    """A transfer at its requester.

    target: the member asked first; provider: the member asked now, None between two rounds; refused: members that
    refused in this round; cut: what the state holds; held: multicasts kept back, in order of arrival; received and
    stop: bytes that came, and the byte up to which the provider may send; moved_ns: time of the last progress; why: the
    last refusal.
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
        """Keep a batch back."""
        self.held.append(batch)
        self.held_bytes += batch.nbytes

    def release(self) -> deque[Batch]:
        """Everything kept back, which is kept no longer."""
        held, self.held, self.held_bytes = self.held, deque(), 0
        return held

    def next_provider(self, members: tuple[Address, ...], me: Address) -> Address | None:
        """The next provider: the target, then all members in view order; None if all refused."""
        return next((member for member in (self.target, *members)
                     if member in members and member != me and member not in self.refused), None)


class PendingRequest:
    """A request that the provider cannot answer before it has delivered `delivered` in `view`."""

    __slots__ = ("attempt", "delivered", "view")

    def __init__(self, attempt: int, view: bytes, delivered: Delivered) -> None:
        self.attempt = attempt
        self.view = view
        self.delivered = delivered


class ProvidedState(PacedBytes):
    """A transfer at its provider: a queue of what the application wrote and the requester has not asked for yet.

    ended: the application wrote its last byte, or failed with `error`.
    """

    __slots__ = ("attempt", "ended", "error", "requester")

    def __init__(self, requester: Address, attempt: int) -> None:
        super().__init__()
        self.requester = requester
        self.attempt = attempt
        self.ended = False
        self.error = ""
