"""Where faults are so few that nothing may be lost, a declared loss is a violation too.

R3 alone is content with a loss that is told. But holders exist so that there is none: not while at most `backups`
members of a site are missing, and not by a split shorter than split_grace. One thing no holder can help: until a split
is noticed, the larger part acknowledges for those who are cut off. Messages of that time may be told as lost.
"""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.sim import history as h
from jgroups_py.sim.checkers import Facts, Violation


def undue_losses(history: h.History, *, splits: bool) -> Iterator[Violation]:
    """Every declared loss that no fault excuses; splits: sites were split.

    What a partition inside a site kept from a member of that site is told by its own site's name, and no holder's
    matter (S9).
    """
    losses = [entry for entry in history.entries if isinstance(entry, h.Lost)
              and (entry.dest_site is not None or entry.site != history.sites.get(entry.who))]
    if not losses:
        return
    facts = Facts(history)
    unnoticed = _unnoticed(facts) if splits else {}
    for loss in losses:
        numbers = [number for number in range(loss.first, loss.stop)
                   if (loss.who, loss.origin, number) not in unnoticed]
        if numbers:
            yield Violation("R3", f"{history.name(loss.who)} was told that {loss.first}..{loss.stop} of "
                            f"{history.name(loss.origin)} at {loss.site} are lost, although the faults of this run are "
                            f"none that may lose number {numbers[0]}", loss.at_ns)


def _unnoticed(facts: Facts) -> dict[tuple[object, object, int], None]:
    """(member, origin, number) that others of the member's site delivered in a view that had the member in it."""
    found: dict[tuple[object, object, int], None] = {}
    for delivery, message in facts.remote_deliveries():
        if delivery.view is not None:
            for member in delivery.view.members:
                found[member, message.sender, message.relay_number] = None
    return found
