"""Routes: the FIFO of a stack (fifo.py), compiled once, when the stack is built. The outcome is the same.

A hop becomes one function: the tables of the layers that only watch are merged (`shared_hop`), and the layer that ends
it has a function of its own (`hop`). When a batch is under way alone there is nothing to overtake: it takes the *fast
path*, directly to the next layer that handles batches of its kind (`only`, or a receiver of its lowest header). Hops
that would merely pass it on are left out; a lone message crosses the stack in half the hops. As soon as something else
is under way, every hop is made. tests/unit/test_routes.py drives both forms with the same traffic.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any

from jgroups_py.model.batch import Batch
from jgroups_py.model.events import Event
from jgroups_py.stack.component import Receiver
from jgroups_py.stack.fifo import STEP, UP, Entry, Fifo, Handlers, Item
from jgroups_py.stack.protocol import STOP

MULTICAST, UNICAST = True, False                 # `batch.dest is None`
_NOTHING = Event()


class Routes(Fifo):
    """The same work, compiled."""

    def __init__(self, layers: Sequence[Handlers], top: Entry, bottom: Entry) -> None:
        super().__init__(layers, top, bottom)
        # What is under way: its next hop, its fast path if nothing else is under way, and the item itself.
        self._work: deque[tuple[Entry, Entry, Any]] = deque()
        self._entries: dict[tuple[int, str], Callable[[Item], None]] = {}

    def entry(self, at: int, way: str) -> Callable[[Item], None]:
        """See Fifo.entry."""
        made = self._entries.get((at, way))
        if made is None:
            made = self._entries[at, way] = self._compile(at, way)
        return made

    def _compile(self, at: int, way: str) -> Callable[[Item], None]:
        ahead = self._layers[at:] if way == UP else self._layers[:at + 1][::-1]
        watching = list(takewhile(lambda layer: layer.watches[way], ahead))
        end = self._ends[way]
        if len(watching) < len(ahead):
            onward = self.entry(at + STEP[way] * (len(watching) + 1), way)
            end = hop(ahead[len(watching)], way, onward)
        step, fast = shared_hop(watching, end, way), fast_path(ahead, way, self._ends[way])
        append = self._work.append
        return lambda item: append((step, fast, item))

    def later(self, function: Callable[[], object]) -> None:
        """See Fifo.later."""
        self._work.append((lambda _: function(), _no_fast_path, _NOTHING))

    def run(self) -> None:
        """See Fifo.run."""
        work = self._work
        pop = work.popleft
        while work:
            step, fast, item = pop()
            if work or item.__class__ is not Batch:
                step(item)
            else:
                fast(item)


def hop(layer: Handlers, way: str, onward: Entry) -> Entry:
    """The hop into a layer that ends it; `onward` queues an item for the next one."""
    # A layer without a handler of passing batches receives its own messages only, but in order with all others.
    handle, kind = layer.passing.get(way, (onward, None))
    headers = layer.receivers if way == UP else {}
    observers = layer.observers

    def step(item: Item) -> object:
        if item.__class__ is Batch:
            if headers and item.headers:
                handler = headers.get(item.headers[-1].__class__)
                if handler is not None:
                    return handler(item.headers[-1], item.pop())
            if kind is None or kind is (item.dest is None):
                return handle(item)
            return onward(item)
        observer = observers.get(item.__class__)
        if observer is None or observer(item) is not STOP:
            onward(item)
        return None
    return step


def shared_hop(watching: Sequence[Handlers], end: Entry, way: str) -> Entry:
    """The hop over layers that only watch, nearest first, and on into `end`.

    A batch that concerns none of them is looked up once for all; an event is observed by each, in order.
    """
    observers: dict[type, list[Entry]] = {}
    for layer in watching:
        for event, observer in layer.observers.items():
            observers.setdefault(event, []).append(observer)
    headers = _receivers(watching, way)
    if not observers and not headers:
        return end

    def step(item: Item) -> object:
        if item.__class__ is Batch:
            if headers and item.headers:
                handler = headers.get(item.headers[-1].__class__)
                if handler is not None:
                    return handler(item.headers[-1], item.pop())
        else:
            for observer in observers.get(item.__class__, ()):
                if observer(item) is STOP:
                    return None
        return end(item)
    return step


def fast_path(ahead: Sequence[Handlers], way: str, end: Entry) -> Entry:
    """The way of a batch that is under way alone. ahead: the layers before it, nearest first; end: behind them."""
    multicasts, its_headers = _next_stop(ahead, way, end, MULTICAST)
    unicasts, their_headers = _next_stop(ahead, way, end, UNICAST)
    if not its_headers and not their_headers:
        return lambda batch: multicasts(batch) if batch.dest is None else unicasts(batch)

    def go(batch: Batch) -> object:
        if batch.dest is None:
            handle, headers = multicasts, its_headers
        else:
            handle, headers = unicasts, their_headers
        own = batch.headers
        if own:
            handler = headers.get(own[-1].__class__)
            if handler is not None:
                return handler(own[-1], batch.pop())
        return handle(batch)
    return go


def _next_stop(ahead: Sequence[Handlers], way: str, end: Entry, kind: bool) -> tuple[Entry, dict[type, Receiver]]:
    """The handler that gets a batch of this kind next, and the receivers of the layers up to there."""
    for number, layer in enumerate(ahead, 1):
        handle, handled = layer.passing.get(way, (None, None))
        if handle is not None and handled in (None, kind):
            return handle, _receivers(ahead[:number], way)
    return end, _receivers(ahead, way)


def _receivers(layers: Iterable[Handlers], way: str) -> dict[type, Receiver]:
    """Header class -> the handler of the nearest layer that receives it; on the way down no header is taken off."""
    found: dict[type, Receiver] = {}
    for layer in layers:
        if way == UP:
            found = {**layer.receivers, **found}
    return found


def _no_fast_path(item: Item) -> None:
    raise AssertionError("only batches take the fast path")
