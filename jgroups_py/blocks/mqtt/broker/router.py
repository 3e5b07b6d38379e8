"""From a message to the sessions that get it: the local tree, shared subscriptions, retained messages.

A session gets a message once, however many filters of it match: with the highest QoS of them and all their identifiers
(3.3.4 allows a copy for each as well; one is what 3.1.1 clients expect too). Each group of a shared subscription gets
it at one member, in turn among those with a connection; without one, in turn among all [MQTT-4.8.2-4].
"""
from __future__ import annotations

from collections.abc import Collection, Iterable

from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.broker.ports import Federation, GroupChoice
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.retained import RetainedStore
from jgroups_py.blocks.mqtt.broker.session import ClientSession, Delivery, GrantedOptions, Outbox
from jgroups_py.blocks.mqtt.broker.subscription_tree import Matches, SharedMatch, SubscriptionTree, split_shared
from jgroups_py.blocks.mqtt.codec.packets import RetainHandling

SYSTEM = "$SYS/"
NOTHING: frozenset[tuple[str, str]] = frozenset()


class MemberRing:
    """The members of a shared subscription in turn."""

    def __init__(self) -> None:
        self.members: list[ClientSession] = []
        self._turn = 0

    def add(self, member: ClientSession) -> None:
        """A member has come: its turn is last."""
        self.members.insert(self._turn, member)
        self._turn += 1
        self._turn %= len(self.members)

    def remove(self, member: ClientSession) -> None:
        """A member has gone. Whose turn it was, it stays."""
        at = self.members.index(member)
        del self.members[at]
        if at < self._turn:
            self._turn -= 1
        self._turn %= max(1, len(self.members))

    def choose(self) -> ClientSession:
        """The next one with a connection; the next one if nobody has one."""
        members, turn = self.members, self._turn
        for step in range(len(members)):
            at = (turn + step) % len(members)
            if members[at].connection is not None:
                break
        else:
            at = turn
        self._turn = (at + 1) % len(members)
        return members[at]

    @property
    def online(self) -> int:
        """Members with a connection."""
        return sum(member.connection is not None for member in self.members)


class Router:
    """See the module."""

    def __init__(
        self, options: BrokerOptions, outbox: Outbox, federation: Federation, retained: RetainedStore,
    ) -> None:
        self.tree: SubscriptionTree[ClientSession, GrantedOptions] = SubscriptionTree(options.match_cache)
        self.retained = retained
        self._rings: dict[str, MemberRing] = {}                # filter with $share -> members
        self._options = options
        self._outbox = outbox
        self._federation = federation

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(self, session: ClientSession, filter: str, granted: GrantedOptions) -> bool:
        """Set a subscription of a session; whether it is new."""
        is_new = self.tree.subscribe(filter, session, granted)
        session.subscriptions[filter] = granted
        if session.journal is not None:
            session.journal.subscribed(filter, granted)
        group, text = split_shared(filter)
        if is_new and group:
            self._rings.setdefault(filter, MemberRing()).add(session)
            self._tell_group(filter)
        elif is_new and self.tree.count(filter) == 1:
            self._federation.interest("", text, 1, 1)
        return is_new

    def unsubscribe(self, session: ClientSession, filter: str) -> bool:
        """End a subscription. Returns whether there was one. What is queued for it stays (3.10.4)."""
        if session.subscriptions.pop(filter, None) is None:
            return False
        if session.journal is not None:
            session.journal.unsubscribed(filter)
        self.tree.unsubscribe(filter, session)
        group, text = split_shared(filter)
        if group:
            self._rings[filter].remove(session)
            self._tell_group(filter)
            if not self._rings[filter].members:
                del self._rings[filter]
        elif not self.tree.count(filter):
            self._federation.interest("", text, 0, 0)
        return True

    def online_changed(self, session: ClientSession) -> None:
        """A session has a connection now, or none: peers choose members by that."""
        for filter in session.groups():
            self._tell_group(filter)

    def send_retained(
        self, session: ClientSession, filter: str, granted: GrantedOptions, handling: RetainHandling, is_new: bool,
        now_ns: int,
    ) -> None:
        """What a new subscription gets [MQTT-3.3.1-9] to [MQTT-3.3.1-11]; a shared one nothing (4.8.2)."""
        if handling is RetainHandling.NEVER or (handling is RetainHandling.IF_NEW and not is_new):
            return
        if split_shared(filter)[0]:
            return
        session.send_retained(self.retained.matching(filter, now_ns), granted, now_ns)

    # --- messages -----------------------------------------------------------------------------------------------------

    def publish(self, publication: Publication, now_ns: int) -> tuple[int, bool]:
        """From a client, or a will: to the sessions here, and to the peers.

        Returns the token (see Forwarding), and whether there is a subscriber, here or at a peer.
        """
        matches = self.tree.match(publication.topic)
        choices = () if not matches.shared else tuple(
            GroupChoice(match.group, match.filter, len(match.members), self._ring(match).online)
            for match in matches.shared)
        forwarding = self._federation.publish(publication, choices, now_ns)
        if matches.plain or matches.shared:
            self._route(publication, matches, forwarding.elsewhere, now_ns)
        if publication.wants_retain:
            self._retain(publication)
            self._federation.retained(publication, now_ns)
        token = self._federation.routed(forwarding.token) if publication.qos else forwarding.token
        return token, bool(matches.plain or matches.shared or forwarding.peers)

    def publish_here(self, publication: Publication, now_ns: int) -> None:
        """Of the broker itself, as $SYS: not for peers."""
        self._route(publication, self.tree.match(publication.topic), NOTHING, now_ns)
        self._retain(publication)

    def deliver(
        self, publication: Publication, groups: Collection[tuple[str, str]], now_ns: int, shared_only: bool = False,
    ) -> bool:
        """A peer's message: to the sessions here. groups: the shared subscriptions, as (group, filter), that are served
        here; shared_only: plain subscriptions here have had it. Returns whether a plain subscription matches."""
        matches = self.tree.match(publication.topic)
        elsewhere = NOTHING
        if matches.shared:
            if shared_only:
                matches = Matches((), matches.shared)
            elsewhere = frozenset((match.group, match.filter) for match in matches.shared
                                  if (match.group, match.filter) not in groups)
        elif shared_only:
            return False
        self._route(publication, matches, elsewhere, now_ns)
        return bool(matches.plain)

    def move(self, deliveries: Iterable[Delivery], now_ns: int) -> None:
        """Give what an ended session had of shared subscriptions to other members."""
        for delivery in deliveries:
            ring = self._rings.get(delivery.group)
            if ring is None or not ring.online:
                group, filter = split_shared(delivery.group)
                if self._federation.move(delivery.publication, group, filter, now_ns):
                    self._outbox.counters.add("moved_to_other_member")
                    continue
            if ring is None:
                self._outbox.counters.add("dropped_no_member")
                continue
            self._outbox.counters.add("moved_to_other_member")
            self._to_member(delivery.publication, ring, delivery.group, now_ns)

    def _route(
        self, publication: Publication, matches: Matches[ClientSession, GrantedOptions],
        elsewhere: Collection[tuple[str, str]], now_ns: int,
    ) -> None:
        """elsewhere: shared subscriptions whose member is at another node."""
        qos, keeps, publisher = publication.qos, publication.wants_retain, publication.publisher
        common: Delivery | None = None                   # what most subscribers get: one object for all of them
        for session, subscriptions in matches.plain:
            if len(subscriptions) > 1:
                self._deliver_merged(session, subscriptions, publication, now_ns)
                continue
            one = subscriptions[0]
            if one.no_local and session.client_id == publisher:
                continue
            granted, retain = qos if qos < one.qos else one.qos, keeps and one.retain_as_published
            if one.identifiers:
                session.deliver(Delivery(publication, granted, retain, one.identifiers), now_ns)
                continue
            if common is None or common.qos != granted or common.retain is not retain:
                common = Delivery(publication, granted, retain)
            session.deliver(common, now_ns)
        for match in matches.shared:
            if (match.group, match.filter) not in elsewhere:
                self._to_member(publication, self._ring(match), f"$share/{match.group}/{match.filter}", now_ns)

    def _deliver_merged(
        self, session: ClientSession, subscriptions: tuple[GrantedOptions, ...], publication: Publication, now_ns: int,
    ) -> None:
        """One copy for several subscriptions of a session."""
        wanted = [each for each in subscriptions
                  if not each.no_local or session.client_id != publication.publisher]
        if wanted:
            session.deliver(Delivery(
                publication, min(publication.qos, max(each.qos for each in wanted)),
                publication.wants_retain and any(each.retain_as_published for each in wanted),
                tuple(identifier for each in wanted for identifier in each.identifiers)), now_ns)

    def _to_member(self, publication: Publication, ring: MemberRing, filter: str, now_ns: int) -> None:
        session = ring.choose()
        granted = session.subscriptions[filter]
        session.deliver(Delivery(
            publication, min(publication.qos, granted.qos), publication.wants_retain and granted.retain_as_published,
            granted.identifiers, filter), now_ns)

    def _retain(self, publication: Publication) -> None:
        if not self.retained.put(publication):
            self._outbox.counters.add("refused_retained")

    def _ring(self, match: SharedMatch[ClientSession, GrantedOptions]) -> MemberRing:
        return self._rings[f"$share/{match.group}/{match.filter}"]

    def _tell_group(self, filter: str) -> None:
        group, text = split_shared(filter)
        ring = self._rings[filter]
        self._federation.interest(group, text, len(ring.members), ring.online)
