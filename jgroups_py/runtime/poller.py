"""Which descriptors can be read or written: epoll itself where the system has it, else what `selectors` finds.

`selectors` hides the differences of systems behind a named tuple for each event, looked up and made in Python; on
epoll that costs three times what asking the system costs, once a round.
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
    """Descriptors and what is kept with each of them."""

    def set(self, fd: socket.socket | int, events: int, kept: T) -> None:
        """Watch `fd` for `events` from now on, whether it was watched before or not."""

    def remove(self, fd: socket.socket | int) -> None:
        """Watch it no more. Raises KeyError if it was not watched."""

    def poll(self, seconds: float) -> list[T]:
        """What is kept with those that are ready; waits so long at most."""

    def fileno(self) -> int:
        """A descriptor that is readable when one of them is ready. Raises AttributeError: there is none."""

    def close(self) -> None:
        """Forget all."""


class Epoll(Generic[T]):
    """Linux."""

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
        # epoll counts in milliseconds, and waiting for too short a time would be waiting for several times.
        found = self._poll(math.ceil(seconds * 1e3) * 1e-3 if seconds else 0)
        kept = self._kept
        return [kept[number] for number, _ in found if number in kept]


class Selector(Generic[T]):
    """Anywhere."""

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
    """The best of this system."""
    return Epoll() if hasattr(select, "epoll") else Selector()
