"""Safeguards of receipts."""
from __future__ import annotations

from typing import Any

from jgroups_py.protocols.relay.receipts.delivery_check import DeliveryCheck
from jgroups_py.protocols.relay.receipts.receipts import ReceiptTracker
from tests.simulator.planted_bugs.group import nothing
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

start_check, send_await = DeliveryCheck.start_check, ReceiptTracker.send_await


def relay_and_backups_are_enough(self: DeliveryCheck, key: Any) -> None:
    """As if SEEN were a receipt."""
    known = key in self.running
    start_check(self, key)
    if not known and key in self.running:
        members = self.group.view.members[:1 + self.config.backups]
        self.running[key].missing = dict.fromkeys(members)


def everything_is_delivered(self: DeliveryCheck, key: Any) -> int:
    """A member answers at once."""
    return 1 << 62


def await_sent_once(self: ReceiptTracker) -> None:
    """Not again on a timer."""
    send_await(self)
    self.cancel_timer("await")


RECEIPT_SAFEGUARDS = (
    Safeguard("a receipt needs every member", "receipts", "the relay and the backups are enough",
              (Patch(DeliveryCheck, "start_check", relay_and_backups_are_enough),), "relay", "R10"),
    Safeguard("members answer once they have the message", "receipts", "they answer at once",
              (Patch(DeliveryCheck, "_delivered", everything_is_delivered),), "interleavings", "R10"),
    Safeguard("losses void receipts", "receipts", "members do not report what they lost",
              (Patch(DeliveryCheck, "skipped", nothing),), "relay", "R10"),
    Safeguard("requests for receipts are repeated", "receipts", "each relay and each member requests once",
              (Patch(ReceiptTracker, "send_await", await_sent_once),
               Patch(ReceiptTracker, "peer_introduced", nothing)), "relay",
              "R10"),
)
