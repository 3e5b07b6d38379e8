"""VERIFY_SUSPECT: asks a suspected member whether it lives before it passes the suspicion up.

A certain suspicion (this member has seen that the process is gone) passes at once. Any other is held back: the suspect
is asked `num_msgs` times within `timeout` (within half of it if another member saw its end), and every frame of it
counts as an answer. If a suspect is heard LATE_FRAMES_NS or more after its suspicion was passed up, the suspicion is
taken back (Unsuspect), whichever detector raised it.

Place: above the failure detectors, below GMS. Source: JGroups VERIFY_SUSPECT2.java. Deviations: other traffic counts as
an answer; a verdict that is late because this process did not run is not passed up, the suspect is asked again.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.events import ExcludedHint, Left, Suspect, Unsuspect, ViewChange
from jgroups_py.model.ports import LastFrames
from jgroups_py.model.units import count, duration, millis
from jgroups_py.stack.protocol import STOP, Protocol, on, receives, timer

VERIFY_ID = 7
LATE_FRAMES_NS = millis(500)     # how long frames of a dead process may still arrive
LATE_NS = millis(300)            # a timer that fires so late means that this process did not run


@wire.header(proto=VERIFY_ID, kind=1)
class AreYouAlive(Header):
    """The receiver is suspected; it answers IAmAlive."""


@wire.header(proto=VERIFY_ID, kind=2)
class IAmAlive(Header):
    """Answer to AreYouAlive."""


@attrs.frozen
class VerifyConfig:
    """How long and how often a suspect is asked."""

    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("use_icmp", "bind_addr", "use_mcast", "use_mcast_rsps"), "members are asked through the stack itself")

    timeout_ns: int = duration(
        "1s", least="1ms", doc="How long a suspected member may take to answer. Lower excludes dead members sooner, "
        "higher spares slow ones.")
    num_msgs: int = count(3, least=1, most=100, doc="How often it is asked in that time.")


class VerifySuspect(Protocol):
    """Verifies suspicions, and takes back those that turn out wrong."""

    control_only = True
    Config = VerifyConfig
    config: VerifyConfig
    needs = {"last_frames": LastFrames}
    last_frames: LastFrames
    COUNTERS = declare(
        counter("asked", "Questions to suspected members whether they are alive."),
        counter("confirmed", "Suspicions passed on: the member did not answer in time."),
        counter("acquitted", "Suspected members that answered."),
    )

    def start(self) -> None:
        self.asked: dict[Address, int] = {}            # suspect -> since when it is asked, ns
        self.likely: dict[Address, None] = {}          # those of them whose end another member reports
        self.members: tuple[Address, ...] = ()
        self.passed: dict[Address, int] = {}           # suspect -> when its suspicion was passed up, ns

    @on(Suspect)
    def suspected(self, event: Suspect) -> object:
        if event.certain:
            for member in event.members:
                self.forget(member)
            self.watch(event.members)
            return None
        for member in event.members:
            if member != self.me and member not in self.asked and member not in self.passed:
                self.verify(member, likely=event.accused)
        return STOP

    def verify(self, member: Address, likely: bool) -> None:
        self.asked[member] = self.now_ns
        if likely:
            self.likely[member] = None
        self.set_timer("verdict", self.patience_ns(member), member)
        self.ask(member)

    def patience_ns(self, member: Address) -> int:
        """How long the suspect may take to answer: half as long if another member reports that it is gone."""
        return self.config.timeout_ns // (2 if member in self.likely else 1)

    @timer("ask")
    def ask(self, member: Address) -> None:
        self.count("asked")
        self.send(AreYouAlive(), member)
        self.set_timer("ask", max(1, self.patience_ns(member) // self.config.num_msgs), member)

    @timer("verdict")
    def verdict(self, member: Address) -> None:
        since_ns, patience_ns, likely = self.asked[member], self.patience_ns(member), member in self.likely
        last_frame_ns = self.last_frames.last_frame_ns(member)
        self.forget(member)
        if last_frame_ns is not None and last_frame_ns > since_ns:
            self.pass_up(Unsuspect((member,)))
        elif self.now_ns - since_ns > patience_ns + LATE_NS:
            self.verify(member, likely)
        else:
            self.count("confirmed")
            self.watch((member,))
            self.pass_up(Suspect((member,), certain=True))

    def forget(self, member: Address) -> None:
        """Stop asking."""
        self.asked.pop(member, None)
        self.likely.pop(member, None)
        self.cancel_timer("ask", member)
        self.cancel_timer("verdict", member)

    @on(Unsuspect)
    def unsuspected(self, event: Unsuspect) -> None:
        for member in event.members:
            self.forget(member)
            self.passed.pop(member, None)

    @receives(AreYouAlive)
    def asked_us(self, header: AreYouAlive, batch: Batch) -> None:
        self.send(IAmAlive(), batch.src)
        if self.members and batch.src not in self.members:
            # It suspects us, so it has us in its view: it does not know that it was excluded from ours.
            self.pass_up(ExcludedHint(batch.src, asked=True))

    @receives(IAmAlive)
    def alive(self, header: IAmAlive, batch: Batch) -> None:
        if batch.src in self.asked:
            self.count("acquitted")
            self.forget(batch.src)
            self.pass_up(Unsuspect((batch.src,)))

    # --- taking back --------------------------------------------------------------------------------------------------

    def watch(self, members: tuple[Address, ...]) -> None:
        """Watch suspects whose suspicion was passed up: one that is heard again is no longer suspected."""
        for member in members:
            self.passed.setdefault(member, self.now_ns)
        if self.passed and not self.timer_is_set("watch"):
            self.set_timer("watch", LATE_FRAMES_NS)

    @timer("watch")
    def look(self) -> None:
        arrived_ns = {member: self.last_frames.last_frame_ns(member) or 0 for member in self.passed}
        again = tuple(member for member, passed_ns in self.passed.items()
                      if arrived_ns[member] > passed_ns + LATE_FRAMES_NS)
        for member in again:
            del self.passed[member]
        if again:
            self.pass_up(Unsuspect(again))
        if self.passed:
            self.set_timer("watch", LATE_FRAMES_NS)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.members = event.view.members
        for member in [member for member in self.asked if member not in event.view]:
            self.forget(member)
        self.passed = {member: at_ns for member, at_ns in self.passed.items() if member in event.view}

    @on(Left)
    def left(self, event: Left) -> None:
        for member in list(self.asked):
            self.forget(member)
        self.cancel_timer("watch")
