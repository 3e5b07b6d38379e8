"""Roads: what becomes of an item that a layer passes on, worked out once, when the stack is built.

An item takes *steps* from layer to layer; layers that do not look at passing batches share a step with the next one
that does. All kinds of items take the same steps, so neighbours see them in the order in which they were passed
(law 2). When a batch is under way alone there is nobody to overtake: it goes *straight* to the next layer that does
something with batches of its kind (`only`, or a receiver of its lowest header). Steps that would merely pass it on are
left out, so the outcome is the same; a lone message crosses the stack in half the steps.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jgroups_py.batch import Batch
from jgroups_py.events import Event
from jgroups_py.protocol import STOP, Protocol, only_of

Item = Batch | Event
Entry = Callable[[Any], object]
Receiver = Callable[[Any, Batch], object]
MULTICAST, UNICAST = True, False                 # `batch.dest is None`


class Handlers:
    """What one layer does with what comes by, bound to it once for all roads.

    looks: "up" and "down", where it looks at batches -> its handler and the kind of batches it wants (None: both);
    receivers: header class -> handler; observers: event class -> handler.
    """

    __slots__ = ("looks", "observers", "receivers")

    def __init__(self, layer: Protocol) -> None:
        self.looks: dict[str, tuple[Entry, bool | None]] = {}
        for way in ("up", "down"):
            if getattr(type(layer), way) is not getattr(Protocol, way):
                handle = getattr(layer, way)
                self.looks[way] = handle, only_of(handle)
        self.receivers: dict[type, Receiver] = {
            cls: layer.receiver(name) for cls, name in layer.receivers.items()}
        self.observers: dict[type, Entry] = {cls: getattr(layer, name) for cls, name in layer.observers.items()}


def station(layer: Handlers, way: str, onward: Entry) -> Entry:
    """The step into a layer that stops what goes `way` ("up" or "down"); `onward` passes an item on."""
    # One that does not look only takes its own, but in order with all others.
    handle, wanted = layer.looks.get(way, (onward, None))
    headers = layer.receivers if way == "up" else {}
    observers = layer.observers

    def step(item: Item) -> object:
        if item.__class__ is Batch:
            if headers and item.headers:
                handler = headers.get(item.headers[-1].__class__)
                if handler is not None:
                    return handler(item.headers[-1], item.pop())
            if wanted is None or wanted is (item.dest is None):
                return handle(item)
            return onward(item)
        observer = observers.get(item.__class__)
        if observer is None or observer(item) is not STOP:
            onward(item)
        return None
    return step


def stretch(passers: Sequence[Handlers], end: Entry, way: str) -> Entry:
    """The step over layers that only observe events and take their own headers, into the next station.

    Batches that concern none of them cost one step for the whole stretch; so do events, which every observer of the
    stretch sees in order.
    """
    observers: dict[type, list[Entry]] = {}
    headers: dict[type, Receiver] = {}
    for layer in passers:
        for event, observer in layer.observers.items():
            observers.setdefault(event, []).append(observer)
        if way == "up":
            headers = {**layer.receivers, **headers}    # the nearest layer takes it
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


def straight(ahead: Sequence[Handlers], way: str, end: Entry) -> Entry:
    """How a batch that is under way alone goes on; `ahead`: the layers before it, nearest first; `end`: after them."""
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


def _next_stop(ahead: Iterable[Handlers], way: str, end: Entry, kind: bool) -> tuple[Entry, dict[type, Receiver]]:
    """Who handles a batch of this kind next, and whose headers are taken off until then."""
    headers: dict[type, Receiver] = {}
    for layer in ahead:
        if way == "up":
            headers = {**layer.receivers, **headers}    # the nearest layer takes it
        handle, wanted = layer.looks.get(way, (None, None))
        if handle is not None and wanted in (None, kind):
            return handle, headers
    return end, headers


def events_only(pass_up: Entry) -> Callable[[Item], None]:
    """What a `control_only` layer passes up with."""
    def checked(item: Item) -> None:
        assert item.__class__ is not Batch, "a control_only layer passed a batch up: it would be overtaken by others"
        pass_up(item)
    return checked
