"""The base of all protocols: one layer of a stack, pure (no sockets, threads, clock or global randomness).

A layer gets batches in `up` and `down`, or whole handlers by marks:

    @receives(Seen)     a batch whose lowest header is ours -> handler(header, batch without it)
    @on(ViewChange)     observe an event, whichever way it goes; it travels on afterwards
    @timer("gossip")    a named timer fired; the handler gets `about` if the timer was set with one
    @only(MULTICASTS)   on `up` or `down`: batches of the other kind pass this layer by

and acts by calls: pass_up, pass_down, send, set_timer, cancel_timer, count, warn. Everything passed on is queued and
processed after the handler returned, in order (laws 1 and 2). protocols/example.py is a template to start from.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import attrs

from jgroups_py.address import Address
from jgroups_py.batch import NO_FC, NO_RELAY, NO_RELIABILITY, Batch, Header
from jgroups_py.counters import Counters
from jgroups_py.events import Event
from jgroups_py.outputs import Note, Output
from jgroups_py.units import seconds

if TYPE_CHECKING:
    from jgroups_py.stack import Stack

CONTROL = NO_RELIABILITY | NO_FC | NO_RELAY
"""Flags of a layer's own messages unless it wants them reliable."""

WARNING_INTERVAL_NS: Final = seconds(60)

STOP: Final = object()
"""What an observer returns to keep an event from travelling on (VERIFY_SUSPECT holds suspicions back)."""

F = TypeVar("F", bound=Callable[..., Any])


def receives(header: type[Header]) -> Callable[[F], F]:
    """Mark the handler of batches whose lowest header is a `header`."""
    def mark(function: F) -> F:
        function.__dict__.setdefault("_receives", []).append(header)
        return function
    return mark


def on(event: type[Event]) -> Callable[[F], F]:
    """Mark the observer of an event; it travels on unless the observer returns STOP."""
    def mark(function: F) -> F:
        function.__dict__.setdefault("_on", []).append(event)
        return function
    return mark


def timer(name: str) -> Callable[[F], F]:
    """Mark the handler of a named timer."""
    def mark(function: F) -> F:
        function.__dict__.setdefault("_timer", []).append(name)
        return function
    return mark


MULTICASTS: Final = True
UNICASTS: Final = False


def only(kind: bool) -> Callable[[F], F]:
    """Mark an `up` or `down` that only wants MULTICASTS (batches to all) or UNICASTS; the others pass the layer by."""
    def mark(function: F) -> F:
        function.__dict__["_only"] = kind
        return function
    return mark


def only_of(function: Callable[..., Any]) -> bool | None:
    """Which kind an `up` or `down` wants, None: both."""
    kind: bool | None = getattr(function, "_only", None)
    return kind


@attrs.frozen
class NoConfig:
    """A protocol without properties."""


class Protocol:
    """One layer. See the module's docstring."""

    Config: ClassVar[type] = NoConfig
    needs: ClassVar[dict[str, type]] = {}
    control_only: ClassVar[bool] = False         # batches with our headers are our own talk, never passed up
    name: ClassVar[str] = ""                     # the XML name, set by protocols/__init__.py

    receivers: ClassVar[dict[type[Header], str]] = {}
    observers: ClassVar[dict[type[Event], str]] = {}
    timers: ClassVar[dict[str, str]] = {}

    config: Any
    stack: Stack
    me: Address
    rng_seed: str
    counters: Counters

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        tables = ("receivers", "_receives"), ("observers", "_on"), ("timers", "_timer")
        for table, mark in tables:
            merged = {}
            for base in reversed(cls.__mro__[1:]):               # a layer may be put together from several
                merged.update(vars(base).get(table, {}))
            for name, member in vars(cls).items():
                for key in getattr(member, mark, ()):
                    merged[key] = name
            setattr(cls, table, merged)

    def __init__(self, config: Any = None) -> None:
        self.config = self.Config() if config is None else config
        self.counters = Counters()
        self.warned_ns: int | None = None
        self.pass_up: Callable[[Batch | Event], None] = _unattached
        self.pass_down: Callable[[Batch | Event], None] = _unattached

    # --- what subclasses override -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Set the state, arm timers. Called once, when the stack is complete, lowest layer first."""

    def down(self, batch: Batch) -> None:
        """A run on its way to the wire."""
        self.pass_down(batch)

    def up(self, batch: Batch) -> None:
        """A run on its way to the application whose lowest header is not ours (or that has none)."""
        self.pass_up(batch)

    def pending_bytes(self) -> int:
        """Payload bytes that the application sent and this layer keeps back (credits, a view change)."""
        return 0

    def stats(self) -> dict[str, float]:
        """What `ch.stats()` shows for this layer: the counters and whatever a subclass adds."""
        return dict(self.counters)

    def receiver(self, name: str) -> Callable[[Any, Batch], object]:
        """The handler of a header as the stack calls it; one that believes only some senders wraps them all here."""
        handler: Callable[[Any, Batch], object] = getattr(self, name)
        return handler

    # --- what subclasses call ---------------------------------------------------------------------------------------

    @cached_property
    def rng(self) -> Random:
        """Where all chance comes from; made when it is first asked."""
        return Random(self.rng_seed)

    @property
    def now_ns(self) -> int:
        """The time of this step; it stands still inside a handler."""
        return self.stack.now_ns

    def send(
        self, header: Header, dest: Address | None, payloads: tuple[bytes, ...] = (), flags: int = CONTROL,
    ) -> None:
        """Send a message of this layer's own to the same layer at `dest` (None: all members)."""
        self.pass_down(Batch(self.me, dest, payloads, (header,), flags))

    def emit(self, output: Output) -> None:
        """Ask the world around the node for something."""
        self.stack.outputs.append(output)

    def set_timer(self, name: str, delay_ns: int, about: Hashable = None) -> None:
        """Fire `@timer(name)` once after `delay_ns`; setting it again moves it."""
        assert name in self.timers, f"{type(self).__name__} has no handler for timer {name!r}"
        self.stack.set_timer(self, name, delay_ns, about)

    def cancel_timer(self, name: str, about: Hashable = None) -> None:
        """Do not fire it; nothing happens if it is not set."""
        self.stack.cancel_timer(self, name, about)

    def timer_is_set(self, name: str, about: Hashable = None) -> bool:
        """Whether the timer will fire."""
        return self.stack.timer_is_set(self, name, about)

    def later(self, function: Callable[[], None]) -> None:
        """Call `function` after this handler, when the event being observed has travelled on."""
        self.stack.later(function)

    def count(self, name: str, number: int = 1) -> None:
        """Count under a name, shown by `ch.stats()`."""
        self.counters[name] = self.counters.get(name, 0) + number

    def warn(self, text: str) -> None:
        """Put a warning into the log, at most one a minute; the counters tell the rest."""
        if self.warned_ns is None or self.now_ns - self.warned_ns >= WARNING_INTERVAL_NS:
            self.warned_ns = self.now_ns
            self.emit(Note("warning", text))


def _unattached(item: Batch | Event) -> None:
    raise AssertionError("the protocol is in no stack yet")
