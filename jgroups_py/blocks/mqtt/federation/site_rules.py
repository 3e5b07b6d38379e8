"""Which topics leave a site and which enter it: `topics_out` and `topics_in`. Pure.

    messages, wills, $share   `topics_out` is asked where a message is published, `topics_in` of the other site there as
                              well, so that nothing crosses in vain; and by each broker that it comes to (sites.py)
    filters                   what meets no filter of `topics_in` is not announced
    retained messages         the same for each entry that crosses, and for its key (site_tables.py)
"""
from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.blocks.mqtt.broker.subscription_tree import SubscriptionTree, split_shared

CACHE = 10_000


class TopicRules:
    """A list of filters; without any, every topic passes."""

    def __init__(self, filters: Iterable[str] = ()) -> None:
        self.filters = tuple(filters)
        self._tree: SubscriptionTree[str, None] = SubscriptionTree(CACHE if self.filters else 0)
        for filter in self.filters:
            self._tree.subscribe(filter, filter, None)

    def __bool__(self) -> bool:
        return bool(self.filters)

    def passes(self, topic: str) -> bool:
        """Whether a message to this topic passes."""
        return not self.filters or bool(self._tree.match(topic).plain)

    def meets(self, filter: str) -> bool:
        """Whether a topic that passes can match a filter, which may be shared."""
        plain = split_shared(filter)[1]
        return not self.filters or any(filters_meet(plain, each) for each in self.filters)


NO_RULES = TopicRules()


def filters_meet(one: str, other: str) -> bool:
    """Whether there is a topic that both filters match.

    >>> [filters_meet("a/+/c", other) for other in ("a/b/#", "+/b/c", "a/b", "#", "b/#")]
    [True, True, False, True, False]
    >>> filters_meet("a/#", "a"), filters_meet("+/x", "$SYS/x"), filters_meet("$SYS/#", "$SYS/+")
    (True, False, True)
    """
    levels, others = one.split("/"), other.split("/")
    for wild, literal in ((levels[0], others[0]), (others[0], levels[0])):
        if wild in ("+", "#") and literal.startswith("$"):
            return False                                 # wildcards match no topic that begins so [MQTT-4.7.2-1]
    for at in range(max(len(levels), len(others))):
        here = levels[at] if at < len(levels) else None
        there = others[at] if at < len(others) else None
        if "#" in (here, there):
            return True                                  # also of the level above
        if here is None or there is None:
            return False
        if here != there and "+" not in (here, there):
            return False
    return True
