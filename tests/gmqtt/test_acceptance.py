"""What unmodified gmqttd v0.5.0 make of cases 5 to 8 and 10 to 13: the other column of the table in design/mqtt.md.

They are races: a case is printed (`pytest -s`), and asserted only where the original did the same in every trial.
"""
from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jgroups_py.system.free_ports import free_range
from tests.chaos.toxiproxy import Server, add_toxic, port_of
from tests.gmqtt.clients import Subscriber, publish_lines
from tests.gmqtt.gmqttd import HOST, Gmqttd, statuses
from tests.integration.serf_agent import until
from tests.runtime.mqtt import cases

pytestmark = pytest.mark.gmqtt


class Gmqttds:
    """Unmodified nodes; `with` ends them."""

    def __init__(self, folder: Path, number: int, first: Gmqttd | None = None) -> None:
        self.folder = folder
        self.nodes = [first or Gmqttd("node1", folder)]
        while len(self.nodes) < number:
            self.add()

    def add(self) -> Gmqttd:
        """One more, not started."""
        self.nodes.append(Gmqttd(f"node{len(self.nodes) + 1}", self.folder, join=[self.nodes[0].gossip]))
        return self.nodes[-1]

    def __enter__(self) -> Gmqttds:
        for at in range(len(self.nodes)):
            self.start(at)
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()

    def port(self, at: int) -> int:
        return self.nodes[at].port

    def process(self, at: int) -> subprocess.Popen[bytes]:
        process = self.nodes[at].process
        assert process is not None
        return process

    def kill(self, at: int) -> None:
        self.nodes[at].kill()

    def start(self, at: int) -> None:
        self.nodes[at].start()
        running = [node for node in self.nodes if node.process is not None]
        until(lambda: all(list(statuses(node.rest).values()).count("STATUS_ALIVE") >= len(running) for node in running),
              "all see all")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Gmqttds]:
    with Gmqttds(tmp_path, 2) as made:
        yield made


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Gmqttds]:
    with Gmqttds(tmp_path, 3) as made:
        yield made


def show(case: str, found: object) -> None:
    """For the table."""
    sys.stderr.write(f"\ngmqttd, {case}: {found}\n")


def test_accept_5_resets(tmp_path: Path) -> None:
    number, cuts = 10_000, 20
    with Server() as proxies:
        fed = free_range(host=HOST)
        proxy = proxies.proxy("node2", fed)
        with Gmqttds(tmp_path, 1) as made:
            join = [made.nodes[0].gossip]
            made.nodes.append(Gmqttd("node2", tmp_path, join=join, fed=fed, advertised=port_of(proxy)))
            made.start(1)
            with Subscriber(made.port(1), "case/5", "-q", "1", "-v") as subscriber:
                cases.reached(made, 0, subscriber, "case/5")
                feed = threading.Thread(target=publish_lines, args=(
                    made.port(0), "case/5", [str(at) for at in range(number)], "-q", "1"))
                feed.start()
                for _ in range(cuts):
                    proxies.bid(lambda: add_toxic(proxy, "reset_peer", "upstream", {"timeout": 0}))
                    threading.Event().wait(0.15)
                    proxies.reset()
                feed.join()
                found = cases.summary(cases.messages(subscriber, number), number)
    show("5", found)
    assert found["arrived"] <= number


def test_accept_6_a_node_that_is_paused(pair: Gmqttds) -> None:
    found = cases.pause(pair)
    show("6", found)
    assert found["arrived"] < found["sent"], "the original loses what was acknowledged meanwhile"


def test_accept_7_a_node_that_is_killed_and_comes_back(pair: Gmqttds) -> None:
    found = cases.restart(pair)
    show("7", found)
    assert found["arrived"] < found["sent"]


def test_accept_8_binary_properties(pair: Gmqttds) -> None:
    found = cases.binary_properties(pair)
    show("8", found)
    assert found["arrived"] == 0, "the link is dead for good"


def test_accept_10_two_groups_with_shifted_turns(three: Gmqttds) -> None:
    found = cases.shifted_groups(three)
    show("10", found)
    assert min(found.values()) >= 1_000


def test_accept_11_to_13_retained_messages(three: Gmqttds) -> None:
    def late() -> int:
        three.add()
        three.start(3)
        return 3
    found = cases.retained(three, late)
    show("11 to 13", found)
    assert found["flag 1 at node 2"] == 0, "the flag is lost at every node"
