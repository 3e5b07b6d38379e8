"""How long round trips take to the members that discovery found lately: merges wait longer for distant ones. Pure."""
from __future__ import annotations

from collections.abc import Iterable

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.events import Found
from jgroups_py.model.units import seconds
from jgroups_py.model.view import ViewId

REMEMBERED_NS = seconds(60)        # discovery measures every few seconds while groups are apart
MAX_MEASURED = 1000                # members whose round trip is kept; of more, those measured last


@attrs.frozen
class MeasuredTrip:
    """A round trip, when it was measured, and the view that the member had then."""

    trip_ns: int
    at_ns: int
    view_id: ViewId | None

    def is_recent(self, now_ns: int) -> bool:
        """Whether it counts."""
        return now_ns - self.at_ns <= REMEMBERED_NS


class RoundTrips:
    """Round trips as discovery measured them: from its first question to the first answer.

    measured: member -> its last measurement, oldest first.
    """

    def __init__(self) -> None:
        self.measured: dict[Address, MeasuredTrip] = {}

    def note(self, found: Iterable[Found], now_ns: int) -> None:
        """Discovery's findings."""
        for one in found:
            if one.trip_ns:
                self.measured.pop(one.member, None)
                self.measured[one.member] = MeasuredTrip(one.trip_ns, now_ns, one.view_id)
        while len(self.measured) > MAX_MEASURED:
            del self.measured[next(iter(self.measured))]

    def longest_ns(self, now_ns: int) -> int:
        """The longest of the last minute, 0: none was measured."""
        return max((one.trip_ns for one in self.measured.values() if one.is_recent(now_ns)), default=0)

    def longest_in_ns(self, view_id: ViewId, coordinator: Address, now_ns: int) -> int:
        """The longest of the last minute to a group: to its coordinator, and to those that were found in this view of
        it. The longest of all if the coordinator's was not measured: it may be anywhere."""
        known = self.measured.get(coordinator)
        if known is None or not known.is_recent(now_ns):
            return self.longest_ns(now_ns)
        return max(one.trip_ns for one in self.measured.values()
                   if one is known or (one.view_id == view_id and one.is_recent(now_ns)))
