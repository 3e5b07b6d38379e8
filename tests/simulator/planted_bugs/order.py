"""Safeguards of the one order, shown by profile order."""
from __future__ import annotations

from typing import Any

from jgroups_py.model.batch import Batch
from jgroups_py.model.view import View
from jgroups_py.protocols.total import protocol as total_module
from jgroups_py.protocols.total.headers import Tickets
from jgroups_py.protocols.total.protocol import Total
from jgroups_py.protocols.total.safe_order import SafeOrder
from jgroups_py.stack.component import CONTROL
from jgroups_py.stack.protocol import MULTICASTS, only
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard


@only(MULTICASTS)
def as_they_come(self: Total, batch: Batch) -> None:
    self.deliver(batch)


def drop_the_rest(self: Total, following: View) -> None:
    self.unplaced_bytes = 0


place_rest = Total.place_rest


def own_rest_first(self: Total, following: View) -> None:
    """The rest in an order of this member's own."""
    if self.me in self.unplaced:
        self.unplaced = {self.me: self.unplaced[self.me], **self.unplaced}
        kept = self.unplaced[self.me]
        self.deliver_kept(kept, kept.count)
    place_rest(self, following)


on_tickets = Total.on_order


tell = Total.tell


def tell_unreliably(self: Total) -> None:
    flags, total_module.TICKET_FLAGS = total_module.TICKET_FLAGS, CONTROL
    try:
        tell(self)
    finally:
        total_module.TICKET_FLAGS = flags


def take_any(self: Total, header: Tickets, batch: Batch) -> None:
    on_tickets(self, header, batch.replaced(flags=0))


def obey_at_once(self: Total, sender: Any, number: int) -> None:
    """The sequencer delivers what it will tell, before it is told."""
    self.untold[sender] = self.untold.get(sender, 0) + number
    self.plan.append((sender, number))
    self.carry_out()
    self.tell_later()


def only_others_obey(self: Total, header: Tickets, batch: Batch) -> None:
    on_tickets(self, Tickets(header.view, header.safe, ()) if batch.src == self.me else header, batch)


def one_report_is_enough(self: SafeOrder, member: Any, place: int) -> bool:
    self.everywhere = max(place, self.everywhere)
    return True


def guard(name: str, left: str, breaks: str, *patches: Patch) -> Safeguard:
    """A safeguard of the order."""
    return Safeguard(name, "TOTAL", left, patches, "order", breaks)


ORDER_SAFEGUARDS = (
    guard("messages wait for their tickets", "they are delivered as they come", "O1", Patch(Total, "up", as_they_come)),
    guard("the rest of a view is delivered", "it is thrown away", "L", Patch(Total, "place_rest", drop_the_rest)),
    guard("the rest has one order", "each member begins with its own", "O1",
          Patch(Total, "place_rest", own_rest_first)),
    guard("tickets are multicast reliably", "they may get lost", "O7", Patch(Total, "tell", tell_unreliably),
          Patch(Total, "on_order", take_any)),
    guard("the sequencer obeys its tickets when they were told", "it obeys at once", "O2",
          Patch(Total, "give_place", obey_at_once), Patch(Total, "on_order", only_others_obey)),
    guard("all report before a message is safe", "one report is enough", "O6",
          Patch(SafeOrder, "reached_by", one_report_is_enough)),
)
