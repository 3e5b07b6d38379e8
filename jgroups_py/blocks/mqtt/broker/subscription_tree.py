"""Filters and subscribers (4.7), found by topic; and topics found by filter.

A `SubscriptionTree` is a trie of filters by level. A broker has two: the local one (session -> options) and that of the
federation (node -> number of members). Matching walks all levels at once: from each node its child of the level's
name, "+" and "#". A topic that begins with "$" is not matched by a wildcard in the first level [MQTT-4.7.2-1]; empty
levels are levels (4.7.3).

What matches a topic is remembered, since publishers repeat their topics: a publish then costs one look-up. A change of
a filter forgets exactly the topics that it matches. They are found by a `TopicTrie` of the remembered topics, the same
structure that finds retained messages for a filter.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

import attrs

from jgroups_py.blocks.mqtt.codec.text import SHARED

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def split_shared(filter: str) -> tuple[str, str]:
    """(group, filter) of a subscription's filter; group "" if it is not shared.

    What begins like a shared subscription and is none can come from clients of 3.1.1 alone, where it is a plain filter.

    >>> split_shared("$share/g/a/b"), split_shared("a/b"), split_shared("$share/#")
    (('g', 'a/b'), ('', 'a/b'), ('', '$share/#'))
    """
    if not filter.startswith(SHARED):
        return "", filter
    group, _, rest = filter.removeprefix(SHARED).partition("/")
    if not group or not rest or "+" in group or "#" in group:
        return "", filter
    return group, rest


def filter_matches(filter: str, topic: str) -> bool:
    """Whether a filter that is not shared matches a topic (4.7); for one question, without a tree.

    >>> [filter_matches(filter, "a/b") for filter in ("a/b", "a/+", "#", "a/b/#", "+", "a")]
    [True, True, True, True, False, False]
    >>> filter_matches("#", "$SYS/x"), filter_matches("$SYS/#", "$SYS/x")
    (False, True)
    """
    levels, wanted = topic.split("/"), filter.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return len(levels) == len(wanted)


class TopicNode(Generic[V]):
    """A level of a topic."""

    __slots__ = ("children", "topic", "value")

    def __init__(self) -> None:
        self.children: dict[str, TopicNode[V]] = {}
        self.topic: str | None = None                    # None: no topic ends here
        self.value: V | None = None


class TopicTrie(Generic[V]):
    """Topic name -> value, found by filter."""

    def __init__(self) -> None:
        self._root: TopicNode[V] = TopicNode()
        self._nodes: dict[str, TopicNode[V]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, topic: str) -> bool:
        return topic in self._nodes

    def get(self, topic: str) -> V | None:
        """The value of a topic."""
        node = self._nodes.get(topic)
        return None if node is None else node.value

    def put(self, topic: str, value: V) -> None:
        """Set it."""
        node = self._nodes.get(topic)
        if node is None:
            node = self._root
            for level in topic.split("/"):
                below = node.children.get(level)
                if below is None:
                    below = node.children[level] = TopicNode()
                node = below
            node.topic = topic
            self._nodes[topic] = node
        node.value = value

    def pop(self, topic: str) -> V | None:
        """Take it out, with the levels that lead to nothing else."""
        node = self._nodes.pop(topic, None)
        if node is None:
            return None
        value, node.topic, node.value = node.value, None, None
        levels = topic.split("/")
        path = [self._root]
        for level in levels:
            path.append(path[-1].children[level])
        while levels and path[-1].topic is None and not path[-1].children:
            path.pop()
            del path[-1].children[levels.pop()]
        return value

    def first(self) -> str:
        """The topic that has been here longest. There is one."""
        return next(iter(self._nodes))

    def matching(self, filter: str) -> Iterator[tuple[str, V]]:
        """(topic, value) of all that a filter matches, level by level in the order of their arrival."""
        found = [self._root]
        levels = filter.split("/")
        for depth, level in enumerate(levels):
            if level == "#":
                # "a/#" is a itself too, and "#" everything but what begins with "$".
                yield from self._below(found, with_dollar=depth > 0)
                return
            if level == "+":
                found = [below for node in found for name, below in node.children.items()
                         if depth or not name.startswith("$")]
            else:
                found = [below for node in found if (below := node.children.get(level)) is not None]
        for node in found:
            if node.topic is not None:
                yield node.topic, node.value             # type: ignore[misc]

    def _below(self, nodes: list[TopicNode[V]], with_dollar: bool) -> Iterator[tuple[str, V]]:
        pending = list(reversed(nodes))
        while pending:
            node = pending.pop()
            if node.topic is not None:
                yield node.topic, node.value             # type: ignore[misc]
            pending += [below for name, below in reversed(node.children.items())
                        if with_dollar or node is not self._root or not name.startswith("$")]


class FilterNode(Generic[K, V]):
    """A level of a filter, with the subscriptions that end here."""

    __slots__ = ("children", "groups", "subscribers")

    def __init__(self) -> None:
        self.children: dict[str, FilterNode[K, V]] = {}
        self.subscribers: dict[K, V] = {}
        self.groups: dict[str, dict[K, V]] = {}          # shared: group -> members

    @property
    def is_empty(self) -> bool:
        """Whether nothing needs this node."""
        return not (self.children or self.subscribers or self.groups)


@attrs.frozen(eq=False)
class SharedMatch(Generic[K, V]):
    """A group that a topic matches. members: as in the tree now; not to be changed."""

    group: str
    filter: str
    members: dict[K, V]


@attrs.frozen(eq=False)
class Matches(Generic[K, V]):
    """Who gets a topic: subscribers with the values of all filters of theirs that match, and groups."""

    plain: tuple[tuple[K, tuple[V, ...]], ...]
    shared: tuple[SharedMatch[K, V], ...]


class SubscriptionTree(Generic[K, V]):
    """See the module. A filter may be "$share/GROUP/FILTER". cache: how many topics are remembered at most."""

    def __init__(self, cache: int) -> None:
        self._root: FilterNode[K, V] = FilterNode()
        self._filters: dict[str, int] = {}               # filter as subscribed -> number of subscribers
        self.size = 0                                    # the sum of these; not to be changed
        self._cache_size = cache
        self._cache: dict[str, Matches[K, V]] = {}
        self._cached: TopicTrie[None] = TopicTrie()
        self.misses = 0
        self.watch: Callable[[str], None] | None = None  # is called with the filter of each subscription more or less

    def __len__(self) -> int:
        """Subscriptions."""
        return self.size

    def count(self, filter: str) -> int:
        """Subscribers of a filter, which is compared as text."""
        return self._filters.get(filter, 0)

    def filters(self) -> Iterator[tuple[str, int]]:
        """(filter, number of subscribers), in the order of their first subscription."""
        return iter(self._filters.items())

    def texts(self) -> Iterator[str]:
        """The filters, without $share/GROUP/; one may come again."""
        return (split_shared(filter)[1] for filter in self._filters)

    def interested(self, text: str) -> Iterator[K]:
        """The subscribers of a filter, and of all shared subscriptions of it."""
        node = self._root
        for level in text.split("/"):
            below = node.children.get(level)
            if below is None:
                return
            node = below
        yield from node.subscribers
        for members in node.groups.values():
            yield from members

    def members(self, filter: str) -> dict[K, V]:
        """Subscriber -> value of a filter. Not to be changed."""
        group, text = split_shared(filter)
        node = self._root
        for level in text.split("/"):
            below = node.children.get(level)
            if below is None:
                return {}
            node = below
        return node.groups.get(group, {}) if group else node.subscribers

    def subscribe(self, filter: str, subscriber: K, value: V) -> bool:
        """Set the value of a subscription; whether it is a new one."""
        group, text = split_shared(filter)
        node = self._root
        for level in text.split("/"):
            below = node.children.get(level)
            if below is None:
                below = node.children[level] = FilterNode()
            node = below
        members = node.groups.setdefault(group, {}) if group else node.subscribers
        is_new = subscriber not in members
        members[subscriber] = value
        if is_new:
            self._filters[filter] = self._filters.get(filter, 0) + 1
            self.size += 1
        self._forget(text)
        if is_new and self.watch is not None:
            self.watch(text)
        return is_new

    def unsubscribe(self, filter: str, subscriber: K) -> bool:
        """Take a subscription out; whether there was one."""
        group, text = split_shared(filter)
        levels = text.split("/")
        path = [self._root]
        for level in levels:
            below = path[-1].children.get(level)
            if below is None:
                return False
            path.append(below)
        node = path[-1]
        members = node.groups.get(group, {}) if group else node.subscribers
        if subscriber not in members:
            return False
        del members[subscriber]
        if group and not members:
            del node.groups[group]
        self._filters[filter] -= 1
        self.size -= 1
        if not self._filters[filter]:
            del self._filters[filter]
        while levels and path[-1].is_empty:
            path.pop()
            del path[-1].children[levels.pop()]
        self._forget(text)
        if self.watch is not None:
            self.watch(text)
        return True

    def match(self, topic: str) -> Matches[K, V]:
        """What a topic matches, from the cache if it can be."""
        found = self._cache.get(topic)
        if found is None:
            self.misses += 1
            found = self._match(topic)
            if self._cache_size:
                if len(self._cache) >= self._cache_size:
                    oldest = self._cached.first()
                    self._cached.pop(oldest)
                    del self._cache[oldest]
                self._cache[topic] = found
                self._cached.put(topic, None)
        return found

    def _forget(self, filter: str) -> None:
        for topic in [topic for topic, _ in self._cached.matching(filter)]:
            self._cached.pop(topic)
            del self._cache[topic]

    def _match(self, topic: str) -> Matches[K, V]:
        plain: dict[K, tuple[V, ...]] = {}
        shared: list[SharedMatch[K, V]] = []
        for filter, node in self._matching_nodes(topic):
            for subscriber, value in node.subscribers.items():
                plain[subscriber] = (*plain.get(subscriber, ()), value)
            shared += [SharedMatch(group, filter, members) for group, members in node.groups.items()]
        return Matches(tuple(plain.items()), tuple(shared))

    def _matching_nodes(self, topic: str) -> Iterator[tuple[str, FilterNode[K, V]]]:
        """(filter, its node) that a topic matches. Visits at most the nodes that there are."""
        found: list[tuple[str, FilterNode[K, V]]] = [("", self._root)]
        for depth, level in enumerate(topic.split("/")):
            after = []
            for path, node in found:
                children = node.children
                if depth or not topic.startswith("$"):
                    if "#" in children:
                        yield path + "#", children["#"]
                    if "+" in children:
                        after.append((path + "+/", children["+"]))
                if level in children:
                    after.append((f"{path}{level}/", children[level]))
            found = after
        for path, node in found:
            if node.subscribers or node.groups:
                yield path[:-1], node
            if "#" in node.children:
                yield path + "#", node.children["#"]
