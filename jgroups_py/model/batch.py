"""The unit that moves through a stack: consecutive messages with one source, destination, set of headers and flags.

A batch is never changed: it can be kept, cut and retransmitted. Headers number messages implicitly: a header that
carries a first number defines with `shift` its value once the first n messages are cut off; numbering, cutting,
dropping and joining follow from that one method.
"""
from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from jgroups_py.model.address import Address
from jgroups_py.model.header import Header as Header


class Flag(enum.IntFlag):
    """Options of a message (values as in JGroups).

    OOB: a unicast is delivered when it arrives, whatever it overtakes; multicasts keep their order all the same. NO_FC:
    it does not wait for credits. NO_RELIABILITY: it is sent once, and may be lost, duplicated or overtaken.
    NO_RELAY: it stays in its own site. NO_TOTAL_ORDER: with TOTAL, a multicast that waits for no place in the
    order; it keeps its order with its sender's other multicasts of this kind only. Where RELAY (unless it is
    NO_RELAY too) or ARCHIVE numbers it, it keeps its place nevertheless. RSVP: `send` waits until all receivers of the
    group have returned, as with until="handled". DONT_BUNDLE is only transmitted: nothing waits to be bundled.
    """

    NONE = 0
    OOB = 1
    DONT_BUNDLE = 2
    NO_FC = 4
    NO_RELIABILITY = 16
    NO_TOTAL_ORDER = 32
    NO_RELAY = 64
    RSVP = 128

    @classmethod
    def bits(cls, flags: int) -> int:
        """Flags of an application as the stack carries them.

        Raises:
            TypeError, ValueError: `flags` are no flags.

        >>> Flag.bits(Flag.OOB | Flag.NO_RELAY)
        65
        """
        if not isinstance(flags, int):
            raise TypeError(f"flags are Flag.OOB, Flag.OOB | Flag.NO_FC, ..., not {type(flags).__name__}")
        bits = int(flags)
        if bits & ~_KNOWN:
            raise ValueError(f"flags {bits:#x}: known are {', '.join(f'{flag.name} {int(flag)}' for flag in cls)}")
        return bits


_KNOWN: Final = sum(map(int, Flag))

# Plain ints for protocols: `int & int` costs a tenth of `IntFlag & IntFlag`.
OOB: Final = int(Flag.OOB)
NO_FC: Final = int(Flag.NO_FC)
NO_RELIABILITY: Final = int(Flag.NO_RELIABILITY)
NO_TOTAL_ORDER: Final = int(Flag.NO_TOTAL_ORDER)
NO_RELAY: Final = int(Flag.NO_RELAY)
RSVP: Final = int(Flag.RSVP)


class Batch:
    """A batch. Immutable by law 3 (payloads are shared, never copied); `headers[-1]` is the lowest layer's.

    payloads: one bytes object a message; an empty tuple is a control message, which is headers only and counts as
    one when numbered. dest None: all members. flags: the bits of `Flag` as an int. nbytes, length: as the
    properties, once computed. place: of the first message in the order of its view, as TOTAL gave it at this member (0:
    none); it does not travel.
    """

    __slots__ = ("_length", "_nbytes", "dest", "flags", "headers", "payloads", "place", "src")

    def __init__(
        self, src: Address, dest: Address | None, payloads: tuple[bytes, ...] = (), headers: tuple[Header, ...] = (),
        flags: int = 0, nbytes: int = -1, length: int = -2, place: int = 0,
    ) -> None:
        self.src = src
        self.dest = dest
        self.payloads = payloads
        self.headers = headers
        self.flags = flags
        self._nbytes = nbytes                                   # of the payloads, once computed
        self._length = length                                   # the same, once computed
        self.place = place

    def __len__(self) -> int:
        return len(self.payloads)

    def __bool__(self) -> bool:
        return True

    @property
    def count(self) -> int:
        """How many numbers this batch takes: its messages, or 1 for a control message."""
        return len(self.payloads) or 1

    @property
    def messages(self) -> int:
        """How many messages of its sender's application this batch completes; neither fragments nor messages of
        protocols."""
        number = len(self.payloads)
        for header in reversed(self.headers):
            number = header.messages(number)
        return number

    @property
    def nbytes(self) -> int:
        """Payload bytes; counted once for a batch and its copies with other headers."""
        if self._nbytes < 0:
            self._nbytes = sum(map(len, self.payloads))
        return self._nbytes

    @property
    def length(self) -> int:
        """The one length that all messages have; -1 if they differ, or there are none."""
        if self._length == -2:
            equal = len(set(map(len, self.payloads))) == 1
            self._length = len(self.payloads[0]) if equal else -1
        return self._length

    def counted(self, nbytes: int) -> Batch:
        """This batch, with its payload bytes as the caller has counted them."""
        self._nbytes = nbytes
        return self

    def push(self, header: Header) -> Batch:
        """This batch with one more header, lower than all others."""
        return Batch(self.src, self.dest, self.payloads, (*self.headers, header), self.flags, self._nbytes,
                     self._length, self.place)

    def pop(self) -> Batch:
        """This batch without its lowest header."""
        return Batch(self.src, self.dest, self.payloads, self.headers[:-1], self.flags, self._nbytes, self._length,
                     self.place)

    def placed(self, place: int) -> Batch:
        """This batch with the place of its first message in the order of its view."""
        return Batch(self.src, self.dest, self.payloads, self.headers, self.flags, self._nbytes, self._length, place)

    def cut(self, start: int, stop: int) -> Batch:
        """Messages `start` to `stop` (half-open) with the headers that belong to them."""
        assert 0 <= start < stop <= self.count, "a cut lies inside the batch and is not empty"
        if start == 0 and stop == self.count:
            return self
        headers = tuple([h.shift(start) for h in self.headers]) if start else self.headers
        batch = Batch(self.src, self.dest, self.payloads[start:stop], headers, self.flags)
        if self._length >= 0:
            batch._length, batch._nbytes = self._length, self._length * (stop - start)
        if self.place:
            batch.place = self.place + start
        return batch

    def pieces(self, keep: Iterable[int]) -> Iterator[Batch]:
        """The longest batches that the kept message indexes (ascending) form."""
        start = stop = -1
        for index in keep:
            if index != stop:
                if start >= 0:
                    yield self.cut(start, stop)
                start = index
            stop = index + 1
        if start >= 0:
            yield self.cut(start, stop)

    def joins(self, following: Batch) -> bool:
        """Whether `following` continues this batch, so that both together are one batch."""
        return _continues(self, len(self.payloads), following)

    def join(self, following: Batch) -> Batch:
        """Both as one batch; only where `joins` holds."""
        return _as_one([self, following])

    def replaced(self, **changes: Any) -> Batch:
        """A copy with some fields changed (payloads shared)."""
        if "payloads" in changes:
            changes = {"nbytes": -1, "length": -2, **changes}
        return Batch(**{"src": self.src, "dest": self.dest, "payloads": self.payloads, "headers": self.headers,
                        "flags": self.flags, "nbytes": self._nbytes, "length": self._length, "place": self.place,
                        **changes})

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self.src, self.dest, self.payloads, self.headers, self.flags, self._nbytes, self._length,
                       self.place)

    def __init_subclass__(cls) -> None:
        raise TypeError("Batch has no subclasses: stacks look for the class itself")

    def __repr__(self) -> str:
        to = "all" if self.dest is None else str(self.dest)
        headers = " ".join(type(header).__name__ for header in self.headers)
        return f"<Batch {self.src}->{to} x{len(self.payloads)} [{headers}]>"


def joined(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The same messages in as few batches as possible: neighbours that continue each other become one."""
    group: list[Batch] = []
    count = 0
    for batch in batches:
        if group and _continues(group[0], count, batch):
            group.append(batch)
            count += len(batch.payloads)
            continue
        if group:
            yield _as_one(group)
        group, count = [batch], len(batch.payloads)
    if group:
        yield _as_one(group)


def _continues(first: Batch, count: int, following: Batch) -> bool:
    if not count or not following.payloads or first.flags != following.flags:
        return False
    if first.src != following.src or first.dest != following.dest or len(first.headers) != len(following.headers):
        return False
    for header, next_header in zip(first.headers, following.headers, strict=True):
        if header.__class__ is not next_header.__class__ or header.shift(count) != next_header:
            return False
    return True


def _as_one(group: list[Batch]) -> Batch:
    first = group[0]
    if len(group) == 1:
        return first
    payloads = tuple(chain.from_iterable([batch.payloads for batch in group]))
    lengths = {batch._length for batch in group}
    return Batch(first.src, first.dest, payloads, first.headers, first.flags, sum([batch.nbytes for batch in group]),
                 first._length if len(lengths) == 1 else -2)
