"""Safeguards of receipts."""
from __future__ import annotations

from typing import Any

from jgroups_py.protocols.relay.polls import Polls
from jgroups_py.protocols.relay.receipts import Receipts
from tests.sim.planted_bugs.group import nothing
from tests.sim.planted_bugs.safeguard import Patch, Safeguard

begin_poll, ask = Polls.ask, Receipts.ask


def relay_and_backups_are_enough(self: Polls, key: Any) -> None:
    """As if SEEN were a receipt."""
    known = key in self.running
    begin_poll(self, key)
    if not known and key in self.running:
        members = self.relay.view.members[:1 + self.relay.config.backups]
        self.running[key].missing = dict.fromkeys(members)


def everything_is_delivered(self: Polls, key: Any) -> int:
    """A member answers at once."""
    return 1 << 62


def asked_once(self: Receipts) -> None:
    """Not again on a timer."""
    ask(self)
    self.relay.cancel_timer("await")


RECEIPT_SAFEGUARDS = (
    Safeguard("receipts ask every member", "receipts", "the relay and the backups are enough",
              (Patch(Polls, "ask", relay_and_backups_are_enough),), "relay", "R10"),
    Safeguard("members answer when they have it", "receipts", "they answer when they are asked",
              (Patch(Polls, "_delivered", everything_is_delivered),), "interleavings", "R10"),
    Safeguard("losses void receipts", "receipts", "members keep quiet about what they lost",
              (Patch(Polls, "skipped", nothing),), "relay", "R10"),
    Safeguard("receipts are asked for again", "receipts", "each relay and each member asks once",
              (Patch(Receipts, "ask", asked_once), Patch(Receipts, "peer_came", nothing)), "relay", "R10"),
)
