"""Cases 21 and 22 of MQTT's acceptance, with processes, mosquitto's clients, and a bridge through proxies that are cut.

By default the bridge is cut for SHORT_CUT_SECONDS; `--long` has the minute of the case.
"""
from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import sleep
from urllib.request import urlopen

import attrs
import pytest

from jgroups_py.cli.demo.mqtt_brokers import BrokerDemoError, BrokerSites, Publisher, Subscriber, row, wait
from jgroups_py.config.load import stacks_folder
from jgroups_py.system.free_ports import free_range
from tests.runtime.proxies import Proxy

pytestmark = pytest.mark.real

SITES = {"NYC": ("nyc1", "nyc2"), "SFO": ("sfo1", "sfo2")}
NAMES = [name for names in SITES.values() for name in names]
MESSAGES, PIECE = 10_000, 50
SHORT_CUT_SECONDS = 12.0                                 # longer than FD_ALL's patience and site_down_after
TOPIC, NOBODY = "lines", "nobody/wants"


@attrs.define
class TwoSites:
    """Four brokers and the proxies of their bridge."""

    brokers: BrokerSites
    proxies: list[Proxy]

    def cut(self, on: bool) -> None:
        """Cut the bridge, or let it heal."""
        for proxy in self.proxies:
            proxy.cut_off(on)

    def metric(self, name: str, counter: str) -> float:
        """A counter of the federation of a broker."""
        with urlopen(f"http://127.0.0.1:{self.brokers[name].rest}/metrics", timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if not line.startswith("#") and counter in line:
                    return float(line.rpartition(" ")[2])
        raise AssertionError(f"{name} has no {counter}")


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[TwoSites]:
    """All see all."""
    first = free_range(14)
    proxies = [Proxy(first + 8 + at) for at in range(4)]
    bridge = tmp_path / "bridge.xml"
    changed, removed = re.subn("<FD_SOCK[^>]*/>", "", (stacks_folder() / "bridge.xml").read_text())
    assert removed == 1, "the packaged file has changed"     # its links would not go through the proxies
    bridge.write_text(changed)
    common = {"bind_addr": "127.0.0.1", "bridge_props": bridge, "bridge_port_range": 0, "hold_dir": tmp_path / "hold",
              "bridge_external_addr": "127.0.0.1",
              "bridge_hosts": ",".join(f"127.0.0.1[{proxy.port}]" for proxy in proxies)}
    more: dict[str, dict[str, object]] = {
        name: {"bridge_port": first + 8 + at, "bridge_external_port": proxies[at].port}
        for at, name in enumerate(NAMES)}
    for at, site in enumerate(SITES):
        more[site] = {"mcast_port": first + 12 + at}
    with ExitStack() as stack:
        for proxy in proxies:
            stack.callback(proxy.close)
        brokers = stack.enter_context(BrokerSites(tmp_path, SITES, range(first, first + 8), common, more))
        brokers.start("nyc1", "sfo1")
        brokers.start("nyc2", "sfo2")
        brokers.wait_for_all()
        yield TwoSites(brokers, proxies)


def send(publisher: Publisher, number: int) -> None:
    """In pieces, so that faults fall among them."""
    for _ in range(number // PIECE):
        publisher.send(PIECE)
        sleep(0.01)


def arrived(subscriber: Subscriber, *publishers: Publisher) -> None:
    """All that was acknowledged came, once and in order."""
    wait(lambda: not sum(row(each, subscriber).lost for each in publishers), "all that was acknowledged has come")
    sleep(1)                                             # what would come twice may be later
    for each in publishers:
        found = row(each, subscriber)
        assert (found.lost, found.twice, found.disorder) == (0, 0, 0), found


def balanced(sites: TwoSites, site: str, other: str) -> dict[str, int]:
    """The ledger at a moment at which nothing is held. Brokers go on: they compare their retained messages in turn."""
    found: dict[str, int] = {}

    def nothing_is_held() -> bool:
        found.update(sites.brokers.ledger(sites.brokers.relay(site), other))
        return not found["held"]
    wait(nothing_is_held, "nothing is held")
    return found


@pytest.mark.parametrize("cut_seconds", [SHORT_CUT_SECONDS, pytest.param(60.0, marks=pytest.mark.long)])
def test_21_the_bridge_is_cut_and_relays_of_both_sites_are_killed(sites: TwoSites, cut_seconds: float):
    brokers = sites.brokers
    with ExitStack() as stack:
        subscriber = Subscriber("sub", brokers["sfo2"], TOPIC)
        stack.callback(subscriber.end)
        for name in SITES["NYC"]:
            wait(partial(brokers[name].has_interest, TOPIC), "interest")
        at_relay = Publisher("at-relay", brokers["nyc1"], TOPIC)
        other = Publisher("other", brokers["nyc2"], TOPIC)
        unwanted = Publisher("unwanted", brokers["nyc2"], NOBODY)
        for publisher in (at_relay, other, unwanted):
            stack.callback(publisher.end, waits=False)
        assert brokers.relay("NYC") == "nyc1"
        assert brokers.relay("SFO") == "sfo1"
        feeding = threading.Thread(target=send, args=(at_relay, MESSAGES), daemon=True)
        feeding.start()
        send(other, MESSAGES // 4)
        sites.cut(True)
        send(other, MESSAGES // 4)
        wait(lambda: len(other.acknowledged) == other.sent, "PUBACK waits for no other site")
        brokers["nyc1"].end()                            # kill -9, in the middle of its publisher's messages
        feeding.join()
        sleep(cut_seconds)
        assert at_relay.acknowledged, "it had acknowledged some"
        send(other, MESSAGES // 4)
        wait(lambda: len(other.acknowledged) == other.sent, "PUBACK waits for no other site")
        ledger = brokers.ledger("nyc2", "SFO")
        assert ledger["numbered"] == ledger["acknowledged"] + ledger["held"] + ledger["lost"]
        assert (ledger["held"] > MESSAGES // 4, ledger["lost"]) == (True, 0), ledger
        sites.cut(False)
        send(other, MESSAGES // 8)
        brokers["sfo1"].end()                            # the other site's relay too
        send(other, MESSAGES // 8)
        other.end()
        crossed = sites.metric("nyc2", "site_messages_sent")
        unwanted.send(1_000)
        unwanted.end()
        assert sites.metric("nyc2", "site_messages_sent") == crossed, "nothing of what nobody wants"
        assert len(other.acknowledged) == MESSAGES
        arrived(subscriber, at_relay, other)
        ledger = balanced(sites, "NYC", "SFO")
        assert (ledger["numbered"], ledger["lost"]) == (ledger["acknowledged"], 0), ledger
        assert ledger["numbered"] >= MESSAGES + len(at_relay.acknowledged), "each message has a number of its own"


def test_22_a_whole_site_is_killed_and_what_it_had_acknowledged_comes_once_it_runs_again(sites: TwoSites):
    brokers = sites.brokers
    with ExitStack() as stack:
        subscriber = Subscriber("sub", brokers["sfo2"], TOPIC)
        stack.callback(subscriber.end)
        wait(partial(brokers["nyc2"].has_interest, TOPIC), "interest")
        publisher = Publisher("pub", brokers["nyc2"], TOPIC)
        stack.callback(publisher.end, waits=False)
        send(publisher, MESSAGES // 4)
        sites.cut(True)
        send(publisher, MESSAGES // 4)
        wait(lambda: len(publisher.acknowledged) == publisher.sent, "PUBACK waits for no other site")
        for name in SITES["NYC"]:
            brokers[name].end()
        sites.cut(False)
        sleep(2)
        assert row(publisher, subscriber).lost, "some of it was on the disks of the killed site alone"
        brokers.start(*SITES["NYC"])
        arrived(subscriber, publisher)
        again = Publisher("again", brokers["nyc1"], TOPIC)
        stack.callback(again.end, waits=False)
        brokers.wait_for_all()
        send(again, 500)
        again.end()
        arrived(subscriber, publisher, again)
        ledger = balanced(sites, "NYC", "SFO")
        assert (ledger["numbered"], ledger["lost"]) == (ledger["acknowledged"], 0), ledger


def test_a_broker_that_does_not_start_says_why_at_once(tmp_path: Path):
    first = free_range(2)
    with BrokerSites(tmp_path, {"NYC": ["nyc1"]}, range(first, first + 2), {}) as brokers, \
            socket.create_server(("127.0.0.1", first)), \
            pytest.raises(BrokerDemoError, match=f"nyc1 has ended with code 2: .*port {first} is in use"):
        brokers.start("nyc1")


@pytest.mark.long
def test_the_demo_loses_nothing(tmp_path: Path):
    done = subprocess.run([sys.executable, "-m", "jgroups_py", "demo", "--mqtt", "--json", "--out", str(tmp_path)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    found = json.loads(done.stdout)
    assert [each["broker"] for each in found["incidents"]] == ["nyc1", "sfo1", "nyc1"]
    assert len(found["rows"]) == 8
    assert all(each["acknowledged"] > 0 for each in found["rows"])
    assert not sum(each["lost"] + each["twice"] + each["disorder"] for each in found["rows"])
    for log in sorted(tmp_path.glob("*.log")):
        assert "are lost for this member" not in log.read_text(), f"{log.name}: a broker that started again only joined"
