"""The base of all protocols: one layer of a stack, pure (no sockets, threads, clock or global randomness).

A layer handles batches in `up` and `down`, and whatever its methods are marked for:

    @receives(Seen)     a batch whose lowest header is a Seen -> handler(header, batch without it)
    @on(ViewChange)     observe an event, whichever way it goes; it travels on afterwards
    @timer("gossip")    a named timer fired; the handler gets `about` if the timer was set with one
    @only(MULTICASTS)   on `up` or `down`: batches of the other kind bypass this layer

It acts by calls: pass_up, pass_down, send, set_timer, cancel_timer, count, drop, warn. Everything passed on is queued
and processed after the handler returned, in order (laws 1 and 2): so a handler is never re-entered, and its state is
consistent whenever another handler runs. protocols/example.py is a template to start from. A layer that does several
things consists of `components`, which declare their handlers themselves (stack/component.py).
"""
from __future__ import annotations

import typing
from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from random import Random
from typing import Any, ClassVar, Final, TypeVar

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import Counter, Counters, declared_by
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import LogEntry, Output
from jgroups_py.model.secrets import Secrets
from jgroups_py.model.units import seconds
from jgroups_py.stack.component import CONTROL, Component, Handler, Receiver, on, receives, tables_of, timer, unattached

__all__ = ["CONTROL", "MULTICASTS", "NoConfig", "Protocol", "STOP", "StackPort", "UNICASTS", "on", "only", "only_of",
           "receives", "timer"]

WARNING_INTERVAL_NS: Final = seconds(60)

STOP: Final = object()
"""What an observer returns to stop an event from travelling on (VERIFY_SUSPECT stops unverified suspicions)."""

F = TypeVar("F", bound=Callable[..., Any])

MULTICASTS: Final = True
UNICASTS: Final = False


def only(kind: bool) -> Callable[[F], F]:
    """Mark an `up` or `down` as a handler of MULTICASTS (batches to all) or UNICASTS only; others bypass the layer."""
    def mark(function: F) -> F:
        function.__dict__["_only"] = kind
        return function
    return mark


def only_of(function: Callable[..., Any]) -> bool | None:
    """Which kind of batches an `up` or `down` handles, None: both."""
    kind: bool | None = getattr(function, "_only", None)
    return kind


class StackPort(typing.Protocol):
    """The stack, as its layers see it."""

    outputs: list[Output]
    layers: list[Any]
    net: int
    explains: bool
    secrets: Secrets

    @property
    def now_ns(self) -> int: ...
    def dropped(self, layer: Protocol, name: str, batch: Batch | None, why: str) -> None: ...
    def find(self, kind: type[Any]) -> Any: ...
    def set_timer(self, layer: Protocol, name: str, delay_ns: int, about: Hashable) -> None: ...
    def cancel_timer(self, layer: Protocol, name: str, about: Hashable) -> None: ...
    def timer_is_set(self, layer: Protocol, name: str, about: Hashable) -> bool: ...
    def later(self, function: Callable[[], None]) -> None: ...


@attrs.frozen
class NoConfig:
    """A protocol without properties."""


class Protocol:
    """One layer. See the module's docstring."""

    Config: ClassVar[type] = NoConfig
    needs: ClassVar[dict[str, type]] = {}
    control_only: ClassVar[bool] = False         # batches with its headers are its own messages, never passed up
    name: ClassVar[str] = ""                     # the XML name, set by protocols/__init__.py
    COUNTERS: ClassVar[tuple[Counter, ...]] = ()    # what this class counts, beside the counters of its bases

    components: ClassVar[tuple[type[Component], ...]] = ()

    # Made from the marks of the class and of its components.
    declared: ClassVar[dict[str, Counter]] = {}             # by COUNTERS
    receivers: ClassVar[dict[type[Header], Handler]] = {}
    observers: ClassVar[dict[type[Event], tuple[Handler, ...]]] = {}
    timers: ClassVar[dict[str, Handler]] = {}

    config: Any
    stack: StackPort
    me: Address
    rng_seed: str
    counters: Counters
    parts: tuple[Component, ...]                 # one of each class in `components`; made when the stack is built
    dispatchers: dict[type[Header], Receiver]    # header class -> its handler, as the stack calls it

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        tables = tables_of(cls, cls.components)
        cls.receivers, cls.observers, cls.timers = tables.receivers, tables.observers, tables.timers
        cls.declared = declared_by(cls, *cls.components)

    def __init__(self, config: Any = None) -> None:
        self.config = self.Config() if config is None else config
        self.counters = Counters(self.declared)
        self.warned_ns: int | None = None
        self.pass_up: Callable[[Batch | Event], None] = unattached
        self.pass_down: Callable[[Batch | Event], None] = unattached

    # --- what subclasses override -----------------------------------------------------------------------------------

    def assemble(self) -> Iterable[Component]:
        """Make the parts, in the order of `components`. To be overridden where a part gets others as arguments."""
        return [part(self) for part in self.components]

    def start(self) -> None:
        """Set up the state, set timers. Called once, when the stack is complete, lowest layer first; then its parts."""

    def down(self, batch: Batch) -> None:
        """A batch on its way to the wire."""
        self.pass_down(batch)

    def up(self, batch: Batch) -> None:
        """A batch on its way to the application that has no header of this layer as its lowest one."""
        self.pass_up(batch)

    def pending_bytes(self) -> int:
        """Payload bytes that the application sent and that wait in this layer (for credits, for a view change)."""
        return 0

    def stats(self) -> dict[str, float]:
        """What `ch.stats()` shows for this layer: the counters, and the figures that a subclass adds."""
        return dict(self.counters)

    def receiver(self, handler: Receiver) -> Receiver:
        """The handler of a header as the stack calls it. A layer that accepts only some senders wraps all here."""
        return handler

    # --- what subclasses call ---------------------------------------------------------------------------------------

    @cached_property
    def rng(self) -> Random:
        """The only source of randomness; made at its first use."""
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
        """Request something of the environment of the node."""
        self.stack.outputs.append(output)

    def set_timer(self, name: str, delay_ns: int, about: Hashable = None) -> None:
        """Fire `@timer(name)` once after `delay_ns`; setting it again replaces the deadline."""
        assert name in self.timers, f"{type(self).__name__} has no handler for timer {name!r}"
        self.stack.set_timer(self, name, delay_ns, about)

    def cancel_timer(self, name: str, about: Hashable = None) -> None:
        """Cancel the timer; nothing happens if it is not set."""
        self.stack.cancel_timer(self, name, about)

    def timer_is_set(self, name: str, about: Hashable = None) -> bool:
        """Whether the timer is set and has not fired."""
        return self.stack.timer_is_set(self, name, about)

    def dispatch(self, header: Header, batch: Batch) -> None:
        """Handle a header of this layer as if it arrived now: one for this member itself, or one that was kept back."""
        self.dispatchers[header.__class__](header, batch)

    def later(self, function: Callable[[], None]) -> None:
        """Queue a call of `function`, behind everything that is queued: the observed event has travelled on by then."""
        self.stack.later(function)

    def count(self, name: str, number: int = 1) -> None:
        """Count under a name that COUNTERS declares, shown by `ch.stats()`."""
        self.counters[name] += number

    def drop(
        self, name: str, batch: Batch | None, why: str, header: Header | None = None, *, number: int | None = None,
    ) -> None:
        """Count that a batch is discarded; where drops are logged, log its source, destination, numbers, and why.

        name: declared by `drop()` in COUNTERS; batch: None if only a value in a header is discarded; header: this
        layer's, where it was taken off the batch; number: how many messages, if not all of the batch.
        """
        self.counters[name] += number if number is not None else 1 if batch is None else batch.count
        if self.stack.explains:
            self.stack.dropped(self, name, batch if batch is None or header is None else batch.push(header), why)

    def warn(self, text: str) -> None:
        """Put a warning into the log, at most one a minute; the counters have the rest."""
        if self.warned_ns is None or self.now_ns - self.warned_ns >= WARNING_INTERVAL_NS:
            self.warned_ns = self.now_ns
            self.emit(LogEntry("warning", text))
