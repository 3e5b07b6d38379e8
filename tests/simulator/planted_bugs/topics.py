"""Safeguards of TOPICS, and of what RELAY does for it.

That a coordinator ignores interests from an earlier time as coordinator is not among them: a relay appears on the
bridge when all members have answered its SYNC, and their interests came before that, in order. The check is a second
barrier, and has its tests in tests/unit/protocols/topics.
"""
from __future__ import annotations

from typing import Any

from jgroups_py.model.topics import EVERYTHING, NOTHING, Interest
from jgroups_py.protocols.relay.outbound.topic_filter import TopicFilter
from jgroups_py.protocols.topics.protocol import Topics
from jgroups_py.protocols.topics.register import Register
from tests.simulator.planted_bugs.safeguard import Patch, Safeguard


def all_goes_up(self: Topics, header: Any, batch: Any) -> None:
    self.pass_up(batch.push(header))


def wanted_at_once(self: Topics, header: Any, batch: Any) -> None:
    if self.interest.includes(header.topic):
        self.pass_up(batch.push(header))


def any_answer_will_do(self: Topics, header: Any, batch: Any) -> None:
    if self.me in header.versions:
        self.confirmed = self.interest


def undeclared_subscribe_to_nothing(self: Register) -> Interest:
    found = NOTHING
    for member in self.since:
        found = found.union(self.latest[member].interest if self.is_valid(member) else NOTHING)
    return found


def nothing_is_refused(self: TopicFilter, batch: Any) -> bool:
    return False


def repeated_as_they_were(self: TopicFilter, batches: Any) -> bool:
    return False


def only_new_relays(self: TopicFilter, event: Any) -> None:
    if not self.group.is_relay:
        self.set_interest(EVERYTHING)


def guard(name: str, left: str, owner: type, method: str, without: Any, breaks: str) -> Safeguard:
    """A safeguard of one method."""
    return Safeguard(name, "TOPICS", left, (Patch(owner, method, without),), "topics", breaks)


TOPICS_SAFEGUARDS = (
    guard("members filter again", "they deliver all that arrives", Topics, "filter", all_goes_up, "T1"),
    guard("a subscription begins with the relay's answer", "it begins at once", Topics, "filter", wanted_at_once, "T2"),
    guard("answers to older interests do not count", "any answer begins all subscriptions", Topics, "on_confirmed",
          any_answer_will_do, "T2"),
    guard("a member without a declaration is subscribed to all", "it is subscribed to nothing", Register, "union",
          undeclared_subscribe_to_nothing, "R3"),
    guard("numbers in place of subscribed messages are refused", "they are disseminated", TopicFilter, "refuses",
          nothing_is_refused, "R3"),
    guard("numbers that a view change lost are filtered again", "they are repeated unfiltered", TopicFilter,
          "outdated", repeated_as_they_were, "R3"),
    guard("a new member may be subscribed to all", "the site keeps its subscriptions", TopicFilter, "view_changed",
          only_new_relays, "R3"),
)
