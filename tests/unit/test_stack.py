"""The laws of a stack: run to completion, FIFO between neighbours, and steps that several layers share."""
from __future__ import annotations

from typing import Any

import attrs
import pytest

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.events import Event
from jgroups_py.model.outputs import Deliver
from jgroups_py.stack.protocol import MULTICASTS, STOP, UNICASTS, Protocol, on, only, receives, timer
from jgroups_py.stack.stack import Stack

ME, OTHER = Address(b"M" * 16, "me"), Address(b"O" * 16, "other")


@attrs.frozen
class News(Event):
    text: str


@wire.header(proto=990, kind=1)
class Talk(Header):
    """A layer's own message, for this test."""


class Bottom(Protocol):
    def down(self, batch: Batch) -> None:
        pass


class Watcher(Protocol):
    """Observes news and talks; passes batches by."""

    control_only = True

    def start(self) -> None:
        self.observed: list[str] = []

    @on(News)
    def news(self, event: News) -> object:
        self.observed.append(event.text)
        return STOP if event.text == "secret" else None

    @receives(Talk)
    def talk(self, header: Talk, batch: Batch) -> None:
        self.observed.append("talk")
        self.pass_up(News("talked"))


class Leaky(Watcher):
    @receives(Talk)
    def talk(self, header: Talk, batch: Batch) -> None:
        self.pass_up(batch)


class Recorder(Protocol):
    """Sees every batch and all news, in order."""

    def start(self) -> None:
        self.seen: list[str] = []

    def up(self, batch: Batch) -> None:
        self.seen.append(batch.payloads[0].decode())
        self.pass_up(batch)

    @on(News)
    def news(self, event: News) -> None:
        self.seen.append(event.text)


class Ticker(Protocol):
    def start(self) -> None:
        self.fired: list[Any] = []
        self.set_timer("tick", 10)
        self.set_timer("tick", 5, "early")

    @timer("tick")
    def tick(self, about: str = "") -> None:
        self.fired.append((about, self.now_ns))


class Multicasts(Recorder):
    """Takes no unicasts, either way."""

    @only(MULTICASTS)
    def up(self, batch: Batch) -> None:
        super().up(batch)

    @only(MULTICASTS)
    def down(self, batch: Batch) -> None:
        self.seen.append(batch.payloads[0].decode())
        self.pass_down(batch)


class Unicasts(Recorder):
    @only(UNICASTS)
    def up(self, batch: Batch) -> None:
        super().up(batch)


class Opener(Protocol):
    """Takes its header off and passes the batch on; has no `up` of its own."""

    @receives(Talk)
    def talk(self, header: Talk, batch: Batch) -> None:
        self.pass_up(batch)


def unicast(text: str, *headers: Header) -> Batch:
    return Batch(OTHER, ME, (text.encode(),), headers)


def message(text: str, *headers: Header) -> Batch:
    return Batch(OTHER, None, (text.encode(),), headers)


def stack(*layers: Protocol) -> Stack:
    return Stack([Bottom(), *layers], ME)


def feed(made: Stack, *items: Batch | Event) -> None:
    """Several items at once, as one reading of the sockets brings them."""
    for item in items:
        made.layers[0].pass_up(item)
    made.run()


def delivered(made: Stack) -> list[str]:
    return [output.batch.payloads[0].decode() for output in made.outputs if isinstance(output, Deliver)]


def test_batches_and_events_keep_their_order_past_layers_that_only_watch() -> None:
    recorder = Recorder()
    made = stack(Watcher(), Watcher(), recorder, Watcher())
    feed(made, message("1"), News("a"), message("2"), News("b"), message("3"))
    assert recorder.seen == ["1", "a", "2", "b", "3"]
    assert delivered(made) == ["1", "2", "3"]


def test_every_layer_of_a_shared_step_observes_an_event_lowest_first() -> None:
    watchers = [Watcher(), Watcher()]
    made = stack(*watchers, Recorder())
    feed(made, News("a"))
    assert [watcher.observed for watcher in watchers] == [["a"], ["a"]]


def test_an_observer_may_keep_an_event_back() -> None:
    above, recorder = Watcher(), Recorder()
    made = stack(Watcher(), above, recorder)
    feed(made, News("secret"))
    assert above.observed == recorder.seen == []


def test_a_message_of_a_watching_layer_goes_to_it_and_its_events_go_to_the_layers_above() -> None:
    talker, above = Watcher(), Recorder()
    made = stack(talker, above)
    feed(made, message("x", Talk()))
    assert talker.observed == ["talk"]
    assert above.seen == ["talked"]


def test_a_control_only_layer_that_passes_a_batch_up_is_a_bug_that_shows() -> None:
    made = stack(Leaky(), Recorder())
    with pytest.raises(AssertionError, match="control_only"):
        feed(made, message("x", Talk()))


@pytest.mark.parametrize("together", [True, False])
def test_a_layer_gets_only_the_kind_of_batches_that_it_declares(together: bool) -> None:
    multicasts, unicasts = Multicasts(), Unicasts()
    made = stack(multicasts, Watcher(), unicasts)
    items = [message("1"), unicast("2"), message("3"), unicast("4")]
    for group in [items] if together else [[item] for item in items]:
        feed(made, *group)
    assert multicasts.seen == ["1", "3"]
    assert unicasts.seen == ["2", "4"]
    assert delivered(made) == ["1", "2", "3", "4"]
    made.inject(unicast("5"), 0)
    made.inject(message("6"), 0)
    assert multicasts.seen == ["1", "3", "6"]


def test_a_lone_batch_finds_the_layer_that_takes_its_header_beyond_those_that_do_not() -> None:
    recorder = Recorder()
    made = stack(Multicasts(), Opener(), Unicasts(), Watcher(), recorder)
    feed(made, unicast("x", Talk()))
    feed(made, message("y", Talk()))
    assert recorder.seen == delivered(made) == ["x", "y"]
    assert [output.batch.headers for output in made.outputs if isinstance(output, Deliver)] == [(), ()]


def test_what_a_lone_batch_causes_keeps_its_order() -> None:
    class Herald(Protocol):
        def up(self, batch: Batch) -> None:
            self.pass_up(News("before"))
            self.pass_up(batch)
            self.pass_up(News("after"))

    recorder = Recorder()
    made = stack(Herald(), Multicasts(), Watcher(), recorder)
    feed(made, unicast("x"))
    assert recorder.seen == ["before", "x", "after"]


def test_timers_fire_in_order_of_their_deadlines_with_what_they_are_about() -> None:
    ticker = Ticker()
    made = stack(ticker)
    made.advance(4)
    assert ticker.fired == []
    made.advance(10)
    assert ticker.fired == [("early", 10), ("", 10)]
    assert made.next_deadline_ns is None


def test_time_does_not_run_backwards() -> None:
    made = stack()
    made.advance(10)
    with pytest.raises(AssertionError, match="forward"):
        made.advance(9)
