"""Topics: the subject of a multicast, and the set of topics that a member subscribes to.

A topic is a name. The names "0" to "63" also have a compact form: one byte in a header, one bit of a 64-bit map in an
interest, which is the form of the system that this comes from. An interest is a set of topics, or all of them; one that
would not fit a frame is announced as all, which is always safe, since receivers filter again.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.errors import ConfigError

NUMBERED = 64                          # topics "0" to "63" are bits of a 64-bit map
MAX_NAME_BYTES = 200
MAX_NAMES = 400                        # an interest with more names is announced as "all"
MAX_NAMES_BYTES = 8 << 10              # the same for the sum of their lengths
ALL_TOPICS = "*"
NUMBERS = {str(number): number for number in range(NUMBERED)}


def topic_name(topic: str | int) -> str:
    """The name of a topic, which is the same at all members.

    Raises:
        ValueError: a number above 63, an empty or very long name, or "*", which stands for all.
        TypeError: neither a name nor a number.

    >>> topic_name("orders"), topic_name(7)
    ('orders', '7')
    """
    if isinstance(topic, bool) or not isinstance(topic, str | int):
        raise TypeError(f"a topic is a name or a number, not {type(topic).__name__}")
    if isinstance(topic, int):
        if not 0 <= topic < NUMBERED:
            raise ValueError(f"topic {topic}: numbered topics are 0 to {NUMBERED - 1}; give it a name instead")
        return str(topic)
    if topic == ALL_TOPICS:
        raise ValueError(f"{ALL_TOPICS!r} stands for all topics; a message has one, or none")
    if not 0 < len(topic.encode()) <= MAX_NAME_BYTES:
        raise ValueError(f"topic {topic[:40]!r}: a topic's name has 1 to {MAX_NAME_BYTES} bytes")
    return topic


@attrs.frozen
class Interest:
    """A set of topics: `everything`, or those in `names`."""

    names: frozenset[str] = frozenset()
    everything: bool = False

    def includes(self, topic: str) -> bool:
        """Whether the topic is in it."""
        return self.everything or topic in self.names

    def meets(self, other: Interest) -> bool:
        """Whether some topic is in both."""
        if self.everything or other.everything:
            return bool(self) and bool(other)
        return not self.names.isdisjoint(other.names)

    def union(self, other: Interest) -> Interest:
        """The topics in either."""
        if self.everything or other.everything:
            return EVERYTHING
        return Interest(self.names | other.names)

    def without(self, other: Interest) -> Interest:
        """The topics in this one only. From all topics, only all topics can be removed."""
        if other.everything:
            return NOTHING
        return self if self.everything else Interest(self.names - other.names)

    @property
    def announced(self) -> Interest:
        """The interest as it is announced: all, if the names are too many for a frame."""
        nbytes = sum(len(name.encode()) for name in sorted(self.names))
        return EVERYTHING if len(self.names) > MAX_NAMES or nbytes > MAX_NAMES_BYTES else self

    def __bool__(self) -> bool:
        return self.everything or bool(self.names)

    def __str__(self) -> str:
        return ALL_TOPICS if self.everything else ",".join(sorted(self.names))


EVERYTHING = Interest(everything=True)
NOTHING = Interest()


def interest_in(*topics: str | int) -> Interest:
    """An interest in these topics; "*" is all of them.

    >>> str(interest_in("orders", 3)), str(interest_in("*"))
    ('3,orders', '*')
    """
    if ALL_TOPICS in topics:
        return EVERYTHING
    return Interest(frozenset(topic_name(topic) for topic in topics))


def parse_topics(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """The topics of "orders, prices, 3", as a stack file has them.

    Raises:
        ConfigError: one of them cannot be a topic.

    >>> parse_topics("orders, prices"), parse_topics("*"), parse_topics("")
    (('orders', 'prices'), ('*',), ())
    """
    names = tuple(filter(None, (part.strip() for part in value.split(",")))) if isinstance(value, str) else value
    try:
        interest_in(*names)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from None
    return names
