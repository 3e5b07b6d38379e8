"""The cases of paho.mqtt.testing against the server, over TCP; tests/unit has them in memory."""
from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.runtime.mqtt.kit import ANSWER_SECONDS, server
from tests.runtime.mqtt.sockets import CASES, SocketServer
from tests.unit.blocks.mqtt.conformance import SERVER_KEEP_ALIVE_S, ForbidsOneTopic, Server

pytestmark = pytest.mark.real
ALL = [(version, case) for version, cases in CASES.items() for case in cases]


@pytest.fixture
def address() -> Iterator[SocketServer]:
    """A server in a thread of its own, since the cases wait for their packets in this one."""
    loop = asyncio.new_event_loop()
    broker = server(authorizer=ForbidsOneTopic(), max_keep_alive_s=SERVER_KEEP_ALIVE_S, reveal_refusals=False)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(loop.run_forever)
        asyncio.run_coroutine_threadsafe(broker.start(), loop).result(ANSWER_SECONDS)
        yield SocketServer("127.0.0.1", broker.port)
        asyncio.run_coroutine_threadsafe(broker.stop(), loop).result(ANSWER_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        running.result(ANSWER_SECONDS)
        loop.close()
    assert broker.counters["exceptions"] == 0


@pytest.mark.parametrize(("version", "case"), ALL, ids=[f"{version}-{case.__name__}" for version, case in ALL])
def test_over_sockets(address: SocketServer, version: str, case: Callable[[Server], None]) -> None:
    case(address)
