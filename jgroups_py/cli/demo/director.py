"""The demo's play: start the sites, let them replicate, kill relays in mid-stream, compare everything at the end."""
from __future__ import annotations

import queue
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import attrs

from jgroups_py.cli.company import free_ports, free_udp_port
from jgroups_py.cli.demo.processes import Company, Person
from jgroups_py.cli.demo.report import verdict

SITE_NAMES = ("NYC", "SFO", "LON", "TYO", "SYD")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"
START_TIMEOUT_S = 40.0
STREAM_SLACK_S = 60.0            # a stream may take this much longer than its rate says, on a busy machine
SETTLE_TIMEOUT_S = 30.0
NUMBERS_RATE_SHARE = 0.1         # the others send a tenth of the rate
KILL_FIRST, KILL_SECOND, LEAVE, RETURN = 0.20, 0.40, 0.60, 0.75    # of the lines, give or take a little by the seed


class DemoError(Exception):
    """The demo could not be performed (as opposed to: was performed and found a loss)."""


@attrs.frozen
class Plan:
    """What is to be performed."""

    data: bytes
    out: Path
    rate: int
    members: int
    sites: int
    seed: int
    kill: bool
    archive: Path | None = None

    @property
    def lines(self) -> int:
        """How many lines are replicated."""
        return len(self.data.splitlines())


class Director:
    """Performs one plan; `view` shows it (picture.py)."""

    def __init__(self, plan: Plan, view: Any) -> None:
        self.plan = plan
        self.view = view
        self.company = Company()
        self.rng = Random(f"demo/{plan.seed}")
        self.incidents: list[dict[str, Any]] = []        # kills and leaves: what, who, site, at
        self.relays: list[dict[str, Any]] = []           # who was relay from when
        self.told: list[dict[str, Any]] = []             # unreachable, lost, site: as members told
        self.sites = SITE_NAMES[:plan.sites]
        self.input = plan.out / "input.txt"
        self.started_s = time.time()
        self.mcast_ports = {site: free_udp_port() for site in self.sites}
        self.bridge_ports = plan.members * plan.sites + 2
        self.bridge_port = free_ports(self.bridge_ports)
        self.cluster = f"demo-{self.bridge_port}"

    # --- the play ---------------------------------------------------------------------------------------------------

    def perform(self) -> dict[str, Any]:
        """All acts; the result as one document.

        Raises:
            DemoError: members did not start, or one failed.
        """
        self.input.write_bytes(self.plan.data)
        try:
            self.start_sites()
            self.stream()
            self.settle()
            self.collect()
        finally:
            self.company.end()
        return verdict(self)

    def start_sites(self) -> None:
        """All members up, every one with the same global view."""
        size = self.plan.members
        firsts = [self.start(LETTERS[at * size], site) for at, site in enumerate(self.sites)]
        # The first member of a site shall be its coordinator, so it starts alone.
        self.wait("the first member of each site", START_TIMEOUT_S, lambda: all(person.up for person in firsts))
        for at, site in enumerate(self.sites):
            for letter in LETTERS[at * size + 1:(at + 1) * size]:
                self.start(letter, site)
        people = list(self.company.people)
        whole = {site: sorted(p.name for p in people if p.site == site) for site in self.sites}
        self.wait("all members see both sites", START_TIMEOUT_S, lambda: all(
            {site: sorted(names) for site, names in person.global_view.items()} == whole for person in people))
        self.say(f"all {len(people)} members see {len(self.sites)} sites")

    def start(self, tag: str, site: str) -> Person:
        """Start one member process."""
        options = {
            "tag": tag, "name": tag.partition("#")[0], "cluster": self.cluster,
            "stack": "nyc" if site == "NYC" else "sfo", "answers": tag == self.answerer,
            "archive": str(self.plan.archive) if self.plan.archive else None,
            "properties": {
                "site": site, "mcast_port": str(self.mcast_ports[site]), "bridge_name": f"{self.cluster}-bridge",
                "bridge_port": str(self.bridge_port), "bridge_port_range": str(self.bridge_ports),
                "bridge_hosts": f"127.0.0.1[{self.bridge_port}]"},
        }
        return self.company.start(tag, site, options)

    @property
    def sender(self) -> str:
        """Who multicasts the file: the last member of the first site."""
        return LETTERS[self.plan.members - 1]

    @property
    def answerer(self) -> str:
        """Who answers: the last member of the second site."""
        return LETTERS[2 * self.plan.members - 1]

    def stream(self) -> None:
        """The lines flow; incidents happen at their moments."""
        for person in self.company.up():
            self.send_numbers(person)
        timeout_s = self.plan.lines / self.plan.rate + STREAM_SLACK_S
        if self.plan.kill:
            for share, act in self.acts():
                moment = int(self.plan.lines * (share + self.rng.uniform(-0.05, 0.05)))
                self.wait_for_lines(moment, timeout_s)
                act()
        self.wait_for_lines(self.plan.lines, timeout_s)
        self.say(f"{self.sender} has sent all {self.plan.lines} lines")

    def wait_for_lines(self, number: int, timeout_s: float) -> None:
        """Until so many lines were sent."""
        self.wait(f"{number} lines sent", timeout_s, lambda: self.lines_sent >= number)

    def send_numbers(self, person: Person) -> None:
        """Let a member send: the lines, or numbers."""
        if person.tag == self.sender:
            person.tell("lines", path=str(self.input), rate=self.plan.rate)
        else:
            person.tell("numbers", rate=self.plan.rate * NUMBERS_RATE_SHARE)

    @property
    def lines_sent(self) -> int:
        """How far the file is."""
        return next((person.sent for person in self.company.people if person.tag == self.sender), 0)

    def acts(self) -> list[tuple[float, Callable[[], None]]]:
        """When (share of the lines) what happens."""
        return [(KILL_FIRST, lambda: self.kill_coordinator(self.sites[0])),
                (KILL_SECOND, lambda: self.kill_coordinator(self.sites[1])),
                (LEAVE, self.let_one_leave), (RETURN, self.bring_back)]

    def kill_coordinator(self, site: str) -> None:
        """SIGKILL to a site's relay, unless it is one that the play needs to the end."""
        person = self.company.coordinator(site)
        if person is None or person.tag in (self.sender, self.answerer):
            return self.say(f"nobody of {site} can be spared; its coordinator lives")
        at = self.company.kill(person)
        self.incident("killed", person, at)
        return self.say(f"killed {person.name}, coordinator and relay of {site} (SIGKILL)")

    def let_one_leave(self) -> None:
        """A member of the first site leaves gracefully: its relay, if it can be spared."""
        spare = [p for p in self.company.up(self.sites[0]) if p.tag != self.sender]
        relay = self.company.coordinator(self.sites[0])
        person = relay if relay in spare else next(iter(spare), None)
        if person is None:
            return self.say(f"nobody of {self.sites[0]} can be spared; nobody leaves")
        self.incident("left", person, time.time())
        person.tell("leave")
        self.wait(f"{person.name} has left", SETTLE_TIMEOUT_S, lambda: person.state == "left")
        return self.say(f"{person.name} left {person.site} gracefully")

    def bring_back(self) -> None:
        """The first one killed starts again."""
        killed = next((i for i in self.incidents if i["what"] == "killed" and i["site"] == self.sites[0]), None)
        if killed is None:
            return
        person = self.start(f"{killed['who']}#2", killed["site"])
        self.wait(f"{person.name} is back", START_TIMEOUT_S, lambda: person.up)
        self.send_numbers(person)
        self.say(f"{person.name} is back in {person.site}")

    def settle(self) -> None:
        """Everybody stops sending; wait until everything sent has arrived everywhere, or nothing moves any more."""
        up = self.company.up()
        stopped = {person.tag: False for person in up}
        for person in up:
            person.tell("stop")
        self.stopped = stopped
        self.wait("everybody stopped", SETTLE_TIMEOUT_S, lambda: all(stopped.values()))
        last, since = None, time.monotonic()
        while time.monotonic() - since < 3.0:             # nothing has moved for so long: it is over
            self.pump(0.1)
            now = [(person.tag, person.received) for person in up]
            if now != last:
                last, since = [(tag, dict(received)) for tag, received in now], time.monotonic()
            if self.complete(up) and time.monotonic() - since > 0.5:
                return

    def complete(self, people: list[Person]) -> bool:
        """Whether every member has every message of everybody who is still up."""
        return all(person.received.get(other.tag, 0) >= other.sent
                   for person in people for other in people if "#" not in person.tag)

    def collect(self) -> None:
        """The counts and copies of everybody who is up."""
        up = self.company.up()
        for person in up:
            person.tell("report", copy=str(self.plan.out / f"copy-{person.tag.replace('#', '-')}.txt"))
        self.wait("all reports", SETTLE_TIMEOUT_S, lambda: all(person.report is not None for person in up))

    # --- events -----------------------------------------------------------------------------------------------------

    def wait(self, what: str, timeout_s: float, condition: Callable[[], bool]) -> None:
        """Take events until `condition` holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise DemoError(f"waited {timeout_s:.0f} s in vain: {what}; {self.where()}")
            self.pump(0.05)

    def where(self) -> str:
        """Who sees what, for an error message."""
        return "; ".join(f"{p.tag} {p.state} view {p.view} global {p.global_view} {' '.join(p.errors[-3:])}"
                         for p in self.company.people)

    def pump(self, timeout_s: float) -> None:
        """Take the events that are there, one at least within the timeout."""
        try:
            person, event = self.company.events.get(timeout=timeout_s)
            while True:
                self.take(person, event)
                person, event = self.company.events.get_nowait()
        except queue.Empty:
            self.view.show(self)

    def take(self, person: Person, event: dict[str, Any]) -> None:
        """One event of one member."""
        handler = getattr(self, "on_" + event["event"], None)
        if handler is not None:
            handler(person, event)

    def on_ready(self, person: Person, event: dict[str, Any]) -> None:
        """It is connected."""
        person.state, person.up_at = "up", time.monotonic()

    def on_view(self, person: Person, event: dict[str, Any]) -> None:
        """Its local view changed."""
        person.view, person.coordinator = event["members"], event["coordinator"]
        if event["coordinator"] == person.name:
            relay = {"site": person.site, "relay": person.name, "at": event["at"] - self.started_s}
            same = [r for r in self.relays if r["site"] == person.site]
            if not same or same[-1]["relay"] != person.name:
                self.relays.append(relay)
                self.say(f"{person.name} is relay of {person.site}")

    def on_global_view(self, person: Person, event: dict[str, Any]) -> None:
        """Its global view changed."""
        person.global_view = event["sites"]

    def on_progress(self, person: Person, event: dict[str, Any]) -> None:
        """Its counts."""
        if event["sent"] != person.sent or not person.sent_log:
            person.sent_log.append((time.monotonic(), event["sent"]))
        person.sent, person.received = event["sent"], event["received"]

    def on_stopped(self, person: Person, event: dict[str, Any]) -> None:
        """It sends no more."""
        person.sent = event["sent"]
        self.stopped[person.tag] = True

    def on_sent_all(self, person: Person, event: dict[str, Any]) -> None:
        """The file is through."""
        person.sent = event["sent"]

    def on_leaving(self, person: Person, event: dict[str, Any]) -> None:
        """It says how much it had sent."""
        person.sent = event["sent"]

    def on_left(self, person: Person, event: dict[str, Any]) -> None:
        """It is out."""
        person.state = "left"

    def on_report(self, person: Person, event: dict[str, Any]) -> None:
        """Its final counts."""
        person.report = event

    def on_lost(self, person: Person, event: dict[str, Any]) -> None:
        """A declared loss."""
        self.told.append({**event, "member": person.tag})

    on_unreachable = on_lost

    def on_error(self, person: Person, event: dict[str, Any]) -> None:
        """It could not go on."""
        person.errors.append(event["message"])

    def on_ended(self, person: Person, event: dict[str, Any]) -> None:
        """Its process ended; expected only of the killed and the left."""
        if person.state in ("killed", "left"):
            return
        person.state = "failed"
        raise DemoError(f"{person.tag} ended unexpectedly (exit {person.process.wait(5)}): "
                        + " | ".join(person.errors[-8:]))

    def incident(self, what: str, person: Person, at: float) -> None:
        """Remember a kill or a leave."""
        self.incidents.append({"what": what, "who": person.name, "site": person.site, "at": at - self.started_s,
                               "lines_sent": self.lines_sent})

    def say(self, text: str) -> None:
        """A line for the audience."""
        self.view.say(f"{time.time() - self.started_s:6.2f} s  {text}")
