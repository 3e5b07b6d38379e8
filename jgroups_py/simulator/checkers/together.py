"""Which members had each other in all their views, from one view to another or to the end."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.view import View, ViewId
from jgroups_py.simulator.checkers.facts import Facts


class Together:
    """Answers which members had each other in all their views. A place is an index into a member's own views."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.places: dict[tuple[Address, ViewId], int] = {
            (install.member, install.view.id): place for installs in facts.installs_of.values()
            for place, install in enumerate(installs)}
        self._apart: dict[tuple[Address, Address], list[int]] = {}

    def since(self, one: Address, other: Address, view: View | None) -> bool:
        """Whether both installed `view`, and every view of either from there on has the other in it."""
        return self._holds(one, other, view, None) and self._holds(other, one, view, None)

    def between(self, one: Address, other: Address, view: View | None, last: View | None, at: View | None) -> bool:
        """Whether both installed `view`, and have each other in every view from there on: `one` up to its view `last`,
        `other` up to its view `at`."""
        return last is not None and at is not None and self._holds(one, other, view, last) and \
            self._holds(other, one, view, at)

    def _holds(self, member: Address, partner: Address, view: View | None, last: View | None) -> bool:
        """Whether the member's views from `view` to `last` (None: to the end) have the partner."""
        first = None if view is None else self.places.get((member, view.id))
        if first is None or view is None or partner not in view:
            return False
        stop = len(self.facts.installs_of[member]) if last is None else self.places.get((member, last.id), -1) + 1
        return not any(first <= place < stop for place in self._without(member, partner))

    def _without(self, member: Address, partner: Address) -> list[int]:
        """The places of the member's views that lack the partner."""
        key = (member, partner)
        if key not in self._apart:
            self._apart[key] = [place for place, install in enumerate(self.facts.installs_of.get(member, []))
                                if partner not in install.view]
        return self._apart[key]
