"""The cases of paho.mqtt.testing over sockets on each node of a federation: three brokers in a group, on loopback.

The brokers run in an event loop of their own thread, and the cases of all nodes at once, since most of their time is
that of intervals of the standard. A watcher at each node wants every topic, so all that the cases publish crosses
between the nodes, and with `ack=peers` their PUBACKs wait for it. tests/unit/blocks/mqtt/test_conformance.py has the
cases in memory, tests/runtime/mqtt/test_conformance.py on a broker alone.
"""
from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import pytest

from jgroups_py.blocks.mqtt.broker.options import BrokerOptions
from jgroups_py.blocks.mqtt.federation.core import FederationCore
from jgroups_py.blocks.mqtt.node.group import GroupFederation
from jgroups_py.blocks.mqtt.node.node import BrokerNode
from jgroups_py.blocks.mqtt.server.config import read_broker_file
from jgroups_py.blocks.mqtt.server.listen import ListenAddress
from tests.integration.members import free_ports
from tests.runtime.mqtt.kit import V5
from tests.runtime.mqtt.sockets import CASES, SocketServer
from tests.unit.blocks.mqtt.conformance import SERVER_KEEP_ALIVE_S, Client, ForbidsOneTopic, Server

NODES = ("node1", "node2", "node3")
ALL = [(node, version, case) for node in NODES for version, cases in CASES.items() for case in cases]
PATIENCE_SECONDS = 60
THREADS = 12
"""Most cases take some milliseconds and six take seconds, at each node; more would be in each other's way."""

pytestmark = pytest.mark.real
Key = tuple[str, str, str]


@attrs.frozen
class Federation:
    """Three nodes that know each other. outcomes: of the cases, which have all begun."""

    cores: dict[str, FederationCore]
    outcomes: dict[Key, Future[None]]


@asynccontextmanager
async def three_nodes() -> AsyncIterator[dict[str, BrokerNode]]:
    properties = [f"{name}={value}" for name, value in free_ports("tcp").items()]
    nodes: dict[str, BrokerNode] = {}
    async with AsyncExitStack() as stack:
        for name in NODES:
            section = {"node_name": name, "stack": "tcp", "cluster": "conformance", "properties": properties}
            file, _ = read_broker_file(json.dumps(
                {"plugin_order": ["federation"], "plugins": {"federation": section}}), f"{name}.yml")
            options = BrokerOptions(node_name=name, sys_interval_s=0, max_keep_alive_s=SERVER_KEEP_ALIVE_S,
                                    reveal_refusals=False)
            nodes[name] = await stack.enter_async_context(
                BrokerNode(file, options, [ListenAddress("127.0.0.1", 0)], ForbidsOneTopic()))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not all(len(core_of(node).names_ready()) == len(NODES) - 1 for node in nodes.values()):
                await asyncio.sleep(0.02)
        yield nodes


def core_of(node: BrokerNode) -> FederationCore:
    assert isinstance(node.federation, GroupFederation)
    return node.federation.core


@pytest.fixture(scope="module")
def federation() -> Iterator[Federation]:
    """All cases begin at once, and a test waits for the one that it is about."""
    loop, stack = asyncio.new_event_loop(), AsyncExitStack()

    def on_loop(what: object) -> object:
        return asyncio.run_coroutine_threadsafe(what, loop).result(PATIENCE_SECONDS)       # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as thread, ThreadPoolExecutor(THREADS) as threads:
        running = thread.submit(loop.run_forever)
        try:
            nodes: dict[str, BrokerNode] = on_loop(stack.enter_async_context(three_nodes()))   # type: ignore[assignment]
            ports = {name: node.server.port for name, node in nodes.items()}
            watchers = [Client(SocketServer("127.0.0.1", port), f"watcher-{name}", V5) for name, port in ports.items()]
            for watcher in watchers:
                watcher.connect()
                watcher.subscribe("#", qos=1)
            outcomes = {(node, version, case.__name__): threads.submit(
                case, SocketServer("127.0.0.1", ports[node], f"{node}-{version[0]}-{case.__name__}/"))
                for node, version, case in ALL}
            yield Federation({name: core_of(node) for name, node in nodes.items()}, outcomes)
            for watcher in watchers:
                watcher.cut()
            exceptions = sum(node.server.counters["exceptions"] for node in nodes.values())
        finally:
            on_loop(stack.aclose())
            loop.call_soon_threadsafe(loop.stop)
            running.result(PATIENCE_SECONDS)
            loop.close()
    assert not exceptions


@pytest.mark.parametrize(("node", "version", "case"), ALL,
                         ids=[f"{node}-{version}-{case.__name__}" for node, version, case in ALL])
def test_on_each_node(federation: Federation, node: str, version: str, case: Callable[[Server], None]) -> None:
    federation.outcomes[node, version, case.__name__].result(PATIENCE_SECONDS)


def test_what_the_cases_published_crossed_between_the_nodes(federation: Federation) -> None:
    """Else they would have been on three brokers and not on a federation."""
    for outcome in federation.outcomes.values():
        outcome.exception(PATIENCE_SECONDS)
    for name, core in federation.cores.items():
        acknowledged = {peer.name: peer.stream.total_acknowledged for peer in core.peers.values()}
        assert set(acknowledged) == set(NODES) - {name}
        assert all(number > 100 for number in acknowledged.values()), (name, acknowledged)
