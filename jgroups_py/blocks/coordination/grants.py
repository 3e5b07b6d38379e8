"""Grants that a member holds, and the lease of its session, by which they are valid. Pure; times in ns."""
from __future__ import annotations

from collections.abc import Callable

import attrs

EXPIRED, RELEASED, CLOSED = "expired", "released", "closed"
"""Why a grant is no longer valid."""


class Lease:
    """How long a session is valid. Once it was seen to be over it never is valid again.

    Any thread may look, while a round extends it: `over` is only ever set, so at worst a lease that was just being
    extended is over.
    """

    def __init__(self, until_ns: int) -> None:
        self.until_ns = until_ns
        self.over = False

    def holds(self, now_ns: int) -> bool:
        """Whether it is valid at this time."""
        if now_ns >= self.until_ns:
            self.over = True
        return not self.over

    def extend(self, until_ns: int, now_ns: int) -> bool:
        """A renewal was confirmed. Returns whether the lease is valid."""
        if self.holds(now_ns):
            self.until_ns = max(self.until_ns, until_ns)
        return not self.over

    def end(self) -> None:
        """It is over."""
        self.over = True


@attrs.define(eq=False)
class HeldGrant:
    """A grant of this member. why: "" or why it is no longer valid. on_lost: called inside a round, once, with that;
    not when the holder released it."""

    fence: int
    lease: Lease
    value: bytes = b""
    attempt: int = 0
    why: str = ""
    on_lost: Callable[[str], object] | None = None

    def valid(self, now_ns: int) -> bool:
        """Whether it is held at this time; from any thread."""
        return not self.why and self.lease.holds(now_ns)

    def end(self, why: str) -> None:
        """It is no longer valid."""
        if not self.why:
            self.why = why
            if why != RELEASED and self.on_lost is not None:
                self.on_lost(why)
