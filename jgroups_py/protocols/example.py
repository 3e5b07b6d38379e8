"""EXAMPLE: counts the rounds in which every member answered an echo request. A template: copy it, rename it, fill it.

A module's head states the problem that the protocol solves, the idea, the place in the stack, the source and the
deviations from it. Here: which members of the group answer? Each member multicasts a numbered echo request on a timer;
a member that receives it replies by unicast; a round in which all members of the view replied is counted as complete.
Requests and replies may be lost; they are not repeated, as the next round begins soon. Place: anywhere above the
transport and below GMS (it observes views on their way down) or above (on their way up). Source: ICMP echo (RFC 792),
for a group. See also design/protocols/example.md, and tests/unit/protocols/test_example.py, which runs this file.
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
    """A field's doc states what raising and lowering it costs. A stack file sets it by <EXAMPLE round="2s"/>."""

    round_ns: int = duration("1s", least="1ms", doc="Time from one round of echo requests to the next. Lower notices "
                             "an unresponsive member sooner and sends more.")


@wire.header(proto=30, kind=1)
class EchoRequest(Header):
    """To all: round `number` of the source begins; each member replies."""

    number: int = wire.field(wire.U64)


@wire.header(proto=30, kind=2)
class EchoReply(Header):
    """Answer to the EchoRequest of round `number`."""

    number: int = wire.field(wire.U64)


class Example(Protocol):
    """See the module. Methods stand in this order: start, up and down if needed, events, timers, headers, helpers."""

    Config = ExampleConfig
    config: ExampleConfig
    COUNTERS = declare(
        counter("rounds", "Rounds that were begun."),
        counter("complete_rounds", "Rounds in which every member replied."),
        drop("late_replies", "Replies to a round that is over, or of a process outside the view."),
    )

    def start(self) -> None:
        self.members: tuple[Address, ...] = ()
        self.number = 0                                    # of the current round, 0: none yet
        self.replied: dict[Address, None] = {}             # members that replied in it; a dict, for its order

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.members = event.view.members
        self.set_timer("round", self.config.round_ns)      # a round that was under way ends uncounted

    @timer("round")
    def begin_round(self) -> None:
        self.number += 1
        self.replied = {self.me: None}
        self.count("rounds")
        self.send(EchoRequest(self.number), None)          # a layer's own multicast does not loop back to it
        self.count_if_complete()
        self.set_timer("round", self.config.round_ns)

    @receives(EchoRequest)
    def on_request(self, header: EchoRequest, batch: Batch) -> None:
        self.send(EchoReply(header.number), batch.src)

    @receives(EchoReply)
    def on_reply(self, header: EchoReply, batch: Batch) -> None:
        if header.number != self.number or batch.src not in self.members:
            # Input that does not fit is counted, with the reason for the log: never ignored in silence.
            return self.drop("late_replies", batch, "another round, or not from a member", header)
        if batch.src in self.replied:
            return None                                    # the network may duplicate messages
        self.replied[batch.src] = None
        return self.count_if_complete()

    def count_if_complete(self) -> None:
        if len(self.replied) == len(self.members):
            self.count("complete_rounds")
