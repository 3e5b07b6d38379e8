"""Parts of a protocol: bound by the stack, one claim per header and timer, events observed in declared order."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from jgroups_py import wire
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import declare, drop
from jgroups_py.model.events import Event
from jgroups_py.stack.component import Component, Handler, LayerPort, needs
from jgroups_py.stack.protocol import STOP, Protocol, on, receives, timer
from jgroups_py.testing.bench import Bench, multicast


@attrs.frozen
class Alarm(Event):
    text: str


@wire.header(proto=991, kind=1)
class Ask(Header):
    """A question, for this test."""


@wire.header(proto=991, kind=2)
class Reply(Header):
    """An answer, for this test."""


@attrs.frozen
class HouseConfig:
    limit: int = 2


class Answerer(Component):
    COUNTERS = declare(drop("over_limit", "Questions beyond the limit."))

    config: HouseConfig

    def __init__(self, layer: LayerPort) -> None:
        super().__init__(layer)
        self.answered = 0

    @receives(Ask)
    def ask(self, header: Ask, batch: Batch) -> None:
        if self.answered == self.config.limit:
            return self.count("over_limit")
        self.answered += 1
        return self.send(Reply(), batch.src)


class Clock(Component):
    def start(self) -> None:
        self.fired: list[tuple[int, object]] = []
        self.set_timer("tick", 5)
        self.set_timer("tick", 3, "early")

    @timer("tick")
    def tick(self, about: object = None) -> None:
        self.fired.append((self.now_ns, about))
        if about is None:
            self.pass_up(Alarm("ticked"))

    @on(Alarm)
    def alarm(self, event: Alarm) -> object:
        self.fired.append((self.now_ns, event.text))
        return STOP if event.text == "clock stops" else None


class Bell(Component):
    def __init__(self, layer: LayerPort, clock: Clock) -> None:
        super().__init__(layer)
        self.clock = clock
        self.observed: list[str] = []

    @on(Alarm)
    def alarm(self, event: Alarm) -> None:
        self.observed.append(f"{event.text} after {len(self.clock.fired)}")


class House(Protocol):
    """Three parts, and an observer of the protocol's own."""

    Config = HouseConfig
    components = (Answerer, Clock, Bell)

    def assemble(self) -> Iterable[Component]:
        clock = Clock(self)
        return [Answerer(self), clock, Bell(self, clock)]

    def start(self) -> None:
        self.observed: list[str] = []

    @on(Alarm)
    def alarm(self, event: Alarm) -> object:
        self.observed.append(event.text)
        return STOP if event.text == "house stops" else None


def parts_of(bench: Bench) -> tuple[Any, ...]:
    return bench.stack.layers[1].parts


def test_a_part_gets_the_headers_that_it_declares_and_acts_as_its_layer() -> None:
    bench = Bench(House())
    for src in "BCD":
        bench.up(multicast(src, headers=(Ask(),)))
    assert [str(batch.dest) for _, batch in bench.sent_with(Reply)] == ["B", "C"]
    assert bench.stats() == {"over_limit": 1}


def test_timers_of_a_part_are_the_layers_timers() -> None:
    bench = Bench(House())
    bench.advance_to(10)
    _, clock, _ = parts_of(bench)
    assert clock.fired == [(3, "early"), (5, None)]
    assert [event.text for event in bench.passed_up(Alarm)] == ["ticked"]
    bench.stack.layers[1].cancel_timer("tick")
    with pytest.raises(AssertionError, match="no handler for timer 'tock'"):
        clock.set_timer("tock", 1)


@pytest.mark.parametrize(("text", "house", "clock", "bell", "left"), [
    ("fire", ["fire"], 1, ["fire after 1"], ["fire"]),
    ("clock stops", ["clock stops"], 1, [], []),
    ("house stops", ["house stops"], 0, [], []),
])
def test_several_observe_one_event_the_protocol_first_until_one_stops_it(
    text: str, house: list[str], clock: int, bell: list[str], left: list[str],
) -> None:
    bench = Bench(House())
    bench.up(Alarm(text))
    layer: Any = bench.stack.layers[1]
    assert (layer.observed, len(layer.parts[1].fired), layer.parts[2].observed) == (house, clock, bell)
    assert [event.text for event in bench.passed_up(Alarm)] == left


def test_an_event_for_one_layer_reaches_all_its_observers() -> None:
    bench = Bench(House())
    bench.stack.notify_layer(bench.stack.layers[1], Alarm("knock"), bench.now_ns)
    assert parts_of(bench)[2].observed == ["knock after 1"]


def test_what_is_kept_back_is_handled_by_its_part_as_if_it_came_now() -> None:
    bench = Bench(House())
    parts_of(bench)[1].dispatch(Ask(), multicast("B"))
    assert parts_of(bench)[0].answered == 1


def test_the_layers_filter_covers_the_parts() -> None:
    class Deaf(House):
        COUNTERS = declare(drop("refused", "Everything."))

        def receiver(self, handler: Any) -> Any:
            return lambda header, batch: self.count("refused")

    bench = Bench(Deaf())
    bench.up(multicast("B", headers=(Ask(),)))
    assert (bench.sent_with(Reply), bench.stats()) == ([], {"refused": 1})


def test_the_tables_of_a_class_name_its_parts() -> None:
    assert House.receivers == {Ask: Handler(Answerer, "ask")}
    assert House.timers == {"tick": Handler(Clock, "tick")}
    assert House.observers == {Alarm: (Handler(None, "alarm"), Handler(Clock, "alarm"), Handler(Bell, "alarm"))}


class Rooms:
    """A port, for this test."""

    rooms = 3


class Floors(Component, Rooms):
    """Provides it."""


class Guide(Component):
    house: Rooms = needs(Rooms)


def test_a_part_is_bound_to_the_parts_that_it_needs() -> None:
    made = type("Made", (Protocol,), {"components": (Guide, Floors)})
    guide, floors = parts_of(Bench(made()))
    assert guide.house is floors


@pytest.mark.parametrize(("parts", "found"), [
    ((Guide,), "none"), ((Guide, Floors, type("Cellar", (Component, Rooms), {})), "2")])
def test_what_a_part_needs_is_there_once(parts: tuple[type[Component], ...], found: str) -> None:
    with pytest.raises(TypeError, match=f"Guide needs a part that is a Rooms; {found} of the layer are"):
        Bench(type("Made", (Protocol,), {"components": parts})())


class SecondClock(Component):
    @timer("tick")
    def chime(self) -> None:
        """Never called: the timer belongs to Clock."""


class SecondAnswerer(Component):
    @receives(Ask)
    def also(self, header: Ask, batch: Batch) -> None:
        """Never called: the header belongs to Answerer."""


@pytest.mark.parametrize(("second", "claim"), [
    (SecondClock, "Clock and SecondClock both claim timer 'tick'"),
    (SecondAnswerer, "Answerer and SecondAnswerer both claim Ask"),
])
def test_two_parts_cannot_claim_the_same(second: type[Component], claim: str) -> None:
    with pytest.raises(TypeError, match=f"Twice: {claim}"):
        type("Twice", (House,), {"components": (*House.components, second)})


def test_a_part_cannot_claim_what_its_protocol_claims() -> None:
    class Owner(Protocol):
        @timer("tick")
        def mine(self) -> None:
            """Not reached."""

    with pytest.raises(TypeError, match="Both and Clock both claim timer 'tick'"):
        type("Both", (Owner,), {"components": (Clock,)})


def test_one_class_cannot_claim_a_header_twice() -> None:
    with pytest.raises(TypeError, match="Forked: ask and also both claim Ask"):
        type("Forked", (Protocol,), {"ask": receives(Ask)(lambda *_: None), "also": receives(Ask)(lambda *_: None)})


def test_a_subclass_may_take_a_header_over() -> None:
    class Heir(Answerer):
        COUNTERS = declare(drop("instead", "Questions taken over."))

        @receives(Ask)
        def instead(self, header: Ask, batch: Batch) -> None:
            self.count("instead")

    made = type("Made", (Protocol,), {"components": (Heir,)})
    bench = Bench(made())
    bench.up(multicast("B", headers=(Ask(),)))
    assert bench.stats() == {"instead": 1}


def test_a_protocol_makes_exactly_the_parts_that_it_declares() -> None:
    class Careless(House):
        def assemble(self) -> Iterable[Component]:
            return [Answerer(self)]

    with pytest.raises(TypeError, match="Careless assembles Answerer, but declares Answerer, Clock, Bell"):
        Bench(Careless())
