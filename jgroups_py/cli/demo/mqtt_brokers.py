"""Brokers of two sites as processes, and mosquitto's clients: for `jgroups demo --mqtt` and for tests."""
from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import attrs
import yaml

from jgroups_py.system.child_processes import end_with_parent

START_SECONDS = 60.0
REST_SECONDS = 10.0
ACK, COMMA = b"received PUBACK (Mid: ", b","


class BrokerDemoError(Exception):
    """Something did not happen in time, or a program is missing."""


def tool(name: str) -> str:
    """The path of a program of mosquitto's. Raises BrokerDemoError: how to get it."""
    found = shutil.which(name)
    if found is None:
        raise BrokerDemoError(f"{name} is needed; on Debian and Ubuntu: apt-get install mosquitto-clients")
    return found


@attrs.define(eq=False)
class SiteBroker:
    """One broker: its file and its process, None while there is none."""

    name: str
    site: str
    file: Path
    port: int
    rest: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    def ask(self, path: str) -> Any:
        """The JSON that its REST answers; None while it does not."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}{path}", timeout=REST_SECONDS) as answer:
                return json.loads(answer.read())
        except (OSError, urllib.error.URLError, ValueError):
            return None

    def listens(self) -> bool:
        """Whether it answers. Raises BrokerDemoError: its process has ended; what it printed last."""
        if not self.is_up:
            code = None if self.process is None else self.process.returncode
            raise BrokerDemoError(f"{self.name} has ended with code {code}{self.last_printed()}")
        return self.ask("/v1/health") is not None

    def last_printed(self) -> str:
        """The last line of its log, behind a colon; "" if there is none."""
        printed = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "".join(f": {line}" for line in printed[-1:])

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.file.with_suffix(".log")

    def has_interest(self, topic: str) -> bool:
        """Whether it knows that all other sites want a topic."""
        answer = self.ask(f"/v1/sites?topic={topic}")
        return bool(answer) and all(each["wants"] for each in answer["sites"])

    def end(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal and wait for its end."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(number)
            self.process.wait()


class BrokerSites:
    """Brokers of sites by their files; as a context it ends all of them.

    sites: name -> names of its brokers. ports: two for each broker in turn (clients, REST). properties: of the stacks
    of all; more: name of a broker or site -> properties of it alone.
    """

    def __init__(
        self, folder: Path, sites: Mapping[str, Sequence[str]], ports: Iterable[int], properties: Mapping[str, object],
        more: Mapping[str, Mapping[str, object]] | None = None, stacks: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.brokers: dict[str, SiteBroker] = {}
        given = iter(ports)
        for site, names in sites.items():
            for name in names:
                own = {**properties, **(more or {}).get(site, {}), **(more or {}).get(name, {})}
                broker = SiteBroker(name, site, folder / f"{name}.yml", next(given), next(given))
                broker.file.write_text(yaml.safe_dump({
                    "listeners": [{"address": f"127.0.0.1:{broker.port}"}],
                    "api": {"http": [{"address": f"tcp://127.0.0.1:{broker.rest}"}]},
                    "mqtt": {"max_queued_messages": 1_000_000, "session_expiry": "1h", "sys_interval": "0s"},
                    "plugins": {"federation": {
                        "node_name": name, "stack": (stacks or {}).get(site, site.lower()), "cluster": site,
                        "properties": [f"{key}={value}" for key, value in own.items()]}},
                    "plugin_order": ["federation"], "log": {"level": "warn"}}))
                self.brokers[name] = broker

    def __enter__(self) -> BrokerSites:
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.end()

    def __getitem__(self, name: str) -> SiteBroker:
        return self.brokers[name]

    def start(self, *names: str) -> None:
        """Start these and wait until they listen."""
        for name in names:
            broker = self.brokers[name]
            with broker.log.open("ab") as log:
                broker.process = subprocess.Popen(
                    [sys.executable, "-m", "jgroups_py", "mqtt", "serve", "-c", str(broker.file)], stdout=log,
                    stderr=log, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
        for name in names:
            wait(self.brokers[name].listens, f"{name} listens")

    def up(self, site: str) -> list[SiteBroker]:
        """The brokers of a site whose processes run."""
        return [broker for broker in self.brokers.values() if broker.site == site and broker.is_up]

    def wait_for_all(self) -> None:
        """Until each broker that runs sees all others of its site, and knows what the other sites want."""
        for broker in self.brokers.values():
            if broker.is_up:
                alive = {each.name for each in self.up(broker.site)}
                others = {each.site for each in self.brokers.values() if each.is_up and each.site != broker.site}
                self._wait_until_it_sees(broker, alive, others)

    def _wait_until_it_sees(self, broker: SiteBroker, alive: set[str], others: set[str]) -> None:
        try:
            wait(partial(self._sees, broker, alive, others), f"{broker.name} sees {sorted(alive)} and {sorted(others)}")
        except BrokerDemoError as error:
            members, known = self._seen(broker)
            printed = [f"{each.name} printed last{each.last_printed()}" for each in self.brokers.values()]
            said = "; ".join([f"{error}, but {sorted(members)} and {sorted(known)}", *printed])
            raise BrokerDemoError(said) from None

    def _sees(self, broker: SiteBroker, alive: set[str], others: set[str]) -> bool:
        members, known = self._seen(broker)
        return alive <= members and others <= known

    @staticmethod
    def _seen(broker: SiteBroker) -> tuple[set[str], set[str]]:
        """The members of its site and the other sites that a broker takes for alive."""
        members = broker.ask("/v1/federation/members") or {"members": []}
        known = broker.ask("/v1/sites") or {"sites": []}
        return ({each["name"] for each in members["members"] if each["status"] == "STATUS_ALIVE"},
                {each["site"] for each in known["sites"] if each["is_known"] and each["status"] == "UP"})

    def relay(self, site: str) -> str:
        """The name of the relay of a site, once there is one that runs."""
        return str(wait(partial(self._running_relay, site), f"{site} has a relay"))

    def _running_relay(self, site: str) -> str:
        for broker in self.up(site):
            answer = broker.ask("/v1/sites")
            if answer and answer["relay"] and self.brokers[answer["relay"]].is_up:
                return str(answer["relay"])
        return ""

    def wait_for_interest(self, topic: str) -> None:
        """Until each broker knows that the others' clients want a topic."""
        for broker in self.brokers.values():
            if broker.is_up:
                wait(partial(broker.has_interest, topic), f"{broker.name} knows that all sites want {topic}")

    def ledger(self, name: str, site: str) -> dict[str, int]:
        """RELAY's ledger at a broker, for another site: numbered = acknowledged + held + lost."""
        found = wait(lambda: self.brokers[name].ask("/v1/sites"), f"{name} answers")
        entry = next(each for each in found["sites"] if each["site"] == site)
        return {figure: entry[figure] for figure in ("numbered", "acknowledged", "held", "lost")}


def wait(holds: Any, what: str, seconds: float = START_SECONDS) -> Any:
    """Wait until something holds; what it was then. Raises BrokerDemoError: it did not."""
    end = monotonic() + seconds
    while not (found := holds()):
        if monotonic() > end:
            raise BrokerDemoError(f"not within {seconds:g} s: {what}")
        sleep(0.05)
    return found


class Publisher:
    """mosquitto_pub at a broker: QoS 1, one message a line, "NAME NUMBER" with numbers from 1. acknowledged: the
    numbers of those that PUBACK came for."""

    def __init__(self, name: str, broker: SiteBroker, topic: str) -> None:
        self.name = name
        self.broker = broker
        self.sent = 0
        self.acknowledged: set[int] = set()
        self._lock = threading.Lock()                    # of acknowledged, which the reader fills
        self._process = subprocess.Popen(
            ["stdbuf", "-oL", tool("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(broker.port), "-i", f"pub-{name}",
             "-t", topic, "-q", "1", "-l", "-d"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, preexec_fn=end_with_parent)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        for line in self._process.stdout:
            at = line.find(ACK)
            if at >= 0:                                  # it numbers its messages from 1 on, as we do
                with self._lock:
                    self.acknowledged.add(int(line[at + len(ACK):].partition(COMMA)[0]))

    def acknowledged_so_far(self) -> frozenset[int]:
        """A copy, which nothing changes while it is counted."""
        with self._lock:
            return frozenset(self.acknowledged)

    def send(self, number: int) -> bool:
        """Give it so many messages; False: it has ended."""
        assert self._process.stdin is not None, "it is a pipe"
        lines = b"".join(b"%s %d\n" % (self.name.encode(), at) for at in range(self.sent + 1, self.sent + number + 1))
        try:
            self._process.stdin.write(lines)
            self._process.stdin.flush()
        except OSError:
            return False
        self.sent += number
        return True

    def end(self, waits: bool = True) -> None:
        """No more messages; waits: until all are acknowledged."""
        if waits:
            wait(lambda: len(self.acknowledged) == self.sent, f"all {self.sent} of {self.name} are acknowledged")
        self._process.kill()
        self._process.wait()
        self._reader.join()


class Subscriber:
    """mosquitto_sub at a broker, QoS 1, with a session. received: publisher -> number -> times; disorder: publisher ->
    first copies that came behind a higher number."""

    def __init__(self, name: str, broker: SiteBroker, topic: str) -> None:
        self.name = name
        self.broker = broker
        self.received: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.disorder: Counter[str] = Counter()
        self._highest: Counter[str] = Counter()
        self._lock = threading.Lock()                    # of received and disorder, which the reader fills
        self._process = subprocess.Popen(
            ["stdbuf", "-oL", tool("mosquitto_sub"), "-h", "127.0.0.1", "-p", str(broker.port), "-i", f"sub-{name}",
             "-c", "-t", topic, "-q", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        for line in self._process.stdout:
            publisher, _, text = line.decode().strip().partition(" ")
            self._count(publisher, int(text))

    def _count(self, publisher: str, number: int) -> None:
        with self._lock:
            times = self.received[publisher]
            times[number] += 1
            if times[number] == 1:
                if number < self._highest[publisher]:
                    self.disorder[publisher] += 1
                self._highest[publisher] = number

    def received_so_far(self, publisher: str) -> tuple[Counter[int], int]:
        """Of a publisher: number -> times, and the disorder. A copy, which nothing changes while it is counted."""
        with self._lock:
            return Counter(self.received[publisher]), self.disorder[publisher]

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._reader.join()


@attrs.frozen
class DeliveryCount:
    """What became of a publisher's messages at a subscriber. lost: acknowledged and not received."""

    publisher: str
    subscriber: str
    published: int
    acknowledged: int
    received: int
    lost: int
    twice: int
    disorder: int


def row(publisher: Publisher, subscriber: Subscriber) -> DeliveryCount:
    """Count, also while both go on."""
    acknowledged = publisher.acknowledged_so_far()       # first: what is acknowledged meanwhile cannot seem lost
    got, disorder = subscriber.received_so_far(publisher.name)
    return DeliveryCount(f"{publisher.name}@{publisher.broker.site}", f"{subscriber.name}@{subscriber.broker.site}",
               publisher.sent, len(acknowledged), len(got), len(acknowledged - got.keys()),
               sum(times > 1 for times in got.values()), disorder)
