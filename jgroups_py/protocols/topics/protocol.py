"""TOPICS: multicasts about a topic reach the members, and cross to the sites, that want it.

Problem: who wants few topics should neither handle the others nor pay for their way. Idea: each member drops what it
does not want at the top of its stack, at a place in the stream of its own choosing; and the coordinator knows what the
members of its site want, so that RELAY sends of everything else only the numbers over the bridge.

Inside a group every multicast goes to every member. It costs nothing with IP multicast; and where it would, a member
that had only the numbers of some messages could not help a group whose sender crashed: the others would have to leave
holes (F) or take back what they delivered (S5). design/decisions/0007-topics-are-filtered-where-they-arrive.md.

What a member gets: of its own group, from `subscribe` on, every message about the topic that the group delivers after
it. Of other sites, from the moment when its relay answers (Heard), every one that the relay disseminates after its
answer. In both there is no hole until `unsubscribe`. A topic that it had before it connected counts from its first
view on.

Place: above all others, RELAY too. Source: the send-side filter of InfluxDB's gossip. Deviations: topics by name,
interests change while running, filtering is exact although messages are reliable (the original's are not).
"""
from __future__ import annotations

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.batch import NO_FC, NO_RELAY, Batch
from jgroups_py.events import ViewChange
from jgroups_py.ports import SiteReporter
from jgroups_py.protocol import STOP, Protocol, on, receives
from jgroups_py.protocols.topics.config import TopicsConfig
from jgroups_py.protocols.topics.headers import Heard, Interested
from jgroups_py.protocols.topics.register import Register
from jgroups_py.topics import (
    Interest,
    PassedBy,
    SiteInterest,
    Subscribe,
    Topic,
    TopicName,
    TopicNumber,
    Unsubscribe,
    interest_in,
)
from jgroups_py.view import MergeView, View

MAX_COUNTED = 100                            # topics whose messages are counted one by one
RELIABLE = NO_RELAY | NO_FC
"""Flags of our own messages: in order with the data, in our group only, not held up by credits."""


class Topics(Protocol):
    """See the module."""

    Config = TopicsConfig
    config: TopicsConfig

    def start(self) -> None:
        self.interest = interest_in(*self.config.interests)
        self.confirmed = self.interest               # what our relay is known to go by, as far as we still want it
        self.version = 0                             # of our interest
        self.view: View | None = None
        self.register = Register()
        self.delivered: dict[str, tuple[int, int]] = {}      # topic -> messages and bytes, for `stats`
        # Without other sites nobody needs to know what we want.
        self.has_sites = self.stack.find(SiteReporter) is not None

    # --- what arrives -----------------------------------------------------------------------------------------------

    @receives(TopicNumber)
    def numbered(self, header: TopicNumber, batch: Batch) -> None:
        self.filter(header, batch)

    @receives(TopicName)
    def named(self, header: TopicName, batch: Batch) -> None:
        self.filter(header, batch)

    def filter(self, header: Topic, batch: Batch) -> None:
        """Pass up a run that we want, with its topic on it."""
        wanted = self.confirmed if isinstance(batch.src, ProxyUUID) else self.interest
        if wanted.wants(header.topic):
            self.note(header.topic, batch)
            self.pass_up(batch.push(header))
        else:
            self.count("filtered", batch.count)

    def note(self, topic: str, batch: Batch) -> None:
        """Count what was delivered about a topic, each by itself as long as there are not too many."""
        if topic not in self.delivered and len(self.delivered) >= MAX_COUNTED:
            topic = "others"
        messages, nbytes = self.delivered.get(topic, (0, 0))
        self.delivered[topic] = messages + batch.count, nbytes + batch.nbytes

    @receives(PassedBy)
    def numbers_only(self, header: PassedBy, batch: Batch) -> None:
        """What is left of messages of another site that nobody here wants."""
        self.count("passed_by", batch.count)
        if self.confirmed.meets(header.topics):
            self.count("passed_by_though_wanted", batch.count)

    # --- what the application wants -----------------------------------------------------------------------------------

    @on(Subscribe)
    def subscribe(self, event: Subscribe) -> object:
        self.change(self.interest.union(event.interest))
        return STOP

    @on(Unsubscribe)
    def unsubscribe(self, event: Unsubscribe) -> object:
        self.confirmed = self.confirmed.without(event.interest)
        self.change(self.interest.without(event.interest))
        return STOP

    def change(self, interest: Interest) -> None:
        if interest == self.interest:
            return
        self.interest = interest
        self.version += 1
        self.tell()

    def tell(self) -> None:
        """Say what we want to whoever is coordinator."""
        if self.view is None or not self.has_sites:
            self.confirmed = self.interest           # our first view begins with a relay that knows nothing of us
            return
        word = Interested(self.view.id, self.version, self.interest.told)
        if self.view.coordinator == self.me:
            self.hear(self.me, word)
        else:
            self.send(word, self.view.coordinator, flags=RELIABLE)

    @receives(Heard)
    def heard(self, header: Heard, batch: Batch) -> None:
        """What the relay disseminates from here on was chosen with these versions in mind."""
        if header.versions.get(self.me) == self.version:
            self.count("heard")
            self.confirmed = self.interest

    # --- the coordinator ----------------------------------------------------------------------------------------------

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        before, self.view = self.view, event.view
        if not self.has_sites:
            return
        begins = before is None or before.coordinator != event.view.coordinator
        if event.view.coordinator == self.me:
            self.register.view_changed(event.view.members, event.view.id.counter, begins=begins)
            self.declare()
            self.answer(self.register.versions())
        else:
            self.register = Register(told=self.register.told)
        if begins or isinstance(event.view, MergeView):
            self.tell()

    @receives(Interested)
    def interested(self, header: Interested, batch: Batch) -> None:
        self.hear(batch.src, header)

    def hear(self, member: Address, word: Interested) -> None:
        """As coordinator, or as one who will be in a moment: what a member wants."""
        if self.register.hear(member, word) and self.view is not None and self.view.coordinator == self.me:
            self.declare()
            self.answer({member: word.version})

    def declare(self) -> None:
        """Tell RELAY what our site wants."""
        self.pass_down(SiteInterest(self.register.union()))

    def answer(self, versions: dict[Address, int]) -> None:
        """Tell the members, in order with what RELAY disseminates, that RELAY knows."""
        told = {member: version for member, version in versions.items() if version}
        if told:
            self.send(Heard(told), None, flags=RELIABLE)

    def stats(self) -> dict[str, float]:
        found = {**super().stats(), "topics": len(self.interest.names), "all_topics": int(self.interest.everything)}
        for topic, (messages, nbytes) in self.delivered.items():
            found[f"messages about {topic}"], found[f"bytes about {topic}"] = messages, nbytes
        return found
