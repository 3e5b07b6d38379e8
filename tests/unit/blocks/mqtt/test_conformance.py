"""The cases of paho.mqtt.testing against the pure core: bytes in, bytes out, and time that passes at once.

tests/runtime/mqtt runs the same cases over sockets.
"""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.blocks.mqtt import cases_3_1_1, cases_5
from tests.unit.blocks.mqtt.clients import SECOND, Bench
from tests.unit.blocks.mqtt.conformance import SERVER_KEEP_ALIVE_S, ForbidsOneTopic, MemoryServer, Server
from tests.unit.blocks.mqtt.federation_world import FederationWorld

STEP_S = 0.01
Case = Callable[[Server], None]


def memory() -> MemoryServer:
    return MemoryServer(Bench(authorizer=ForbidsOneTopic(), max_keep_alive_s=SERVER_KEEP_ALIVE_S,
                              reveal_refusals=False))


@pytest.mark.parametrize("case", cases_3_1_1.CASES, ids=lambda case: case.__name__)
def test_3_1_1(case: Case) -> None:
    case(memory())


@pytest.mark.parametrize("case", cases_5.CASES, ids=lambda case: case.__name__)
def test_5(case: Case) -> None:
    case(memory())


class NodeBench:
    """A node of a federation of three in the place of a broker alone: see clients.Bench."""

    def __init__(self, name: str) -> None:
        self.world = FederationWorld("ABC", broker={
            "max_keep_alive_s": SERVER_KEEP_ALIVE_S, "reveal_refusals": False}, authorizer=ForbidsOneTopic())
        self.node = self.world.nodes[name]
        self.broker, self.clients, self.numbers = self.node.broker, self.node.clients, 0

    @property
    def now_ns(self) -> int:
        return self.world.now_ns

    def settle(self) -> None:
        self.node.settle()

    def wait(self, seconds: float) -> None:
        self.world.run(seconds)

    def step(self, end_ns: int) -> bool:
        """A little time passes; False if it was over before."""
        if self.now_ns >= end_ns:
            return False
        self.world.run(min(STEP_S, (end_ns - self.now_ns) / SECOND))
        return True


@pytest.mark.parametrize("name", ["A", "B", "C"])
@pytest.mark.parametrize("case", [*cases_3_1_1.CASES, *cases_5.CASES], ids=lambda case: case.__name__)
def test_on_each_node_of_a_federation(case: Case, name: str) -> None:
    case(MemoryServer(NodeBench(name)))                  # type: ignore[arg-type]


def test_no_case_is_missing() -> None:
    assert (len(set(cases_3_1_1.CASES)), len(set(cases_5.CASES))) == (10, 27)
