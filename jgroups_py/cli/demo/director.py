"""The director of the demo: starts the sites, lets them replicate, kills relays meanwhile, collects the results."""
from __future__ import annotations

import queue
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import attrs

from jgroups_py.cli.demo.processes import DemoGroup, DemoMember
from jgroups_py.cli.demo.securing import DemoKeys
from jgroups_py.system.free_ports import free_range

SITE_NAMES = ("NYC", "SFO", "LON", "TYO", "SYD")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"
START_TIMEOUT_S = 40.0
STREAM_SLACK_S = 60.0            # a stream may take this much longer than its rate implies, on a busy machine
SETTLE_TIMEOUT_S = 30.0
NUMBERS_RATE_SHARE = 0.1         # the other members send a tenth of the rate
KILL_FIRST, KILL_SECOND, LEAVE, RETURN = 0.20, 0.40, 0.60, 0.75    # shares of the lines, each +- 0.05 by the seed


class DemoError(Exception):
    """The demo could not run to its end (a loss that it finds is a result, not an error)."""


@attrs.frozen
class DemoPlan:
    """The arguments of one demo."""

    data: bytes
    out: Path
    rate: int
    members: int
    sites: int
    seed: int
    kill: bool
    archive: Path | None = None
    keys: DemoKeys | None = None

    @property
    def lines(self) -> int:
        """The number of lines to replicate."""
        return len(self.data.splitlines())

    @property
    def archive_keys(self) -> Path | None:
        """The keyring of the archive, if that is encrypted."""
        return None if self.keys is None else self.keys.archive

    def named(self) -> list[tuple[str, str]]:
        """(name, site) of all members."""
        return [(LETTERS[at * self.members + number], site) for at, site in enumerate(SITE_NAMES[:self.sites])
                for number in range(self.members)]


class Director:
    """Executes one plan; `view` displays it (picture.py). live: members report more and more often."""

    live = False
    was_cut = False                  # the bridge was cut: RELAY may have reported unicasts as unreachable

    def __init__(self, plan: DemoPlan, view: Any) -> None:
        self.plan = plan
        self.view = view
        self.group = DemoGroup()
        self.rng = Random(f"demo/{plan.seed}")
        self.incidents: list[dict[str, Any]] = []        # kills and leaves: what, member, site, at
        self.relays: list[dict[str, Any]] = []           # each relay, and when it became that
        self.reported: list[dict[str, Any]] = []         # the events `lost` and `unreachable` of members
        self.sites = SITE_NAMES[:plan.sites]
        self.input = plan.out / "input.txt"
        self.started_s = time.time()
        self.mcast_ports = {site: free_range() for site in self.sites}
        self.bridge_ports = plan.members * plan.sites + 2
        self.bridge_port = free_range(self.bridge_ports)
        self.cluster = f"demo-{self.bridge_port}"
        self.more_properties: dict[str, str] = {}        # of the stacks

    # --- the acts ---------------------------------------------------------------------------------------------------

    def perform(self) -> None:
        """Run all acts; report.py makes the verdict of what they leave here.

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
            self.group.end()

    def start_sites(self) -> None:
        """Start all members; returns once each has the same global view."""
        size = self.plan.members
        firsts = [self.start(LETTERS[at * size], site) for at, site in enumerate(self.sites)]
        # The first member of a site must become its coordinator, so it starts alone.
        self.wait("the first member of each site", START_TIMEOUT_S, lambda: all(member.up for member in firsts))
        for at, site in enumerate(self.sites):
            for letter in LETTERS[at * size + 1:(at + 1) * size]:
                self.start(letter, site)
        members = list(self.group.workers)
        whole = {site: sorted(p.name for p in members if p.site == site) for site in self.sites}
        self.wait("all members see both sites", START_TIMEOUT_S, lambda: all(
            {site: sorted(names) for site, names in member.global_view.items()} == whole for member in members))
        self.show_line(f"all {len(members)} members see {len(self.sites)} sites")

    def start(self, tag: str, site: str) -> DemoMember:
        """Start one member process."""
        name, keys = tag.partition("#")[0], self.plan.keys
        options = {
            "tag": tag, "name": name, "cluster": self.cluster,
            "stack": keys.stack() if keys is not None else "nyc" if site == "NYC" else "sfo",
            "answers": tag == self.answerer, "live": self.live,
            "archive": str(self.plan.archive) if self.plan.archive else None,
            "archive_keyring": str(keys.archive) if keys is not None else None,
            "properties": {
                "site": site, "mcast_port": str(self.mcast_ports[site]), "bridge_name": f"{self.cluster}-bridge",
                "bridge_port": str(self.bridge_port), "bridge_port_range": str(self.bridge_ports),
                "bridge_hosts": f"127.0.0.1[{self.bridge_port}]", **self.more_properties,
                **({} if keys is None else keys.properties(name, site))},
        }
        return self.group.start(tag, site, options)

    @property
    def sender(self) -> str:
        """The member that multicasts the file: the last one of the first site."""
        return LETTERS[self.plan.members - 1]

    @property
    def answerer(self) -> str:
        """The member that answers lines: the last one of the second site."""
        return LETTERS[2 * self.plan.members - 1]

    def stream(self) -> None:
        """Replicate the lines; each incident happens at its share of them."""
        for member in self.group.up():
            self.send_numbers(member)
        timeout_s = self.plan.lines / self.plan.rate + STREAM_SLACK_S
        if self.plan.kill:
            for share, act in self.acts():
                moment = int(self.plan.lines * (share + self.rng.uniform(-0.05, 0.05)))
                self.wait_for_lines(moment, timeout_s)
                act()
        self.wait_for_lines(self.plan.lines, timeout_s)
        self.show_line(f"{self.sender} has sent all {self.plan.lines} lines")

    def wait_for_lines(self, number: int, timeout_s: float) -> None:
        """Wait until `number` lines were sent."""
        self.wait(f"{number} lines sent", timeout_s, lambda: self.lines_sent >= number)

    def send_numbers(self, member: DemoMember) -> None:
        """Let a member begin to send: the sender the lines, any other one numbers."""
        if member.tag == self.sender:
            member.command("lines", path=str(self.input), rate=self.plan.rate)
        else:
            member.command("numbers", rate=self.plan.rate * NUMBERS_RATE_SHARE)

    @property
    def lines_sent(self) -> int:
        """How many lines of the file were sent."""
        return next((member.sent for member in self.group.workers if member.tag == self.sender), 0)

    def acts(self) -> list[tuple[float, Callable[[], None]]]:
        """(share of the lines, incident), in order."""
        return [(KILL_FIRST, lambda: self.kill_coordinator(self.sites[0])),
                (KILL_SECOND, lambda: self.kill_coordinator(self.sites[1])),
                (LEAVE, self.let_one_leave), (RETURN, self.bring_back)]

    def kill_coordinator(self, site: str) -> None:
        """SIGKILL to a site's relay, unless it is the sender or the answerer, which the demo needs to the end."""
        member = self.group.coordinator(site)
        if member is None or member.tag in (self.sender, self.answerer):
            return self.show_line(f"no member of {site} can be spared, so its coordinator is not killed")
        at = self.group.kill(member)
        self.incident("killed", member, at)
        return self.show_line(f"killed {member.name}, coordinator and relay of {site} (SIGKILL)")

    def let_one_leave(self) -> None:
        """A member of the first site leaves gracefully: its relay, if it can be spared."""
        spare = [p for p in self.group.up(self.sites[0]) if p.tag != self.sender]
        relay = self.group.coordinator(self.sites[0])
        member = relay if relay in spare else next(iter(spare), None)
        if member is None:
            return self.show_line(f"no member of {self.sites[0]} can be spared, so none leaves")
        self.incident("left", member, time.time())
        member.command("leave")
        self.wait(f"{member.name} has left", SETTLE_TIMEOUT_S, lambda: member.state == "left")
        return self.show_line(f"{member.name} left {member.site} gracefully")

    def bring_back(self) -> None:
        """Start the member that was killed first again."""
        killed = next((i for i in self.incidents if i["what"] == "killed" and i["site"] == self.sites[0]), None)
        if killed is None:
            return
        member = self.start(f"{killed['member']}#2", killed["site"])
        self.wait(f"{member.name} is back", START_TIMEOUT_S, lambda: member.up)
        self.send_numbers(member)
        self.show_line(f"{member.name} is back in {member.site}")

    def settle(self) -> None:
        """Stop all senders; wait until all messages have arrived everywhere, or no count has changed for 3 seconds."""
        up = self.group.up()
        stopped = {member.tag: False for member in up}
        for member in up:
            member.command("stop")
        self.stopped = stopped
        self.wait("all members have stopped", SETTLE_TIMEOUT_S, lambda: all(stopped.values()))
        last, since = None, time.monotonic()
        while time.monotonic() - since < 3.0:
            self.pump(0.1)
            now = [(member.tag, member.received) for member in up]
            if now != last:
                last, since = [(tag, dict(received)) for tag, received in now], time.monotonic()
            if self.complete(up) and time.monotonic() - since > 0.5:
                return

    def complete(self, members: list[DemoMember]) -> bool:
        """Whether every member has every message of all members that are still up."""
        return all(member.received.get(other.tag, 0) >= other.sent
                   for member in members for other in members if "#" not in member.tag)

    def collect(self) -> None:
        """Collect counts and copies of all members that are up."""
        up = self.group.up()
        for member in up:
            member.command("report", copy=str(self.plan.out / f"copy-{member.tag.replace('#', '-')}.txt"))
        self.wait("all reports", SETTLE_TIMEOUT_S, lambda: all(member.report is not None for member in up))

    # --- events -----------------------------------------------------------------------------------------------------

    def wait(self, what: str, timeout_s: float, condition: Callable[[], bool]) -> None:
        """Process events until `condition` holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise DemoError(f"waited {timeout_s:.0f} s for this: {what}; {self.states()}")
            self.pump(0.05)

    def states(self) -> str:
        """The views and last errors of all members, for an error message."""
        return "; ".join(f"{p.tag} {p.state} view {p.view} global {p.global_view} {' '.join(p.errors[-3:])}"
                         for p in self.group.workers)

    def pump(self, timeout_s: float) -> None:
        """Process the events that have arrived; waits up to the timeout for the first."""
        try:
            member, event = self.group.events.get(timeout=timeout_s)
            while True:
                self.take(member, event)
                member, event = self.group.events.get_nowait()
        except queue.Empty:
            self.view.show(self)

    def take(self, member: DemoMember, event: dict[str, Any]) -> None:
        """Process one event of one member."""
        handler = getattr(self, "on_" + event["event"], None)
        if handler is not None:
            handler(member, event)

    def on_ready(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member is connected."""
        member.state, member.up_at = "up", time.monotonic()

    def on_view(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member's local view changed."""
        member.view, member.coordinator = event["members"], event["coordinator"]
        if event["coordinator"] == member.name:
            relay = {"site": member.site, "relay": member.name, "at": event["at"] - self.started_s}
            same = [r for r in self.relays if r["site"] == member.site]
            if not same or same[-1]["relay"] != member.name:
                self.relays.append(relay)
                self.show_line(f"{member.name} is relay of {member.site}")

    def on_global_view(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member's global view changed."""
        member.global_view = event["sites"]

    def on_progress(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member's counts so far."""
        if event["sent"] != member.sent or not member.sent_log:
            member.sent_log.append((time.monotonic(), event["sent"]))
        member.sent, member.received, member.progress = event["sent"], event["received"], event

    def on_stopped(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member has stopped sending."""
        member.sent = event["sent"]
        self.stopped[member.tag] = True

    def on_sent_all(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The whole file was sent."""
        member.sent = event["sent"]

    def on_leaving(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member leaves, and reports how much it had sent."""
        member.sent = event["sent"]

    def on_left(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member has left."""
        member.state = "left"

    def on_report(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member's final counts."""
        member.report = event

    def on_lost(self, member: DemoMember, event: dict[str, Any]) -> None:
        """A declared loss."""
        self.reported.append({**event, "member": member.tag})

    on_unreachable = on_lost

    def on_error(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member could not go on."""
        member.errors.append(event["message"])

    def on_ended(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member's process ended; expected only after a kill or a leave."""
        if member.state in ("killed", "left"):
            return
        member.state = "failed"
        raise DemoError(f"{member.tag} ended unexpectedly (exit {member.process.wait(5)}): "
                        + " | ".join(member.errors[-8:]))

    def incident(self, what: str, member: DemoMember, at: float) -> None:
        """Record what happened to a member."""
        self.incidents.append({"what": what, "member": member.name, "site": member.site, "at": at - self.started_s,
                               "lines_sent": self.lines_sent})

    def show_line(self, text: str) -> None:
        """Display a line, with the time since the start."""
        self.view.show_line(f"{time.time() - self.started_s:6.2f} s  {text}")
