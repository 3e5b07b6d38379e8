"""Unicasts that wait until their receiver has proven itself, so that there is a key to seal them with. Bounded."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jgroups_py.model.address import PhysicalAddress

MAX_RECEIVERS: Final = 256
MAX_TEXTS: Final = 32                    # for one receiver
MAX_BYTES: Final = 4 << 20               # for all


class WaitingUnicasts:
    """Texts by the address of their receiver, in order."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, list[tuple[bytes, PhysicalAddress]]] = {}
        self._nbytes = 0

    def __contains__(self, address: bytes) -> bool:
        return address in self._waiting

    def add(self, address: bytes, text: bytes, physical: PhysicalAddress) -> bool:
        """Keep one more; False: there is no room."""
        texts = self._waiting.get(address, [])
        if len(texts) >= MAX_TEXTS or self._nbytes + len(text) > MAX_BYTES or (
                not texts and len(self._waiting) >= MAX_RECEIVERS):
            return False
        self._waiting.setdefault(address, texts).append((text, physical))
        self._nbytes += len(text)
        return True

    def take(self, address: bytes) -> list[tuple[bytes, PhysicalAddress]]:
        """What waits for a receiver, which waits no more."""
        taken = self._waiting.pop(address, [])
        self._nbytes -= sum(len(text) for text, _ in taken)
        return taken

    def without(self, wanted: Mapping[bytes, object]) -> list[bytes]:
        """The receivers that are not among `wanted`."""
        return [address for address in self._waiting if address not in wanted]
