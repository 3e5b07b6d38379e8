"""Two unmodified nodes, as their README starts them: what everything else here is compared with."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.gmqtt.clients import Subscriber, publish
from tests.gmqtt.gmqttd import Gmqttd, statuses
from tests.integration.serf_agent import until

pytestmark = pytest.mark.gmqtt


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Gmqttd, Gmqttd]]:
    with ExitStack() as stack:
        one = stack.enter_context(Gmqttd("node1", tmp_path))
        two = stack.enter_context(Gmqttd("node2", tmp_path, join=[one.gossip]))
        alive = {"node1": "STATUS_ALIVE", "node2": "STATUS_ALIVE"}
        until(lambda: statuses(one.rest) == alive == statuses(two.rest), "both see both")
        yield one, two


def test_the_quick_start(pair: tuple[Gmqttd, Gmqttd]) -> None:
    one, two = pair
    with Subscriber(two.port, "topicA", "-C", "1") as subscriber:
        publish(two.port, "other", "nothing")
        until(lambda: publish(one.port, "topicA", "123") or subscriber.lines, "the subscription reaches node1")
        assert subscriber.wait_for(1) == ["123"]
