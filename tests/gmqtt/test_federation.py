"""Acceptance case 23: a node of ours among two unmodified gmqttd v0.5.0 that know nothing of us."""
from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep

import pytest

from jgroups_py.system.free_ports import free_range
from tests.gmqtt.clients import Subscriber, publish, publish_lines
from tests.gmqtt.gmqttd import Gmqttd, rest, statuses
from tests.gmqtt.our_node import OurNode
from tests.integration.serf_agent import until

pytestmark = pytest.mark.gmqtt
Three = tuple[Gmqttd, Gmqttd, OurNode]
ALIVE, LEFT, FAILED = "STATUS_ALIVE", "STATUS_LEFT", "STATUS_FAILED"


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    """Two of gmqttd, and ours, which joins one of them; all streams are there."""
    with ExitStack() as stack:
        one = stack.enter_context(Gmqttd("node1", tmp_path))
        two = stack.enter_context(Gmqttd("node2", tmp_path, join=[one.gossip]))
        ours = stack.enter_context(OurNode("ours", tmp_path, join=[one.gossip]))
        until(lambda: all(statuses(node.rest) == dict.fromkeys(("node1", "node2", "ours"), ALIVE)
                          for node in (one, two, ours)), "all see all")
        until(lambda: linked(ours, "node1", "node2"), f"all streams are there; the log: {ours.log}")
        yield one, two, ours


def peers(node: OurNode) -> dict[str, dict[str, object]]:
    return {peer["name"]: peer for peer in rest(node.rest, "GET", "/v1/federation/peers").json["peers"]}


def linked(node: OurNode, *names: str) -> bool:
    """Whether streams go both ways with each of these, and all that was sent is acknowledged."""
    found = peers(node)
    return all(name in found and found[name]["state"] == "streaming" and found[name]["incoming_stream"]
               and not found[name]["unacknowledged"] and not found[name]["queued"] for name in names)


def knows(node: OurNode, topic: str, *names: str) -> bool:
    """Whether a node of ours knows that these want a topic."""
    found = rest(node.rest, "GET", f"/v1/federation/interest?topic={topic}").json["peers"]
    return {peer["name"] for peer in found} == set(names)


def reaches(port: int, topic: str, subscriber: Subscriber) -> None:
    """Publish until the subscription has come there; afterwards only what is published then arrives."""
    until(lambda: publish(port, topic, "probe") or "probe" in subscriber.lines, f"{topic} gets through")
    publish(port, topic, "last probe", "-q", "1")
    until(lambda: "last probe" in subscriber.lines, "the last probe")
    subscriber.lines.clear()


def test_accept_23_messages_go_both_ways(three: Three) -> None:
    one, two, ours = three
    with Subscriber(ours.port, "up/#", "-q", "1") as here, Subscriber(two.port, "down/+", "-q", "1") as there:
        until(lambda: knows(ours, "down/x", "node2") and linked(ours, "node1", "node2"), "interest")
        reaches(one.port, "up/a", here)
        publish_lines(one.port, "up/a", [str(number) for number in range(1_000)], "-q", "1")
        publish_lines(ours.port, "down/x", [str(number) for number in range(1_000)], "-q", "1")
        publish(ours.port, "elsewhere", "nobody wants it", "-q", "1")
        assert here.wait_for(1_000) == [str(number) for number in range(1_000)]
        assert there.wait_for(1_000) == [str(number) for number in range(1_000)]
    until(lambda: knows(ours, "down/x"), "the interest ends")
    assert (peers(ours)["node2"]["accepted"], peers(ours)["node1"]["accepted"]) == (1_000, 0)


def test_accept_23_properties_of_version_5(three: Three) -> None:
    one, two, ours = three
    shown = ("-V", "5", "-F", "%p %C %D %F %R %P")
    properties = [word for each in (("content-type", "text"), ("correlation-data", "corr"), ("response-topic", "re"),
                                    ("payload-format-indicator", "1"), ("user-property", "k", "v"))
                  for word in ("-D", "publish", *each)]
    with Subscriber(ours.port, "up", *shown) as here, Subscriber(two.port, "down", *shown) as there:
        until(lambda: knows(ours, "down", "node2") and linked(ours, "node1", "node2"), "interest")
        reaches_v5(one.port, "up", here)
        publish(one.port, "up", "message", "-V", "5", *properties)
        publish(ours.port, "down", "message", "-V", "5", *properties)
        assert here.wait_for(1) == there.wait_for(1) == ["message text corr 1 re k:v"]


def reaches_v5(port: int, topic: str, subscriber: Subscriber) -> None:
    until(lambda: publish(port, topic, "probe") or subscriber.lines, "probe")
    publish(port, topic, "last", "-q", "1")
    until(lambda: any(line.startswith("last") for line in subscriber.lines), "the last probe")
    subscriber.lines.clear()


def test_accept_23_shared_subscriptions_over_three_nodes(three: Three) -> None:
    one, _, ours = three
    with ExitStack() as stack:
        members = [stack.enter_context(Subscriber(node.port, "$share/g/work", "-q", "1")) for node in three]
        until(lambda: knows(ours, "work", "node1", "node2") and linked(ours, "node1", "node2"), "interest")
        sleep(1)                                             # node1 learns of node2; nothing there shows it
        publish_lines(ours.port, "work", [str(number) for number in range(300)], "-q", "1")
        until(lambda: sum(len(member.lines) for member in members) >= 300, "300 messages")
        assert sorted(int(line) for member in members for line in member.lines) == list(range(300))
        assert [len(member.lines) for member in members] == [100, 100, 100]
        for member in members:
            member.lines.clear()
        publish_lines(one.port, "work", [str(number) for number in range(300)], "-q", "1")
        until(lambda: sum(len(member.lines) for member in members) >= 300, "300 messages of node1")
        assert sorted(int(line) for member in members for line in member.lines) == list(range(300))
        assert min(len(member.lines) for member in members) == 100


def test_accept_23_retained_messages(three: Three) -> None:
    one, _, ours = three
    publish(ours.port, "kept/ours", "1", "-r", "-q", "1")
    publish(one.port, "kept/theirs", "2", "-r", "-q", "1")
    until(lambda: rest(ours.rest, "GET", "/v1/retained?filter=kept/theirs").json["retained"], "it comes to ours")
    for node in three:
        with Subscriber(node.port, "kept/+", "-v") as late:
            assert sorted(late.wait_for(2)) == ["kept/ours 1", "kept/theirs 2"]
    publish(one.port, "kept/theirs", None, "-r", "-q", "1")
    until(lambda: not rest(ours.rest, "GET", "/v1/retained?filter=kept/theirs").json["retained"], "it is cleared")
    with Subscriber(ours.port, "kept/+", "-v") as late, Subscriber(ours.port, "end") as end:
        publish(ours.port, "end", "x")
        end.wait_for(1)
        assert late.wait_for(1) == ["kept/ours 1"]


def test_accept_23_a_node_that_joins_later_gets_retained_messages(three: Three, tmp_path: Path) -> None:
    one, _, ours = three
    publish(ours.port, "kept/ours", "1", "-r", "-q", "1")
    with Gmqttd("node4", tmp_path, join=[one.gossip]) as four:
        until(lambda: linked(ours, "node4"), "streams")
        with Subscriber(four.port, "kept/+", "-v") as late:
            assert late.wait_for(1) == ["kept/ours 1"]


def test_accept_23_a_will_comes_once(three: Three) -> None:
    one, _, ours = three
    will = ("--will-topic", "will", "--will-payload", "gone", "--will-qos", "1")
    for publisher, subscriber in ((ours, one), (one, ours)):
        with Subscriber(subscriber.port, "will", "-q", "1") as watching:
            if subscriber is one:
                until(lambda: knows(ours, "will", "node1"), "interest")
            else:
                reaches(one.port, "will", watching)
            with Subscriber(publisher.port, "nothing", *will) as dying:
                dying.kill()
            assert watching.wait_for(1) == ["gone"]
            publish(publisher.port, "will", "after", "-q", "1")
            assert watching.wait_for(2) == ["gone", "after"]


def test_accept_23_leave_kill_and_force_leave(three: Three) -> None:
    one, two, ours = three
    began = monotonic()
    ours.kill()
    until(lambda: one.status_of("ours") == FAILED, "node1 sees it")
    assert monotonic() - began < 15
    assert rest(one.rest, "POST", "/v1/federation/force_leave", {"node_name": "ours"}).body == b"{}"
    until(lambda: one.status_of("ours") == two.status_of("ours") == LEFT, "it has left")
    ours.start()
    until(lambda: one.status_of("ours") == two.status_of("ours") == ALIVE, "it is back")
    until(lambda: linked(ours, "node1", "node2"), "streams")
    two.kill()
    until(lambda: ours.status_of("node2") == FAILED, "ours sees it")
    assert rest(ours.rest, "POST", "/v1/federation/force_leave", {"node_name": "node2"}).body == b"{}"
    until(lambda: one.status_of("node2") == ours.status_of("node2") == LEFT, "it has left")
    until(lambda: "node2" not in peers(ours), "it is forgotten")
    began = monotonic()
    assert rest(ours.rest, "POST", "/v1/federation/leave", {}).body == b"{}"
    until(lambda: one.status_of("ours") == LEFT, "node1 sees that it left")
    assert monotonic() - began < 10
    assert ours.status_of("ours") == LEFT


def test_a_node_that_ends_has_left(three: Three) -> None:
    one, two, ours = three
    ours.stop()
    until(lambda: one.status_of("ours") == two.status_of("ours") == LEFT, "it has left")


def test_a_gmqttd_that_is_paused_gets_all_that_was_acknowledged_meanwhile(three: Three) -> None:
    one, _, ours = three
    with Subscriber(one.port, "down", "-q", "1") as there:
        until(lambda: knows(ours, "down", "node1") and linked(ours, "node1"), "interest")
        assert one.process is not None
        os.kill(one.process.pid, signal.SIGSTOP)
        try:
            publish_lines(ours.port, "down", [str(number) for number in range(3_000)], "-q", "1")
            until(lambda: ours.status_of("node1") == FAILED, "it counts as failed")
        finally:
            os.kill(one.process.pid, signal.SIGCONT)
        got = there.wait_for(3_000)
        assert sorted(set(map(int, got))) == list(range(3_000))


def test_x4_a_dead_link_of_gmqttd_is_healed(three: Three) -> None:
    one, _, ours = three
    with Subscriber(ours.port, "up", "-q", "1") as here:
        reaches(one.port, "up", here)
        deadly = ("-V", "5", "-D", "publish", "correlation-data", b"\xff\xfe\x80".decode("latin-1"))
        deadly_bytes = [*deadly[:-1], "\udcff\udcfe\udc80"]
        publish(one.port, "up", "deadly", *deadly_bytes)
        publish(one.port, "up", "lost", "-q", "1")
        until(lambda: "leaves Serf and joins again" in ours.log, "the healing begins")
        until(lambda: publish(one.port, "up", "healed", "-q", "1") or "healed" in here.lines, "it goes on")
        assert not {"deadly", "lost"} & set(here.lines)


def test_nodes_of_a_group_among_gmqttds_get_everything_once(tmp_path: Path) -> None:
    first = free_range(20)
    keys = {"stack": "tcp", "gmqtt": True, "properties": [
        f"bind_port={first}", "port_range=19", f"initial_hosts=127.0.0.1[{first}]"]}
    with ExitStack() as stack:
        one = stack.enter_context(Gmqttd("node1", tmp_path))
        ours = [stack.enter_context(OurNode(name, tmp_path, join=[one.gossip], **keys)) for name in ("ours1", "ours2")]
        until(lambda: all(linked(node, "node1") and len(peers(node)) == 2 for node in ours), "all links are there")
        everyone = [stack.enter_context(Subscriber(node.port, "t", "-q", "1")) for node in (one, *ours)]
        members = [stack.enter_context(Subscriber(node.port, "$share/g/work", "-q", "1")) for node in (one, *ours)]
        until(lambda: all(len(rest(node.rest, "GET", f"/v1/federation/interest?topic={topic}").json["peers"]) == 2
                          for node in ours for topic in ("t", "work")), "interest")
        until(lambda: publish(one.port, "t", "probe") or all("probe" in each.lines for each in everyone), "probes")
        publish(one.port, "t", "last probe", "-q", "1")
        until(lambda: all("last probe" in each.lines for each in everyone), "the last probe")
        for each in everyone:
            each.lines.clear()
        for number, node in enumerate((one, *ours, one)):
            publish(node.port, "t", str(number), "-q", "1")
        for each in everyone:
            assert sorted(each.wait_for(4)) == ["0", "1", "2", "3"]
        for node in ours:
            publish_lines(node.port, "work", [f"{node.name} {number}" for number in range(150)], "-q", "1")
        until(lambda: sum(len(each.lines) for each in members) >= 300, "300 messages")
        assert sorted(line for each in members for line in each.lines) == sorted(
            f"{node.name} {number}" for node in ours for number in range(150))
        assert [len(each.lines) for each in members] == [100, 100, 100]
