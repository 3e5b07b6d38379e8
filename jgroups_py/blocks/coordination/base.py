"""What Coordination and AsyncCoordination share: arguments, grants, and the commands of each primitive."""
from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any, Generic, TypeVar

import attrs

from jgroups_py.blocks.coordination.core import Make
from jgroups_py.blocks.coordination.driver import CoordinationDriver, guarded
from jgroups_py.blocks.coordination.errors import LostError
from jgroups_py.blocks.coordination.grants import HeldGrant
from jgroups_py.blocks.coordination.machine import GrantWatcher
from jgroups_py.blocks.coordination.messages import (
    COMPARE_AND_SET,
    INT_LIMIT,
    SET,
    Acquire,
    Arrive,
    PutItem,
    TakeItem,
    WatchCell,
    WriteCell,
    WriteCounter,
)
from jgroups_py.blocks.coordination.owned_sets import MAX_NAME
from jgroups_py.blocks.dicts.replicated import DictCodec
from jgroups_py.blocks.replication.driver import REQUEST_BYTES, new_store_name
from jgroups_py.blocks.replication.founding import Founding
from jgroups_py.blocks.replication.options import Options
from jgroups_py.channel.base import BaseChannel
from jgroups_py.model.units import NS_PER_S, millis, parse_duration, seconds

T = TypeVar("T")
SERVICE = 0x636F                           # of the store, by default
LEAST_TTL_NS = millis(100)
MOST_TTL_NS = seconds(24 * 3600)
OPTIONS = Options(elect_ns=millis(50), elect_step_ns=millis(100))
"""A leader that dies is replaced sooner than in other stores: holders and waiters depend on it."""


class BaseCoordination:
    """See Coordination."""

    def __init__(
        self, channel: BaseChannel, founders: tuple[str, ...] = (), ttl: str | float = "3s", *, partitions: int = 1,
        replicas: int = 3, timeout: float = 10.0, expire: str = "sure", options: Options | None = None,
        service: int = SERVICE, watcher: GrantWatcher | None = None,
    ) -> None:
        if isinstance(founders, str):
            raise TypeError(f"founders are a tuple of names, not one text ({founders!r})")
        ttl_ns = parse_duration(ttl) if isinstance(ttl, str) else seconds(ttl)
        if not LEAST_TTL_NS <= ttl_ns <= MOST_TTL_NS:
            raise ValueError(f"ttl={ttl!r}: sessions live for 100 ms to 24 h")
        if expire not in ("sure", "lease"):
            raise ValueError(f"expire={expire!r}: it is 'sure' (a process that has ended for certain is not waited "
                             "for) or 'lease'")
        founding = Founding(tuple(founders), partitions, replicas, new_store_name) if founders else None
        self.timeout = timeout
        self._closed = Event()                               # by the application
        self._channel = channel
        self._driver = CoordinationDriver(channel, ttl_ns, options or OPTIONS, service, founding, partitions, watcher)
        self._driver.replicas.hears_of_ends = expire == "sure"

    @property
    def ttl(self) -> float:
        """Seconds for which a grant is valid without a confirmed renewal."""
        return self._driver.ttl_ns / NS_PER_S

    def stats(self) -> dict[str, int]:
        """Counters of this member's sessions, over all connections: "coordination" in docs/reference/counters.md."""
        return dict(self._driver.counters)

    def _check_size(self, nbytes: int) -> None:
        self._channel.check_size(nbytes + MAX_NAME + REQUEST_BYTES)


class BaseGrant:
    """A lock, a permit, a leadership or an item of a queue that this member holds.

    fence: 64 bits, higher than that of every earlier grant of the name; pass it on to what is protected (Fence).
    Whether it is still held is judged by this member's own clock, so `valid` needs no message; a grant that was lost
    never comes back.
    """

    def __init__(self, driver: CoordinationDriver, what: str, name: str, held: HeldGrant) -> None:
        self.fence = held.fence
        self._driver = driver
        self._what = what
        self._name = name
        self._held = held
        self._callbacks: list[Callable[[str], object]] = []
        held.on_lost = self._lost

    @property
    def valid(self) -> bool:
        """Whether it is held now."""
        return self._driver.valid(self._held)

    @property
    def why(self) -> str:
        """Why it is not held any more: "expired", "released" or "closed"; "" while that is not known."""
        return self._held.why

    def check(self) -> None:
        """Go on only if it is held.

        Raises:
            LostError: it is not.
        """
        if not self.valid:
            raise self.lost_error()

    def lost_error(self) -> LostError:
        """The error for a grant that is not held any more."""
        return LostError(self._what, self.fence, self._held.why or "expired")

    def when_lost(self, callback: Callable[[str], object]) -> None:
        """Call `callback` with the reason once it is lost; inside a round of the channel: it must not block. Not when
        the holder releases it. If it is lost already: at once, here."""
        self._callbacks.append(callback)
        why = self._held.why
        if why and why != "released" and callback in self._callbacks:
            self._callbacks.remove(callback)
            guarded("a callback for a lost grant", callback, why)

    def _lost(self, why: str) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            guarded("a callback for a lost grant", callback, why)

    def __repr__(self) -> str:
        state = "valid" if self.valid else self.why or "expired"
        return f"<grant of {self._what}, fence {self.fence}, {state}>"


@attrs.frozen
class QueueItem(Generic[T]):
    """An item of a queue, leased to this member. attempt: how often it was taken, from 1."""

    grant: BaseGrant
    value: T
    attempt: int

    @property
    def fence(self) -> int:
        """See BaseGrant."""
        return self.grant.fence

    @property
    def valid(self) -> bool:
        """See BaseGrant."""
        return self.grant.valid

    def check(self) -> None:
        """See BaseGrant."""
        self.grant.check()


@attrs.frozen
class CellState(Generic[T]):
    """The value of a cell (None: it has none), and how often it was changed."""

    value: T | None
    version: int


def checked(name: object) -> str:
    """A name.

    Raises:
        TypeError, ValueError: it is none.
    """
    if not isinstance(name, str):
        raise TypeError(f"a name is a text, not {type(name).__name__}")
    if not 0 < len(name) <= MAX_NAME:
        raise ValueError(f"a name has 1 to {MAX_NAME} characters, not {len(name)}")
    return name


def checked_number(what: str, number: object, least: int, most: int) -> int:
    """A number in a range.

    Raises:
        TypeError, ValueError: it is none.
    """
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{what} is a whole number, not {type(number).__name__}")
    if not least <= number <= most:
        raise ValueError(f"{what} of {number}: it is from {least} to {most}")
    return number


def acquire(space: int, name: str, permits: int) -> Make:
    """The command for a lock, a semaphore or a leadership."""
    return lambda head: Acquire(*head, space, name, permits)


def arrive(name: str, parties: int) -> Make:
    """The command for a barrier."""
    return lambda head: Arrive(*head, name, parties)


def put_item(name: str, value: bytes) -> Make:
    """Append to a queue."""
    return lambda head: PutItem(*head, name, value)


def take_item(name: str) -> Make:
    """Take from a queue."""
    return lambda head: TakeItem(*head, name)


def set_cell(name: str, value: bytes | None) -> Make:
    """Set a cell."""
    return lambda head: WriteCell(*head, name, SET, None, value)


def compare_cell(name: str, expected: bytes | None, value: bytes | None) -> Make:
    """Set a cell that has the expected value."""
    return lambda head: WriteCell(*head, name, COMPARE_AND_SET, expected, value)


def watch_cell(name: str, on: bool) -> Make:
    """Begin or end to watch a cell."""
    return lambda head: WatchCell(*head, name, on)


def add(name: str, by: int) -> Make:
    """Add to a counter."""
    checked_number("what is added", by, -INT_LIMIT, INT_LIMIT - 1)
    return lambda head: WriteCounter(*head, name, True, None, by)


def set_counter(name: str, expected: int | None, value: int) -> Make:
    """Set a counter; expected: only if it is that."""
    checked_number("a counter", value, -INT_LIMIT, INT_LIMIT - 1)
    if expected is not None:
        checked_number("a counter", expected, -INT_LIMIT, INT_LIMIT - 1)
    return lambda head: WriteCounter(*head, name, False, expected, value)


def encoded(codec: DictCodec[Any], value: Any) -> bytes | None:
    """A value of a cell."""
    return None if value is None else codec.encode(value)


def decoded(codec: DictCodec[T], data: bytes | None) -> T | None:
    """A value of a cell."""
    return None if data is None else codec.decode(data)


