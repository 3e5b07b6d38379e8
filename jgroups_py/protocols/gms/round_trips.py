"""How long round trips take to the members that discovery found lately: merges wait longer for distant ones. Pure."""
from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.model.address import Address
from jgroups_py.model.events import Found
from jgroups_py.model.units import seconds

REMEMBERED_NS = seconds(60)        # discovery measures every few seconds while groups are apart
MAX_MEASURED = 1000                # members whose round trip is kept; of more, those measured last


class RoundTrips:
    """Round trips as discovery measured them: from its first question to the first answer.

    measured: member -> (round trip, when it was measured), ns; oldest first.
    """

    def __init__(self) -> None:
        self.measured: dict[Address, tuple[int, int]] = {}

    def note(self, found: Iterable[Found], now_ns: int) -> None:
        """Discovery's findings."""
        for one in found:
            if one.trip_ns:
                self.measured.pop(one.member, None)
                self.measured[one.member] = one.trip_ns, now_ns
        while len(self.measured) > MAX_MEASURED:
            del self.measured[next(iter(self.measured))]

    def longest_ns(self, now_ns: int) -> int:
        """The longest of the last minute, 0: none was measured."""
        return max((trip_ns for trip_ns, at_ns in self.measured.values() if now_ns - at_ns <= REMEMBERED_NS), default=0)
