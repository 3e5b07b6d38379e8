"""Safeguards of receipts in one group (channel/receipt_polls.py), shown by profile receipts."""
from __future__ import annotations

from typing import Any

import attrs

from jgroups_py.channel.receipt_polls import ReceiptPolls
from jgroups_py.channel.receipts import STAGES, Receipts
from jgroups_py.model.batch import Batch
from jgroups_py.testing.simulation import receipts
from jgroups_py.wire.block_headers import ReceiptPoll
from tests.simulator.planted_bugs.group import nothing
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard

handles, start = Receipts._handles, Receipts.start


def before_the_receiver(self: Receipts, batch: Batch) -> bool:
    """Polls for "handled" are answered as those for "stable"."""
    header = batch.headers[0]
    if isinstance(header, ReceiptPoll) and header.stage == STAGES["handled"]:
        batch = batch.replaced(headers=(attrs.evolve(header, stage=STAGES["stable"]), *batch.headers[1:]))
    return handles(self, batch)


def polls_first(self: Receipts, *arguments: Any) -> None:
    """The poll leaves before the message."""
    connection = self._connection
    assert connection is not None, "connected"
    connection.sends.put(None, b"", 0, (ReceiptPoll(self._polls.number + 1, STAGES["stable"], 0),), -1.0)
    start(self, *arguments)


def guard(name: str, left: str, owner: Any, method: str, without: Any, breaks: str, *more: Patch) -> Safeguard:
    """A safeguard of one function or more."""
    return Safeguard(name, "receipts", left, (Patch(owner, method, without), *more), receipts.PROFILE, breaks)


GROUP_RECEIPT_SAFEGUARDS = (
    guard("handled waits for the receiver", "its polls are answered at arrival", Receipts, "_handles",
          before_the_receiver, "E1"),
    guard("polls follow the messages", "a poll leaves before its message", Receipts, "start", polls_first, "E1"),
    guard("members that left are not waited for", "they are", ReceiptPolls, "_keep", nothing, "E2"),
)
