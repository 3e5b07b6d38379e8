"""Headers of topics and of sites: what a batch is about, which sites it is for, and what was filtered out of one.

They are beside the frame, not in protocols/topics/, because every member must be able to read them: a frame with an
unknown header cannot be decoded.
"""
from __future__ import annotations

from functools import lru_cache

from jgroups_py import wire
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.topics import EVERYTHING, NUMBERED, NUMBERS, Interest, topic_name

TOPICS_ID = 18

_INTEREST = wire.record(wire.BOOL, wire.BITS64, wire.sequence(wire.TEXT))


def to_bits(interest: Interest) -> int:
    """The numbered topics of an interest as a 64-bit map; all ones for everything."""
    if interest.everything:
        return (1 << NUMBERED) - 1
    return sum(1 << NUMBERS[name] for name in sorted(interest.names) if name in NUMBERS)


def from_bits(bits: int) -> Interest:
    """The interest that a 64-bit map stands for; all ones: everything."""
    if bits == (1 << NUMBERED) - 1:
        return EVERYTHING
    return Interest(frozenset(name for name, number in NUMBERS.items() if bits >> number & 1))


def _write_interest(interest: Interest, out: bytearray) -> None:
    names = tuple(name for name in sorted(interest.names) if name not in NUMBERS)
    _INTEREST.write((interest.everything, 0 if interest.everything else to_bits(interest), names), out)


def _read_interest(reader: wire.Reader) -> Interest:
    everything, bits, names = _INTEREST.read(reader)
    numbered = [name for name, number in NUMBERS.items() if bits >> number & 1]
    return EVERYTHING if everything else Interest(frozenset((*numbered, *names)))


INTEREST: wire.Codec[Interest] = wire.Codec(_write_interest, _read_interest, _INTEREST.least_bytes)


class Topic(Header):
    """Base of the two headers that name the topic of a batch."""

    topic: str


@wire.header(proto=TOPICS_ID, kind=1)
class TopicNumber(Topic):
    """The batch is about topic `number`, 0 to 63."""

    number: int = wire.field(wire.U8)

    @property
    def topic(self) -> str:                        # type: ignore[override]
        """The topic's name."""
        return str(self.number)


@wire.header(proto=TOPICS_ID, kind=2)
class TopicName(Topic):
    """The batch is about `topic`."""

    topic: str = wire.field(wire.TEXT)


@wire.header(proto=TOPICS_ID, kind=3)
class PassedBy(Header):
    """Filtered messages about `topics`, to which the receiver's site does not subscribe: empty, only their numbers
    count."""

    topics: Interest = wire.field(INTEREST)


@wire.header(proto=TOPICS_ID, kind=6)
class ForSites(Header):
    """The batch is for members of the sites in `names`, beside those of its own; others get its numbers alone."""

    names: tuple[str, ...] = wire.field(wire.sequence(wire.NAME))


@lru_cache(maxsize=1024)
def topic_header(topic: str | int) -> Topic:
    """The header of a topic, in its compact form if it has one."""
    name = topic_name(topic)
    number = NUMBERS.get(name)
    return TopicName(name) if number is None else TopicNumber(number)


def topic_of(headers: tuple[Header, ...]) -> str | None:
    """The topic of a batch with these headers; None: it has none."""
    for header in headers:
        if isinstance(header, Topic):
            return header.topic
    return None


@lru_cache(maxsize=1024)
def for_sites(names: tuple[str, ...]) -> ForSites:
    """The header of batches for these sites."""
    return ForSites(names)


def sites_of(headers: tuple[Header, ...]) -> tuple[str, ...] | None:
    """The other sites that a batch with these headers is for; None: all."""
    for header in headers:
        if header.__class__ is ForSites:
            return header.names
    return None


def passed_by(batch: Batch, interest: Interest) -> PassedBy | None:
    """The header in place of a batch for a receiver with this interest; None: the batch itself."""
    topic = None if interest.everything else topic_of(batch.headers)
    return None if topic is None or interest.includes(topic) else PassedBy(Interest(frozenset((topic,))))
