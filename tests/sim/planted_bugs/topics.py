"""Safeguards of TOPICS, and of what RELAY does for it.

That a coordinator goes by nothing that members told it in an earlier reign is not among them: a relay shows itself at
the bridge when all have answered its SYNC, and what they want they said before that, in order. It is a second lock on
that door, and has its tests in tests/unit/protocols/topics.
"""
from __future__ import annotations

from typing import Any

from jgroups_py.protocols.relay.interests import Interests
from jgroups_py.protocols.topics.protocol import Topics
from jgroups_py.protocols.topics.register import Register
from jgroups_py.topics import EVERYTHING, NOTHING, Interest
from tests.sim.planted_bugs.safeguard import Patch, Safeguard


def all_goes_up(self: Topics, header: Any, batch: Any) -> None:
    self.pass_up(batch.push(header))


def wanted_at_once(self: Topics, header: Any, batch: Any) -> None:
    if self.interest.wants(header.topic):
        self.pass_up(batch.push(header))


def any_answer_will_do(self: Topics, header: Any, batch: Any) -> None:
    if self.me in header.versions:
        self.confirmed = self.interest


def silent_ones_want_nothing(self: Register) -> Interest:
    found = NOTHING
    for member in self.since:
        found = found.union(self.told[member].interest if self.counts(member) else NOTHING)
    return found


def nothing_is_refused(self: Interests, batch: Any) -> bool:
    return False


def repeated_as_they_were(self: Interests, runs: Any) -> bool:
    return False


def only_new_relays(self: Interests, *, joined: bool) -> None:
    if not self.relay.is_relay:
        self.set(EVERYTHING)


def guard(name: str, left: str, owner: type, method: str, without: Any, breaks: str) -> Safeguard:
    """A safeguard of one method."""
    return Safeguard(name, "TOPICS", left, (Patch(owner, method, without),), "topics", breaks)


TOPICS_SAFEGUARDS = (
    guard("members look again", "they deliver all that comes", Topics, "filter", all_goes_up, "T1"),
    guard("a subscription begins with the relay's answer", "it begins at once", Topics, "filter", wanted_at_once, "T2"),
    guard("answers to older interests do not count", "any answer begins all subscriptions", Topics, "heard",
          any_answer_will_do, "T2"),
    guard("who has not spoken wants all", "it wants nothing", Register, "union", silent_ones_want_nothing, "R3"),
    guard("numbers of what is wanted are refused", "they are disseminated", Interests, "refuses", nothing_is_refused,
          "R3"),
    guard("numbers that a view change swallowed are looked at again", "they are repeated as they were", Interests,
          "outdated", repeated_as_they_were, "R3"),
    guard("who comes may want all", "the site wants what it wanted before", Interests, "view_changed", only_new_relays,
          "R3"),
)
