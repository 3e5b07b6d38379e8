"""Stack: layers in order, one FIFO of work between them, timers, outputs. Pure: time comes in as an argument.

Whatever a layer passes on is appended to one queue and processed after the handler has returned, so no handler is
re-entered (law 1) and neighbours see items in the order in which they were passed (law 2). Layers that do not look at
passing batches share one step with the next layer that does (road.py); what such a layer sends while it observes an
event comes after that event.
"""
from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.errors import ConfigError
from jgroups_py.events import Event, Tell, ViewChange
from jgroups_py.outputs import Deliver, Output, ViewInstalled
from jgroups_py.protocol import Protocol
from jgroups_py.road import Entry, Handlers, Item, events_only, station, straight, stretch

if TYPE_CHECKING:
    from jgroups_py.protocols.transport import Transport

TimerKey = tuple[int, str, Hashable]
_NOTHING = Event()


class Stack:
    """The layers of one channel.

    layers: bottom (transport) first. member: a stable word for the random generators (not the address, so that a
    simulated run does not depend on address bytes). net: LOCAL or BRIDGE, stamped on frames.
    """

    def __init__(
        self, layers: Sequence[Protocol], me: Address, *, net: int = 0, seed: str = "0", member: str = "",
        now_ns: int = 0,
    ) -> None:
        self.layers = list(layers)
        self.transport: Transport = self.layers[0]            # type: ignore[assignment]
        self.me = me
        self.net = net
        self.now_ns = now_ns
        self.outputs: list[Output] = []
        # What is under way: the step it takes next, how it goes on if nothing else is under way, the item itself.
        self._work: deque[tuple[Entry, Entry, Any]] = deque()
        self._heap: list[tuple[int, int, str, int, TimerKey]] = []
        self._timers: dict[TimerKey, int] = {}      # key -> the order number of its entry in the heap
        self._order = 0
        self._index = {id(layer): at for at, layer in enumerate(self.layers)}
        for at, layer in enumerate(self.layers):
            layer.stack = self
            layer.me = me
            layer.rng_seed = f"{seed}/{member or me}/{net}/{type(layer).__name__}"
            self._bind_ports(at, layer)
        self._pending = [layer.pending_bytes for layer in self.layers
                         if type(layer).pending_bytes is not Protocol.pending_bytes]
        self._wire_up()
        for layer in self.layers:
            layer.start()
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

    def _wire_up(self) -> None:
        handlers = [Handlers(layer) for layer in self.layers]
        self._wire_upwards(handlers)
        self._wire_downwards(handlers)

    def _wire_upwards(self, handlers: Sequence[Handlers]) -> None:
        onward: Entry = self._to_application         # what the layers between two stations pass to
        passers: list[Handlers] = []
        for at, layer in reversed(list(enumerate(self.layers))):
            ahead = straight(handlers[at + 1:], "up", self._to_application)
            layer.pass_up = self._queue(stretch(passers, onward, "up"), ahead)
            if "up" not in handlers[at].looks and (layer.control_only or not layer.receivers):
                passers = [handlers[at], *passers]
                if layer.control_only:
                    layer.pass_up = events_only(layer.pass_up)
            else:
                onward, passers = station(handlers[at], "up", layer.pass_up), []
        self.send_up = self._queue(stretch(passers, onward, "up"), straight(handlers, "up", self._to_application))

    def _wire_downwards(self, handlers: Sequence[Handlers]) -> None:
        onward: Entry = self._to_nowhere
        passers: list[Handlers] = []
        for at, layer in enumerate(self.layers):
            ahead = straight(handlers[:at][::-1], "down", self._to_nowhere)
            layer.pass_down = self._queue(stretch(passers, onward, "down"), ahead)
            if "down" not in handlers[at].looks:
                passers = [handlers[at], *passers]
            else:
                onward, passers = station(handlers[at], "down", layer.pass_down), []
        ahead = straight(handlers[::-1], "down", self._to_nowhere)
        self.send_down = self._queue(stretch(passers, onward, "down"), ahead)

    def _queue(self, step: Entry, straight_on: Entry) -> Callable[[Item], None]:
        append = self._work.append
        return lambda item: append((step, straight_on, item))

    def later(self, function: Callable[[], None]) -> None:
        """See Protocol.later."""
        self._work.append((lambda _: function(), _never_straight, _NOTHING))

    def _to_application(self, item: Item) -> None:
        if item.__class__ is Batch:
            self.outputs.append(Deliver(item))
        elif item.__class__ is ViewChange:
            self.outputs.append(ViewInstalled(item.view, item.failed))
        elif item.__class__ is Tell:
            self.outputs.append(item.output)
        else:
            assert not isinstance(item, Batch), "batches were delivered above"
            self.told(item)

    def _to_nowhere(self, item: Item) -> None:
        assert not isinstance(item, Batch), "a batch fell through the bottom of the stack"

    def told(self, event: Event) -> None:
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
        """From the sockets: frames with the sender's physical address where the socket knows it."""
        assert now_ns >= self.now_ns, "time runs forward"
        self.now_ns = now_ns
        self.transport.receive(frames)
        self.run()

    def notify(self, event: Event, now_ns: int) -> None:
        """From the world: an event starts at the bottom and goes up."""
        self._to(now_ns)
        self.send_up(event)
        self.run()

    def tell(self, layer: Protocol, event: Event, now_ns: int) -> None:
        """An event for one layer only (the node's news for RELAY)."""
        self._to(now_ns)
        self._work.append((getattr(layer, layer.observers[event.__class__]), _never_straight, event))
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
            layer = self.layers[at]
            handler = getattr(layer, layer.timers[name])
            if key[2] is None:
                handler()
            else:
                handler(key[2])
            self.run()

    def run(self) -> None:
        """Work until nothing is queued."""
        work = self._work
        pop = work.popleft
        while work:
            step, straight_on, item = pop()
            if work or item.__class__ is not Batch:
                step(item)
            else:
                straight_on(item)

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
        """Payload bytes of the application that layers keep back."""
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


def _never_straight(item: Item) -> None:
    raise AssertionError("only batches go straight on")
