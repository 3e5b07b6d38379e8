"""Load for a group: numbered messages, sent and counted at full speed, for the command `flood` of `jgroups member`.

A flood message carries application header FLOOD, so a batch is recognized at once, not message by message. It starts
with its number; a sender's next flood continues after the last number of the one before.
"""
from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import attrs

from jgroups_py.channel.message import MessageBatch
from jgroups_py.channel.sync import JChannel
from jgroups_py.cli.numbered import NUMBER_BYTES, consecutive, numbered
from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.errors import SendTimeoutError

FLOOD = 201                                 # id of the application header
PIECE = 64                                  # messages handed to the channel at once
TICK_SECONDS = 0.002                        # period in which a paced flood sends what is due
TIMEOUT_SECONDS = 30.0                      # a piece that waits longer is reported, and tried again


@attrs.define
class Count:
    """Counts of the messages of one sender."""

    count: int = 0
    next: int | None = None                                  # the number expected next; None: no message yet
    duplicates: int = 0
    out_of_order: int = 0

    def add(self, payloads: tuple[bytes, ...]) -> None:
        """Count a batch. If all numbers are as expected, they are checked at once."""
        if self.next is None:
            self.next = int.from_bytes(payloads[0][:NUMBER_BYTES], "big")   # a late joiner starts where it joined
        if consecutive(payloads, self.next):
            self.count += len(payloads)
            self.next += len(payloads)
        else:
            for payload in payloads:                         # a fault, or messages too short for a whole number
                self._add_one(payload[:NUMBER_BYTES])

    def _add_one(self, found: bytes) -> None:
        assert self.next is not None, "set by the first message"
        self.count += 1
        space = 1 << 8 * len(found)                          # a short message holds its number's lowest bytes
        ahead = (int.from_bytes(found, "big") - self.next) % space
        if not ahead:
            self.next += 1
        elif ahead < space // 2:                             # numbers were skipped; if they still arrive, they are late
            self.out_of_order += 1
            self.next += ahead + 1
        else:
            self.duplicates += 1

    def as_dict(self) -> dict[str, int]:
        """For JSON."""
        return {"count": self.count, "next": self.next or 0, "duplicates": self.duplicates,
                "out_of_order": self.out_of_order}


class Counts:
    """Counts of the messages of all senders, by incarnation."""

    def __init__(self) -> None:
        self._by_sender: dict[Address, Count] = {}

    @property
    def total(self) -> int:
        """Messages counted."""
        return sum(count.count for count in list(self._by_sender.values()))

    def add(self, batch: MessageBatch) -> None:
        """Count a batch of flood messages."""
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
        """Name -> figures.

        The latest incarnation of a name has the plain name. Earlier ones get "#2" and so on, and a member of another
        site with the same name has its site added.
        """
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


class InOrder(Counts):
    """Counts where all messages but a sender's first, and faults, are counted by raising `next` by one.

    next: sender -> the number that is expected of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.next: dict[Any, int] = {}

    def add_one(self, src: Any, payload: bytes) -> None:
        """A sender's first message, or one out of order, or doubled."""
        self._catch_up(src)
        super().add_one(src, payload)
        self.next[src] = self._by_sender[src].next or 0

    def _catch_up(self, src: Any) -> None:
        count = self._by_sender.get(src)
        if count is not None:
            assert count.next is not None, "set by the first message"
            count.count += self.next[src] - count.next
            count.next = self.next[src]

    def as_dict(self) -> dict[str, dict[str, int]]:
        for src in self.next:
            self._catch_up(src)
        return super().as_dict()


def plain_name(address: Address) -> str:
    """The logical name without the site."""
    return address.name or address.raw.hex()[:8]


class Flooder:
    """Sends floods over one channel; `report` is called with a text for each wait that takes too long."""

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
        ValueError: an argument is missing or out of range.
    """
    if len(words) not in (2, 3):
        raise ValueError("flood takes COUNT SIZE [RATE]")
    numbers: list[Any] = [int(words[0]), int(words[1]), float(words[2]) if len(words) > 2 else None]
    if numbers[0] < 0 or numbers[1] < 1 or (numbers[2] is not None and numbers[2] <= 0):
        raise ValueError("flood: COUNT must not be negative, SIZE must be at least 1, RATE above 0")
    return numbers[0], numbers[1], numbers[2]
