"""send(until=...) on real sockets: threads and asyncio, both ends of a relay failover, sites that are gone."""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import monotonic, sleep

import pytest

import jgroups_py as jg
from jgroups_py.channel.aio import AsyncChannel
from jgroups_py.model.batch import NO_RELAY, NO_RELIABILITY
from jgroups_py.system.free_ports import free_range
from tests.integration.members import free_ports

pytestmark = pytest.mark.real

STACKS = Path(__file__).parents[2] / "stacks"
PATIENCE_SECONDS = 120.0
SITES = {"nyc": "AB", "sfo": "CDE"}


class Log:
    """Payloads in the order delivered."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    def receive(self, message: jg.Message) -> None:
        self.got.append(message.payload)


class Sites:
    """Two sites in this process."""

    def __init__(self) -> None:
        first = free_range(10)
        bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name": f"bridge-{first}"}
        self.properties = {site: {**free_ports(site), **bridge} for site in SITES}
        self.logs: dict[str, Log] = {}
        self.channels: dict[str, jg.JChannel] = {}
        for site, names in SITES.items():
            for name in names:
                self.start(site, name)
        self.settle()

    def start(self, site: str, name: str) -> jg.JChannel:
        self.logs[name] = Log()
        channel = jg.JChannel(str(STACKS / f"{site}.xml"), name=name, properties=self.properties[site],
                              receiver=self.logs[name])
        self.channels[name] = channel
        channel.connect(site)
        return channel

    def settle(self) -> None:
        """Wait until all members have all in their global view."""
        wanted = {site.upper(): len(names) for site, names in SITES.items()}
        until = monotonic() + PATIENCE_SECONDS
        while any(channel.global_view is None or
                  {site: len(members) for site, members in channel.global_view.sites.items()} != wanted
                  for channel in self.channels.values()):
            assert monotonic() < until, {name: str(channel.global_view) for name, channel in self.channels.items()}
            sleep(0.01)

    def kill(self, name: str) -> None:
        """As if its process were killed: its sockets are closed without a word."""
        channel = self.channels.pop(name)
        assert channel._session is not None
        channel._session.host.kill("killed by the test")

    def close(self) -> None:
        for channel in self.channels.values():
            channel.close()


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    with ExitStack() as stack:
        found = Sites()
        stack.callback(found.close)
        yield found


@pytest.mark.parametrize("until", ["stable@SFO", "stable", "stable@*", ["stable", "stable@SFO"]])
def test_when_send_returns_every_member_has_the_message(sites: Sites, until: str | list[str]) -> None:
    payload = f"until {until}".encode()
    for name in "AB":
        sites.channels[name].send(None, payload + name.encode(), until=until, timeout=PATIENCE_SECONDS)
        # What a stack has, its application gets next; it may have to be waited for by a thread switch or two.
        deadline = monotonic() + PATIENCE_SECONDS
        names = {"stable": "AB", "stable@SFO": "CDE"}.get(str(until), "ABCDE")
        while not all(payload + name.encode() in sites.logs[other].got for other in names):
            assert monotonic() < deadline
            sleep(0.001)


def test_handled_names_the_members_whose_receivers_have_returned(sites: Sites) -> None:
    for until, names in (("handled", "AB"), ("handled@SFO", "CDE"), (["stable", "handled@*"], "ABCDE")):
        payload = f"handled {until}".encode()
        receipt = sites.channels["B"].send(payload, until=until, timeout=PATIENCE_SECONDS)
        assert sorted(member.name for member in receipt.members) == sorted(names)
        assert (receipt.left, receipt.failed) == ((), ())
        assert all(payload in sites.logs[name].got for name in names)


def test_a_receipt_takes_some_ways_between_sites_and_waits_for_no_timer(sites: Sites) -> None:
    """Compared with the time that a message takes from B over both relays to E, in the same run: on a busy machine that
    is more, too. A timer that is in the way would cost its interval each time, whatever the machine does."""
    took, ways = [], []
    for number in range(30):
        began = monotonic()
        sites.channels["B"].send(None, b"timed %d" % number, until="stable@SFO", timeout=PATIENCE_SECONDS)
        took.append(monotonic() - began)
        way, began = b"on its way %d" % number, monotonic()
        sites.channels["B"].send(None, way)
        while way not in sites.logs["E"].got:
            assert monotonic() - began < PATIENCE_SECONDS
            sleep(0.0002)
        ways.append(monotonic() - began)
    assert median(took) < 0.05 + 10 * median(ways), "an interval of some timer is in the way"


def test_many_threads_may_wait_at_once(sites: Sites) -> None:
    errors: list[Exception] = []

    def talk(name: str) -> None:
        try:
            for number in range(20):
                sites.channels[name].send(None, b"%d" % number, until="stable@*", timeout=PATIENCE_SECONDS)
        except Exception as error:       # noqa: BLE001  for the assertion below
            errors.append(error)
    threads = [threading.Thread(target=talk, args=(name,)) for name in "AABBCDE"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_callback_may_wait_for_a_receipt(sites: Sites) -> None:
    channel, done = sites.channels["B"], threading.Event()

    def receive(message: jg.Message) -> None:
        if message.payload == b"question":
            channel.send(None, b"answered", until="stable@SFO", timeout=PATIENCE_SECONDS)
            done.set()
    channel.receiver = receive
    sites.channels["A"].send(None, b"question")
    assert done.wait(PATIENCE_SECONDS)
    channel.receiver = sites.logs["B"]


def test_what_cannot_be_waited_for_is_refused_and_nothing_is_sent(sites: Sites) -> None:
    channel = sites.channels["A"]
    assert channel.view is not None
    with pytest.raises(jg.UnknownSiteError, match=r"no site 'LON' is known; this one is 'NYC', others: SFO"):
        channel.send(None, b"refused", until="stable@LON")
    with pytest.raises(ValueError, match=r"'everywhere': until is 'stable'"):
        channel.send(None, b"refused", until="everywhere")
    with pytest.raises(ValueError, match="dest None"):
        channel.send(channel.view.members[1], b"refused", until="stable")
    with pytest.raises(ValueError, match="NO_RELIABILITY"):
        channel.send(None, b"refused", NO_RELIABILITY, until="stable")
    with pytest.raises(ValueError, match="does not leave its site"):
        channel.send(None, b"refused", NO_RELAY, until="stable@SFO")
    channel.send(None, b"sent", until="stable@*", timeout=PATIENCE_SECONDS)
    assert not any(b"refused" in log.got for log in sites.logs.values())


def test_a_stack_without_relay_has_receipts_of_its_group_alone() -> None:
    with jg.JChannel("udp", properties=free_ports("udp")) as channel:
        channel.connect("alone")
        assert channel.send(None, b"", until="stable").members == (channel.me,)
        with pytest.raises(ValueError, match="needs RELAY"):
            channel.send(None, b"", until="stable@SFO")


def test_coroutines_wait_too() -> None:
    async def talk(first: int) -> None:
        bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name": f"bridge-{first}"}
        async with AsyncChannel(str(STACKS / "nyc.xml"), name="A", properties={**free_ports("nyc"), **bridge}) as ch, \
                AsyncChannel(str(STACKS / "sfo.xml"), name="D", properties={**free_ports("sfo"), **bridge}) as other:
            await ch.connect("nyc")
            await other.connect("sfo")
            async with asyncio.timeout(PATIENCE_SECONDS):
                while "SFO" not in ch.sites or "NYC" not in other.sites:
                    await asyncio.sleep(0.01)
            await asyncio.gather(*[ch.send(None, b"%d" % number, until="stable@SFO", timeout=PATIENCE_SECONDS)
                                   for number in range(200)])
            await other.disconnect()
            with pytest.raises(jg.ReceiptError):
                await ch.send(None, b"to no member", until="stable@SFO", timeout=0.5)
    asyncio.run(talk(free_range(10)))


def test_receipts_come_across_the_death_of_both_relays_and_end_with_the_channel() -> None:
    sites = Sites()
    origin, got, errors = sites.channels["B"], list[int](), list[Exception]()

    def talk() -> None:
        try:
            for number in range(10_000):
                origin.send(None, b"%d" % number, until="stable@SFO", timeout=PATIENCE_SECONDS)
                got.append(number)
        except jg.ChannelError as error:
            errors.append(error)
    thread = threading.Thread(target=talk)
    thread.start()
    try:
        for name in "AC":
            before = len(got)
            while len(got) < before + 20:
                assert thread.is_alive(), errors
                sleep(0.01)
            sites.kill(name)
        before, until = len(got), monotonic() + PATIENCE_SECONDS
        while len(got) < before + 20:
            assert thread.is_alive(), errors
            assert monotonic() < until
            sleep(0.01)
        received = len(got)
        for name in "DE":
            while len(sites.logs[name].got) < received:    # stable: a member has it, and its receiver gets it soon
                assert monotonic() < until
                sleep(0.01)
            assert [int(payload) for payload in sites.logs[name].got][:received] == list(range(received))
        for name in "DE":
            sites.kill(name)                              # no member of the site is left to confirm anything
        sleep(0.2)
        origin.close()
        thread.join(PATIENCE_SECONDS)
        [error] = errors
        assert isinstance(error, jg.ReceiptError | jg.NotConnectedError)
        assert getattr(error, "outcome", "unknown") == "unknown"
    finally:
        sites.close()
