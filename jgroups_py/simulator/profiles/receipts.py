"""Profile receipts: senders that wait for receipts in one group without RELAY, under all faults of a group."""
from __future__ import annotations

from jgroups_py.simulator.profiles.group import GroupProfile


class ReceiptsProfile(GroupProfile):
    """Three to six members; their application is in jgroups_py/testing/simulation/receipts.py."""

    name = "receipts"
    application = True
    reaches = ("receipts", "receipts that name members that left", "receipts of merged views", "timeouts of receipts")
