"""Checkers: each judges a whole history by one guarantee of the README, in one pass or near it.

Source: Chockler, Keidar, Vitenberg, "Group Communication Specifications" (ACM CSUR 2001), whose names we keep. What
they take for a message: M, S and F look at messages of the member's own site; S4, S5 and F do not apply to messages
from other sites as they stand, because a message that a relay failover brings a second time is dropped by those who
have it and delivered by those who have not, in whatever view they are. Those are judged by R1 to R4 and R8, and by
S5 where both members shared two successive views and nobody could have had it before (see `messages.py`).
Messages sent with NO_RELIABILITY are judged by S1 only, OOB ones are exempt from order (F).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable

from jgroups_py.sim.checkers import divergence, durable, eventual, liveness, messages, receipts, relayed, topics, views
from jgroups_py.sim.checkers.facts import Facts, Violation
from jgroups_py.sim.history import History

Checker = Callable[[Facts], Iterable[Violation]]

CHECKERS: dict[str, Checker] = {
    "M1": views.self_inclusion, "M2": views.monotone_views, "M3": views.initial_view, "M4": views.view_agreement,
    "S1": messages.integrity, "S2": messages.no_duplicates, "S4": messages.same_view,
    "S5": messages.virtual_synchrony, "S7": views.successors, "S8": views.merges,
    "S9": divergence.divergence, "F": messages.reliable_fifo,
    "L": liveness.liveness,
    "R1": relayed.origin, "R2": relayed.no_echo, "R3": relayed.exactly_once, "R4": relayed.fifo_across_sites,
    "R5": relayed.autonomy, "R6": relayed.replies, "R7": relayed.global_view, "R8": relayed.fencing,
    "W1": eventual.completeness, "W2": eventual.accuracy, "W3": eventual.incarnations, "W4": eventual.departures,
    "R9": relayed.conservation, "R10": receipts.receipts, "R11": durable.durability,
    "R12": relayed.progress,
    "T1": topics.unwanted, "T2": topics.unbroken,
}


def check(history: History, names: Iterable[str] = CHECKERS) -> list[Violation]:
    """All violations of the named guarantees, the first ones first. Without sites nothing is said of R1 to R12."""
    facts = Facts(history)
    relayed_too = any(history.sites.values())
    found = [violation for name in names if relayed_too or not name.startswith("R")
             for violation in CHECKERS[name](facts)]
    return sorted(found, key=lambda violation: violation.at_ns)


__all__ = ["CHECKERS", "Facts", "Violation", "check"]
