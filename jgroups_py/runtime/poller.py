"""Readiness of descriptors: epoll where the system has it, else what `selectors` chooses.

`selectors` hides the differences of systems behind a named tuple for each event, looked up and made in Python; on
epoll that costs three times the system call itself, once a round.
"""
from __future__ import annotations

import math
import select
import selectors
import socket
from typing import Any, Generic, Protocol, TypeVar

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

T = TypeVar("T")


class Poller(Protocol[T]):
    """Descriptors, each with a value that `poll` returns when it is ready."""

    def set(self, fd: socket.socket | int, events: int, kept: T) -> None:
        """Watch `fd` for `events` from now on, whether it was watched before or not."""

    def remove(self, fd: socket.socket | int) -> None:
        """Stop watching `fd`. Raises KeyError if it was not watched."""

    def poll(self, seconds: float) -> list[T]:
        """The values of the descriptors that are ready; waits `seconds` at most."""

    def fileno(self) -> int:
        """A descriptor that is readable when one of them is ready. Raises AttributeError: there is none."""

    def close(self) -> None:
        """Release the descriptor; nothing is watched any more."""


class Epoll(Generic[T]):
    """A poller on epoll (Linux)."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._kept: dict[int, T] = {}
        self._poll = self._epoll.poll
        self.fileno = self._epoll.fileno
        self.close = self._epoll.close

    def set(self, fd: socket.socket | int, events: int, kept: T) -> None:
        """See Poller."""
        number = fd if isinstance(fd, int) else fd.fileno()
        mask = (events & READ and select.EPOLLIN) | (events & WRITE and select.EPOLLOUT)
        if number in self._kept:
            self._epoll.modify(number, mask)
        else:
            self._epoll.register(number, mask)
        self._kept[number] = kept

    def remove(self, fd: socket.socket | int) -> None:
        """See Poller."""
        number = fd if isinstance(fd, int) else fd.fileno()
        del self._kept[number]
        self._epoll.unregister(number)

    def poll(self, seconds: float) -> list[T]:
        """See Poller."""
        # epoll rounds down to milliseconds: a wait that is too short would be followed by others until the deadline.
        found = self._poll(math.ceil(seconds * 1e3) * 1e-3 if seconds else 0)
        kept = self._kept
        return [kept[number] for number, _ in found if number in kept]


class Selector(Generic[T]):
    """A poller on `selectors` (any system)."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.close = self._selector.close

    def set(self, fd: socket.socket | int, events: int, kept: T) -> None:
        """See Poller."""
        change = self._selector.modify if fd in self._selector.get_map() else self._selector.register
        change(fd, events, kept)

    def remove(self, fd: socket.socket | int) -> None:
        """See Poller."""
        self._selector.unregister(fd)

    def poll(self, seconds: float) -> list[T]:
        """See Poller."""
        return [key.data for key, _ in self._selector.select(seconds)]

    def fileno(self) -> int:
        """See Poller."""
        found: Any = self._selector
        return int(found.fileno())


def new_poller() -> Poller[T]:
    """The fastest poller of this system."""
    return Epoll() if hasattr(select, "epoll") else Selector()
