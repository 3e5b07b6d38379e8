"""Members as SWIM reports them to an application: identity, state, and the evidence for it.

Eventual: no view and no order. Two members may see the same change at different times, some only the last of several.
"""
from __future__ import annotations

from collections.abc import Mapping

import attrs

from jgroups_py.model.address import Address, PhysicalAddress

BY_DATAGRAM, BY_HELPERS, BY_LINK, REFUSED = 1, 2, 4, 8
"""Bits: on which paths a probe got no answer. REFUSED: no process listens there any more."""
_PATHS = {BY_DATAGRAM: "datagram", BY_HELPERS: "helpers", BY_LINK: "link", REFUSED: "link refused"}


@attrs.frozen
class Accusation:
    """Evidence: `by` got no answer, on the paths `tried` (bits); received here at `at_ns`. by "": second-hand only."""

    by: str
    tried: int
    at_ns: int

    @property
    def paths(self) -> tuple[str, ...]:
        """On which paths no answer came, in words; () if not reported (members of other systems)."""
        return tuple(word for bit, word in _PATHS.items() if self.tried & bit)

    def __str__(self) -> str:
        return f"{self.by or 'hearsay'}: no answer" + (f" by {', '.join(self.paths)}" if self.paths else "")


@attrs.frozen
class Member:
    """A member, as far as known now.

    name: stays the same through restarts; address: of this start of it. state: "alive", "suspect", "failed", "left".
    rtt_ns: how long its answer to this member's latest probe took; None: it was not probed yet.
    """

    name: str
    address: Address
    place: PhysicalAddress | None
    state: str
    incarnation: int
    tags: Mapping[str, str]
    weight: float
    rtt_ns: int | None = None


JOINED, UPDATED, SUSPECTED, REFUTED, FAILED, MEMBER_LEFT, CONFLICT = (
    "joined", "updated", "suspected", "refuted", "failed", "left", "conflict")
"""Kinds of change. conflict: another process claims the name of a live member; it is not admitted."""
