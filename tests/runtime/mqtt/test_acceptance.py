"""Cases 6 to 8 and 10 to 13 of the acceptance with processes of `jgroups mqtt serve` in a group. design/mqtt.md has the
table of all; tests/gmqtt/test_acceptance.py has what unmodified gmqttd make of the same."""
from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.runtime.mqtt import cases
from tests.runtime.mqtt.federated import GROUP, Node, nodes, until
from tests.runtime.mqtt.processes import BrokerProcess, serving

pytestmark = [pytest.mark.real, pytest.mark.slow]


class OurNodes:
    """Nodes in a group; `with` ends them. number: that are started at once, of four that there are."""

    def __init__(self, folder: Path, number: int) -> None:
        self.nodes: list[Node] = nodes(folder, 4, GROUP)
        for node in self.nodes:                          # as the gmqttds have it; 1,000 is the default of both
            found = yaml.safe_load(node.file.read_text())
            node.file.write_text(yaml.safe_dump({**found, "mqtt": {"max_queued_messages": 100_000}}))
        self._number = number
        self._running: dict[int, BrokerProcess] = {}
        self._exits: dict[int, object] = {}

    def __enter__(self) -> OurNodes:
        for at in range(self._number):
            self.start(at)
        return self

    def __exit__(self, *_: object) -> None:
        for at in list(self._running):
            self.kill(at)

    def port(self, at: int) -> int:
        return self.nodes[at].port

    def process(self, at: int) -> subprocess.Popen[str]:
        return self._running[at].process

    def kill(self, at: int) -> None:
        self._running.pop(at).process.kill()
        self._exits.pop(at).__exit__(None, None, None)   # type: ignore[attr-defined]

    def start(self, at: int) -> None:
        context = serving("-c", str(self.nodes[at].file), listeners=2)
        self._running[at] = context.__enter__()
        self._exits[at] = context
        until(lambda: all(list(self.nodes[each].statuses().values()).count("STATUS_ALIVE") >= len(self._running)
                          for each in self._running), "all see all")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[OurNodes]:
    with OurNodes(tmp_path, 2) as made:
        yield made


@pytest.fixture
def three(tmp_path: Path) -> Iterator[OurNodes]:
    with OurNodes(tmp_path, 3) as made:
        yield made


def test_accept_6_a_node_that_is_paused_gets_all(pair: OurNodes) -> None:
    assert cases.pause(pair) == {"sent": 3_000, "arrived": 3_000, "again": 0}


def test_accept_7_a_node_that_is_killed_and_comes_back_gets_all_that_came_meanwhile(pair: OurNodes) -> None:
    found = cases.restart(pair)
    # What its process had taken and its subscriber had not read dies with it, unless sessions are replicated.
    assert found["sent"] - found["arrived"] <= 5
    assert found["again"] <= 5


def test_accept_8_binary_properties_arrive_unchanged_and_the_link_lives(pair: OurNodes) -> None:
    assert cases.binary_properties(pair) == {"sent": 10, "arrived": 10, "again": 0, "unchanged": 1}


def test_accept_10_two_groups_with_shifted_turns_get_each_message_once(three: OurNodes) -> None:
    assert cases.shifted_groups(three) == {"g": 1_000, "h": 1_000}


def test_accept_11_to_13_retained_messages(three: OurNodes) -> None:
    def late() -> int:
        three.start(3)
        return 3
    assert cases.retained(three, late) == {
        "retained": 20, "flag 1 at node 2": 20, "flag 1 at a late node": 20, "again after a restart": 0,
        "left after clears": 0}
