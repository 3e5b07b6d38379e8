"""What clients cost the core: 10,000 idle ones are to fit into 250 MB with their sockets, so 5,000 bytes each here.

Measured with sockets, 10,000 idle clients with a subscription each make a process of 80 MB (design/mqtt.md).
"""
from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from jgroups_py.blocks.mqtt.codec.packets import ConnectPacket, SubscribePacket, Subscription
from tests.unit.blocks.mqtt.clients import V3, V5, Bench

pytestmark = pytest.mark.slow
CLIENTS = 500
IDLE_BYTES = 5_000
QUEUED_BYTES = 60
"""For a message that many sessions queue, in each of them: a place in a queue and in the table of packet ids."""


def grown(work: Callable[[], object]) -> int:
    """Bytes that stay."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def connect_all(bench: Bench, version: int) -> None:
    """Clients with a keep-alive and a subscription of their own."""
    for number in range(CLIENTS):
        bench.broker.connected(number, bench.now_ns, f"127.0.0.1:{number}")
        bench.broker.received(number, (
            ConnectPacket(f"client{number}", V3 if version == 4 else V5, keep_alive_s=60),
            SubscribePacket(1, (Subscription(f"devices/{number}/set", 1), Subscription("all", 1)))), bench.now_ns)
        bench.broker.drain()


@pytest.mark.parametrize("version", [V3, V5])
def test_an_idle_client_is_small(version):
    bench = Bench()
    assert grown(lambda: connect_all(bench, version)) / CLIENTS < IDLE_BYTES
    assert len(bench.broker.sessions) == CLIENTS


def test_sessions_share_a_message_that_they_queue():
    bench = Bench()
    connect_all(bench, V5)
    for number in range(CLIENTS):
        bench.broker.write_blocked(number)
    bench.broker.publish("all", b"first", 1, False, bench.now_ns)
    messages = 20

    def publish() -> None:
        for number in range(messages):
            bench.broker.publish("all", b"%d" % number + b"x" * 10_000, 1, False, bench.now_ns)

    assert grown(publish) / messages < 12_000 + CLIENTS * QUEUED_BYTES
    assert all(len(session.queue) == messages + 1 for session in bench.broker.sessions.values())
    assert not bench.broker.drain()
