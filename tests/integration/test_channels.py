"""Channels on the packaged stacks: in one process, through a proxy, on asyncio, with a large state."""
from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import ExitStack
from time import monotonic

import pytest

import jgroups_py as jg
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.cli.member import rss_mb
from jgroups_py.system.free_ports import free_range
from tests.integration.members import free_ports
from tests.runtime.helpers import PATIENCE_SECONDS, eventually
from tests.runtime.proxies import Proxy

pytestmark = [pytest.mark.real, pytest.mark.slow]
STACKS = ("udp", "tcp")
ROUND_TRIPS = 20


class Keeper(jg.Receiver):
    """Counts messages; has a state of random blocks and its digest."""

    def __init__(self, blocks: int = 0) -> None:
        self.blocks = blocks
        self.messages: list[bytes] = []
        self.digest = ""
        self.largest_mb = 0.0

    def receive(self, message: jg.Message) -> None:
        self.messages.append(message.payload)

    def get_state(self, stream):
        digest, block = hashlib.blake2b(), os.urandom(1 << 20)
        for _ in range(self.blocks):
            stream.write(block)
            digest.update(block)
        self.digest = digest.hexdigest()

    def set_state(self, stream):
        digest = hashlib.blake2b()
        while data := stream.read(1 << 16):
            digest.update(data)
            self.largest_mb = max(self.largest_mb, rss_mb())
        self.digest = digest.hexdigest()


@pytest.mark.parametrize("stack", STACKS)
def test_two_channels_of_one_process_are_two_members(stack):
    properties = free_ports(stack)
    with ExitStack() as open_channels:
        a, b = (open_channels.enter_context(jg.JChannel(stack, name, properties, Keeper())) for name in "AB")
        a.connect("chat")
        b.connect("chat")
        for channel in (a, b):
            eventually(lambda channel=channel: sorted(map(str, channel.view.members)) == ["A", "B"])
        b.send(None, b"to all")
        b.send(a.address, b"to A")
        eventually(lambda: sorted(a.receiver.messages) == [b"to A", b"to all"] and b.receiver.messages == [b"to all"])


@pytest.mark.parametrize("stack", STACKS)
def test_closing_takes_less_than_a_second_for_the_coordinator_too(stack):
    """On a busy machine: less than a second more than some round trips in this group take in this run."""
    properties = free_ports(stack)
    a, b, c = (jg.JChannel(stack, name, properties, Keeper()).connect("chat") for name in "ABC")
    start = monotonic()
    for number in range(ROUND_TRIPS):
        c.send(None, b"%d" % number)
        eventually(lambda number=number: all(len(each.receiver.messages) > number for each in (a, b, c)))
    busy_s = monotonic() - start
    for channel in (a, c, b):
        start = monotonic()
        channel.close()
        assert monotonic() - start < 1 + busy_s


def test_a_join_that_was_given_up_leaves_no_trace():
    properties = free_ports("udp")
    with jg.JChannel("udp", "A", properties) as a, jg.JChannel("udp", "B", properties) as b:
        with pytest.raises(jg.JoinTimeoutError):
            a.connect("chat", timeout=0.02)
        b.connect("chat")
        a.connect("chat")
        eventually(lambda: b.view is not None and [str(member) for member in b.view.members] == ["B", "A"])


@pytest.mark.parametrize("stack", STACKS)
def test_a_state_larger_than_all_buffers_passes_in_bounded_memory(stack):
    properties = free_ports(stack)
    with jg.JChannel(stack, "A", properties, Keeper(100)) as a, jg.JChannel(stack, "B", properties, Keeper()) as b:
        a.connect("chat")
        before_mb = rss_mb()
        b.connect("chat", timeout=30, state_from=jg.COORDINATOR)
        assert b.receiver.digest == a.receiver.digest != ""
        assert b.receiver.largest_mb < before_mb + 60, "a state of 100 MB passes in pieces, through both members"


def test_members_behind_tcp_proxies_form_a_group():
    first = free_range(4)
    with ExitStack() as opened:
        proxies = [opened.enter_context(Proxy(first + number)) for number in range(2)]
        hosts = ",".join(f"127.0.0.1[{proxy.port}]" for proxy in proxies)
        channels = []
        for number, proxy in enumerate(proxies):
            spec = jg_stack(first + number, proxy.port, hosts)
            channels.append(opened.enter_context(jg.JChannel(spec, "AB"[number], receiver=Keeper())))
            channels[-1].connect("chat")
        eventually(lambda: len(channels[1].view) == 2)
        channels[1].send_batch(None, [bytes(1000)] * 2000)
        eventually(lambda: len(channels[0].receiver.messages) == 2000)


def jg_stack(bind_port: int, external_port: int, hosts: str) -> list[object]:
    """tcp.xml as a list, with an external port."""
    return [("TCP", {"bind_addr": "127.0.0.1", "bind_port": bind_port, "port_range": 0,
                     "external_addr": "127.0.0.1", "external_port": external_port}),
            ("TCPPING", {"initial_hosts": hosts, "port_range": 0}),
            "MERGE3", "FD_ALL", "VERIFY_SUSPECT", "NAKACK", "UNICAST", "STABLE", ("GMS", {"join_timeout": "1s"}),
            "MFC", "UFC", "FRAG"]


def test_asyncio_and_threads_meet_in_one_group():
    properties = free_ports("udp")

    async def test() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), AsyncChannel("udp", "A", properties) as a:
            await a.connect("chat")
            got = []
            async for message in a:
                got.append(message.payload)
                if len(got) == 3000:
                    break
            assert got == [str(number).encode() for number in range(3000)]

    async def both() -> None:
        reader = asyncio.create_task(test())
        with jg.JChannel("udp", "B", properties) as b:
            await asyncio.to_thread(b.connect, "chat")
            while b.view is None or len(b.view) < 2:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(b.send_batch, None, [str(number).encode() for number in range(3000)])
            await reader

    asyncio.run(both())
