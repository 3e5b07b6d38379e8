"""Where faults are so few that nothing may be lost, a declared loss is a violation, too.

R3 alone accepts a declared loss. But holders exist so that there is none while at most `backups` members of a site are
missing, nor by a split shorter than split_grace. There is one exception: until a split is detected, the larger half
acknowledges on behalf of the members that are cut off, so messages of that time may be declared lost.
"""
from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.model.address import Address
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers import Facts, Violation


def undue_losses(history: h.History, *, splits: bool) -> Iterator[Violation]:
    """Every declared loss that no fault excuses; splits: sites were split.

    Messages of a member's own site that a partition within the site kept from it are declared under the name of that
    site; no holder can prevent these, and S9 judges them.
    """
    losses = [entry for entry in history.entries if isinstance(entry, h.Lost)
              and (entry.dest_site is not None or entry.site != history.sites.get(entry.member))]
    if not losses:
        return
    unnoticed = Unnoticed(Facts(history)) if splits else None
    for loss in losses:
        undue = next((number for number in range(loss.first, loss.stop)
                      if unnoticed is None or not unnoticed.excuses(loss.member, loss.origin, number)), None)
        if undue is not None:
            yield Violation("R3", f"{loss.first}..{loss.stop} of {history.name(loss.origin)} at {loss.site} were "
                            f"declared lost to {history.name(loss.member)}, although no fault of this run may lose "
                            f"number {undue}", loss.at_ns)


class Unnoticed:
    """The messages that other members of a site delivered in views with a member that was already cut off: the relay
    acknowledged them on its behalf, too."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.had: dict[tuple[Address, Address, int], None] = {}      # (member, origin, number)
        for delivery, message in facts.remote_deliveries():
            if delivery.view is not None:
                for member in delivery.view.members:
                    self.had[member, message.sender, message.relay_number] = None
        self.excluded: dict[Address, int] = {}           # member -> when it was last excluded from a view
        for install in facts.installs:
            for member in install.previous.members if install.previous is not None else ():
                if member not in install.view:
                    self.excluded[member] = install.at_ns

    def excuses(self, member: Address, origin: Address, number: int) -> bool:
        """Whether a number may be lost for a member.

        A message about a topic that no other member of the site subscribes to is acknowledged without a delivery: its
        send counts instead, if it came before the exclusion. A member without a subscription of its own loses nothing.
        """
        if (member, origin, number) in self.had:
            return True
        numbers = self.facts.by_relay_number.get(origin, [])
        if number > len(numbers) or not numbers[number - 1].topic:
            return False
        message = numbers[number - 1]
        return message.at_ns <= self.excluded.get(member, -1) or self.facts.may_lack(member, message)
