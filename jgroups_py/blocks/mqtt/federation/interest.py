"""What the subscribers of each peer want, and which node gets a message of a shared subscription.

A node counts its changes of filters. A change reaches all peers with its number, so a peer knows when one is missing,
and then asks for the whole tree. What a peer wanted is kept while it is away, so that messages can wait for it.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from jgroups_py.blocks.mqtt.broker.subscription_tree import Matches, SubscriptionTree, filter_matches, split_shared
from jgroups_py.blocks.mqtt.federation.wire import ONE, GroupCount, InterestChange, InterestTree

MAX_LATER = 256
"""Changes that are kept before a tree that is on its way."""


@attrs.define(eq=False)
class PeerFilters:
    """How far the filters of one peer are known. incarnation 0: nothing is."""

    incarnation: int = 0
    number: int = 0
    filters: dict[str, GroupCount] = attrs.field(factory=dict)
    later: list[InterestChange] = attrs.field(factory=list)

    def misses(self, incarnation: int, number: int) -> bool:
        """Whether changes are missing here, if the peer has come so far."""
        return incarnation != self.incarnation or number > self.number


class InterestOfPeers:
    """The tree of the federation: node -> numbers of members, by filter."""

    def __init__(self, cache: int) -> None:
        self.tree: SubscriptionTree[str, GroupCount] = SubscriptionTree(cache)
        self.peers: dict[str, PeerFilters] = {}
        self.changed: dict[str, None] = {}               # filters, for whoever looks and clears

    def match(self, topic: str) -> Matches[str, GroupCount]:
        """Which nodes a topic is for."""
        return self.tree.match(topic)

    def filters_for(self, topic: str) -> dict[str, list[str]]:
        """Peer -> its filters that match a topic, for operators."""
        found: dict[str, list[str]] = {}
        matches = self.tree.match(topic)
        for name, _ in matches.plain:
            found[name] = [filter for filter in plain_filters(self.peers[name].filters)
                           if filter_matches(filter, topic)]
        for match in matches.shared:
            for name in match.members:
                found.setdefault(name, []).append(f"$share/{match.group}/{match.filter}")
        return found

    def wants(self, name: str, topic: str) -> bool:
        """Whether a plain filter of a peer matches."""
        return any(node == name for node, _ in self.tree.match(topic).plain)

    def count(self, name: str, group: str, filter: str) -> GroupCount | None:
        """The members of a shared subscription at a peer."""
        return self.peers[name].filters.get(f"$share/{group}/{filter}") if name in self.peers else None

    def change(self, name: str, change: InterestChange) -> list[str] | None:
        """Apply what fits behind what is known; the filters that were set. None: changes before it are missing."""
        known = self.peers.setdefault(name, PeerFilters())
        if change.incarnation == known.incarnation and change.number <= known.number:
            return []                                    # the tree had it
        missing = change.number - len(change.deltas) - known.number
        if change.incarnation != known.incarnation or missing > 0:
            if len(known.later) < MAX_LATER:
                known.later.append(change)
            return None
        deltas = change.deltas[-missing:] if missing < 0 else change.deltas
        known.number = change.number
        return self._apply(name, known, deltas)

    def replace(self, name: str, tree: InterestTree) -> tuple[list[str], list[str]]:
        """A whole tree: (the filters that were set, those that have ended)."""
        known = self.peers.setdefault(name, PeerFilters())
        if tree.incarnation == known.incarnation and tree.number < known.number:
            return [], []
        wanted = dict(tree.filters)
        ended = [filter for filter in known.filters if filter not in wanted]
        new = [filter for filter in wanted if filter not in known.filters]
        known.incarnation, known.number = tree.incarnation, tree.number
        self._apply(name, known, [*((filter, GroupCount(0, 0)) for filter in ended), *tree.filters])
        later, known.later = known.later, []
        for change in later:
            if change.incarnation == tree.incarnation:
                new += self.change(name, change) or ()
        return new, ended

    def forget(self, name: str) -> None:
        """A peer is gone for good."""
        known = self.peers.pop(name, None)
        for filter in () if known is None else known.filters:
            self.changed[filter] = None
            self.tree.unsubscribe(filter, name)

    def _apply(
        self, name: str, known: PeerFilters, deltas: Iterable[tuple[str, GroupCount]],
    ) -> list[str]:
        found = []
        for filter, count in deltas:
            self.changed[filter] = None
            if not count.members:
                known.filters.pop(filter, None)
                self.tree.unsubscribe(filter, name)
            elif known.filters.get(filter) != count:
                if filter not in known.filters:
                    found.append(filter)
                known.filters[filter] = count
                self.tree.subscribe(filter, name, count)
        return found


class OwnInterest:
    """The filters of this broker, and what of them peers were not told yet."""

    def __init__(self) -> None:
        self.filters: dict[str, GroupCount] = {}
        self.number = 0
        self._changed: dict[str, GroupCount] = {}

    def set(self, filter: str, count: GroupCount) -> None:
        """A filter has these members now."""
        if self.filters.get(filter, GroupCount(0, 0)) == count:
            return
        if count.members:
            self.filters[filter] = count
        else:
            del self.filters[filter]
        self._changed.pop(filter, None)
        self._changed[filter] = count

    def changes(self) -> tuple[tuple[str, GroupCount], ...]:
        """What peers are to be told now; counted from now on."""
        found = tuple(self._changed.items())
        self._changed.clear()
        self.number += len(found)
        return found


@attrs.define(eq=False)
class GroupTurns:
    """Whose turn it is in a shared subscription: smooth weighted round robin (Nginx), "" for this broker."""

    credit: dict[str, int] = attrs.field(factory=dict)

    def choose(self, weights: Sequence[tuple[str, int]]) -> str:
        """The next node. weights: above 0; in a period as long as their sum each node is chosen as often as its weight
        says."""
        total = sum(weight for _, weight in weights)
        credit = {node: self.credit.get(node, 0) + weight for node, weight in weights}
        best = max(credit, key=lambda node: (credit[node], node))
        credit[best] -= total
        self.credit = credit
        return best


def plain_filters(filters: Iterable[str]) -> list[str]:
    """Those that are not shared."""
    return [filter for filter in filters if not split_shared(filter)[0]]


def group_count(members: int, online: int) -> GroupCount:
    """A count; the same object where it can be."""
    return ONE if members == online == 1 else GroupCount(members, online)
