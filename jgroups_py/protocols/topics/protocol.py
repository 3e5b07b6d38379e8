"""TOPICS: multicasts about a topic reach the members, and cross to the sites, that are interested in it.

Problem: a member that is interested in few topics should neither handle the others nor cause their transmission. Idea:
each member drops messages about other topics at the top of its stack, so that it alone decides at which point of the
stream its interest begins; and the coordinator registers the interests of its site, so that of all other messages RELAY
sends only the numbers over the bridge.

Inside a group every multicast goes to every member. With IP multicast that costs nothing; and without it, a member that
had only the numbers of some messages could not retransmit them in a group whose sender crashed: the others would have
to leave holes (F) or take back deliveries (S5). design/decisions/0007-topics-are-filtered-where-they-arrive.md.

What a member gets: of its own group, from `subscribe` on, every message about the topic that the group delivers after
it. Of other sites, every one that its relay disseminates after its InterestConfirmed. In both there is no hole until
`unsubscribe`. A topic subscribed before connecting counts from the first view on.

Place: above all others, RELAY too. Source: the send-side filter of InfluxDB's gossip. Deviations: topics by name,
interests change while running, filtering is exact although messages are reliable (the original's are not).
"""
from __future__ import annotations

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import NO_FC, NO_RELAY, Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.events import SiteInterest, Subscribe, Unsubscribe, ViewChange
from jgroups_py.model.ports import SiteReporter
from jgroups_py.model.topics import Interest, interest_in
from jgroups_py.model.view import MergeView, View
from jgroups_py.protocols.topics.config import TopicsConfig
from jgroups_py.protocols.topics.headers import InterestConfirmed, InterestHeader
from jgroups_py.protocols.topics.register import Register
from jgroups_py.stack.protocol import STOP, Protocol, on, receives
from jgroups_py.wire.topic_headers import PassedBy, Topic, TopicName, TopicNumber

MAX_COUNTED = 100                            # topics whose messages are counted one by one
RELIABLE = NO_RELAY | NO_FC
"""Flags of this layer's messages: in order with the data, in the own group only, not held back by flow control."""


class Topics(Protocol):
    """The layer: the filter, this member's interest, and the coordinator's part."""

    Config = TopicsConfig
    config: TopicsConfig
    COUNTERS = declare(
        drop("filtered", "Messages about topics that the application is not interested in."),
        drop("passed_by", "Messages of other sites of which only the numbers came, since no member of this site is "
                          "interested in their topics."),
        drop("passed_by_though_wanted", "Of these, messages whose topic the application is interested in: it "
                                        "subscribed while they were under way."),
        counter("interests_confirmed", "Confirmations by the relay that it filters by this member's latest interest."),
        figure("topics", "Topics by name in the application's interest."),
        figure("all_topics", "1 if the interest is all topics."),
        figure("messages about <topic>", "Messages passed up about the topic."),
        figure("bytes about <topic>", "Their payload bytes."),
    )

    def start(self) -> None:
        self.interest = interest_in(*self.config.interests)
        self.confirmed = self.interest               # the part of it by which the relay is known to filter
        self.version = 0                             # counts the changes of the interest
        self.view: View | None = None
        self.register = Register()
        self.delivered: dict[str, tuple[int, int]] = {}      # topic -> messages and bytes, for `stats`
        # Without other sites no relay needs this member's interest.
        self.has_sites = self.stack.find(SiteReporter) is not None

    # --- receiving --------------------------------------------------------------------------------------------------

    @receives(TopicNumber)
    def numbered(self, header: TopicNumber, batch: Batch) -> None:
        self.filter(header, batch)

    @receives(TopicName)
    def named(self, header: TopicName, batch: Batch) -> None:
        self.filter(header, batch)

    def filter(self, header: Topic, batch: Batch) -> None:
        """Pass up a batch that matches the interest, with the header of its topic.

        From another site only what matches the confirmed interest: before the confirmation the relay may have dropped
        some of these messages, and a subscription must not begin with a hole.
        """
        interest = self.confirmed if isinstance(batch.src, ProxyUUID) else self.interest
        if interest.includes(header.topic):
            self.count_delivered(header.topic, batch)
            self.pass_up(batch.push(header))
        else:
            self.drop("filtered", batch, f"no interest in topic {header.topic!r}", header)

    def count_delivered(self, topic: str, batch: Batch) -> None:
        """Count deliveries by topic; beyond MAX_COUNTED topics together, as "others"."""
        if topic not in self.delivered and len(self.delivered) >= MAX_COUNTED:
            topic = "others"
        messages, nbytes = self.delivered.get(topic, (0, 0))
        self.delivered[topic] = messages + batch.count, nbytes + batch.nbytes

    @receives(PassedBy)
    def numbers_only(self, header: PassedBy, batch: Batch) -> None:
        """The numbers of messages from another site in which no member of this site is interested."""
        self.drop("passed_by", batch, "no member of this site is interested in its topic", header)
        if self.confirmed.meets(header.topics):
            self.drop("passed_by_though_wanted", batch, "sent before the relay had this member's interest", header)

    # --- the application's interest -----------------------------------------------------------------------------------

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
        self.announce()

    def announce(self) -> None:
        """Send this member's interest to the coordinator."""
        if self.view is None or not self.has_sites:
            # A relay without a header of this member sends it everything, so nothing is missing from the first view on.
            self.confirmed = self.interest
            return
        header = InterestHeader(self.view.id, self.version, self.interest.announced)
        if self.view.coordinator == self.me:
            self.register_interest(self.me, header)
        else:
            self.send(header, self.view.coordinator, flags=RELIABLE)

    @receives(InterestConfirmed)
    def on_confirmed(self, header: InterestConfirmed, batch: Batch) -> None:
        """What the relay disseminates after this message was filtered by these versions; earlier ones do not count."""
        if header.versions.get(self.me) == self.version:
            self.count("interests_confirmed")
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
            self.pass_site_interest()
            self.confirm(self.register.versions())
        else:
            self.register = Register(latest=self.register.latest)
        if begins or isinstance(event.view, MergeView):
            # A new coordinator has no register, and in a merge the two halves had different ones.
            self.announce()

    @receives(InterestHeader)
    def on_interest(self, header: InterestHeader, batch: Batch) -> None:
        self.register_interest(batch.src, header)

    def register_interest(self, member: Address, header: InterestHeader) -> None:
        """Store a member's interest; as coordinator also pass it to RELAY and confirm it.

        Other members store it as well: the sender may have installed a view in which this member is coordinator first.
        """
        if self.register.store(member, header) and self.view is not None and self.view.coordinator == self.me:
            self.pass_site_interest()
            self.confirm({member: header.version})

    def pass_site_interest(self) -> None:
        """Pass the union of all interests to RELAY."""
        self.pass_down(SiteInterest(self.register.union()))

    def confirm(self, versions: dict[Address, int]) -> None:
        """Multicast the versions that RELAY has, in order with the messages that it disseminates."""
        changed = {member: version for member, version in versions.items() if version}
        if changed:
            self.send(InterestConfirmed(changed), None, flags=RELIABLE)

    def stats(self) -> dict[str, float]:
        found = {**super().stats(), "topics": len(self.interest.names), "all_topics": int(self.interest.everything)}
        for topic, (messages, nbytes) in self.delivered.items():
            found[f"messages about {topic}"], found[f"bytes about {topic}"] = messages, nbytes
        return found
