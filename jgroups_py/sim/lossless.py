"""Where faults are so few that nothing may be lost, a declared loss is a violation too.

R3 alone is content with a loss that is told. But holders exist so that there is none: not while at most `backups`
members of a site are missing, and not by a split shorter than split_grace. One thing no holder can help: until a split
is noticed, the larger part acknowledges for those who are cut off. Messages of that time may be told as lost.
"""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.address import Address
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
    unnoticed = Unnoticed(Facts(history)) if splits else None
    for loss in losses:
        undue = next((number for number in range(loss.first, loss.stop)
                      if unnoticed is None or not unnoticed.excuses(loss.who, loss.origin, number)), None)
        if undue is not None:
            yield Violation("R3", f"{history.name(loss.who)} was told that {loss.first}..{loss.stop} of "
                            f"{history.name(loss.origin)} at {loss.site} are lost, although the faults of this run are "
                            f"none that may lose number {undue}", loss.at_ns)


class Unnoticed:
    """What others of a member's site had while they took it for a member: so it was acknowledged for it, too."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.had: dict[tuple[Address, Address, int], None] = {}      # (member, origin, number)
        for delivery, message in facts.remote_deliveries():
            if delivery.view is not None:
                for member in delivery.view.members:
                    self.had[member, message.sender, message.relay_number] = None
        self.excluded: dict[Address, int] = {}           # member -> when others last went on without it
        for install in facts.installs:
            for member in install.previous.members if install.previous is not None else ():
                if member not in install.view:
                    self.excluded[member] = install.at_ns

    def excuses(self, member: Address, origin: Address, number: int) -> bool:
        """Whether a number may be lost for a member.

        A message about a topic that none of the others wants is acknowledged though none of them delivers it: there it
        counts when it was sent. One that the member does not want itself is no loss.
        """
        if (member, origin, number) in self.had:
            return True
        numbers = self.facts.by_relay_number.get(origin, [])
        if number > len(numbers) or not numbers[number - 1].topic:
            return False
        message = numbers[number - 1]
        return message.at_ns <= self.excluded.get(member, -1) or self.facts.may_lack(member, message)
