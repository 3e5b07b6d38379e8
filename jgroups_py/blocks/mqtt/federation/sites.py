"""Other sites: brokers of groups that RELAY joins. Pure.

A message for another site is multicast once; RELAY numbers it, holds it until every site has it, and brings it to each
member there exactly once, over any failover. So nothing here is acknowledged or repeated between sites. What is
exchanged is interest: the coordinator of each site multicasts what the brokers of its site want together, when that
changes. Whoever publishes compares; receivers look at their own subscriptions. A message that some of the sites want
names these (ForSites of wire/topic_headers.py), so the others get its number alone.

`topics_out` and `topics_in` of a site (site_rules.py) are announced with its filters, and asked at both ends.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from jgroups_py.blocks.mqtt.broker.publication import NEVER, SECOND, Publication
from jgroups_py.blocks.mqtt.broker.subscription_tree import SubscriptionTree, filter_matches, split_shared
from jgroups_py.blocks.mqtt.federation.interest import GroupTurns
from jgroups_py.blocks.mqtt.federation.options import FederationOptions
from jgroups_py.blocks.mqtt.federation.site_rules import NO_RULES, TopicRules
from jgroups_py.blocks.mqtt.federation.wire import (
    ForwardedMessage,
    GroupCount,
    PeerFrame,
    SiteDigest,
    SiteFilters,
    SiteMessage,
    SiteServed,
    Target,
    WantSiteFilters,
    encode_frame,
    message_body,
    read_message,
)
from jgroups_py.model.counters import Counters
from jgroups_py.model.errors import WireError

OVERHEAD_BYTES = 100
MAX_TURNS = MAX_EARLY = MAX_SERVED = 10_000
MAX_EXPIRY_NS = (1 << 32) * SECOND
ENDED = GroupCount(0, 0)
GIVEN_ON = 1 << 61
"""Set in the origin of a message, in the keys of this module and in SiteServed: a site without a member has given it
on. Origins have 61 bits, and numbers on the wire 62."""
OFFLINE = "OFFLINE"


class SiteHost(Protocol):
    """What is asked of the core."""

    options: FederationOptions
    counters: Counters
    incarnation: int
    wall_offset_ns: int

    def counts(self, filter: str) -> Iterable[GroupCount]:
        """The members of a filter at each broker of this site."""
        ...

    def all_filters(self) -> Iterable[str]:
        """The filters of all brokers of this site, some of them more than once."""
        ...

    def retain(self, token: int) -> None:
        """A token waits for one more."""
        ...

    def settle(self, token: int) -> None:
        """One of those that a token waits for is done."""
        ...

    def from_site(self, publication: Publication, source: Any, shared_only: bool, now_ns: int) -> None:
        """A message of another site: to plain subscribers of this broker. source: the broker that it came from."""
        ...

    def serve(self, publication: Publication, target: Target, now_ns: int) -> int | None:
        """Give a message to a member of a shared subscription, at any broker of this site; the token that is settled
        once the broker has it, 0 at once. None: there is no member."""
        ...

    def say(self, name: str | None, frame: PeerFrame) -> None:
        """A frame for a broker of this site, or for all that are up (None)."""
        ...

    def rules_changed(self, site: str) -> None:
        """Another site has announced other rules."""
        ...


@attrs.frozen(eq=False)
class SendToSites:
    """A frame for all members of other sites. token: settled once the own site has it; 0: nothing waits. sites: those
    that it is for; None: all."""

    data: bytes
    token: int = 0
    sites: tuple[str, ...] | None = None


@attrs.define(eq=False)
class OtherSite:
    """What is known of one site. members: handles of its members; incarnation 0: its filters and rules are not
    known."""

    name: str
    status: str = "UP"
    members: tuple[Any, ...] = ()
    coordinator: Any = None
    epoch: int = 0
    incarnation: int = 0
    number: int = 0
    filters: dict[str, GroupCount] = attrs.field(factory=dict)
    lets_in: TopicRules = NO_RULES
    lets_out: TopicRules = NO_RULES
    want_ns: int = 0                                     # when it is asked for its filters; 0: not

    def takes(self, topic: str) -> bool:
        """Whether it lets a topic in, as far as is known."""
        return self.lets_in.passes(topic)


class Sites:
    """See the module. name "": there is no RELAY, and nothing here does anything."""

    def __init__(self, host: SiteHost, now_ns: int) -> None:
        self.name = ""
        self.lets_in = TopicRules(host.options.topics_in)
        self.lets_out = TopicRules(host.options.topics_out)
        self.others: dict[str, OtherSite] = {}
        self.is_coordinator = False
        self.epoch = 0
        self.filters: dict[str, GroupCount] = {}         # what this site wants, as it is announced
        self.number = 0
        self.unserved: dict[tuple[int, int], tuple[SiteMessage, Publication]] = {}
        self.unserved_bytes = 0
        self._served_early: dict[tuple[int, int], None] = {}         # served before they came to this node
        self.queue: deque[SendToSites] = deque()
        self.queued_bytes = 0
        self._host = host
        self._tree: SubscriptionTree[str, GroupCount] = SubscriptionTree(10_000)
        self._touched: dict[str, None] = {}
        self._changes: dict[str, GroupCount] = {}        # of these, what was not announced yet
        self._turns: dict[str, GroupTurns] = {}
        self._is_whole_due = False
        self._tokens: dict[int, tuple[int, int]] = {}    # of messages that are being served
        self._waits: dict[tuple[int, int], int] = {}     # how many of their targets are
        self._served: list[tuple[int, int]] = []
        # (origin, number, group) of what other brokers here were to serve -> whether another site had given it on.
        self._chosen_here: dict[tuple[int, int, Target], bool] = {}
        self._digest_ns = now_ns

    # --- what the link tells ------------------------------------------------------------------------------------------

    def changed(
        self, name: str, others: Mapping[str, tuple[str, tuple[Any, ...]]], is_coordinator: bool, epoch: int,
        now_ns: int,
    ) -> None:
        """This site's name; other site -> (status, members); whether this member is the coordinator of its view, whose
        number is `epoch`."""
        if not self.name:
            self.touched(self._host.all_filters())
        self.name = name
        for site, (status, members) in others.items():
            known = self.others.get(site)
            if known is None:
                known = self.others[site] = OtherSite(site, want_ns=now_ns + self._retry_ns)
                self._is_whole_due = True
            if status == "UP" != known.status:
                self._is_whole_due = True
            known.status, known.members = status, members
        if is_coordinator and (not self.is_coordinator or epoch != self.epoch):
            self._is_whole_due = True
        begins, self.is_coordinator, self.epoch = is_coordinator and not self.is_coordinator, is_coordinator, epoch
        if begins:
            for key, (frame, publication) in list(self.unserved.items()):
                self._serve(key, frame, publication, now_ns)

    def touched(self, filters: Iterable[str]) -> None:
        """Filters of a broker of this site have changed."""
        self._touched.update(dict.fromkeys(filters))

    def tick(self, now_ns: int) -> None:
        """Time has passed."""
        for site in self.others.values():
            if site.want_ns and now_ns >= site.want_ns and site.status == "UP":
                site.want_ns = now_ns + self._retry_ns
                self._host.counters.add("site_trees_wanted")
                self._multicast(WantSiteFilters(site.name), (site.name,))
        if now_ns >= self._digest_ns:
            self._digest_ns = now_ns + round(self._host.options.digest_s * SECOND)
            if self.is_coordinator and self.others and not self._is_whole_due:
                self._multicast(SiteDigest(self.epoch, self._host.incarnation, self.number))

    # --- publishing ---------------------------------------------------------------------------------------------------

    def send(self, publication: Publication, served_here: Iterable[Target], token: int, now_ns: int) -> int:
        """Send a message of a client of this broker to the sites that want it. served_here: shared subscriptions that
        have a member in this site; each of the others is served by one site. Returns the number of sites."""
        if not self.others:
            return 0
        topic, others = publication.topic, self.others
        wanted: dict[str, None] = {}
        targets: list[tuple[str, str]] = []
        matches = self._tree.match(topic)
        for site, _ in matches.plain:
            if others[site].takes(topic):
                wanted[site] = None
        if matches.shared:
            here = set(served_here)
            for match in matches.shared:
                if (match.group, match.filter) not in here:
                    filter = f"$share/{match.group}/{match.filter}"
                    found = {site: count for site, count in self._tree.members(filter).items()
                             if others[site].takes(topic)}
                    if found:
                        site = self._choose(filter, found)
                        wanted[site] = None
                        targets.append((site, filter))
        if not self.may_leave(topic):
            if wanted:
                self._host.counters.add("kept_in_site")
            return 0
        for other in others.values():
            if not other.incarnation and other.status != OFFLINE:
                wanted[other.name] = None                # what it wants is not known: it gets everything
        if not wanted:
            return 0
        if all(self.others[site].status == OFFLINE for site in wanted):
            self._host.counters.add("dropped_site_offline")
            return 0
        self._host.counters.add("site_messages_sent")
        frame = site_message(ForwardedMessage(publication), tuple(targets), self._host.wall_offset_ns)
        self._put(encode_frame(frame), token, None if len(wanted) == len(others) else tuple(sorted(wanted)))
        return len(wanted)

    def multicast(self, frame: PeerFrame, topic: str) -> None:
        """A frame about a topic to all members of the other sites that it may go to."""
        if self.others and self.may_leave(topic):
            sites = tuple(sorted(site.name for site in self.others.values() if site.takes(topic)))
            if sites:
                self._multicast(frame, None if len(sites) == len(self.others) else sites)

    def drain(self, now_ns: int) -> list[SendToSites]:
        """What is to be multicast across sites, in order; empty afterwards."""
        if not self.name:
            return []
        if self.is_coordinator and self.others:
            self._tell(now_ns)
        found = list(self.queue)
        self.queue.clear()
        self.queued_bytes = 0
        return found

    def prepare(self) -> None:
        """Before frames to the own site are drained."""
        if self._served:
            served, self._served = self._served, []
            self._host.say(None, SiteServed(tuple(served)))
        if self._touched and self.name:
            self._merge()
        elif self._touched:
            self._touched.clear()                        # all are taken when there are sites

    def _merge(self) -> None:
        """Bring what this site wants up to date, at all members: any of them may be the next coordinator."""
        touched, self._touched = self._touched, {}
        for filter in touched:
            count = self._count(filter)
            if self.filters.get(filter, ENDED) != count:
                if count.members:
                    self.filters[filter] = count
                else:
                    del self.filters[filter]
                self._changes.pop(filter, None)
                self._changes[filter] = count
        if not self.is_coordinator:
            self._changes.clear()                        # a new coordinator sends all

    def _count(self, filter: str) -> GroupCount:
        """What other sites are told of a filter: whether there is a member, not how many, since each change would cross
        the bridge."""
        counts = list(self._host.counts(filter))
        if not counts or not self.lets_in.meets(filter):
            return ENDED
        return GroupCount(1, 1 if any(count.online for count in counts) else 0)

    def _tell(self, now_ns: int) -> None:
        self._merge()
        changes, self._changes = self._changes, {}
        self.number += len(changes)
        if self._is_whole_due:
            self._is_whole_due = False
            self._host.counters.add("site_trees_sent")
            self._multicast(SiteFilters(self.epoch, self._host.incarnation, self.number, True,
                                        tuple(self.filters.items()), self.lets_in.filters, self.lets_out.filters))
        elif changes:
            self._host.counters.add("site_filters_sent", len(changes))
            self._multicast(SiteFilters(self.epoch, self._host.incarnation, self.number, False,
                                        tuple(changes.items())))

    def _choose(self, filter: str, found: Mapping[str, GroupCount]) -> str:
        """The site that serves a shared subscription: in turn among those that are up, with online members first."""
        sites = list(found.items())
        best = ([site for site, count in sites if count.online and self.others[site].status == "UP"]
                or [site for site, _ in sites if self.others[site].status == "UP"]
                or [site for site, _ in sites if self.others[site].status != OFFLINE] or [site for site, _ in sites])
        if len(best) == 1:
            return best[0]
        turns = self._turns.get(filter)
        if turns is None:
            if len(self._turns) >= MAX_TURNS:
                del self._turns[next(iter(self._turns))]
            turns = self._turns[filter] = GroupTurns()
        return turns.choose([(site, 1) for site in best])

    def _multicast(self, frame: PeerFrame, sites: tuple[str, ...] | None = None) -> None:
        self._put(encode_frame(frame), 0, sites if len(self.others) > 1 else None)

    def _put(self, data: bytes, token: int, sites: tuple[str, ...] | None) -> None:
        if token:
            self._host.retain(token)
        self.queue.append(SendToSites(data, token, sites))
        self.queued_bytes += len(data) + OVERHEAD_BYTES
        while self.queued_bytes > self._host.options.queue_bytes:
            oldest = self.queue.popleft()
            self.queued_bytes -= len(oldest.data) + OVERHEAD_BYTES
            self._host.counters.add("dropped_site_queue")
            if oldest.token:
                self._host.settle(oldest.token)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def received(self, site_name: str, source: Any, frame: PeerFrame, now_ns: int) -> None:
        """A frame of a member of another site. Raises WireError."""
        site = self.others.get(site_name)
        if site is None:
            if site_name == self.name or not self.name:
                raise WireError("a site that is not another one")
            # Its messages may come before RELAY reports its members.
            site = self.others[site_name] = OtherSite(site_name, want_ns=now_ns + self._retry_ns)
            self._is_whole_due = True
        if isinstance(frame, SiteMessage):
            self._on_message(frame, source, now_ns)
        elif isinstance(frame, SiteFilters):
            self._on_filters(site, source, frame, now_ns)
        elif isinstance(frame, SiteDigest):
            if self._is_newer(site, frame.epoch) and (
                    (frame.incarnation, frame.number) != (site.incarnation, site.number)):
                self._want(site, now_ns)
        elif isinstance(frame, WantSiteFilters):
            if frame.site == self.name:
                self._is_whole_due = True
        else:
            raise WireError("a frame that does not cross sites")

    def _on_message(self, frame: SiteMessage, source: Any, now_ns: int) -> None:
        item, publication = read_site_message(frame, self._host.wall_offset_ns, now_ns)
        self._host.counters.add("site_messages_received")
        if not self.may_enter(publication.topic):
            self._host.counters.add("dropped_topics_in")
            return
        self._host.from_site(publication, source, item.shared_only, now_ns)
        if any(site == self.name for site, _ in frame.targets):
            # What another site gives on may be here too, for another group.
            key = publication.origin | (GIVEN_ON if item.is_moved else 0), publication.number
            if key in self._served_early:
                del self._served_early[key]
                return
            self.unserved[key] = frame, publication
            self.unserved_bytes += len(frame.body) + OVERHEAD_BYTES
            while self.unserved_bytes > self._host.options.queue_bytes:
                self._forget(next(iter(self.unserved)))
                self._host.counters.add("dropped_queue_full")
            if self.is_coordinator:
                self._serve(key, frame, publication, now_ns)

    def _serve(self, key: tuple[int, int], frame: SiteMessage, publication: Publication, now_ns: int) -> None:
        """The coordinator gives it to a member of each group. The others keep it until it was given: if the coordinator
        ends before, its successor serves it, so that a member gets it at least once."""
        tokens = []
        for site, filter in frame.targets:
            if site == self.name:
                target = split_shared(filter)
                while len(self._chosen_here) >= MAX_SERVED:
                    del self._chosen_here[next(iter(self._chosen_here))]
                self._chosen_here[publication.origin, publication.number, target] = bool(key[0] & GIVEN_ON)
                token = self._host.serve(publication, target, now_ns)
                if token:
                    tokens.append(token)
                    self._tokens[token] = key
                elif token is None and not self.give_on(publication, target):
                    self._host.counters.add("dropped_no_member")
        if tokens:
            self._waits[key] = self._waits.get(key, 0) + len(tokens)
        else:
            self._done(key)

    def has_served(self, publication: Publication, target: Target) -> bool:
        """Whether this node, as the coordinator, has given a message of another site to a broker here, lately."""
        return (publication.origin, publication.number, target) in self._chosen_here

    def give_on(self, publication: Publication, target: Target) -> bool:
        """No broker of this site has a member: give a message for a group to another site, once (seeds 40040, 45104).
        Returns whether there is one with a member. A message of another site: `topics_out` was asked there."""
        if publication.origin == self._host.incarnation:
            may_go = self.may_leave(publication.topic)
        else:
            may_go = not self._chosen_here.get((publication.origin, publication.number, target), True)
        return may_go and self._give_to_site(publication, f"$share/{target[0]}/{target[1]}")

    def _give_to_site(self, publication: Publication, filter: str) -> bool:
        found = {site: count for site, count in self._tree.members(filter).items()
                 if self.others[site].takes(publication.topic)}
        if not found:
            return False
        site = self._choose(filter, found)
        self._host.counters.add("given_to_sites")
        item = ForwardedMessage(publication, shared_only=True, is_moved=True)
        self._multicast(site_message(item, ((site, filter),), self._host.wall_offset_ns), (site,))
        return True

    def settled(self, token: int) -> bool:
        """A token has all that it waited for; whether it was of a message that is served here."""
        key = self._tokens.pop(token, None)
        if key is None:
            return False
        self._waits[key] -= 1
        if not self._waits[key]:
            del self._waits[key]
            self._done(key)
        return True

    def _done(self, key: tuple[int, int]) -> None:
        self._forget(key)
        self._served.append(key)

    def served(self, frame: SiteServed) -> None:
        """What the coordinator has served."""
        for key in frame.messages:
            if key in self.unserved:
                self._forget(key)
                continue
            while len(self._served_early) >= MAX_EARLY:
                del self._served_early[next(iter(self._served_early))]
            self._served_early[key] = None               # RELAY brings it to each member at another moment

    def _forget(self, key: tuple[int, int]) -> None:
        found = self.unserved.pop(key, None)
        if found is not None:
            self.unserved_bytes -= len(found[0].body) + OVERHEAD_BYTES

    # --- what other sites want ----------------------------------------------------------------------------------------

    def _is_newer(self, site: OtherSite, epoch: int) -> bool:
        """Whether the sender is the coordinator of now: what a former one has sent may come later, by the new relay."""
        return epoch >= site.epoch or site.coordinator not in site.members

    def _on_filters(self, site: OtherSite, coordinator: Any, frame: SiteFilters, now_ns: int) -> None:
        if not self._is_newer(site, frame.epoch):
            return
        is_same = frame.incarnation == site.incarnation
        if is_same and frame.number < site.number:
            return
        if not frame.is_whole:
            if not is_same or frame.number - len(frame.deltas) != site.number:
                self._want(site, now_ns)                 # a whole set is on its way, or some of it was declared lost
                return
            site.epoch, site.number = frame.epoch, frame.number
            self._apply(site, frame.deltas)
            return
        wanted = dict(frame.deltas)
        self._apply(site, [(filter, ENDED) for filter in site.filters if filter not in wanted])
        self._apply(site, frame.deltas)
        site.coordinator, site.epoch = coordinator, frame.epoch
        is_new = not site.incarnation
        site.incarnation, site.number, site.want_ns = frame.incarnation, frame.number, 0
        if is_new or (site.lets_in.filters, site.lets_out.filters) != (frame.lets_in, frame.lets_out):
            site.lets_in, site.lets_out = TopicRules(frame.lets_in), TopicRules(frame.lets_out)
            self._host.rules_changed(site.name)

    def _apply(self, site: OtherSite, deltas: Sequence[tuple[str, GroupCount]]) -> None:
        for filter, count in deltas:
            if not count.members:
                if site.filters.pop(filter, None) is not None:
                    self._tree.unsubscribe(filter, site.name)
            elif site.filters.get(filter) != count:
                site.filters[filter] = count
                self._tree.subscribe(filter, site.name, count)

    def _want(self, site: OtherSite, now_ns: int) -> None:
        if not site.want_ns:
            site.want_ns = now_ns + self._retry_ns // 4

    @property
    def _retry_ns(self) -> int:
        return round(self._host.options.retry_s * SECOND)

    def may_leave(self, topic: str) -> bool:
        """Whether this site gives a topic to others."""
        return self.lets_out.passes(topic)

    def may_enter(self, topic: str) -> bool:
        """Whether this site takes a topic from others."""
        return self.lets_in.passes(topic)

    def is_ruled(self, name: str) -> bool:
        """Whether this site or another one keeps topics from the other."""
        site = self.others.get(name)
        return bool(self.lets_in or self.lets_out or (site is not None and (site.lets_in or site.lets_out)))

    def report(self, topic: str = "") -> list[dict[str, Any]]:
        """Of each other site its status and what it wants, for operators. topic: also whether it wants this one, lets
        it in, and gets it."""
        return [{"site": site.name, "status": site.status, "members": [str(member) for member in site.members],
                 "filters": len(site.filters), "is_known": bool(site.incarnation),
                 "topics_in": list(site.lets_in.filters), "topics_out": list(site.lets_out.filters),
                 **(self._way_to(site, topic) if topic else {})} for site in self.others.values()]

    def way_of(self, topic: str) -> dict[str, Any]:
        """What becomes of a message to a topic that is published here, at each other site; {} without RELAY."""
        if not self.name:
            return {}
        return {"site": self.name, "leaves_site": self.may_leave(topic), "enters_site": self.may_enter(topic),
                "sites": [{"site": site.name, "status": site.status, **self._way_to(site, topic)}
                          for site in self.others.values()]}

    def _way_to(self, site: OtherSite, topic: str) -> dict[str, Any]:
        """What becomes of a message to a topic that is published here, for one site."""
        filters = [filter for filter in site.filters if filter_matches(split_shared(filter)[1], topic)]
        why = ""
        if not self.may_leave(topic):
            why = "topics_out of this site does not let it out"
        elif not site.takes(topic):
            why = f"topics_in of {site.name} does not let it in"
        elif site.status == OFFLINE:
            why = "OFFLINE: nothing is held for it"
        elif not site.incarnation:
            why = "its filters are not known yet, so it gets everything"
        elif not filters:
            why = "no client there wants it"
        return {"wants": bool(filters), "matching": filters, "lets_in": site.takes(topic),
                "gets": not why or not site.incarnation, "why": why}


def site_message(
    item: ForwardedMessage, targets: tuple[tuple[str, str], ...], wall_offset_ns: int,
) -> SiteMessage:
    """A message as it crosses sites."""
    expires, publication = 0, item.publication
    if publication.expires_ns != NEVER:
        expires = max(1, publication.expires_ns + wall_offset_ns)
        item = attrs.evolve(item, publication=attrs.evolve(publication, expires_ns=NEVER))
    return SiteMessage(expires, message_body(item, 0), targets)


def read_site_message(frame: SiteMessage, wall_offset_ns: int, now_ns: int) -> tuple[ForwardedMessage, Publication]:
    """Raises WireError."""
    item = read_message(frame.body, now_ns)
    if frame.expires_ns:
        expires_ns = frame.expires_ns - wall_offset_ns
        if expires_ns - now_ns > MAX_EXPIRY_NS:
            raise WireError("a time to live that is too long")
        item.publication.expires_ns = max(1, expires_ns)
    for _, filter in frame.targets:
        if not split_shared(filter)[0]:
            raise WireError("a target that is not shared")
    return item, item.publication
