"""`jgroups demo --mqtt`: MQTT brokers of two sites whose relays are killed, and mosquitto's clients."""
from __future__ import annotations

import json
import tempfile
import threading
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import attrs

from jgroups_py.cli.demo.mqtt_brokers import (
    BrokerDemoError,
    BrokerSites,
    DeliveryCount,
    Publisher,
    Subscriber,
    row,
    tool,
)
from jgroups_py.cli.showing import complain, show
from jgroups_py.system.free_ports import free_ports

SITES = {"NYC": ("nyc1", "nyc2"), "SFO": ("sfo1", "sfo2")}
TOPIC = "demo/lines"
RATE, MOST_RATE = 200, 2_000                             # a second; mosquitto_pub numbers 65,535 messages
SECONDS = 24.0                                           # of traffic
KILL_FIRST, KILL_SECOND, BACK, KILL_BROKER = 0.2, 0.45, 0.6, 0.8   # parts of it
TURN_SECONDS = 0.02
ARRIVAL_SECONDS = 60.0
MULTICAST = "239.8.8.8"


def run(args: Namespace) -> int:
    """0: what was acknowledged came once and in order, and the ledger says so; 1: not; 2: something is missing."""
    shown = (lambda text: None) if args.json else lambda text: show(text)
    try:
        tool("mosquitto_pub"), tool("mosquitto_sub")
        folder = Path(args.out or tempfile.mkdtemp(prefix="jgroups-demo-mqtt-"))
        found = perform(folder, min(args.rate or RATE, MOST_RATE), shown)
    except BrokerDemoError as error:
        complain(f"jgroups demo: {error}")
        return 1 if "needed" not in str(error) else 2
    except KeyboardInterrupt:
        complain("jgroups demo: interrupted; all brokers were ended")
        return 130
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        show(*as_lines(found))
    return int(not found["ok"])


def site_properties(folder: Path, ports: Sequence[int]) -> tuple[dict[str, object], dict[str, dict[str, object]]]:
    """Properties of the stacks nyc and sfo: of all brokers, and of each site and broker. ports: six."""
    hosts = ",".join(f"127.0.0.1[{port}]" for port in ports[:4])
    common: dict[str, object] = {"bridge_hosts": hosts, "bridge_port_range": 0, "hold_dir": folder / "hold",
                                 "bind_addr": "127.0.0.1"}
    names = [name for names in SITES.values() for name in names]
    more: dict[str, dict[str, object]] = {name: {"bridge_port": port} for name, port in zip(names, ports, strict=False)}
    for site, port in zip(SITES, ports[4:], strict=True):
        more[site] = {"mcast_addr": MULTICAST, "mcast_port": port}
    return common, more


def perform(folder: Path, rate: int, shown: Callable[[str], None]) -> dict[str, Any]:
    """Run it. rate: messages a second of each publisher. Raises BrokerDemoError."""
    folder.mkdir(parents=True, exist_ok=True)
    begun = monotonic()

    def note(text: str) -> None:
        shown(f"{monotonic() - begun:6.2f} s  {text}")
    ports = free_ports(14)
    common, more = site_properties(folder, ports[8:])
    with BrokerSites(folder, SITES, ports[:8], common, more) as sites:
        for first, second in zip(*SITES.values(), strict=True):
            sites.start(first, second)
        sites.wait_for_all()
        note(f"4 brokers, nyc1 nyc2 and sfo1 sfo2; relays: {sites.relay('NYC')} and {sites.relay('SFO')}")
        subscribers = [Subscriber(f"s-{name}", sites[name], TOPIC) for name in ("nyc2", "sfo2")]
        sites.wait_for_interest(TOPIC)
        publishers = [Publisher(f"p-{name}", sites[name], TOPIC) for name in ("nyc1", "nyc2", "sfo1", "sfo2")]
        note("mosquitto_sub at nyc2 and sfo2, mosquitto_pub -q 1 at each broker")
        incidents = traffic(sites, publishers, rate, note)
        for publisher in publishers:
            publisher.end(waits=publisher.broker.name.endswith("2"))
        pairs = [(publisher, subscriber) for publisher in publishers for subscriber in subscribers]
        note("all that was published at nyc2 and sfo2 is acknowledged")
        _settle(lambda: sum(row(*pair).lost for pair in pairs))
        _settle(lambda: sum(ledger["held"] for ledger in ledgers(sites).values()))
        rows = [row(*pair) for pair in pairs]
        for subscriber in subscribers:
            subscriber.end()
        found = ledgers(sites)
        adds_up = all(each["numbered"] == each["acknowledged"] and not each["held"] and not each["lost"]
                      for each in found.values())
    ok = adds_up and not any(each.lost or each.twice or each.disorder for each in rows)
    return {"ok": ok, "rows": [attrs.asdict(each) for each in rows], "ledgers": found, "incidents": incidents,
            "folder": str(folder)}


def traffic(
    sites: BrokerSites, publishers: list[Publisher], rate: int, note: Callable[[str], None],
) -> list[dict[str, str]]:
    """All publish for a while; meanwhile relays and a broker are killed. What was done."""
    ends = threading.Event()
    counts = dict.fromkeys((publisher.name for publisher in publishers), True)

    def feed(publisher: Publisher) -> None:
        began = monotonic()
        while not ends.is_set() and counts[publisher.name]:
            due = int((monotonic() - began) * rate) - publisher.sent
            if due > 0:
                counts[publisher.name] = publisher.broker.is_up and publisher.send(due)
            sleep(TURN_SECONDS)
    threads = [threading.Thread(target=feed, args=(publisher,), daemon=True) for publisher in publishers]
    for thread in threads:
        thread.start()
    began, incidents = monotonic(), []

    def at(part: float) -> None:
        sleep(max(0.0, began + part * SECONDS - monotonic()))

    def kill(name: str, what: str) -> None:
        sites[name].end()
        for publisher in publishers:
            if publisher.broker.name == name:
                publisher.end(waits=False)               # it would go on at the broker's next life
        incidents.append({"broker": name, "what": what})
        note(f"killed {name}, {what} (SIGKILL); published {sum(each.sent for each in publishers)}")
    for part, site in ((KILL_FIRST, "NYC"), (KILL_SECOND, "SFO")):
        at(part)
        dying = SITES[site][0]
        relay = sites.relay(site)
        kill(dying, f"{'relay' if relay == dying else 'a broker'} of {site}, with a publisher")
        note(f"{sites.relay(site)} is relay of {site}")
    at(BACK)
    sites.start("nyc1")
    sites.wait_for_all()
    note("nyc1 is back")
    at(KILL_BROKER)
    kill("nyc1", "a broker of NYC")
    at(1.0)
    ends.set()
    for thread in threads:
        thread.join()
    return incidents


def ledgers(sites: BrokerSites) -> dict[str, dict[str, int]]:
    """RELAY's ledgers, as the relays have them."""
    return {f"{site} to {other}": sites.ledger(sites.relay(site), other)
            for site, other in (("NYC", "SFO"), ("SFO", "NYC"))}


def _settle(left: Callable[[], int]) -> None:
    """Wait until nothing is left, or for as long as it may take."""
    end = monotonic() + ARRIVAL_SECONDS
    while left() and monotonic() < end:
        sleep(0.1)


def as_lines(found: Mapping[str, Any]) -> list[str]:
    """The table."""
    rows = [DeliveryCount(**each) for each in found["rows"]]
    lines = ["", "publisher    subscriber   published  acknowledged  received   lost  twice  disorder"]
    lines += [f"{each.publisher:12} {each.subscriber:12} {each.published:9} {each.acknowledged:13} {each.received:9} "
              f"{each.lost:6} {each.twice:6} {each.disorder:9}" for each in rows]
    lines.append("")
    lines += [f"ledger {name}: numbered {each['numbered']} = acknowledged {each['acknowledged']} + "
              f"held {each['held']} + lost {each['lost']}" for name, each in found["ledgers"].items()]
    lines.append("what was acknowledged came to both sites, once and in order, and the ledger says so" if found["ok"]
                 else f"NOT everything came once and in order; logs of the brokers: {found['folder']}")
    return lines
