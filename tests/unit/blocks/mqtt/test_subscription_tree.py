"""The tree of subscriptions: the standard's rules of matching (4.7), precise forgetting, the order of what it finds."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.broker.retained import RetainedTable
from jgroups_py.blocks.mqtt.broker.subscription_tree import SubscriptionTree, TopicTrie

TABLE = [
    ("a/b", "a/b", True),
    ("a/b", "a/b/c", False),
    ("a/+", "a/b", True),
    ("a/+", "a", False),
    ("a/+", "a/", True),
    ("a/+", "a/b/c", False),
    ("+", "a", True),
    ("+", "/a", False),
    ("+/+", "/a", True),
    ("/+", "/a", True),
    ("a/#", "a", True),
    ("a/#", "a/b/c", True),
    ("a/#", "ab", False),
    ("#", "a/b", True),
    ("#", "$SYS/broker", False),
    ("+/broker", "$SYS/broker", False),
    ("$SYS/#", "$SYS/broker", True),
    ("$SYS/+", "$SYS/broker", True),
    ("a/+/c", "a//c", True),
    ("A/b", "a/b", False),
]


def naive(filter: str, topic: str) -> bool:
    """The rules of 4.7, word by word."""
    wanted, levels = filter.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for at, level in enumerate(wanted):
        if level == "#":
            return len(levels) >= at
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return len(wanted) == len(levels)


@pytest.mark.parametrize(("filter", "topic", "expected"), TABLE)
def test_a_filter_matches_as_the_standard_says(filter, topic, expected):
    tree: SubscriptionTree[str, int] = SubscriptionTree(cache=0)
    tree.subscribe(filter, "s", 1)
    assert bool(tree.match(topic).plain) is expected
    assert naive(filter, topic) is expected
    topics: TopicTrie[int] = TopicTrie()
    topics.put(topic, 7)
    assert [found for found, _ in topics.matching(filter)] == [topic] * expected


LEVELS = ("a", "b", "", "$S")


def some_topic(rng: Random) -> str:
    return "/".join(rng.choices(LEVELS, k=rng.randint(1, 4))) or "a"


def some_filter(rng: Random) -> str:
    return "/".join([*rng.choices((*LEVELS, "+"), k=rng.randint(0, 3)), rng.choice(("#", "a", "+", "b"))])


@pytest.mark.parametrize("seed", range(200))
def test_the_tree_is_as_a_list_of_filters(seed):
    rng = Random(seed)
    tree: SubscriptionTree[str, int] = SubscriptionTree(cache=rng.randint(0, 4))
    truth: dict[tuple[str, str, str], int] = {}
    for number in range(60):
        if rng.random() < 0.4:
            topic = some_topic(rng)
            found = tree.match(topic)
            plain = [("", name, value) for name, values in found.plain for value in values]
            assert sorted(plain) == sorted(("", name, value) for (group, filter, name), value in truth.items()
                                           if not group and naive(filter, topic))
            shared = [(match.group, match.filter, name, value)
                      for match in found.shared for name, value in match.members.items()]
            assert sorted(shared) == sorted((group, filter, name, value) for (group, filter, name), value
                                            in truth.items() if group and naive(filter, topic))
            continue
        group, filter, name = rng.choice(["", "", "g", "h"]), some_filter(rng), rng.choice("xyz")
        if truth and rng.random() < 0.4:
            group, filter, name = rng.choice(list(truth))
        whole = f"$share/{group}/{filter}" if group else filter
        if rng.random() < 0.6:
            assert tree.subscribe(whole, name, number) is ((group, filter, name) not in truth)
            truth[group, filter, name] = number
        else:
            assert tree.unsubscribe(whole, name) is (truth.pop((group, filter, name), None) is not None)
        assert tree.count(whole) == len(tree.members(whole)) == sum(key[:2] == (group, filter) for key in truth)
        assert len(tree) == len(truth)
    for group, filter, name in truth:
        assert tree.unsubscribe(f"$share/{group}/{filter}" if group else filter, name)
    assert tree._root.is_empty, "levels without a subscription are left"


@pytest.mark.parametrize("seed", range(200))
def test_topics_are_found_by_filter(seed):
    rng = Random(seed)
    trie: TopicTrie[int] = TopicTrie()
    truth: dict[str, int] = {}
    for number in range(40):
        topic = some_topic(rng)
        if rng.random() < 0.6:
            trie.put(topic, number)
            truth[topic] = number
        else:
            assert trie.pop(topic) == truth.pop(topic, None)
        filter = some_filter(rng)
        assert sorted(trie.matching(filter)) == sorted(item for item in truth.items() if naive(filter, item[0]))
    for topic in truth:
        trie.pop(topic)
    assert not trie._root.children, "levels without a topic are left"


def test_a_change_forgets_the_topics_that_it_matches_and_no_others():
    tree: SubscriptionTree[str, int] = SubscriptionTree(cache=10)
    for topic in ("a/b", "a/c", "b/b"):
        tree.match(topic)
    assert tree.misses == 3
    tree.subscribe("a/+", "x", 1)
    for topic in ("a/b", "a/c", "b/b"):
        tree.match(topic)
    assert tree.misses == 5, "b/b is remembered, a/b and a/c are not"


def test_the_cache_is_bounded():
    tree: SubscriptionTree[str, int] = SubscriptionTree(cache=2)
    for number in range(100):
        tree.match(f"t/{number}")
    assert len(tree._cache) == len(tree._cached) == 2


def test_a_filter_with_many_wildcards_visits_no_more_than_there_is():
    tree: SubscriptionTree[str, int] = SubscriptionTree(cache=0)
    tree.subscribe("/".join("+" * 60), "x", 1)
    tree.subscribe("/".join("a" * 60), "x", 2)
    assert [values for _, values in tree.match("/".join("a" * 60)).plain] == [(1, 2)]


def test_retained_messages_expire_and_are_cleared():
    table = RetainedTable(most=2)
    assert table.put(Publication("a/b", b"1", expires_ns=100))
    assert table.put(Publication("a/c", b"2"))
    assert not table.put(Publication("a/d", b"3")), "no room"
    assert table.put(Publication("a/c", b"4")), "replacing needs none"
    assert [each.payload for each in table.matching("a/+", 99)] == [b"1", b"4"]
    assert [each.payload for each in table.matching("a/+", 100)] == [b"4"]
    assert table.get("a/b", 0) is None, "gone for good"
    assert table.put(Publication("a/c", b""))
    assert len(table) == 0
