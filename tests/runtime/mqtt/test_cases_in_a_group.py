"""Cases 3 to 5, 9, 14, 16 and 17 of the acceptance with processes of `jgroups mqtt serve` in a group, whose links pass
through proxies: these keep what crosses, reset connections and cut nodes off. design/mqtt.md has the table of all."""
from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import attrs
import paho.mqtt.client as paho
import pytest
import yaml

from jgroups_py.blocks.mqtt.codec.packets import DisconnectPacket, PubAckPacket, PublishPacket, ReasonCode
from tests.gmqtt.clients import Subscriber, publish, publish_lines
from tests.runtime.mqtt.federated import GROUP, Node, ask, metrics, nodes, running, until
from tests.runtime.mqtt.kit import Client
from tests.runtime.mqtt.processes import BrokerProcess
from tests.runtime.proxies import Proxy
from tests.unit.blocks.mqtt.filters import FILTERS

pytestmark = [pytest.mark.real, pytest.mark.slow]


@attrs.define
class Group:
    """Nodes that run. links, watched: the proxies through which the others reach them, of messages and of FD_SOCK."""

    nodes: list[Node]
    processes: list[BrokerProcess]
    links: list[Proxy]
    watched: list[Proxy]

    def counter(self, at: int, name: str) -> int:
        """Of the federation of a node."""
        found = [line for line in metrics(self.nodes[at]).splitlines()
                 if line.startswith(f"jgroups_mqtt_federation_{name}_total ")]
        return int(found[0].split()[1])

    def knows(self, at: int, topic: str, *others: int) -> None:
        """Until node `at` knows that these others, and no more, want a topic."""
        until(lambda: self.nodes[at].interested(topic) == {self.nodes[each].name for each in others},
              f"node{at + 1} knows who wants {topic}")

    def cut_off(self, at: int, on: bool) -> None:
        """Cut a node off: the others reach it no more, nor does it reach them."""
        for each in range(len(self.nodes)):
            if len(self.nodes) == 2 or each == at:
                for proxy in (self.links[each], self.watched[each]):
                    proxy.cut_off(on)


@contextmanager
def group(folder: Path, number: int) -> Iterator[Group]:
    """Nodes that see each other, each through its proxies."""
    with ExitStack() as stack:
        found = nodes(folder, number, GROUP, join=False)
        links = [Proxy(node.gossip, keeps=True) for node in found]
        watched = [Proxy(node.gossip + 1) for node in found]
        for proxy in (*links, *watched):
            stack.callback(proxy.close)
        for node, link, watch in zip(found, links, watched, strict=True):
            written = yaml.safe_load(node.file.read_text())
            written["plugins"]["federation"] |= {
                "advertise_gossip_addr": f"127.0.0.1:{link.port}",
                "retry_join": [f"127.0.0.1:{other.port}" for other in links if other is not link],
                "properties": [f"watch_port={node.gossip + 1}", f"watch_external_port={watch.port}"]}
            written["mqtt"] = {"max_queued_messages": 100_000, "sys_interval": "0s" if node is found[-1] else "1s"}
            node.file.write_text(yaml.safe_dump(written))
        yield Group(found, stack.enter_context(running(*found)), links, watched)


def test_accept_3_filters_of_one_node_and_topics_of_another(tmp_path: Path) -> None:
    with group(tmp_path, 2) as pair:
        one, two = pair.nodes
        for number, (filter, topic, matches) in enumerate(FILTERS):
            last = f"last/{number}"
            with Subscriber(two.port, filter, "-q", "1", "-t", last, "-v") as subscriber:
                pair.knows(0, last, 1)
                publish(one.port, topic, "x", "-q", "1")
                publish(one.port, last, "x", "-q", "1")
                until(partial(subscriber.lines.count, f"{last} x"), "the message behind it")
                assert (f"{topic} x" in subscriber.lines) is matches, (filter, topic)
        # What a node publishes below $SYS is of that node alone, and "#" does not match it.
        with Subscriber(one.port, "$SYS/#", "-v") as own, Subscriber(two.port, "$SYS/#", "-v") as other, \
                Subscriber(one.port, "#", "-v") as everything:
            own.wait_for(1)
            publish(two.port, "ready", "x", "-q", "1")
            until(partial(everything.lines.count, "ready x"), "the message")
            assert (other.lines, everything.lines) == ([], ["ready x"])


def test_accept_4_nothing_crosses_that_nobody_wants_and_interest_crosses_at_the_first_and_the_last(
    tmp_path: Path,
) -> None:
    with group(tmp_path, 3) as three:
        told = three.counter(1, "interest_sent")
        with Subscriber(three.nodes[1].port, "economy/wanted") as first:
            three.knows(0, "economy/wanted", 1)
            with Subscriber(three.nodes[1].port, "economy/wanted") as second:
                publish_lines(three.nodes[0].port, "economy/wanted", [f"wanted {at}" for at in range(1_000)], "-q", "1")
                assert len(first.wait_for(1_000)) == len(second.wait_for(1_000)) == 1_000
            sleep(0.5)
            assert three.counter(1, "interest_sent") == told + 1, "the second subscriber of a filter is no news"
        three.knows(0, "economy/wanted")
        assert three.counter(1, "interest_sent") == told + 2, "the last one that goes is"
        publish_lines(three.nodes[0].port, "economy/wanted", [f"unwanted {at}" for at in range(1_000)], "-q", "1")
        assert (three.counter(0, "messages_sent"), three.counter(1, "messages_received"),
                three.counter(2, "messages_received")) == (1_000, 1_000, 0)
        # What crossed: each message once to the node that wants it, none to the other one.
        to_second, to_third = bytes(three.links[1].bytes_in), bytes(three.links[2].bytes_in)
        assert [to_second.count(b"wanted %d" % at) for at in (0, 500, 999)] == [1, 1, 1]
        assert (b"wanted 999" in to_third, b"unwanted" in to_second) == (False, False)
        assert to_third.count(b"economy/wanted") == 2, "the filter crossed when it was set and when it was removed"


def test_accept_5_ten_thousand_messages_under_twenty_resets(tmp_path: Path) -> None:
    number, cuts = 10_000, 20
    with group(tmp_path, 2) as pair, Subscriber(pair.nodes[1].port, "down", "-q", "1") as there:
        pair.knows(0, "down", 1)
        life = pair.nodes[0].peers()["node2"]["session"]

        def publish_all() -> None:
            for begin in range(0, number, 100):
                publish_lines(pair.nodes[0].port, "down", [str(begin + at) for at in range(100)], "-q", "1")
        publisher = threading.Thread(target=publish_all)
        publisher.start()
        broken = 0
        for cut in range(cuts):
            goal = (cut + 1) * number // (cuts + 2)
            until(lambda goal=goal: len(there.lines) >= goal, f"{goal} messages")
            broken += sum(link.reset() for link in pair.links)
        publisher.join()
        assert broken >= cuts, "connections were open whenever they were to be reset"
        assert list(map(int, there.wait_for(number))) == list(range(number))
        sleep(1)                                         # what came twice
        assert len(there.lines) == number
        peer = pair.nodes[0].peers()["node2"]
        assert (peer["session"], peer["accepted"], peer["dropped"]) == (life, number, {})


@pytest.mark.parametrize(("members", "number"), [((3, 3), 12_000), ((1, 3), 2_000)], ids=["3 and 3", "1 and 3"])
def test_accept_9_shared_subscriptions_are_exact_and_fair_over_nodes(
    members: tuple[int, int], number: int, tmp_path: Path,
) -> None:
    with group(tmp_path, 2) as pair, ExitStack() as stack:
        subscribers = [stack.enter_context(Subscriber(pair.nodes[at].port, "$share/g/jobs", "-q", "1"))
                       for at, count in enumerate(members) for _ in range(count)]
        until(lambda: shared_at(pair.nodes[0]) == {"node2"}, "that node is known to have members")
        sleep(1)                                         # how many, too
        publish_lines(pair.nodes[0].port, "jobs", [str(at) for at in range(number)], "-q", "1")
        until(lambda: sum(len(each.lines) for each in subscribers) >= number, "all have come")
        sleep(0.5)                                       # what comes twice
        got = [list(each.lines) for each in subscribers]
        assert Counter(line for lines in got for line in lines) == Counter(str(at) for at in range(number)), \
            "each message has gone to exactly one member"
        fair = number / sum(members)
        assert all(abs(len(lines) - fair) <= 0.05 * fair for lines in got), list(map(len, got))


def shared_at(node: Node) -> set[str]:
    """Other nodes with members of the group of this test."""
    return {name for each in ask(node.rest, "/v1/explain?topic=jobs")["shared"] for name in each["nodes"]}


def test_accept_14_retained_messages_that_were_written_in_two_halves_have_one_winner(tmp_path: Path) -> None:
    with group(tmp_path, 2) as pair:
        one, two = pair.nodes
        publish(one.port, "kept/cleared", "before", "-r", "-q", "1")
        until(lambda: retained(two) == {"kept/cleared": "before"}, "both have it")
        pair.cut_off(1, True)
        until(lambda: not one.peers()["node2"]["alive"] and not two.peers()["node1"]["alive"], "two halves")
        for at in range(20):
            publish((one, two)[at % 2].port, f"kept/{at}", f"first {at}", "-r", "-q", "1")
            publish((two, one)[at % 2].port, f"kept/{at}", f"second {at}", "-r", "-q", "1")
        publish(two.port, "kept/cleared", None, "-r", "-q", "1")
        pair.cut_off(1, False)
        wanted = {f"kept/{at}": f"second {at}" for at in range(20)}
        until(lambda: retained(one) == retained(two) == wanted, "the later write of each topic is everywhere")


def retained(node: Node) -> dict[str, str]:
    """Topic -> payload, as a client that subscribes now gets them."""
    with Subscriber(node.port, "kept/#", "-q", "1", "-v") as subscriber:
        publish(node.port, "kept/last", "x", "-q", "1")
        until(lambda: "kept/last x" in subscriber.lines, "the message behind them")
        pairs = [line.split(" ", 1) for line in subscriber.lines if not line.startswith("kept/last")]
        return {topic: payload for topic, payload in pairs if payload}


def test_accept_16_a_client_id_on_two_nodes(tmp_path: Path) -> None:
    number = 1_000

    async def body(pair: Group) -> None:
        one, two = pair.nodes
        async with Client(one.port) as old, Client(two.port) as new:
            await old.connect("twice", clean_start=False, properties={"session_expiry_interval": 600})
            await old.subscribe("queue", 1)
            old.writer.transport.abort()                 # it goes; its messages wait
            await asyncio.to_thread(pair.knows, 1, "queue", 0)
            await asyncio.to_thread(publish_lines, two.port, "queue", [str(at) for at in range(number)], "-q", "1")
            async with Client(one.port) as back:
                assert (await back.connect("twice", clean_start=False, properties={
                    "session_expiry_interval": 600, "receive_maximum": 10})).session_present
                began = monotonic()
                assert (await new.connect("twice", clean_start=False, properties={
                    "session_expiry_interval": 600})).session_present
                said = None
                while not isinstance(said, DisconnectPacket):
                    said = await back.next()             # behind what it had been sent
                    assert said is not None, "the connection is closed with a reason"
                assert said.reason is ReasonCode.SESSION_TAKEN_OVER
                assert monotonic() - began <= 1
            got: list[int] = []
            again = 0
            while len(got) < number:
                message = await new.get(PublishPacket)
                new.write(PubAckPacket(message.packet_id))
                if message.dup:
                    again += 1                           # it had been sent to the first connection
                got.append(int(message.payload))
            assert got == list(range(number))
            assert again <= 10, "what the first connection had been sent comes again, with DUP"
    with group(tmp_path, 2) as pair:
        asyncio.run(body(pair))


class PahoClient:
    """A client of paho that connects again by itself, through a proxy. got: payloads; done: acknowledged in full."""

    def __init__(self, name: str, port: int) -> None:
        self.got: list[bytes] = []
        self.done = 0
        self.subscribed = threading.Event()
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
        self.client.reconnect_delay_set(1, 1)
        self.client.max_inflight_messages_set(20)
        self.client.on_message = lambda _, __, message: self.got.append(message.payload)
        self.client.on_publish = self._published
        self.client.on_subscribe = lambda *_: self.subscribed.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _published(self, *_: object) -> None:
        self.done += 1

    def end(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def test_accept_17_qos_2_through_two_nodes_with_cuts_on_both_sides(tmp_path: Path) -> None:
    number, cuts = 2_000, 6
    with group(tmp_path, 2) as pair, ExitStack() as stack:
        to_one, to_two = Proxy(pair.nodes[0].port), Proxy(pair.nodes[1].port)
        for proxy in (to_one, to_two):
            stack.callback(proxy.close)
        subscriber = PahoClient("exactly", to_two.port)
        stack.callback(subscriber.end)
        subscriber.client.subscribe("once", 2)
        assert subscriber.subscribed.wait(30)
        pair.knows(0, "once", 1)
        publisher = PahoClient("publisher", to_one.port)
        stack.callback(publisher.end)
        for at in range(number):
            publisher.client.publish("once", str(at), 2)
        broken = Counter[str]()
        for cut in range(cuts):
            goal = (cut + 1) * number // (cuts + 2)
            until(lambda goal=goal: len(subscriber.got) >= goal, f"{goal} messages")
            broken.update(publisher=to_one.reset(), subscriber=to_two.reset(), link=pair.links[cut % 2].reset())
        until(lambda: publisher.done == number and len(subscriber.got) >= number, "all have come")
        sleep(1)                                         # what comes twice
        assert min(broken[side] for side in ("publisher", "subscriber", "link")) >= cuts // 2, broken
        assert Counter(subscriber.got) == Counter(b"%d" % at for at in range(number)), "exactly once"
        assert list(map(int, subscriber.got)) == list(range(number)), "and in order"

