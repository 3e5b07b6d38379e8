"""Members that come amid ordered writers, with a state: state and later messages are each message once."""
from __future__ import annotations

import asyncio
from typing import Any

import pytest

import jgroups_py as jg
from jgroups_py.aio import AsyncChannel
from jgroups_py.model.units import millis, seconds
from jgroups_py.testing.simulation.refusals import simulated
from tests.simulator.code_bench import Bench

WRITERS = "ABC"
NEWCOMERS = 100
PAUSE_S = 0.01                             # between two writes of a writer
KEYS = 50


class Table(jg.Receiver):
    """A dict that is written by messages "WRITER NUMBER". written: all of them, in the order of delivery; those before
    a state came are part of it."""

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self.written: list[bytes] = []
        self.state_at = -1                                   # the length of the state that was set

    def receive(self, message: jg.Message) -> None:
        self.written.append(message.payload)
        self.values[int(message.payload.split()[1]) % KEYS] = message.payload

    def get_state(self, stream: Any) -> None:
        stream.write(b"\n".join(self.written))

    def set_state(self, stream: Any) -> None:
        lines = stream.read().split(b"\n")
        self.written, self.values, self.state_at = [], {}, len(lines)
        for line in lines:
            self.receive(jg.Message(None, line))


@pytest.mark.long
@pytest.mark.slow
def test_accept_7_a_hundred_newcomers_have_the_others_dict_at_the_same_place() -> None:
    tables: dict[str, Table] = {}
    ready: list[str] = []

    async def app(ch: AsyncChannel) -> None:
        assert ch.name is not None
        ch.receiver = tables[ch.name] = Table()
        await ch.connect("tables", state_from=None if ch.name == WRITERS[0] else jg.COORDINATOR)
        ready.append(ch.name)
        number = 0
        while ch.name in WRITERS:
            await ch.send(None, b"%s %d" % (ch.name.encode(), number))
            number += 1
            await asyncio.sleep(PAUSE_S)
        await asyncio.sleep(0.08)
        await ch.close()

    with simulated("newcomers"):
        bench = Bench(app, "", "udp-total")
        try:
            for writer in WRITERS:
                bench.start(writer)
                bench.until(lambda: writer in ready)         # noqa: B023
            for number in range(NEWCOMERS):
                name = f"N{number}"
                bench.start(name)
                bench.until(lambda: name in ready)           # noqa: B023
                bench.stage.run_for(millis(100))             # it hears further writes, and leaves
            bench.stage.run_for(seconds(1))
        finally:
            bench.stage.dispose()
    whole = tables[WRITERS[0]].written
    assert len(whole) == len(set(whole)) > 10 * NEWCOMERS, "a message was delivered twice, or the writers stood still"
    for name, table in tables.items():
        assert table.written == whole[:len(table.written)], f"{name} has another sequence than {WRITERS[0]}"
        expected: dict[int, bytes] = {}
        for line in whole[:len(table.written)]:
            expected[int(line.split()[1]) % KEYS] = line
        assert table.values == expected, f"{name} has another dict at the same place"
        if name not in WRITERS:
            assert 0 < table.state_at < len(table.written), f"{name} heard nothing after its state"
