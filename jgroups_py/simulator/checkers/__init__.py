"""Checkers: each judges a whole history by one guarantee (design/guarantees.md), in one pass or near it.

Source: Chockler, Keidar, Vitenberg, "Group Communication Specifications" (ACM CSUR 2001); the names of the guarantees
are theirs. M, S and F apply to messages of the member's own site. S4, S5 and F do not apply to messages of other
sites as they stand: a message that is replayed after a relay failover is dropped by the members that have it and
delivered by the members that lack it, in whatever view they are. Those messages are judged by R1 to R4 and R8, and by
S5 where both members shared two successive views and neither could have had the message before (see `messages.py`).
Messages sent with NO_RELIABILITY are judged by S1 only; OOB messages are exempt from order (F).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable

from jgroups_py.simulator.checkers import (
    divergence,
    durable,
    eventual,
    liveness,
    messages,
    order,
    receipts,
    relayed,
    topics,
    views,
)
from jgroups_py.simulator.checkers.facts import Facts, Violation
from jgroups_py.simulator.history import History

Checker = Callable[[Facts], Iterable[Violation]]

CHECKERS: dict[str, Checker] = {
    "M1": views.self_inclusion, "M2": views.monotone_views, "M3": views.initial_view, "M4": views.view_agreement,
    "M5": views.certain_ends,
    "S1": messages.integrity, "S2": messages.no_duplicates, "S4": messages.same_view,
    "S5": messages.virtual_synchrony, "S7": views.successors, "S8": views.merges,
    "S9": divergence.divergence, "F": messages.reliable_fifo,
    "L": liveness.liveness,
    "R1": relayed.origin, "R2": relayed.no_echo, "R3": relayed.exactly_once, "R4": relayed.fifo_across_sites,
    "R5": relayed.autonomy, "R6": relayed.replies, "R7": relayed.global_view, "R8": relayed.fencing,
    "W1": eventual.completeness, "W2": eventual.accuracy, "W3": eventual.incarnations, "W4": eventual.departures,
    "R9": relayed.conservation, "R10": receipts.receipts, "R11": durable.durability,
    "R12": relayed.progress,
    "O1": order.agreed, "O2": order.prefix, "O3": order.fifo, "O4": order.causal,
    "T1": topics.unwanted, "T2": topics.unbroken, "T3": topics.elsewhere,
}


def check(history: History, names: Iterable[str] = CHECKERS) -> list[Violation]:
    """All violations of the named guarantees, in order of time. R1 to R12 are skipped in histories without sites."""
    facts = Facts(history)
    relayed_too = any(history.sites.values())
    found = [violation for name in names if relayed_too or not name.startswith("R")
             for violation in CHECKERS[name](facts)]
    return sorted(found, key=lambda violation: violation.at_ns)


__all__ = ["CHECKERS", "Facts", "Violation", "check"]
