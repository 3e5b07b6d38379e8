"""Two sites of real member processes, the faults done to them, and the verdict of the simulator's checkers.

A run: start all members, let them send, do harm for a while, heal, wait until all have one view and everything sent
last has arrived everywhere, end. Then the histories that all processes wrote are judged. What comes to rest too late
is not waited for any longer: the checker of liveness reports what is missing.
"""
from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import attrs

from jgroups_py.cli import process_group
from jgroups_py.model.address import Address
from jgroups_py.simulator import history as h
from jgroups_py.system.free_ports import free_range
from tests.chaos.gather import Gathered
from tests.chaos.verdict import Verdict, judge

ROOT = Path(__file__).parents[2]
WORKER = "tests.chaos.worker"
SITES: dict[str, tuple[str, ...]] = {"NYC": ("A", "B", "C"), "SFO": ("D", "E", "F")}
NAMES = tuple(name for names in SITES.values() for name in names)
TRACED = tuple(names[-1] for names in SITES.values())
STACKS = {"NYC": "nyc", "SFO": "sfo"}
START_LIMIT_S = 60.0
REST_LIMIT_S = 60.0
ARRIVAL_LIMIT_S = 40.0
LAST_GASP_S = 0.3                    # until the last output of an ended process has been read
LINGER_S = 1.0                       # late duplicates may still come
FINAL_RUN = 3                        # messages of each member once all is at rest
REST_ROUNDS = 2                      # a member that was about to leave may have disturbed the first
TICK_S = 0.05


class Chaos(Exception):
    """The run could not be performed (as opposed to: was performed and found a violation)."""


class Place(Protocol):
    """Where the members run, and what is between them."""

    def properties(self, name: str, site: str) -> dict[str, str]:
        """What fills the stack files of a member."""

    def prefix(self, name: str) -> list[str]:
        """The words before its command."""

    def heal(self) -> None:
        """The network is whole and fast again."""


@attrs.define(eq=False)
class MemberProcess(process_group.WorkerProcess):
    """One incarnation, and what it reported last; members by their addresses in hex."""

    address: str = ""
    view: list[str] = attrs.Factory(list)
    global_view: dict[str, list[str]] = attrs.Factory(dict)
    last: dict[str, int] = attrs.Factory(dict)           # prefix -> highest number delivered
    kept_back: int = 0                                   # bytes
    letters: int = 0                                     # unicasts to other sites that wait for an answer
    final: dict[str, int] | None = None                  # numbers of its final messages, by stream
    paused: bool = False
    samples: list[tuple[float, float, int]] = attrs.Factory(list)    # (seconds, resident MB, descriptors)
    reports: int = 0


class Crew(process_group.ProcessGroup[MemberProcess]):
    """The processes; each may run in a place of its own."""

    def __init__(self, place: Place) -> None:
        super().__init__(WORKER, MemberProcess)
        self.place = place

    def command_line(self, options: dict[str, Any]) -> list[str]:
        """From whatever folder this runs in, the tests can be imported."""
        name = options["tag"].partition("#")[0]
        return [*self.place.prefix(name), "env", f"PYTHONPATH={ROOT}", *super().command_line(options)]


class Sites:
    """The members and what happens to them; `with` ends all processes."""

    def __init__(self, place: Place, out: Path, seed: int = 0, *, trace: bool = False) -> None:
        """trace: one member of each site writes into `out` what its memory is used for (growth.py)."""
        self.place = place
        self.trace = trace
        self.out = out
        self.seed = seed
        self.crew = Crew(place)
        self.added: list[h.Entry] = []                    # what goes into the history from here
        self.files: list[Path] = []
        self.failures: list[str] = []
        self.rate = 0.0
        self.cluster = f"chaos-{os.getpid()}"
        self.mcast_ports = {site: free_range() for site in SITES}
        self.began_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        for member in self.crew.workers:
            if member.process.poll() is None and member.paused:
                member.process.kill()                    # a stopped process does not notice the end of its input
        self.crew.end()

    # --- members ----------------------------------------------------------------------------------------------------

    def start_all(self) -> None:
        """Start all members; each has all in its global view."""
        for names in SITES.values():
            self.start(names[0])
        self.wait("the first member of each site", START_LIMIT_S, lambda: len(self.crew.up()) == len(SITES))
        for name in NAMES:
            if not any(member.name == name for member in self.crew.workers):
                self.start(name)
        self.wait("all members see both sites", START_LIMIT_S, self.rested)

    def start(self, name: str) -> MemberProcess:
        """Start a member, or start it again."""
        number = sum(1 for member in self.crew.workers if member.name == name) + 1
        tag, site = f"{name}#{number}", site_of(name)
        history = self.out / f"{tag.replace('#', '-')}.jsonl"
        self.files.append(history)
        history.touch()
        return self.crew.start(tag, site, {
            "tag": tag, "site": site, "cluster": self.cluster, "stack": STACKS[site], "seed": self.seed,
            "trace": str(history.with_suffix(".growth")) if self.trace and name in TRACED else "",
            "history": str(history), "properties": {
                "site": site, "mcast_port": str(self.mcast_ports[site]), "bridge_name": f"{self.cluster}-bridge",
                **self.place.properties(name, site)}})

    def up(self, site: str | None = None) -> list[MemberProcess]:
        """The members that run."""
        return self.crew.up(site)

    def relay(self, site: str) -> MemberProcess:
        """The coordinator of a site, as most of its members see it."""
        firsts = [member.view[0] for member in self.up(site) if member.view]
        found = [member for member in self.up(site) if member.address in firsts]
        if not found:
            raise Chaos(f"{site} has no coordinator: {self.where()}")
        return max(found, key=lambda member: firsts.count(member.address))

    def load(self, rate: float) -> None:
        """All members multicast so many messages a second from now on."""
        self.rate = rate
        for member in self.up():
            member.command("load", rate=rate)

    # --- faults -----------------------------------------------------------------------------------------------------

    def remark(self, text: str) -> None:
        """For the reader of the history."""
        self.added.append(h.Remark(time.monotonic_ns(), text))

    def kill(self, member: MemberProcess) -> None:
        """SIGKILL."""
        self.remark(f"{member.tag} is killed")
        self.crew.kill(member)
        member.process.wait()
        if member.address:
            self.added.append(h.Crash(time.monotonic_ns(), Address(bytes.fromhex(member.address))))

    def pause(self, member: MemberProcess) -> None:
        """SIGSTOP."""
        self.remark(f"{member.tag} is paused")
        member.paused = True
        os.kill(member.process.pid, signal.SIGSTOP)

    def resume(self, member: MemberProcess) -> None:
        """SIGCONT, if it is paused."""
        if member.paused:
            member.paused = False
            os.kill(member.process.pid, signal.SIGCONT)
            self.remark(f"{member.tag} goes on")

    def leave(self, member: MemberProcess) -> None:
        """Ask a member to leave."""
        member.state = "leaving"
        member.command("leave")

    def missing(self) -> list[str]:
        """The members that do not run just now."""
        running = [member.name for member in self.crew.workers if member.state in ("starting", "up", "leaving")]
        return [name for name in NAMES if name not in running]

    def go_on(self, seconds: float, tick: Callable[[], object] = lambda: None) -> None:
        """Let time pass; `tick` is called often."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            tick()
            self.pump(TICK_S)

    # --- the end ----------------------------------------------------------------------------------------------------

    def finish(self) -> Verdict:
        """Heal, rest, last words, and the verdict."""
        self.place.heal()
        for member in self.crew.workers:
            self.resume(member)
        for name in self.missing():
            self.start(name)
        self.added.append(h.Healed(time.monotonic_ns()))
        self.load(0)
        for _ in range(REST_ROUNDS):
            if self.until(REST_LIMIT_S, self.rested):
                self.final_messages()
            if self.rested():
                break
        self.go_on(LINGER_S)
        self.report()
        self.added.append(h.End(time.monotonic_ns(), {
            Address(bytes.fromhex(member.address)): member.kept_back for member in self.up()}))
        self.crew.end()
        for member in self.crew.workers:
            self.look_at_complaints(member)
        return self.judge()

    def rested(self) -> bool:
        """Whether all six run, each site has one view of its own, and each member has both in its global view."""
        if any(member.state in ("starting", "leaving") for member in self.crew.workers) or self.missing():
            return False
        whole = {site: sorted(member.address for member in self.up(site)) for site in SITES}
        return all(sorted(member.view) == whole[member.site] and member.view == self.up(member.site)[0].view and
                   {site: sorted(members) for site, members in member.global_view.items()} == whole
                   for member in self.up())

    def final_messages(self) -> None:
        """All members send in the final view; wait until all of that is delivered."""
        for site in SITES:
            here = self.up(site)
            for member, following in zip(here, [*here[1:], *here[:1]], strict=True):
                member.final = None
                member.command("final", count=FINAL_RUN, to=following.address)
        self.until(ARRIVAL_LIMIT_S, lambda: all(member.final is not None for member in self.up()))
        self.until(ARRIVAL_LIMIT_S, self.all_delivered)

    def all_delivered(self) -> bool:
        """Whether all final messages are delivered at all their destinations, and nothing else is under way."""
        self.report()
        for member in self.up():
            for prefix, count in (member.final or {}).items():
                dest = prefix.partition(">")[2].rstrip("/")
                if not all(other.last.get(prefix, -1) >= count - 1
                           for other in self.up() if dest == "*" or other.address.startswith(dest)):
                    return False
        return not any(member.kept_back or member.letters for member in self.up())

    def report(self) -> None:
        """Fresh figures of all members that can answer."""
        asked = {member.tag: member.reports for member in self.up() if not member.paused}
        members = [member for member in self.up() if not member.paused]
        for member in members:
            member.command("report")
        self.until(5.0, lambda: all(member.reports > asked[member.tag] for member in members))

    def judge(self) -> Verdict:
        """Read all files, ask all checkers."""
        history = Gathered(self.files, self.added).history
        (self.out / "history.txt").write_text("\n".join(history.lines()) + "\n")
        return judge(history, self.failures, time.monotonic() - self.began_s)

    def look_at_complaints(self, member: MemberProcess) -> None:
        """A traceback on its stderr is a failure."""
        if any("Traceback" in line for line in member.errors):
            self.failures.append(f"{member.tag} complained: " + " | ".join(member.errors))

    # --- events -----------------------------------------------------------------------------------------------------

    def until(self, timeout_s: float, condition: Callable[[], bool]) -> bool:
        """Take events until `condition` holds; whether it does."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.pump(TICK_S)
        return True

    def wait(self, what: str, timeout_s: float, condition: Callable[[], bool]) -> None:
        """As `until`. Raises Chaos if it does not come."""
        if not self.until(timeout_s, lambda: bool(self.failures) or condition()):
            raise Chaos(f"waited {timeout_s:.0f} s in vain: {what}; {self.where()}")
        if self.failures:
            raise Chaos(f"failed while waiting for {what}: {self.failures[0]}")

    def where(self) -> str:
        """The views of all members, for an error message."""
        return "; ".join(f"{p.tag} ({p.address[:8]}) {p.state}, view {[m[:8] for m in p.view]}, global "
                         f"{ {s: len(m) for s, m in p.global_view.items()} } {' '.join(p.errors[-3:])}"
                         for p in self.crew.workers)

    def pump(self, timeout_s: float) -> None:
        """Take the events that are there, waiting for the first one."""
        try:
            member, event = self.crew.events.get(timeout=timeout_s)
            while True:
                getattr(self, "on_" + event["event"])(member, event)
                member, event = self.crew.events.get_nowait()
        except queue.Empty:
            return

    def on_address(self, member: MemberProcess, event: dict[str, Any]) -> None:
        """It is in a view, so it exists."""
        member.address = event["address"]

    def on_ready(self, member: MemberProcess, event: dict[str, Any]) -> None:
        """It is connected."""
        member.state = "up"
        if self.rate:
            member.command("load", rate=self.rate)

    def on_view(self, member: MemberProcess, event: dict[str, Any]) -> None:
        """Its local view changed."""
        member.view = event["members"]

    def on_global_view(self, member: MemberProcess, event: dict[str, Any]) -> None:
        """Its global view changed."""
        member.global_view = event["sites"]

    def on_final(self, member: MemberProcess, event: dict[str, Any]) -> None:
        """It has sent its final messages."""
        member.final = event["sent"]

    def on_report(self, member: MemberProcess, event: dict[str, Any]) -> None:
        """Its figures."""
        member.last, member.kept_back, member.letters = event["last"], event["kept_back"], event["letters"]
        member.samples.append((event["at"], event["rss_mb"], event["descriptors"]))
        member.reports += 1

    def on_left(self, member: MemberProcess, event: dict[str, Any]) -> None:
        """It is out."""
        member.state = "left"

    def on_error(self, member: MemberProcess, event: dict[str, Any]) -> None:
        """It could not go on."""
        member.errors.append(event["message"])
        self.failures.append(f"{member.tag}: {event['message']}")

    def on_ended(self, member: MemberProcess, event: dict[str, Any]) -> None:
        """Its process ended; expected only of the killed and the left."""
        if member.state not in ("killed", "left", "leaving"):
            time.sleep(LAST_GASP_S)
            self.failures.append(f"{member.tag} ended unexpectedly, exit {member.process.wait(5)}: "
                                 + " | ".join(member.errors))
        if member.state != "killed":
            member.state = "left"


def site_of(name: str) -> str:
    """The site of a member."""
    return next(site for site, names in SITES.items() if name in names)
