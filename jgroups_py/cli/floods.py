"""Numbered messages, sent and counted at full speed: what `jgroups member` does on `flood`.

A flood message carries application header FLOOD, so a run of them is recognised once, not message by message, and
starts with its number; numbers go on from one flood of a sender to its next.
"""
from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import attrs

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.channel import JChannel
from jgroups_py.cli.numbered import NUMBER_BYTES, consecutive, numbered
from jgroups_py.errors import SendTimeoutError
from jgroups_py.message import MessageBatch

FLOOD = 201                                 # id of the application header
PIECE = 64                                  # messages handed to the channel at once
TICK_SECONDS = 0.002                        # how often a paced flood looks what is due
TIMEOUT_SECONDS = 30.0                      # how long a piece waits before that is reported (and it waits on)


@attrs.define
class Count:
    """What came from one sender."""

    count: int = 0
    next: int | None = None                                  # None: nothing yet; else the number expected next
    duplicates: int = 0
    out_of_order: int = 0

    def add(self, payloads: tuple[bytes, ...]) -> None:
        """Count a run; checks all its numbers at once where they are as expected."""
        if self.next is None:
            self.next = int.from_bytes(payloads[0][:NUMBER_BYTES], "big")   # a late joiner starts where it joined
        if consecutive(payloads, self.next):
            self.count += len(payloads)
            self.next += len(payloads)
        else:
            for payload in payloads:                         # something is wrong, or the messages are tiny
                self._add_one(payload[:NUMBER_BYTES])

    def _add_one(self, found: bytes) -> None:
        assert self.next is not None, "set by the first message"
        self.count += 1
        space = 1 << 8 * len(found)                          # a short message holds its number's lowest bytes
        ahead = (int.from_bytes(found, "big") - self.next) % space
        if not ahead:
            self.next += 1
        elif ahead < space // 2:                             # numbers were skipped; should they come, they are late
            self.out_of_order += 1
            self.next += ahead + 1
        else:
            self.duplicates += 1

    def as_dict(self) -> dict[str, int]:
        """For JSON."""
        return {"count": self.count, "next": self.next or 0, "duplicates": self.duplicates,
                "out_of_order": self.out_of_order}


class Counts:
    """What came from each sender, by incarnation."""

    def __init__(self) -> None:
        self._by_sender: dict[Address, Count] = {}

    @property
    def total(self) -> int:
        """Messages counted."""
        return sum(count.count for count in list(self._by_sender.values()))

    def add(self, batch: MessageBatch) -> None:
        """Count a run of flood messages."""
        count = self._by_sender.get(batch.src)
        if count is None:
            count = self._by_sender[batch.src] = Count()
        count.add(batch.payloads)

    def add_one(self, src: Address, payload: bytes) -> None:
        """Count one message."""
        count = self._by_sender.get(src)
        if count is None:
            count = self._by_sender[src] = Count()
        count.add((payload,))

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Name -> figures. The latest bearer of a name has it; earlier ones, and remote namesakes, are told apart."""
        named: dict[str, dict[str, int]] = {}
        for sender, count in reversed(list(self._by_sender.items())):
            name, number = plain_name(sender), 1
            if name in named and isinstance(sender, ProxyUUID):
                name = str(sender)
            base = name
            while name in named:
                number += 1
                name = f"{base}#{number}"
            named[name] = count.as_dict()
        return named


def plain_name(address: Address) -> str:
    """The logical name without the site."""
    return address.name or address.raw.hex()[:8]


class Flooder:
    """Sends floods of one channel; `report` is told of waits that take too long."""

    def __init__(self, channel: JChannel, report: Callable[[str], None]) -> None:
        self.sent = 0
        self.stopping = False
        self._channel = channel
        self._report = report

    def flood(self, count: int, size: int, rate: float | None) -> None:
        """Multicast `count` messages of `size` bytes, `rate` a second if given."""
        start, first = monotonic(), self.sent
        while self.sent < first + count and not self.stopping:
            due = first + count if rate is None else min(first + count, first + int((monotonic() - start) * rate) + 1)
            if due <= self.sent:
                sleep(TICK_SECONDS)
                continue
            stop = min(due, self.sent + PIECE)
            self._send(self.sent, stop, size)

    def _send(self, first: int, stop: int, size: int) -> None:
        payloads = numbered(first, stop, size)
        while not self.stopping:
            try:
                self._channel.send_batch(None, payloads, headers={FLOOD: b""}, timeout=TIMEOUT_SECONDS)
            except SendTimeoutError as error:
                self._report(str(error))
            else:
                self.sent = stop
                return


def flood_arguments(words: list[str]) -> tuple[int, int, float | None]:
    """COUNT SIZE [RATE].

    Raises:
        ValueError: with what is wrong.
    """
    if len(words) not in (2, 3):
        raise ValueError("flood takes COUNT SIZE [RATE]")
    numbers: list[Any] = [int(words[0]), int(words[1]), float(words[2]) if len(words) > 2 else None]
    if numbers[0] < 0 or numbers[1] < 1 or (numbers[2] is not None and numbers[2] <= 0):
        raise ValueError("flood: COUNT is not negative, SIZE at least 1 byte, RATE above 0")
    return numbers[0], numbers[1], numbers[2]
