"""The director of the demo on the page: the members send until the text is sent or the end is ordered; what happens
meanwhile is ordered by buttons. No order waits for anything, so that the page goes on."""
from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, register_namespace

import attrs
from defusedxml import ElementTree

from jgroups_py.cli.demo.director import SETTLE_TIMEOUT_S, STREAM_SLACK_S, DemoPlan, Director
from jgroups_py.cli.demo.processes import DemoMember
from jgroups_py.config.load import find
from jgroups_py.ops.live.picture import OfferedOrder

FREEZE_S = 3.0                       # shorter than FD_ALL's patience in the stacks nyc and sfo, so no view changes
MOST_ORDERS = 16                     # given and not yet carried out
NAMESPACE = "urn:org:jgroups"
Order = tuple[str, str]              # (name, site), the site "" where none is needed


def bridge_that_can_be_cut(folder: Path) -> Path:
    """The packaged bridge with PARTITION above its transport, as a file."""
    register_namespace("", NAMESPACE)
    tree = ElementTree.fromstring(find("bridge").read_text())
    tree.insert(1, Element(f"{{{NAMESPACE}}}PARTITION"))
    path = folder / "bridge.xml"
    path.write_bytes(ElementTree.tostring(tree))
    return path


class LiveDirector(Director):
    """See the module. `order` may be called by any thread."""

    live = True

    def __init__(self, plan: DemoPlan, view: Any) -> None:
        super().__init__(plan, view)
        self.more_properties = {"bridge_props": str(bridge_that_can_be_cut(plan.out))}
        self.frozen: dict[str, float] = {}               # tag -> monotonic time when it goes on
        self.is_cut = False
        self.is_ended = False
        self.planned: list[tuple[float, Order]] = []     # (monotonic time, order) of the programme that is played
        self._given: queue.Queue[Order] = queue.Queue(MOST_ORDERS)
        self._verbs: dict[str, Callable[[str], None]] = {
            "kill": self._kill, "freeze": self._freeze, "return": self._return, "cut": self._cut, "mend": self._mend,
            "play": self._play, "end": self._end,
        }

    # --- orders -----------------------------------------------------------------------------------------------------

    def order(self, name: str, site: str) -> bool:
        """Give an order; False: too many wait."""
        try:
            self._given.put_nowait((name, site))
        except queue.Full:
            return False
        return True

    def offers(self) -> tuple[OfferedOrder, ...]:
        """All orders, those that cannot be given now with the reason."""
        found = []
        for verb, label in (
                ("kill", "kill the relay of {}"), ("freeze", f"freeze the relay of {{}} for {FREEZE_S:.0f} s"),
                ("return", "bring one back to {}")):
            found += [OfferedOrder(order=verb, site=site, label=label.format(site), refusal=self.refusal(verb, site))
                      for site in self.sites]
        verb, label = ("mend", "mend the bridge") if self.is_cut else ("cut", "cut the bridge")
        found += [OfferedOrder(order=each, site="", label=text, refusal=self.refusal(each, "")) for each, text in (
            (verb, label), ("play", "play the programme"), ("end", "end, and count"))]
        return tuple(found)

    def refusal(self, verb: str, site: str) -> str:
        """Why an order cannot be carried out now; "" if it can."""
        if self.is_ended:
            return "the run has ended"
        if verb in ("kill", "freeze"):
            relay = self.group.coordinator(site)
            if relay is None:
                return f"{site} has no relay just now"
            if relay.tag in self.frozen:
                return f"{relay.name} is frozen"
            if verb == "kill" and relay.tag in (self.sender, self.answerer):
                return f"{relay.name} {'sends the lines' if relay.tag == self.sender else 'answers'}, to the end"
        if verb == "return" and self._absent(site) is None:
            return f"all members of {site} are there"
        return "it is being played" if verb == "play" and self.planned else ""

    def _absent(self, site: str) -> DemoMember | None:
        """The incarnation of a member of a site that was killed first and has not returned."""
        there = {member.name for member in self.group.workers if member.state in ("up", "starting")}
        return next((member for member in self.group.workers
                     if member.site == site and member.state == "killed" and member.name not in there), None)

    def _obey(self) -> None:
        """Carry out what was ordered, and what the programme has now."""
        now, due = time.monotonic(), []
        while not self._given.empty():
            due.append(self._given.get_nowait())
        while self.planned and self.planned[0][0] <= now:
            due.append(self.planned.pop(0)[1])
        for verb, site in due:
            if refusal := self.refusal(verb, site):
                self.show_line(f"not done: {verb} {site}: {refusal}")
            else:
                self._verbs[verb](site)

    def _kill(self, site: str) -> None:
        self.kill_coordinator(site)

    def _freeze(self, site: str) -> None:
        member = self.group.coordinator(site)
        assert member is not None, "an order without its relay is refused"
        self.frozen[member.tag] = time.monotonic() + FREEZE_S
        os.kill(member.process.pid, signal.SIGSTOP)
        self.incident("frozen", member, time.time())
        self.show_line(f"froze {member.name}, relay of {site} (SIGSTOP)")

    def _thaw(self, least_s: float) -> None:
        """Let those go on whose time is over at `least_s`."""
        for member in self.group.workers:
            if self.frozen.get(member.tag, least_s + 1) <= least_s:
                del self.frozen[member.tag]
                os.kill(member.process.pid, signal.SIGCONT)
                self.show_line(f"{member.name} goes on")

    def _return(self, site: str) -> None:
        absent = self._absent(site)
        assert absent is not None, "an order without such a member is refused"
        lives = sum(member.name == absent.name for member in self.group.workers)
        self.start(f"{absent.name}#{lives + 1}", site)
        self.show_line(f"{absent.name} starts again in {site}")

    def _cut(self, _: str) -> None:
        groups = {site: dict.fromkeys(p.name for p in self.group.workers if p.site == site) for site in self.sites}
        self.is_cut = self.was_cut = True
        self._tell_cut("|".join(",".join(names) for names in groups.values()))
        relay = self.group.coordinator(self.sites[0])
        if relay is not None:
            self.incident("cut", relay, time.time())
        self.show_line("cut the bridge between all sites")

    def _mend(self, _: str) -> None:
        self.is_cut = False
        self._tell_cut("")
        self.show_line("mended the bridge")

    def _tell_cut(self, groups: str) -> None:
        self.cut_groups = groups
        for member in self.group.workers:
            if member.state in ("up", "starting"):
                member.command("cut", groups=groups)

    def _play(self, _: str) -> None:
        first, second = self.sites[:2]
        now = time.monotonic()
        self.planned = [(now + seconds, order) for seconds, order in (
            (0.0, ("kill", first)), (4.0, ("kill", second)), (8.0, ("return", first)), (11.0, ("return", second)),
            (14.0, ("freeze", first)), (19.0, ("cut", "")), (24.0, ("mend", "")))]

    def _end(self, _: str) -> None:
        self.is_ended = True

    # --- the run ----------------------------------------------------------------------------------------------------

    def stream(self) -> None:
        """Send until all lines are sent or the end is ordered, and obey meanwhile."""
        for member in self.group.up():
            self.send_numbers(member)
        lines = self.plan.lines
        deadline = time.monotonic() + lines / self.plan.rate + STREAM_SLACK_S
        while not self.is_ended and self.lines_sent < lines and time.monotonic() < deadline:
            self.pump(0.05)
            self._obey()
        self.is_ended = True
        self.show_line(f"{self.sender} has sent {self.lines_sent} lines")

    def settle(self) -> None:
        """Mend all, stop the senders, and wait until everything has arrived; what was sent is what copies must have."""
        self.planned = []
        self._thaw(time.monotonic() + FREEZE_S)
        if self.is_cut:
            self._mend("")
        self.wait("all members see all sites", SETTLE_TIMEOUT_S, lambda: all(
            self._knows_all(member) for member in self.group.up()))
        super().settle()
        self.plan = attrs.evolve(self.plan, data=b"".join(
            self.plan.data.splitlines(keepends=True)[:self.lines_sent]))

    def _knows_all(self, member: DemoMember) -> bool:
        there = {site: {other.name for other in self.group.up(site)} for site in self.sites}
        return {site: set(names) for site, names in member.global_view.items()} == there

    def pump(self, timeout_s: float) -> None:
        """As Director's; frozen members go on when their time is over."""
        self._thaw(time.monotonic())
        super().pump(timeout_s)

    def on_ready(self, member: DemoMember, event: dict[str, Any]) -> None:
        """The member is connected; one that returned begins to send."""
        super().on_ready(member, event)
        if "#" in member.tag:
            if self.is_cut:
                member.command("cut", groups=self.cut_groups)
            if not self.is_ended:
                self.send_numbers(member)
            self.show_line(f"{member.name} is back in {member.site}")
