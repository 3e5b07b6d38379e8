"""What one member received in one trial, the counterpart of java/Counts.java and java/Tag.java.

The first eight bytes of every message, big-endian: kind (8 bits), thread (8), trial (8), number (40). Each sending
thread of each member is a stream of its own, numbered from 0.
"""
from __future__ import annotations

import struct
from collections.abc import Sequence
from time import monotonic_ns

import attrs

from jgroups_py.cli.numbered import consecutive

TAG_BYTES = 8
TAG = struct.Struct(">Q")
FLOOD, REQUEST, ANSWER = 1, 2, 3
KIND_SHIFT, THREAD_SHIFT, TRIAL_SHIFT = 56, 48, 40
NUMBER_MASK = (1 << TRIAL_SHIFT) - 1


def tag_of(kind: int, thread: int, trial: int, number: int) -> int:
    """The tag as one number.

    >>> hex(tag_of(FLOOD, 2, 3, 4))
    '0x102030000000004'
    """
    return kind << KIND_SHIFT | thread << THREAD_SHIFT | trial << TRIAL_SHIFT | number


def read_tag(payload: bytes) -> int:
    """The tag of a message."""
    return int.from_bytes(payload[:TAG_BYTES], "big")


@attrs.define
class Stream:
    """What came of one sending thread."""

    next: int = 0
    messages: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    missing: set[int] = attrs.Factory(set)          # numbers that were skipped and did not come late so far
    complete: bool = False

    def add(self, number: int) -> None:
        """Count one message."""
        self.messages += 1
        if number >= self.next:
            self.missing.update(range(self.next, number))
            self.next = number + 1
        elif number in self.missing:
            self.missing.remove(number)
            self.out_of_order += 1
        else:
            self.duplicates += 1


@attrs.define
class Counts:
    """All streams of a trial: `streams` of them, of `each` messages; `gaps`: whether to time deliveries."""

    trial: int = 0
    streams: int = 0
    each: int = 0
    gaps: bool = False
    strays: int = 0                                 # messages of other trials
    done_ns: int = 0
    last_ns: int = 0
    gap_ns: int = 0
    _by_sender: dict[tuple[object, int], Stream] = attrs.Factory(dict)

    def add(self, src: object, payloads: Sequence[bytes]) -> bool:
        """Count a run; True if that completed the last stream."""
        if self.gaps:
            self._timed(monotonic_ns())
        first = read_tag(payloads[0])
        stream = self._stream(src, first)
        if stream is not None and stream.next == first & NUMBER_MASK and consecutive(payloads, first):
            stream.next += len(payloads)                    # just what was expected: counted all at once
            stream.messages += len(payloads)
            return self._completed(stream)
        completed = [self._add_one(src, read_tag(payload)) for payload in payloads]
        return True in completed

    def _stream(self, src: object, tag: int) -> Stream | None:
        if tag >> TRIAL_SHIFT & 0xFF != self.trial:
            return None
        return self._by_sender.setdefault((src, tag >> THREAD_SHIFT & 0xFF), Stream())

    def _add_one(self, src: object, tag: int) -> bool:
        stream = self._stream(src, tag)
        if stream is None:
            self.strays += 1
            return False
        stream.add(tag & NUMBER_MASK)
        return self._completed(stream)

    def _completed(self, stream: Stream) -> bool:
        if stream.complete or stream.next != self.each or stream.missing:
            return False
        stream.complete = True
        self.streams -= 1
        if not self.streams:
            self.done_ns = monotonic_ns()
        return not self.streams

    def add_one(self, src: object, payload: bytes) -> bool:
        """Count one message; True if that completed the last stream."""
        return self._add_one(src, read_tag(payload))

    def _timed(self, now: int) -> None:
        if self.last_ns:
            self.gap_ns = max(self.gap_ns, now - self.last_ns)
        self.last_ns = now

    def figures(self) -> dict[str, int]:
        """For an event."""
        streams = list(self._by_sender.values())
        return {"trial": self.trial, "messages": sum(stream.messages for stream in streams),
                "distinct": sum(stream.next - len(stream.missing) for stream in streams),
                "duplicates": sum(stream.duplicates for stream in streams),
                "out_of_order": sum(stream.out_of_order for stream in streams), "strays": self.strays,
                "done_ns": self.done_ns, "last_ns": self.last_ns, "gap_ns": self.gap_ns}


@attrs.define
class InOrder(Counts):
    """Counts messages that are received one by one, at the least that an application would do for each of them.

    The tag that is expected next of its sender is looked up and compared, and raised by one. All else is left to
    `add_one`: a sender's first message and the `last` one of its stream, several streams of one sender, and faults.
    """

    next: dict[object, int] = attrs.Factory(dict)   # sender -> the tag that is expected of it
    last: int = -1                                  # the tag of the last message of a sender's only stream

    def add_one(self, src: object, payload: bytes) -> bool:
        self._catch_up(src)
        tag = read_tag(payload)
        completed = self._add_one(src, tag)
        stream = self._stream(src, tag)
        if stream is not None:
            self.next[src] = tag & ~NUMBER_MASK | stream.next
        return completed

    def _catch_up(self, src: object) -> None:
        """Tell the stream of a sender what was counted by raising its tag."""
        expected = self.next.get(src)
        stream = None if expected is None else self._stream(src, expected)
        if expected is not None and stream is not None:
            stream.messages += (expected & NUMBER_MASK) - stream.next
            stream.next = expected & NUMBER_MASK

    def figures(self) -> dict[str, int]:
        for src in list(self.next):
            self._catch_up(src)
        return super().figures()
