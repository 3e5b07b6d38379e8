"""EXAMPLE: greets the group at times and counts the members that greet back. A template: copy it, rename it, fill it.

A module's head states the problem that the protocol solves, the idea, the place in the stack, the source and the
deviations from it. Here: which members of the group are responsive? Each member multicasts a numbered greeting on a
timer; a member that gets it greets back by unicast; a round in which all of the view have greeted back is counted as
complete. Greetings may get lost, so a new round simply starts. Place: anywhere above the transport and below GMS (it
observes views on their way down) or above (on their way up). Source: made up for this purpose. See also
design/protocols/example.md, and tests/unit/protocols/test_example.py, which runs what you read here.
"""
from __future__ import annotations

import attrs

from jgroups_py.spi import (
    Address,
    Batch,
    Header,
    Protocol,
    ViewChange,
    counter,
    declare,
    drop,
    duration,
    on,
    receives,
    timer,
    wire,
)


@attrs.frozen
class ExampleConfig:
    """The doc of a field states what raising and lowering it costs; a stack file writes <EXAMPLE round="2s"/>."""

    round_ns: int = duration("1s", least="1ms", doc="Time from one round of greetings to the next. Lower notices "
                             "an unresponsive member sooner and sends more.")


@wire.header(proto=30, kind=1)
class Greeting(Header):
    """Hello, all; this is round `number` of the source."""

    number: int = wire.field(wire.U64)


@wire.header(proto=30, kind=2)
class Thanks(Header):
    """Hello to you too, in answer to round `number`."""

    number: int = wire.field(wire.U64)


class Example(Protocol):
    """See the module. Methods stand in this order: start, up and down if needed, events, timers, headers, helpers."""

    Config = ExampleConfig
    config: ExampleConfig
    COUNTERS = declare(
        counter("rounds", "Rounds that were begun."),
        counter("complete_rounds", "Rounds in which every member greeted back."),
        drop("late_thanks", "Answers to a round that is over, or of a process outside the view."),
    )

    def start(self) -> None:
        self.members: tuple[Address, ...] = ()
        self.number = 0                                    # of the current round, 0: none yet
        self.greeted: dict[Address, None] = {}             # members that greeted back in it; a dict, for its order

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.members = event.view.members
        self.set_timer("round", self.config.round_ns)      # a round that was under way ends uncounted

    @timer("round")
    def begin_round(self) -> None:
        self.number += 1
        self.greeted = {self.me: None}
        self.count("rounds")
        self.send(Greeting(self.number), None)             # a layer's own multicast does not come back to it
        self.count_if_complete()
        self.set_timer("round", self.config.round_ns)

    @receives(Greeting)
    def greeting(self, greeting: Greeting, batch: Batch) -> None:
        self.send(Thanks(greeting.number), batch.src)

    @receives(Thanks)
    def thanks(self, thanks: Thanks, batch: Batch) -> None:
        if thanks.number != self.number or batch.src not in self.members:
            return self.drop("late_thanks", batch, "another round, or not from a member", thanks)     # never in silence
        if batch.src in self.greeted:
            return None                                    # the network may duplicate messages
        self.greeted[batch.src] = None
        return self.count_if_complete()

    def count_if_complete(self) -> None:
        if len(self.greeted) == len(self.members):
            self.count("complete_rounds")
