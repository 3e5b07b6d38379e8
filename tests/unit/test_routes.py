"""The compiled routes of a stack against the FIFO that is read: the same random layers and traffic, equal in order."""
from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import Deliver
from jgroups_py.stack.component import Component
from jgroups_py.stack.fifo import Fifo, Item
from jgroups_py.stack.protocol import MULTICASTS, STOP, UNICASTS, Protocol, on, only, receives, timer
from jgroups_py.stack.routes import Routes
from jgroups_py.stack.stack import Stack

ME, OTHER = Address(b"M" * 16, "me"), Address(b"O" * 16, "other")
STACKS = 400


@attrs.frozen
class Fact(Event):
    text: str


class Rumour(Fact):
    pass


class Secret(Fact):
    pass


@attrs.frozen
class Ask(Header):
    pass


@attrs.frozen
class Answer(Header):
    pass


@attrs.frozen
class Digest(Header):
    pass


EVENTS: tuple[type[Fact], ...] = (Fact, Rumour, Secret)
HEADERS: tuple[type[Header], ...] = (Ask, Answer, Digest)


@attrs.frozen
class Plan:
    """What a random layer does. looks: "up" and "down" -> the kind of batches that it takes there."""

    looks: dict[str, bool | None]
    headers: tuple[type[Header], ...]
    own_events: tuple[type[Fact], ...]
    part_events: tuple[type[Fact], ...]      # observed by a component
    control_only: bool


class Journal:
    """What handlers of both stacks do: drawn at random, and written down."""

    def __init__(self, seed: str) -> None:
        self.rng = Random(seed)
        self.lines: list[str] = []
        self.made = 0

    def name(self, text: str) -> str:
        """What is caused carries a number, and how much more it may cause: nothing goes on for ever."""
        self.made += 1
        return f"{self.made}:{int(text.partition(':')[2]) - 1}"


class Actor:
    """The random behaviour that layers and their components share."""

    def __init__(self, number: int, journal: Journal, layer: Protocol) -> None:
        self.number, self.journal, self.layer = number, journal, layer

    def note(self, what: str, item: Any) -> str:
        text: str = item.payloads[0].decode() if isinstance(item, Batch) else item.text
        headers = [type(header).__name__ for header in item.headers] if isinstance(item, Batch) else []
        self.journal.lines.append(f"{self.number} {what} {type(item).__name__} {text} {headers}")
        return text

    def cause(self, text: str, up: Callable[[Any], None], down: Callable[[Any], None], batches_up: bool) -> None:
        """Pass on some new items, or arrange for them to be passed later."""
        rng, left = self.journal.rng, int(text.partition(":")[2])
        for _ in range(rng.choice((0, 0, 1, 1, 2)) if left > 0 else 0):
            passing, may_batch = rng.choice(((up, batches_up), (down, True)))
            item = self.new(self.journal.name(text), may_batch)
            when = rng.randrange(6)
            if when == 0:
                self.layer.later(lambda passing=passing, item=item: passing(item))        # type: ignore[misc]
            elif when == 1:
                self.layer.set_timer("tick", rng.randrange(5), item)
            else:
                passing(item)

    def new(self, text: str, may_batch: bool) -> Batch | Fact:
        rng = self.journal.rng
        if not may_batch or rng.random() < 0.3:
            return rng.choice(EVENTS)(text)
        headers = tuple(rng.choice(HEADERS)() for _ in range(rng.randrange(3)))
        return Batch(OTHER, rng.choice((None, ME)), (text.encode(),), headers)


class Floor(Protocol):
    def down(self, batch: Batch) -> None:
        pass


def layer_class(number: int, plan: Plan, journal: Journal) -> type[Protocol]:
    """A protocol of its own, made as an author writes one: handlers with marks."""
    body: dict[str, Any] = {"control_only": plan.control_only}

    def start(self: Any) -> None:
        self.actor = Actor(number, journal, self)
    body["start"] = start
    for way in plan.looks:
        body[way] = looking(way, plan.looks[way], plan.control_only)
    for header in plan.headers:
        body[f"take_{header.__name__}"] = taking(header, plan.control_only)
    for event in plan.own_events:
        body[f"observe_{event.__name__}"] = observing(event, "observes", plan.control_only)

    @timer("tick")
    def tick(self: Any, about: Batch | Fact) -> None:
        text = self.actor.note("tick", about)
        if plan.control_only and isinstance(about, Batch):
            self.pass_down(about)
        else:
            journal.rng.choice((self.pass_up, self.pass_down))(about)
        self.actor.cause(text, self.pass_up, self.pass_down, not plan.control_only)
    body["tick"] = tick
    if plan.part_events:
        part = type(f"Part{number}", (Part,), {
            "number": number, "journal": journal,
            **{f"observe_{event.__name__}": observing(event, "part observes", plan.control_only)
               for event in plan.part_events}})
        body["components"] = (part,)
    return type(f"Layer{number}", (Protocol,), body)


class Part(Component):
    """A component that observes."""

    number: int
    journal: Journal

    def start(self) -> None:
        self.actor = Actor(self.number, self.journal, self.layer)       # type: ignore[arg-type]


def looking(way: str, wanted: bool | None, control_only: bool) -> Callable[..., None]:
    def look(self: Any, batch: Batch) -> None:
        text = self.actor.note(way, batch)
        passing = getattr(self, f"pass_{way}")
        fate = self.actor.journal.rng.random()
        if fate < 0.15:
            self.actor.cause(text, self.pass_up, self.pass_down, batches_up=not control_only)
        if fate < 0.8:
            passing(batch if fate < 0.7 else batch.push(Digest()))
        if fate > 0.7:
            self.actor.cause(text, self.pass_up, self.pass_down, batches_up=not control_only)
    look.__name__ = way
    return look if wanted is None else only(wanted)(look)


def taking(header: type[Header], control_only: bool) -> Callable[..., None]:
    @receives(header)
    def take(self: Any, found: Header, batch: Batch) -> None:
        text = self.actor.note(f"takes {type(found).__name__}", batch)
        if not control_only and self.actor.journal.rng.random() < 0.7:
            self.pass_up(batch)
        self.actor.cause(text, self.pass_up, self.pass_down, not control_only)
    return take


def observing(event: type[Fact], what: str, control_only: bool) -> Callable[..., object]:
    @on(event)
    def observe(self: Any, found: Fact) -> object:
        text = self.actor.note(what, found)
        self.actor.cause(text, self.pass_up, self.pass_down, not control_only)
        return STOP if self.actor.journal.rng.random() < 0.15 else None
    return observe


def random_plan(rng: Random) -> Plan:
    looks: dict[str, bool | None] = {
        way: rng.choice((None, MULTICASTS, UNICASTS)) for way in ("up", "down") if rng.random() < 0.4}
    headers = tuple(header for header in HEADERS if rng.random() < 0.25)
    return Plan(looks, headers, tuple(event for event in EVENTS if rng.random() < 0.3),
                tuple(event for event in EVENTS if rng.random() < 0.15),
                control_only="up" not in looks and rng.random() < 0.5)


class Watched(Stack):
    """A stack that writes down what leaves it."""

    journal: Journal

    def surface(self, event: Event) -> None:
        self.journal.lines.append(f"top {event}")

    def _to_nowhere(self, item: Any) -> None:
        super()._to_nowhere(item)
        self.journal.lines.append(f"bottom {item}")


def drive(seed: int, fifo: type[Fifo]) -> list[str]:
    """Everything that happens in the stack of this seed, in order."""
    rng, journal = Random(f"traffic {seed}"), Journal(f"handlers {seed}")
    classes = [layer_class(number, random_plan(rng), journal) for number in range(1, rng.randrange(2, 10))]
    made = type("Made", (Watched,), {"journal": journal})(
        [Floor(), *(cls() for cls in classes)], ME, fifo=fifo)
    author = Actor(0, journal, made.layers[0])
    now_ns = 0
    for _ in range(25):
        verb = rng.randrange(5)
        items = [author.new(f"{rng.randrange(1000)}:{rng.randrange(4)}", True) for _ in range(rng.choice((1, 1, 2, 5)))]
        journal.lines.append(f"verb {verb}")
        if verb == 0:
            made.inject(items[0], now_ns)
        elif verb == 1:
            for item in items:                               # as one reading of the sockets brings them
                made.send_up(item)
            made.run()
        elif verb == 2:
            for item in items:
                made.layers[rng.randrange(1, len(made.layers))].pass_down(item)
            made.run()
        elif verb == 3 and (layer := rng.choice(made.layers)).observers:
            made.notify_layer(layer, rng.choice(list(layer.observers))("told:3"), now_ns)             # type: ignore[call-arg]
        else:
            now_ns += rng.randrange(4)
            made.advance(now_ns)
        for output in made.outputs:
            assert isinstance(output, Deliver)
            journal.lines.append(f"delivered {output.batch.payloads} {output.batch.headers}")
        made.outputs.clear()
    journal.lines.append(f"timers {made.next_deadline_ns}")
    return journal.lines


@pytest.mark.parametrize("first", range(0, STACKS, 10))
def test_compiled_routes_do_what_the_fifo_does_in_the_same_order(first: int) -> None:
    for seed in range(first, first + 10):
        read, compiled = drive(seed, Fifo), drive(seed, Routes)
        different = next((number for number, pair in enumerate(zip(read, compiled, strict=False))
                          if pair[0] != pair[1]), None)
        assert read == compiled, f"seed {seed}, line {different}: {read[different or 0]} / {compiled[different or 0]}"


def test_the_random_traffic_reaches_every_kind_of_handler() -> None:
    """Otherwise equality would prove little: lone batches, shared hops, STOP, components, timers, both ends."""
    lines = [line for seed in range(60) for line in drive(seed, Fifo)]
    kinds = ("up Batch", "down Batch", "takes Ask", "observes Secret", "part observes", "tick", "top ", "bottom ",
             "delivered")
    counts = {kind: sum(kind in line for line in lines) for kind in kinds}
    assert min(counts.values()) > 50, counts


def test_a_lone_batch_makes_one_hop_past_layers_that_do_not_take_it() -> None:
    class Unicasts(Protocol):
        @only(UNICASTS)
        def up(self, batch: Batch) -> None:
            raise AssertionError("it takes no multicasts")

    def hops(fifo: type[Fifo], batches: int) -> int:
        queued: list[Item] = []

        class Counting(fifo):                                # type: ignore[misc,valid-type]
            def entry(self, at: int, way: str) -> Callable[[Item], None]:
                queue = super().entry(at, way)

                def counted(item: Item) -> None:
                    queued.append(item)
                    queue(item)
                return counted

        made = Stack([Floor(), *(Unicasts() for _ in range(10))], ME, fifo=Counting)
        for _ in range(batches):
            made.send_up(Batch(OTHER, None, (b"x",)))
        made.run()
        assert len(made.outputs) == batches
        return len(queued)

    assert hops(Fifo, 1) == 11
    assert hops(Routes, 1) == 1
    assert hops(Routes, 2) == 22
