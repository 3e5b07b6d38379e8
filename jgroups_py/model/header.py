"""The base class of headers; `wire.header` declares them (wire/declaring.py)."""
from __future__ import annotations

from typing import ClassVar, Self


class Header:
    """What one protocol adds to a batch. Subclasses are frozen and made by `wire.header`."""

    proto: ClassVar[int]
    kind: ClassVar[int]

    def shift(self, number: int) -> Self:
        """This header for the rest of its batch, once the first `number` messages are cut off."""
        return self

    def messages(self, number: int) -> int:
        """How many messages of applications a batch of `number` payloads with this header stands for.

        Fewer than `number` where a payload is a fragment of a message, or a copy that a protocol sends for others.
        """
        return number
