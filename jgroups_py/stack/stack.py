"""Stack: layers in order, the work between them, timers, outputs. Pure: time comes in as an argument.

What a layer passes on is queued and processed after its handler has returned (law 1), in order between neighbours
(law 2): see fifo.py, and routes.py for the same in compiled form.
"""
from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import Any

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import Event, OutputInOrder, ViewChange
from jgroups_py.model.outputs import Deliver, Output, Traced, ViewInstalled
from jgroups_py.model.secrets import NoSecrets, Secrets
from jgroups_py.stack.base_transport import BaseTransport
from jgroups_py.stack.component import connect
from jgroups_py.stack.fifo import DOWN, UP, Fifo, Handlers, Item, events_only
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.routes import Routes
from jgroups_py.stack.tracing import Trace, described

TimerKey = tuple[int, str, Hashable]


class Stack:
    """The layers of one channel.

    layers: bottom (transport) first. member: a stable word for the random generators (not the address, so that a
    simulated run does not depend on address bytes). net: LOCAL or BRIDGE, written on frames. fifo: how items move from
    layer to layer: compiled, or `Fifo`, the readable form. trace: follows messages through the layers, if given.
    explains: drops are reported, for the log. secrets: where keys and random bytes come from.
    """

    def __init__(
        self, layers: Sequence[Protocol], me: Address, *, net: int = 0, seed: str = "0", member: str = "",
        now_ns: int = 0, fifo: type[Fifo] = Routes,
        trace: Trace | None = None, explains: bool = False, secrets: Secrets | None = None,
    ) -> None:
        self.trace = trace
        self.explains = explains or trace is not None
        self._explains_all = explains
        self.layers = list(layers)
        self.transport: BaseTransport = self.layers[0]          # type: ignore[assignment]
        self.me = me
        self.net = net
        self.secrets = secrets or NoSecrets()
        self.now_ns = now_ns
        self.outputs: list[Output] = []
        self._heap: list[tuple[int, int, str, int, TimerKey]] = []
        self._timers: dict[TimerKey, int] = {}      # key -> the order number of its entry in the heap
        self._order = 0
        self._index = {id(layer): at for at, layer in enumerate(self.layers)}
        for at, layer in enumerate(self.layers):
            layer.stack = self
            layer.me = me
            layer.rng_seed = f"{seed}/{member or me}/{net}/{type(layer).__name__}"
            self._bind_ports(at, layer)
            self._assemble(layer)
        self._pending = [layer.pending_bytes for layer in self.layers
                         if type(layer).pending_bytes is not Protocol.pending_bytes]
        self._handlers = [Handlers(layer) for layer in self.layers]
        if trace is not None:
            for layer, handlers in zip(self.layers, self._handlers, strict=True):
                handlers.wrap(partial(trace.handling, self, layer))
        self._work = fifo(self._handlers, self._to_application, self._to_nowhere)
        self.later = self._work.later               # see Protocol.later
        self.run = self._work.run                   # processes the queue until it is empty
        self._wire_up()
        for layer in self.layers:
            layer.start()
            for part in layer.parts:
                part.start()
        self.run()

    # --- building ---------------------------------------------------------------------------------------------------

    def _bind_ports(self, at: int, layer: Protocol) -> None:
        for attribute, port in layer.needs.items():
            candidates = [*reversed(self.layers[:at]), *self.layers[at + 1:]]
            provider = next((other for other in candidates if isinstance(other, port)), None)
            if provider is None:
                raise ConfigError(f"{layer.name or type(layer).__name__} needs a protocol that provides "
                                  f"{port.__name__}; none is in the stack")
            setattr(layer, attribute, provider)

    def _assemble(self, layer: Protocol) -> None:
        layer.parts = tuple(layer.assemble())
        made = tuple(map(type, layer.parts))
        if made != layer.components:
            raise TypeError(f"{type(layer).__name__} assembles {_names(made)}, but declares {_names(layer.components)}")
        connect(layer.parts)

    def _wire_up(self) -> None:
        entry = self._work.entry
        for at, layer in enumerate(self.layers):
            handlers = self._handlers[at]
            layer.dispatchers = handlers.receivers
            layer.pass_up, layer.pass_down = entry(at + 1, UP), entry(at - 1, DOWN)
            if layer.control_only and handlers.watches[UP]:
                layer.pass_up = events_only(layer.pass_up)
            if self.trace is not None:
                layer.pass_up = self.trace.passing(self, layer, UP, layer.pass_up)
                layer.pass_down = self.trace.passing(self, layer, DOWN, layer.pass_down)
            for part in layer.parts:
                part.pass_up, part.pass_down = layer.pass_up, layer.pass_down
        self.send_up, self.send_down = entry(0, UP), entry(len(self.layers) - 1, DOWN)

    def _to_application(self, item: Item) -> None:
        if item.__class__ is Batch:
            if self.trace is not None:
                self.trace.delivered(self, item)
            self.outputs.append(Deliver(item))
        elif item.__class__ is ViewChange:
            self.outputs.append(ViewInstalled(item.view, item.failed))
        elif item.__class__ is OutputInOrder:
            self.outputs.append(item.output)
        else:
            assert not isinstance(item, Batch), "batches were delivered above"
            self.surface(item)

    def _to_nowhere(self, item: Item) -> None:
        assert not isinstance(item, Batch), "a batch fell through the bottom of the stack"

    # --- reports of drops -------------------------------------------------------------------------------------------

    def explain(self, on: bool) -> None:
        """Report all drops from now on, or none but those of traced messages."""
        self._explains_all = on
        self.explains = on or self.trace is not None

    def dropped(self, layer: Protocol, name: str, batch: Batch | None, why: str) -> None:
        """A layer dropped a batch and counted it as `name`."""
        trace = self.trace
        if self._explains_all or (trace is not None and batch is not None and trace.dropped(batch)):
            what = "a value" if batch is None else described(batch, None if trace is None else trace.names)
            self.outputs.append(Traced(self.title(layer), "drops", what, f"{why} ({name})"))

    def title(self, layer: Protocol | None = None) -> str:
        """The name of a layer, or of the stack, in reports."""
        name = "stack" if layer is None else layer.name or type(layer).__name__
        return f"bridge.{name}" if self.net else name

    def surface(self, event: Event) -> None:
        """An event reached the top; the node overrides this to see it."""

    # --- the verbs --------------------------------------------------------------------------------------------------

    def find(self, kind: type[Any]) -> Any:
        """The layer that is a `kind`, or None."""
        return next((layer for layer in self.layers if isinstance(layer, kind)), None)

    def inject(self, item: Item, now_ns: int) -> None:
        """From the application: a batch or an event goes down from the top."""
        assert now_ns >= self.now_ns, "time runs forward"
        self.now_ns = now_ns
        self.send_down(item)
        self.run()

    def receive(self, frames: Iterable[tuple[bytes, PhysicalAddress | None]], now_ns: int) -> None:
        """From the sockets: frames with the sender's physical address where the socket reports it."""
        assert now_ns >= self.now_ns, "time runs forward"
        self.now_ns = now_ns
        self.transport.receive(frames)
        self.run()

    def notify(self, event: Event, now_ns: int) -> None:
        """From the environment of the node: an event starts at the bottom and goes up."""
        self._to(now_ns)
        self.send_up(event)
        self.run()

    def notify_layer(self, layer: Protocol, event: Event, now_ns: int) -> None:
        """An event for one layer only (what the node reports to RELAY)."""
        self._to(now_ns)
        observer = self._handlers[self._index[id(layer)]].observers[event.__class__]
        self.later(lambda: observer(event))
        self.run()

    def advance(self, now_ns: int) -> None:
        """Fire the timers that are due, in (deadline, layer, name) order."""
        self._to(now_ns)
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            _, at, name, order, key = heapq.heappop(heap)
            if self._timers.get(key) != order:
                continue                            # moved or cancelled since
            del self._timers[key]
            handler = self._handlers[at].timers[name]
            if key[2] is None:
                handler()
            else:
                handler(key[2])
            self.run()

    def _to(self, now_ns: int) -> None:
        assert now_ns >= self.now_ns, "time runs forward"
        self.now_ns = now_ns

    @property
    def next_deadline_ns(self) -> int | None:
        """When the next timer is due."""
        heap = self._heap
        while heap and self._timers.get(heap[0][4]) != heap[0][3]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pending_bytes(self) -> int:
        """Payload bytes of the application that wait in layers."""
        return sum([pending() for pending in self._pending])

    # --- timers -----------------------------------------------------------------------------------------------------

    def set_timer(self, layer: Protocol, name: str, delay_ns: int, about: Hashable) -> None:
        """See Protocol.set_timer."""
        assert delay_ns >= 0, "a timer cannot fire in the past"
        at = self._index[id(layer)]
        key = (at, name, about)
        self._order += 1
        self._timers[key] = self._order
        heapq.heappush(self._heap, (self.now_ns + delay_ns, at, name, self._order, key))

    def cancel_timer(self, layer: Protocol, name: str, about: Hashable) -> None:
        """See Protocol.cancel_timer."""
        self._timers.pop((self._index[id(layer)], name, about), None)

    def timer_is_set(self, layer: Protocol, name: str, about: Hashable) -> bool:
        """See Protocol.timer_is_set."""
        return (self._index[id(layer)], name, about) in self._timers


def _names(classes: Iterable[type]) -> str:
    return ", ".join(cls.__name__ for cls in classes) or "no components"
