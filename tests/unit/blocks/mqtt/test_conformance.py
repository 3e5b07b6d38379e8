"""The cases of paho.mqtt.testing against the pure core: bytes in, bytes out, and time that passes at once.

tests/runtime/mqtt runs the same cases over sockets.
"""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.blocks.mqtt import cases_3_1_1, cases_5
from tests.unit.blocks.mqtt.clients import Bench
from tests.unit.blocks.mqtt.conformance import SERVER_KEEP_ALIVE_S, ForbidsOneTopic, MemoryServer, Server

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


def test_no_case_is_missing() -> None:
    assert (len(set(cases_3_1_1.CASES)), len(set(cases_5.CASES))) == (10, 27)
