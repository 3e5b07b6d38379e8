"""The FIFO of a stack, in readable form: which layer sees what another passes on, and in which order.

Whatever a layer passes on is appended to one queue and processed after the handler has returned, so no handler is
re-entered (law 1). An item that is taken from the queue makes one *hop*: over the layers that only watch, into the next
one that handles batches, which ends the hop. Batches and events make the same hops, so neighbours see them in the
order in which they were passed (law 2). What a watching layer sends while it observes an event comes after that event.

`Fifo` is the reference: it can be run by itself. Stacks run `Routes` (routes.py), which does the same in compiled form.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from jgroups_py.model.batch import Batch
from jgroups_py.model.events import Event
from jgroups_py.stack.component import Handler, Receiver, bind
from jgroups_py.stack.protocol import STOP, Protocol, only_of

Item = Batch | Event
Entry = Callable[[Any], object]
UP: Final = "up"
DOWN: Final = "down"
STEP: Final = {UP: 1, DOWN: -1}


class Handlers:
    """The handlers of one layer and its parts, bound once for all hops.

    passing: UP and DOWN, where it has a handler of passing batches -> that handler, and the kind of batches it handles
    (None: both); watches: UP and DOWN -> whether it ends no hop, as it handles its own messages only; receivers: header
    class -> handler; observers: event class -> handler; timers: name -> handler.
    """

    __slots__ = ("observers", "passing", "receivers", "timers", "watches")

    def __init__(self, layer: Protocol) -> None:
        self.passing: dict[str, tuple[Entry, bool | None]] = {}
        for way in (UP, DOWN):
            if getattr(type(layer), way) is not getattr(Protocol, way):
                handle = getattr(layer, way)
                self.passing[way] = handle, only_of(handle)
        parts = {type(part): part for part in layer.parts}

        def bound(handler: Handler) -> Callable[..., Any]:
            return bind(layer, parts, handler)

        self.receivers: dict[type, Receiver] = {
            cls: layer.receiver(bound(handler)) for cls, handler in layer.receivers.items()}
        self.observers: dict[type, Entry] = {
            cls: _one_after_another([bound(handler) for handler in handlers])
            for cls, handlers in layer.observers.items()}
        self.timers: dict[str, Callable[..., object]] = {
            name: bound(handler) for name, handler in layer.timers.items()}
        # A layer that makes batches for those above out of its messages (NAKACK, FRAG) ends a hop, or what it passes on
        # would be overtaken; one that is `control_only` passes none.
        self.watches = {UP: UP not in self.passing and (layer.control_only or not layer.receivers),
                        DOWN: DOWN not in self.passing}

    def wrap(self, hop: Callable[[str, Callable[..., object]], Callable[..., object]]) -> None:
        """Call `hop(way, handler)` in place of each handler of batches."""
        self.passing = {way: (hop(way, handle), kind) for way, (handle, kind) in self.passing.items()}
        self.receivers = {cls: hop(UP, handler) for cls, handler in self.receivers.items()}


def _one_after_another(observers: Sequence[Entry]) -> Entry:
    """Several observers of one layer as one. STOP stops the event, for the later ones too."""
    if len(observers) == 1:
        return observers[0]

    def observe(event: Event) -> object:
        for observer in observers:
            if observer(event) is STOP:
                return STOP
        return None
    return observe


class Fifo:
    """The work between the layers of one stack.

    layers: lowest first. top, bottom: called with what leaves the stack at either end.
    """

    def __init__(self, layers: Sequence[Handlers], top: Entry, bottom: Entry) -> None:
        self._layers = layers
        self._ends = {UP: top, DOWN: bottom}
        self._queue: deque[Callable[[], object]] = deque()

    def entry(self, at: int, way: str) -> Callable[[Item], None]:
        """A function that queues an item for the hop that begins at layer `at`, up or down."""
        return lambda item: self._queue.append(lambda: self._hop(at, way, item))

    def later(self, function: Callable[[], object]) -> None:
        """Queue a call."""
        self._queue.append(function)

    def run(self) -> None:
        """Process the queue until it is empty."""
        while self._queue:
            self._queue.popleft()()

    def _hop(self, at: int, way: str, item: Item) -> object:
        while 0 <= at < len(self._layers):
            layer, at = self._layers[at], at + STEP[way]
            if isinstance(item, Batch):
                header = item.headers[-1] if item.headers and way == UP else None
                if header.__class__ in layer.receivers:
                    return layer.receivers[header.__class__](header, item.pop())
                handle, kind = layer.passing.get(way, (None, None))
                if handle is not None and kind in (None, item.dest is None):
                    return handle(item)
            else:
                observer = layer.observers.get(item.__class__)
                if observer is not None and observer(item) is STOP:
                    return None
            if not layer.watches[way]:
                return self.entry(at, way)(item)             # the hop ends here, behind what this layer has passed on
        return self._ends[way](item)


def events_only(pass_up: Entry) -> Callable[[Item], None]:
    """The `pass_up` of a `control_only` layer: it refuses batches."""
    def checked(item: Item) -> None:
        assert item.__class__ is not Batch, "a control_only layer passed a batch up: it would be overtaken by others"
        pass_up(item)
    return checked
