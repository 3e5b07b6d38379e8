"""Headers of the building blocks (blocks/), in the place of an application's headers: first, highest.

They are in the vocabulary, not in blocks/, because every member must be able to read them, also one that uses no
block: a frame with an unknown header cannot be decoded, and the stream that it belongs to would stop.
"""
from __future__ import annotations

from typing import Self

from jgroups_py import wire
from jgroups_py.model.batch import Header

SURVEY_SERVICE = 0xFFFF                     # of Ask and Answer: surveys of operators (ops/survey.py)


class BlockHeader(Header):
    """Marks a batch that is for a building block, not for the application's receiver."""

    service: int


@wire.header(proto=40, kind=1)
class Ask(BlockHeader):
    """Requests `first`, `first`+1, ... of the source to the receiver's `service`; each is to be answered."""

    service: int = wire.field(wire.U16)
    first: int = wire.field(wire.U64)

    def shift(self, number: int) -> Self:
        return type(self)(self.service, self.first + number)


@wire.header(proto=40, kind=2)
class OneWayRequest(BlockHeader):
    """Requests to the receiver's `service` without a reply."""

    service: int = wire.field(wire.U16)


@wire.header(proto=40, kind=3)
class Answer(BlockHeader):
    """The answers to requests `first`, `first`+1, ... of the receiver's `service`."""

    service: int = wire.field(wire.U16)
    first: int = wire.field(wire.U64)

    def shift(self, number: int) -> Self:
        return type(self)(self.service, self.first + number)


@wire.header(proto=40, kind=4)
class Failure(BlockHeader):
    """Requests `first`, `first`+1, ... failed; each message is the class of the error, a line feed, its text."""

    service: int = wire.field(wire.U16)
    first: int = wire.field(wire.U64)

    def shift(self, number: int) -> Self:
        return type(self)(self.service, self.first + number)


@wire.header(proto=40, kind=5)
class Reconcile(BlockHeader):
    """A message between copies of the keyed state `service` (blocks/anti_entropy)."""

    service: int = wire.field(wire.U16)


@wire.header(proto=40, kind=9)
class DictCopy(BlockHeader):
    """A message between the copies of the dict `name` (blocks/dicts)."""

    name: str = wire.field(wire.NAME)


@wire.header(proto=40, kind=15)
class CacheNotice(BlockHeader):
    """A message to the caches `name` of all members, of all sites (blocks/cache)."""

    name: str = wire.field(wire.NAME)


@wire.header(proto=40, kind=10)
class PartitionMessage(BlockHeader):
    """Messages between the hosts and clients of the partitions of store `service` (blocks/replication)."""

    service: int = wire.field(wire.U16)


@wire.header(proto=40, kind=6)
class Federate(BlockHeader):
    """What the brokers of the federation `service` send each other (blocks/mqtt)."""

    service: int = wire.field(wire.U16)


@wire.header(proto=40, kind=7)
class ReceiptPoll(BlockHeader):
    """Do you have, or have handled (`stage`), the messages of the source before this one?

    number: of the poll, which only grows; settled: the last one of this kind that all members had answered.
    """

    number: int = wire.field(wire.U64)
    stage: int = wire.field(wire.U8)
    settled: int = wire.field(wire.U64)


@wire.header(proto=40, kind=8)
class ReceiptAnswer(BlockHeader):
    """To the source of poll `number`: yes. The payload has the digests of messages that the receiver raised for.

    skipped: messages of that source were dropped here, so that the receiver did not get them.
    """

    number: int = wire.field(wire.U64)
    skipped: bool = wire.field(wire.BOOL)
