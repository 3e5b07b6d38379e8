"""A running group of members without ENCRYPT is restarted with it one by one: for a time both kinds hear each other.

For `accept_clear` after it connected a member takes frames in clear, and sends each frame twice, sealed and in clear,
that a receiver may not be able to open. Whoever sends in clear is challenged; an answer shows that it has a key. From
then on it gets sealed frames only, and no frame in clear is believed that claims to be of it. So forging ends for each
member when it is upgraded; once all of the view are, nothing is sent in clear, and at the end of the time nothing is in
any case. Bounded; pure.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jgroups_py.model.address import Address
from jgroups_py.model.units import seconds

ASK_AGAIN_NS: Final = seconds(2)         # between two challenges to one member that sends in clear
HEARD_NS: Final = seconds(10)            # so long after its last frame a non-member in clear is still sent to
MAX_HEARD: Final = 1000                  # senders in clear that are remembered
MAX_PROVEN: Final = 1 << 14


class ClearWindow:
    """until_ns: when it ends; proven: addresses that have a key; heard: address -> when a frame in clear came of it."""

    def __init__(self, until_ns: int) -> None:
        self.until_ns = until_ns
        self.proven: dict[bytes, None] = {}
        self.heard: dict[bytes, int] = {}
        self._asked: dict[bytes, int] = {}
        self.members: tuple[bytes, ...] = ()                 # the other ones of the view

    def is_open(self, now_ns: int) -> bool:
        """Whether frames in clear count."""
        return now_ns < self.until_ns

    def has_proven(self, address: bytes) -> None:
        """A sender has a key."""
        if len(self.proven) >= MAX_PROVEN:
            del self.proven[next(iter(self.proven))]
        self.proven[address] = None
        self.heard.pop(address, None)

    def takes(self, address: bytes, now_ns: int) -> bool:
        """Whether a frame in clear that claims to be of this address is believed."""
        if not self.is_open(now_ns) or address in self.proven:
            return False
        if address not in self.heard and len(self.heard) >= MAX_HEARD:
            del self.heard[next(iter(self.heard))]
        self.heard[address] = now_ns
        return True

    def asks(self, address: bytes, now_ns: int) -> bool:
        """Whether a sender in clear is to be challenged now."""
        asked = self._asked.get(address)
        if asked is not None and now_ns - asked < ASK_AGAIN_NS:
            return False
        if asked is None and len(self._asked) >= MAX_HEARD:
            del self._asked[next(iter(self._asked))]
        self._asked[address] = now_ns
        return True

    def sends_clear(self, dest: bytes | None, now_ns: int) -> bool:
        """Whether a frame is also sent in clear. dest: None: to all."""
        if not self.is_open(now_ns):
            return False
        if dest is not None:
            return dest not in self.proven
        return not self.members or any(self.unproven()) or any(
            now_ns - at_ns < HEARD_NS for at_ns in self.heard.values())

    def unproven(self) -> Iterable[bytes]:
        """The members of the view that have not shown to have a key."""
        return (member for member in self.members if member not in self.proven)

    def installed(self, members: Iterable[Address], me: Address) -> None:
        """A view is installed; who is in it no more is not sent to."""
        for member in self.members:
            self.heard.pop(member, None)
        self.members = tuple(member.raw for member in members if member != me)
