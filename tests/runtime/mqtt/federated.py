"""Nodes of a federation as processes of `jgroups mqtt serve`, by the files that people write."""
from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import attrs
import yaml

from jgroups_py.system.free_ports import free_range
from tests.runtime.mqtt.processes import BrokerProcess, serving

PATIENCE_SECONDS = 60
GROUP, GMQTT = {"stack": "tcp"}, {"retry_interval": "200ms"}


def until(holds: Callable[[], object], what: str) -> None:
    end = monotonic() + PATIENCE_SECONDS
    while not holds():
        assert monotonic() < end, what
        sleep(0.05)


def ask(port: int, path: str, body: object = None, method: str | None = None) -> Any:
    """The JSON that REST answers."""
    data = None if body is None else json.dumps(body).encode()
    wanted = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, method=method)
    with urllib.request.urlopen(wanted, timeout=30) as answer:
        return json.loads(answer.read())


def metrics(node: Node) -> str:
    """All counters."""
    with urllib.request.urlopen(f"http://127.0.0.1:{node.rest}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


@attrs.define
class Node:
    """A node as it is configured; port: of its clients, gossip: of the membership."""

    name: str
    file: Path
    port: int
    rest: int
    gossip: int

    def statuses(self) -> dict[str, str]:
        """Name -> status of the members."""
        return {each["name"]: each["status"] for each in ask(self.rest, "/v1/federation/members")["members"]}

    def peers(self) -> dict[str, Any]:
        return {each["name"]: each for each in ask(self.rest, "/v1/federation/peers")["peers"]}

    def interested(self, topic: str) -> set[str]:
        """The nodes that want a topic."""
        return {each["name"] for each in ask(self.rest, f"/v1/federation/interest?topic={topic}")["peers"]}


def nodes(folder: Path, number: int, more: dict[str, object], join: bool = True) -> list[Node]:
    """Files of nodes that know of each other, on free ports."""
    first = free_range(4 * number)
    found = []
    gossip = [f"127.0.0.1:{first + 4 * at + 2}" for at in range(number)]
    for at in range(number):
        own = first + 4 * at
        node = Node(f"node{at + 1}", folder / f"node{at + 1}.yml", own, own + 1, own + 2)
        federation: dict[str, object] = {"node_name": node.name, "gossip_addr": f"127.0.0.1:{node.gossip}", **more}
        if "stack" not in more:
            federation["fed_addr"] = f"127.0.0.1:{own + 3}"
        if join:
            federation["retry_join"] = [place for place in gossip if place != gossip[at]]
        node.file.write_text(yaml.safe_dump({
            "listeners": [{"address": f"127.0.0.1:{node.port}"}],
            "api": {"http": [{"address": f"tcp://127.0.0.1:{node.rest}"}]},
            "plugins": {"federation": federation}, "plugin_order": ["federation"], "log": {"level": "warn"}}))
        found.append(node)
    return found


@contextmanager
def running(*wanted: Node) -> Iterator[list[BrokerProcess]]:
    """These nodes, all of which see all."""
    with ExitStack() as stack:
        processes = [stack.enter_context(serving("-c", str(node.file), listeners=2)) for node in wanted]
        everyone = {node.name for node in wanted}
        until(lambda: all(set(node.statuses()) >= everyone for node in wanted), "all see all")
        yield processes
