"""VERIFY_SUSPECT: asks a suspected member whether it lives before the suspicion goes on.

A suspicion that is certain (we saw ourselves that the process is gone) passes at once. Any other is held back: the
member is asked a few times within `timeout` (half of it if another member saw it and we could not), and every frame of
it counts as an answer. Later, should a member be heard well after its suspicion went on, it is taken back (Unsuspect),
whoever raised it. Sits above the failure detectors, below GMS.
Source: JGroups VERIFY_SUSPECT2.java. Deviation: other traffic counts as an answer; a verdict that comes late
because we ourselves did not run is not passed, the member is asked again.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.batch import Batch, Header
from jgroups_py.events import ExcludedHint, Left, Suspect, Unsuspect, ViewChange
from jgroups_py.ports import Hearing
from jgroups_py.protocol import STOP, Protocol, on, receives, timer
from jgroups_py.units import count, duration, millis

VERIFY_ID = 7
LATE_FRAMES_NS = millis(500)     # frames of a dead process may still arrive for so long
LATE_NS = millis(300)            # a timer that fires so late means that we did not run


@wire.header(proto=VERIFY_ID, kind=1)
class AreYouAlive(Header):
    """Somebody suspects you."""


@wire.header(proto=VERIFY_ID, kind=2)
class IAmAlive(Header):
    """Answer to it."""


@attrs.frozen
class VerifyConfig:
    """How long to ask."""

    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("use_icmp", "bind_addr", "use_mcast", "use_mcast_rsps"), "members are asked through the stack itself")

    timeout_ns: int = duration(
        "1s", least="1ms", doc="How long a suspected member may take to answer. Lower excludes dead members sooner, "
        "higher spares slow ones.")
    num_msgs: int = count(3, least=1, most=100, doc="How often it is asked in that time.")


class VerifySuspect(Protocol):
    """Double-checks suspicions."""

    control_only = True
    Config = VerifyConfig
    config: VerifyConfig
    needs = {"hearing": Hearing}
    hearing: Hearing

    def start(self) -> None:
        self.asked: dict[Address, int] = {}            # suspected member -> since when, ns
        self.likely: dict[Address, None] = {}          # those of them that another member accuses
        self.members: tuple[Address, ...] = ()
        self.passed: dict[Address, int] = {}           # whose suspicion went on -> when, ns

    @on(Suspect)
    def suspected(self, event: Suspect) -> object:
        if event.certain:
            for member in event.members:
                self.drop(member)
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
        """How long it may take to answer: half as long if another member says that its process is gone."""
        return self.config.timeout_ns // (2 if member in self.likely else 1)

    @timer("ask")
    def ask(self, member: Address) -> None:
        self.count("asked")
        self.send(AreYouAlive(), member)
        self.set_timer("ask", max(1, self.patience_ns(member) // self.config.num_msgs), member)

    @timer("verdict")
    def verdict(self, member: Address) -> None:
        since_ns, patience_ns, likely = self.asked[member], self.patience_ns(member), member in self.likely
        heard_ns = self.hearing.heard_ns(member)
        self.drop(member)
        if heard_ns is not None and heard_ns > since_ns:
            self.pass_up(Unsuspect((member,)))
        elif self.now_ns - since_ns > patience_ns + LATE_NS:
            self.verify(member, likely)
        else:
            self.count("confirmed")
            self.watch((member,))
            self.pass_up(Suspect((member,), certain=True))

    def drop(self, member: Address) -> None:
        """Ask no more."""
        self.asked.pop(member, None)
        self.likely.pop(member, None)
        self.cancel_timer("ask", member)
        self.cancel_timer("verdict", member)

    @on(Unsuspect)
    def unsuspected(self, event: Unsuspect) -> None:
        for member in event.members:
            self.drop(member)
            self.passed.pop(member, None)

    @receives(AreYouAlive)
    def asked_us(self, header: AreYouAlive, batch: Batch) -> None:
        self.send(IAmAlive(), batch.src)
        if self.members and batch.src not in self.members:
            self.pass_up(ExcludedHint(batch.src, asked=True))     # it takes itself for a member of ours

    @receives(IAmAlive)
    def alive(self, header: IAmAlive, batch: Batch) -> None:
        if batch.src in self.asked:
            self.count("acquitted")
            self.drop(batch.src)
            self.pass_up(Unsuspect((batch.src,)))

    # --- taking back --------------------------------------------------------------------------------------------------

    def watch(self, members: tuple[Address, ...]) -> None:
        """Look whether they are heard after all."""
        for member in members:
            self.passed.setdefault(member, self.now_ns)
        if self.passed and not self.timer_is_set("watch"):
            self.set_timer("watch", LATE_FRAMES_NS)

    @timer("watch")
    def look(self) -> None:
        heard = {member: self.hearing.heard_ns(member) or 0 for member in self.passed}
        again = tuple(member for member, passed_ns in self.passed.items() if heard[member] > passed_ns + LATE_FRAMES_NS)
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
            self.drop(member)
        self.passed = {member: at_ns for member, at_ns in self.passed.items() if member in event.view}

    @on(Left)
    def left(self, event: Left) -> None:
        for member in list(self.asked):
            self.drop(member)
        self.cancel_timer("watch")
