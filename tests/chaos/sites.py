"""Two sites of real member processes, the faults done to them, and the verdict of the simulator's checkers.

A run: start everybody, let them send, do harm for a while, heal, wait until all have one view and everything said
last has arrived everywhere, end. Then the histories that all processes wrote are judged. What comes to rest too late
is not waited for any longer: the checker of liveness says what is missing.
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

from jgroups_py.address import Address
from jgroups_py.cli import company
from jgroups_py.sim import history as h
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
LAST_GASP_S = 0.3                    # until what a process said when it died has been read
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
class Person(company.Person):
    """One incarnation, and what it told last; members by their addresses in hex."""

    address: str = ""
    view: list[str] = attrs.Factory(list)
    global_view: dict[str, list[str]] = attrs.Factory(dict)
    last: dict[str, int] = attrs.Factory(dict)           # prefix -> highest number delivered
    kept_back: int = 0                                   # bytes
    letters: int = 0                                     # unicasts to other sites that wait for an answer
    said: dict[str, int] | None = None                   # its last words
    paused: bool = False
    samples: list[tuple[float, float, int]] = attrs.Factory(list)    # (seconds, resident MB, descriptors)
    reports: int = 0


class Crew(company.Company[Person]):
    """The processes; each may run in a place of its own."""

    def __init__(self, place: Place) -> None:
        super().__init__(WORKER, Person)
        self.place = place

    def command(self, options: dict[str, Any]) -> list[str]:
        """From whatever folder this runs in, the tests can be imported."""
        name = options["tag"].partition("#")[0]
        return [*self.place.prefix(name), "env", f"PYTHONPATH={ROOT}", *super().command(options)]


class Sites:
    """The members and what happens to them; `with` ends all processes."""

    def __init__(self, place: Place, out: Path, seed: int = 0, *, trace: bool = False) -> None:
        """trace: one member of each site writes into `out` what its memory is used for (growth.py)."""
        self.place = place
        self.trace = trace
        self.out = out
        self.seed = seed
        self.crew = Crew(place)
        self.told: list[h.Entry] = []                    # what goes into the history from here
        self.files: list[Path] = []
        self.failures: list[str] = []
        self.rate = 0.0
        self.cluster = f"chaos-{os.getpid()}"
        self.mcast_ports = {site: company.free_udp_port() for site in SITES}
        self.began_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        for person in self.crew.people:
            if person.process.poll() is None and person.paused:
                person.process.kill()                    # it would not hear that its input ended
        self.crew.end()

    # --- members ----------------------------------------------------------------------------------------------------

    def start_all(self) -> None:
        """Everybody up, and everybody sees everybody."""
        for names in SITES.values():
            self.start(names[0])
        self.wait("the first member of each site", START_LIMIT_S, lambda: len(self.crew.up()) == len(SITES))
        for name in NAMES:
            if not any(person.name == name for person in self.crew.people):
                self.start(name)
        self.wait("all members see both sites", START_LIMIT_S, self.rested)

    def start(self, name: str) -> Person:
        """Start a member, or start it again."""
        number = sum(1 for person in self.crew.people if person.name == name) + 1
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

    def up(self, site: str | None = None) -> list[Person]:
        """Who takes part."""
        return self.crew.up(site)

    def relay(self, site: str) -> Person:
        """The coordinator of a site, as most of its members see it."""
        firsts = [person.view[0] for person in self.up(site) if person.view]
        found = [person for person in self.up(site) if person.address in firsts]
        if not found:
            raise Chaos(f"{site} has no coordinator: {self.where()}")
        return max(found, key=lambda person: firsts.count(person.address))

    def load(self, rate: float) -> None:
        """Everybody multicasts so many messages a second from now on."""
        self.rate = rate
        for person in self.up():
            person.tell("load", rate=rate)

    # --- faults -----------------------------------------------------------------------------------------------------

    def remark(self, text: str) -> None:
        """For the reader of the history."""
        self.told.append(h.Remark(time.monotonic_ns(), text))

    def kill(self, person: Person) -> None:
        """SIGKILL."""
        self.remark(f"{person.tag} is killed")
        self.crew.kill(person)
        person.process.wait()
        if person.address:
            self.told.append(h.Crash(time.monotonic_ns(), Address(bytes.fromhex(person.address))))

    def pause(self, person: Person) -> None:
        """SIGSTOP."""
        self.remark(f"{person.tag} is paused")
        person.paused = True
        os.kill(person.process.pid, signal.SIGSTOP)

    def resume(self, person: Person) -> None:
        """SIGCONT, if it is paused."""
        if person.paused:
            person.paused = False
            os.kill(person.process.pid, signal.SIGCONT)
            self.remark(f"{person.tag} goes on")

    def leave(self, person: Person) -> None:
        """Ask a member to leave."""
        person.state = "leaving"
        person.tell("leave")

    def missing(self) -> list[str]:
        """The members that do not run just now."""
        running = [person.name for person in self.crew.people if person.state in ("starting", "up", "leaving")]
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
        for person in self.crew.people:
            self.resume(person)
        for name in self.missing():
            self.start(name)
        self.told.append(h.Healed(time.monotonic_ns()))
        self.load(0)
        for _ in range(REST_ROUNDS):
            if self.until(REST_LIMIT_S, self.rested):
                self.last_words()
            if self.rested():
                break
        self.go_on(LINGER_S)
        self.report()
        self.told.append(h.End(time.monotonic_ns(), {
            Address(bytes.fromhex(person.address)): person.kept_back for person in self.up()}))
        self.crew.end()
        for person in self.crew.people:
            self.look_at_complaints(person)
        return self.judge()

    def rested(self) -> bool:
        """Whether all six run, each site has one view of its own, and everybody sees both."""
        if any(person.state in ("starting", "leaving") for person in self.crew.people) or self.missing():
            return False
        whole = {site: sorted(person.address for person in self.up(site)) for site in SITES}
        return all(sorted(person.view) == whole[person.site] and person.view == self.up(person.site)[0].view and
                   {site: sorted(members) for site, members in person.global_view.items()} == whole
                   for person in self.up())

    def last_words(self) -> None:
        """Everybody says something in the final view; wait until all have heard it."""
        for site in SITES:
            here = self.up(site)
            for person, following in zip(here, [*here[1:], *here[:1]], strict=True):
                person.said = None
                person.tell("words", count=FINAL_RUN, to=following.address)
        self.until(ARRIVAL_LIMIT_S, lambda: all(person.said is not None for person in self.up()))
        self.until(ARRIVAL_LIMIT_S, self.all_heard)

    def all_heard(self) -> bool:
        """Whether the last words of all are with everybody they were for, and nothing else is still under way."""
        self.report()
        for person in self.up():
            for prefix, count in (person.said or {}).items():
                dest = prefix.partition(">")[2].rstrip("/")
                if not all(other.last.get(prefix, -1) >= count - 1
                           for other in self.up() if dest == "*" or other.address.startswith(dest)):
                    return False
        return not any(person.kept_back or person.letters for person in self.up())

    def report(self) -> None:
        """Fresh figures of everybody that can answer."""
        asked = {person.tag: person.reports for person in self.up() if not person.paused}
        people = [person for person in self.up() if not person.paused]
        for person in people:
            person.tell("report")
        self.until(5.0, lambda: all(person.reports > asked[person.tag] for person in people))

    def judge(self) -> Verdict:
        """Read all files, ask all checkers."""
        history = Gathered(self.files, self.told).history
        (self.out / "history.txt").write_text("\n".join(history.lines()) + "\n")
        return judge(history, self.failures, time.monotonic() - self.began_s)

    def look_at_complaints(self, person: Person) -> None:
        """A traceback on its stderr is a failure."""
        if any("Traceback" in line for line in person.errors):
            self.failures.append(f"{person.tag} complained: " + " | ".join(person.errors))

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
        """Who sees what, for an error message."""
        return "; ".join(f"{p.tag} ({p.address[:8]}) {p.state}, view {[m[:8] for m in p.view]}, global "
                         f"{ {s: len(m) for s, m in p.global_view.items()} } {' '.join(p.errors[-3:])}"
                         for p in self.crew.people)

    def pump(self, timeout_s: float) -> None:
        """Take the events that are there, waiting for the first one."""
        try:
            person, event = self.crew.events.get(timeout=timeout_s)
            while True:
                getattr(self, "on_" + event["event"])(person, event)
                person, event = self.crew.events.get_nowait()
        except queue.Empty:
            return

    def on_address(self, person: Person, event: dict[str, Any]) -> None:
        """It is in a view, so it exists."""
        person.address = event["address"]

    def on_ready(self, person: Person, event: dict[str, Any]) -> None:
        """It is connected."""
        person.state = "up"
        if self.rate:
            person.tell("load", rate=self.rate)

    def on_view(self, person: Person, event: dict[str, Any]) -> None:
        """Its local view changed."""
        person.view = event["members"]

    def on_global_view(self, person: Person, event: dict[str, Any]) -> None:
        """Its global view changed."""
        person.global_view = event["sites"]

    def on_words(self, person: Person, event: dict[str, Any]) -> None:
        """What it said last."""
        person.said = event["said"]

    def on_report(self, person: Person, event: dict[str, Any]) -> None:
        """Its figures."""
        person.last, person.kept_back, person.letters = event["last"], event["kept_back"], event["letters"]
        person.samples.append((event["at"], event["rss_mb"], event["descriptors"]))
        person.reports += 1

    def on_left(self, person: Person, event: dict[str, Any]) -> None:
        """It is out."""
        person.state = "left"

    def on_error(self, person: Person, event: dict[str, Any]) -> None:
        """It could not go on."""
        person.errors.append(event["message"])
        self.failures.append(f"{person.tag}: {event['message']}")

    def on_ended(self, person: Person, event: dict[str, Any]) -> None:
        """Its process ended; expected only of the killed and the left."""
        if person.state not in ("killed", "left", "leaving"):
            time.sleep(LAST_GASP_S)
            self.failures.append(f"{person.tag} ended unexpectedly, exit {person.process.wait(5)}: "
                                 + " | ".join(person.errors))
        if person.state != "killed":
            person.state = "left"


def site_of(name: str) -> str:
    """The site of a member."""
    return next(site for site, names in SITES.items() if name in names)
