"""Acceptance cases with real processes, the same for nodes of ours and for unmodified gmqttd: what comes of a fault.

A case returns what arrived; the tests say what ours have to give, and show what the original gave.
"""
from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from jgroups_py.blocks.mqtt.codec.packets import NO_PROPERTIES, Properties, PubAckPacket, PublishPacket
from tests.gmqtt.clients import Subscriber, program, publish, publish_lines
from tests.gmqtt.gmqttd import HOST
from tests.integration.serf_agent import until
from tests.runtime.mqtt.kit import Client

BINARY = b"\xff\xfe\x80"
SETTLE_SECONDS = 3.0
"""After the last message that came, nothing more is waited for, if all are here."""
PATIENCE_SECONDS = 20.0
"""The same if some are missing."""


class Nodes(Protocol):
    """Nodes of one federation, by number. process(at) is the running one."""

    def port(self, at: int) -> int: ...

    def process(self, at: int) -> subprocess.Popen[object]: ...

    def kill(self, at: int) -> None: ...

    def start(self, at: int) -> None:
        """Start it, again too, until it takes connections and all see all."""


def reached(nodes: Nodes, source: int, subscriber: Subscriber, topic: str) -> None:
    """Until what is published at a node comes to a subscriber elsewhere; these messages begin with "probe"."""
    def came() -> bool:
        publish(nodes.port(source), topic, f"probe {source}")
        return any(line.endswith(f"probe {source}") for line in list(subscriber.lines))
    until(came, f"what {subscriber.lines[:3]} wants is known at node {source}")


def messages(subscriber: Subscriber, expected: int = 0) -> list[str]:
    """What came but for probes, once nothing more comes."""
    before, since = -1, time.monotonic()
    while True:
        got = [line.partition(" ")[2] for line in list(subscriber.lines) if " probe" not in line]
        if len(got) != before:
            before, since = len(got), time.monotonic()
        if time.monotonic() - since > (SETTLE_SECONDS if len(got) >= expected else PATIENCE_SECONDS):
            return got
        time.sleep(0.05)


def summary(got: list[str], sent: int) -> dict[str, int]:
    """How many of the numbers 0, 1, 2 ... came, and how many came again."""
    numbers = Counter(got)
    return {"sent": sent, "arrived": sum(str(at) in numbers for at in range(sent)),
            "again": sum(number - 1 for number in numbers.values())}


def pause(nodes: Nodes, number: int = 3_000, seconds: float = 8.0) -> dict[str, int]:
    """Case 6: node 2 is stopped while messages of QoS 1 are published at node 1."""
    with Subscriber(nodes.port(1), "case/6", "-q", "1", "-v") as subscriber:
        reached(nodes, 0, subscriber, "case/6")
        nodes.process(1).send_signal(signal.SIGSTOP)
        resume = threading.Timer(seconds, nodes.process(1).send_signal, (signal.SIGCONT,))
        resume.start()
        publish_lines(nodes.port(0), "case/6", [str(at) for at in range(number)], "-q", "1")
        resume.join()
        return summary(messages(subscriber, number), number)


def restart(nodes: Nodes, number: int = 3_000, rate: int = 330) -> dict[str, int]:
    """Case 7: node 2 is killed and started again 2 s later; its subscriber asked to keep its session."""
    with Subscriber(nodes.port(1), "case/7", "-q", "1", "-c", "-i", "case7", "-v") as subscriber:
        reached(nodes, 0, subscriber, "case/7")
        feed = subprocess.Popen([program("mosquitto_pub"), "-h", HOST, "-p", str(nodes.port(0)), "-t", "case/7", "-q",
                                 "1", "-l"], stdin=subprocess.PIPE, text=True)

        def publish_at_rate() -> None:
            assert feed.stdin is not None
            for at in range(number):
                feed.stdin.write(f"{at}\n")
                feed.stdin.flush()
                time.sleep(1 / rate)
            feed.stdin.close()
        publisher = threading.Thread(target=publish_at_rate)
        publisher.start()
        time.sleep(number / rate / 3)
        nodes.kill(1)
        time.sleep(2)
        nodes.start(1)                                   # here: a child ends with the thread that started it
        publisher.join()
        assert feed.wait(60) == 0
        return summary(messages(subscriber, number), number)


def binary_properties(nodes: Nodes, number: int = 10) -> dict[str, int]:
    """Case 8: correlation data that is no UTF-8, and messages behind it."""
    async def body() -> list[PublishPacket]:
        async with Client(nodes.port(0)) as publisher, Client(nodes.port(1)) as subscriber:
            await publisher.connect("case8 publisher")
            await subscriber.connect("case8 subscriber")
            await subscriber.subscribe("case/8", 1)
            got: list[PublishPacket] = []

            async def read() -> None:
                while True:
                    packet = await subscriber.next()
                    assert isinstance(packet, PublishPacket)
                    subscriber.write(*([PubAckPacket(packet.packet_id)] if packet.qos else []))
                    got.append(packet)
            reader = asyncio.create_task(read())
            while not got:
                publisher.write(PublishPacket("case/8", b"probe"))
                await asyncio.sleep(0.1)
            for at in range(number):
                properties = NO_PROPERTIES if at else Properties(correlation_data=BINARY)
                publisher.write(PublishPacket("case/8", str(at).encode(), 1, packet_id=at + 1, properties=properties))
                await publisher.get(PubAckPacket)
            await asyncio.sleep(SETTLE_SECONDS)
            reader.cancel()
            return [packet for packet in got if packet.payload != b"probe"]
    got = asyncio.run(body())
    return {**summary([packet.payload.decode() for packet in got], number),
            "unchanged": sum(packet.properties.correlation_data == BINARY for packet in got)}


def shifted_groups(nodes: Nodes, number: int = 1_000) -> dict[str, int]:
    """Case 10: groups g and h with members at nodes 2 and 3, whose turns are shifted by one message."""
    with ExitStack() as stack:
        g = [stack.enter_context(Subscriber(nodes.port(at), "$share/g/case/10", "-q", "1", "-v")) for at in (1, 2)]
        probe = [stack.enter_context(Subscriber(nodes.port(at), "case/probe", "-v")) for at in (1, 2)]
        for each in probe:
            reached(nodes, 0, each, "case/probe")
        publish(nodes.port(0), "case/10", "first", "-q", "1")
        h = [stack.enter_context(Subscriber(nodes.port(at), "$share/h/case/10", "-q", "1", "-v")) for at in (1, 2)]
        probe = [stack.enter_context(Subscriber(nodes.port(at), "case/probe2", "-v")) for at in (1, 2)]
        for each in probe:
            reached(nodes, 0, each, "case/probe2")
        publish_lines(nodes.port(0), "case/10", [str(at) for at in range(number)], "-q", "1")
        return {name: sum(line != "first" for each in group for line in messages(each))
                for name, group in (("g", g), ("h", h))}


def retained(nodes: Nodes, late: Callable[[], int], number: int = 20) -> dict[str, int]:
    """Cases 11 to 13: flags of late subscribers at node 2 and at a node that joins then (`late` starts it and gives its
    number), what a clear brings, and what an old subscriber gets when node 3 starts again."""
    with Subscriber(nodes.port(1), "case/11/#", "-q", "1", "-v") as old:
        reached(nodes, 0, old, "case/11/probe")
        for at in range(number):
            publish(nodes.port(0), f"case/11/{at}", str(at), "-r", "-q", "1")
        assert len(messages(old)) == number
        flags = {}
        for name, at in (("node2", 1), ("late", late())):
            with Subscriber(nodes.port(at), "case/11/#", "-q", "1", "-F", "%t %r") as subscriber:
                flags[name] = messages(subscriber).count("1")
        nodes.kill(2)
        nodes.start(2)
        again = len(messages(old)) - number
        for at in range(number):
            publish(nodes.port(0), f"case/11/{at}", None, "-r", "-q", "1")
        time.sleep(SETTLE_SECONDS)
        with Subscriber(nodes.port(1), "case/11/#", "-q", "1", "-v") as after:
            left = len(messages(after))
        return {"retained": number, "flag 1 at node 2": flags["node2"], "flag 1 at a late node": flags["late"],
                "again after a restart": again, "left after clears": left}
