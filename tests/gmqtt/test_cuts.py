"""Acceptance case 5 at the link to gmqttd: connections reset under traffic lose nothing and double nothing."""
from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from jgroups_py.system.free_ports import free_range
from tests.chaos.toxiproxy import Server, add_toxic, port_of
from tests.gmqtt.clients import Subscriber, publish_lines
from tests.gmqtt.gmqttd import HOST, Gmqttd, rest
from tests.gmqtt.our_node import OurNode
from tests.gmqtt.test_federation import knows, linked, peers
from tests.integration.serf_agent import until

pytestmark = pytest.mark.gmqtt
MESSAGES, CUTS = 10_000, 20


def count(node: OurNode, name: str) -> int:
    """A counter of the link."""
    lines = rest(node.rest, "GET", "/metrics").body.decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"jgroups_mqtt_federation_{name}_total "))


def test_accept_5_twenty_resets_under_ten_thousand_messages(tmp_path: Path) -> None:
    with ExitStack() as stack:
        proxies = stack.enter_context(Server())
        fed = free_range(host=HOST)
        proxy = proxies.proxy("node1", fed)
        one = stack.enter_context(Gmqttd("node1", tmp_path, fed=fed, advertised=port_of(proxy)))
        ours = stack.enter_context(OurNode("ours", tmp_path, join=[one.gossip]))
        until(lambda: linked(ours, "node1"), "streams")
        there = stack.enter_context(Subscriber(one.port, "down", "-q", "1"))
        until(lambda: knows(ours, "down", "node1"), "interest")
        session = peers(ours)["node1"]["session_id"]

        def publish() -> None:
            for begin in range(0, MESSAGES, 100):
                publish_lines(ours.port, "down", [str(begin + at) for at in range(100)], "-q", "1")
        publisher = threading.Thread(target=publish)
        publisher.start()
        for cut in range(CUTS):
            goal = (cut + 1) * MESSAGES // (CUTS + 2)
            until(lambda goal=goal: len(there.lines) >= goal, f"{goal} messages")
            proxies.bid(lambda: add_toxic(proxy, "reset_peer", "upstream", {"timeout": 0}))
            until(lambda cut=cut: count(ours, "streams_ended") > cut, "the stream breaks")
            proxies.reset()
            until(lambda: peers(ours)["node1"]["state"] == "streaming", "the stream is back")
        publisher.join()
        assert list(map(int, there.wait_for(MESSAGES))) == list(range(MESSAGES))
        until(lambda: linked(ours, "node1"), "all is acknowledged")
        peer = peers(ours)["node1"]
        assert count(ours, "clean_starts") == 1
        assert (peer["session_id"], peer["accepted"], peer["dropped"]) == (session, MESSAGES, {})
