"""Topics: what a multicast may be about, which of them somebody wants, and the marks that runs carry for it.

A topic is a name. The names "0" to "63" also have a compact form: one byte in a header, one bit of a 64-bit map in an
interest, which is the form of the system that this comes from. An interest is a set of topics, or all of them; one that
would not fit a frame is told to others as all, which is always right, since receivers check again.
"""
from __future__ import annotations

from functools import lru_cache

import attrs

from jgroups_py import wire
from jgroups_py.batch import Batch, Header
from jgroups_py.errors import ConfigError
from jgroups_py.events import Event

TOPICS_ID = 18
NUMBERED = 64                          # topics "0" to "63" are bits of a 64-bit map
MAX_NAME_BYTES = 200
MAX_NAMES = 400                        # an interest with more names is told as "all"
MAX_NAMES_BYTES = 8 << 10              # likewise, with longer ones
ALL_TOPICS = "*"
_NUMBERS = {str(number): number for number in range(NUMBERED)}


def topic_name(topic: str | int) -> str:
    """A topic as it is known everywhere.

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

    def wants(self, topic: str) -> bool:
        """Whether the topic is in it."""
        return self.everything or topic in self.names

    def meets(self, other: Interest) -> bool:
        """Whether some topic is in both."""
        if self.everything or other.everything:
            return bool(self) and bool(other)
        return not self.names.isdisjoint(other.names)

    def union(self, other: Interest) -> Interest:
        """What is in either."""
        if self.everything or other.everything:
            return EVERYTHING
        return Interest(self.names | other.names)

    def without(self, other: Interest) -> Interest:
        """What is in this one only. Of everything, nothing can be taken away but everything."""
        if other.everything:
            return NOTHING
        return self if self.everything else Interest(self.names - other.names)

    @property
    def told(self) -> Interest:
        """The same as it is told to others: all, if the names are too many for a frame."""
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


# --- what an interest does: between the channel, TOPICS and RELAY ---------------------------------------------------

@attrs.frozen
class Subscribe(Event):
    """Down, from the channel: the application wants these topics too."""

    interest: Interest


@attrs.frozen
class Unsubscribe(Event):
    """Down, from the channel: the application wants these topics no more."""

    interest: Interest


@attrs.frozen
class SiteInterest(Event):
    """Down, from TOPICS at the coordinator: what the members of its view want; all topics while that is not known."""

    interest: Interest


# --- on the wire ------------------------------------------------------------------------------------------------------

_INTEREST = wire.record(wire.BOOL, wire.BITS64, wire.sequence(wire.TEXT))


def to_bits(interest: Interest) -> int:
    """The numbered topics of an interest as a 64-bit map; all ones for everything."""
    if interest.everything:
        return (1 << NUMBERED) - 1
    return sum(1 << _NUMBERS[name] for name in sorted(interest.names) if name in _NUMBERS)


def from_bits(bits: int) -> Interest:
    """The interest that a 64-bit map stands for; all ones: everything."""
    if bits == (1 << NUMBERED) - 1:
        return EVERYTHING
    return Interest(frozenset(name for name, number in _NUMBERS.items() if bits >> number & 1))


def _write_interest(interest: Interest, out: bytearray) -> None:
    names = tuple(name for name in sorted(interest.names) if name not in _NUMBERS)
    _INTEREST.write((interest.everything, 0 if interest.everything else to_bits(interest), names), out)


def _read_interest(reader: wire.Reader) -> Interest:
    everything, bits, names = _INTEREST.read(reader)
    numbered = [name for name, number in _NUMBERS.items() if bits >> number & 1]
    return EVERYTHING if everything else Interest(frozenset((*numbered, *names)))


INTEREST: wire.Codec[Interest] = wire.Codec(_write_interest, _read_interest, _INTEREST.least_bytes)


class Topic(Header):
    """Base of the two marks that say what a run is about."""

    topic: str


@wire.header(proto=TOPICS_ID, kind=1)
class TopicNumber(Topic):
    """The run is about topic `number`, 0 to 63."""

    number: int = wire.field(wire.U8)

    @property
    def topic(self) -> str:                        # type: ignore[override]
        """The topic's name."""
        return str(self.number)


@wire.header(proto=TOPICS_ID, kind=2)
class TopicName(Topic):
    """The run is about `topic`."""

    topic: str = wire.field(wire.TEXT)


@wire.header(proto=TOPICS_ID, kind=3)
class PassedBy(Header):
    """So many messages about `topics` which the receiver's site does not want: empty, only their numbers count."""

    topics: Interest = wire.field(INTEREST)


@lru_cache(maxsize=1024)
def topic_header(topic: str | int) -> Topic:
    """The mark of a topic, in its compact form if it has one."""
    name = topic_name(topic)
    number = _NUMBERS.get(name)
    return TopicName(name) if number is None else TopicNumber(number)


def topic_of(headers: tuple[Header, ...]) -> str | None:
    """What a run with these headers is about; None: nothing in particular."""
    for header in headers:
        if isinstance(header, Topic):
            return header.topic
    return None


def passed_by(batch: Batch, wanted: Interest) -> PassedBy | None:
    """The mark of what is left of a run for somebody with this interest; None: all of it."""
    topic = None if wanted.everything else topic_of(batch.headers)
    return None if topic is None or wanted.wants(topic) else PassedBy(Interest(frozenset((topic,))))
