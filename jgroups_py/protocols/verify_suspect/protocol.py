"""VERIFY_SUSPECT: sends requests to a suspected member, and passes the suspicion up only if it does not answer.

A certain suspicion (this member has seen that the process is gone) passes at once. Any other is held back: the suspect
gets `num_msgs` requests within `timeout` (within half of it if another member reports that the process is gone), and
any frame of it counts as an answer. If a frame arrives LATE_FRAMES_NS or more after the suspicion was passed up, the
suspicion is withdrawn (Unsuspect), whichever failure detector raised it.

With `measure_interval` each member is also sent a request every so often, and the time of its answer is its round trip.
A suspect gets two of them to answer where that is more than `timeout`: over a long path no answer to a request comes
sooner, and every suspicion would be confirmed.

Place: above the failure detectors, below GMS. Source: JGroups VERIFY_SUSPECT2.java. Deviations: other traffic counts as
an answer; if the deadline fires late, because this process did not run, the verification begins anew.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.events import ExcludedHint, Left, Suspect, Unsuspect, ViewChange
from jgroups_py.model.ports import LastFrames, SuspicionTable
from jgroups_py.model.units import count, duration, millis, seconds
from jgroups_py.stack.protocol import STOP, Protocol, on, receives, timer

VERIFY_ID = 7
LATE_FRAMES_NS = millis(500)     # how long frames of a dead process may still arrive
PAUSE_NS = millis(300)           # a timer that fires so late: this process did not run
MEASURE_AFTER_NS = millis(500)   # after a view: by then the other members have it too, and answer a member of theirs
UNMEASURED_NS = seconds(1)       # where trips are measured, a member that has not been has so long to answer, at least
LONGEST_TRIP_NS = seconds(2)     # an answer that takes longer was held up by a cut or a pause
SHORTER_WEIGHT = 8               # a shorter round trip weighs 1/8, a longer one counts at once
TRIPS_TO_ANSWER = 2


@wire.header(proto=VERIFY_ID, kind=1)
class AreYouAlive(Header):
    """To a suspect, which answers IAmAlive."""


@wire.header(proto=VERIFY_ID, kind=2)
class IAmAlive(Header):
    """Answer to AreYouAlive."""


@attrs.frozen
class VerifyConfig:
    """How long a suspect has to answer, and how many requests it gets."""

    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("use_icmp", "bind_addr", "use_mcast", "use_mcast_rsps"), "requests and answers go through the stack itself")

    timeout_ns: int = duration(
        "1s", least="1ms", doc="How long a suspected member may take to answer. Lower excludes dead members sooner, "
        "higher spares slow ones.")
    num_msgs: int = count(3, least=1, most=100, doc="How many requests it gets in that time.")
    measure_interval_ns: int = duration(
        "0s", name="measure_interval", doc="How often the round trip to each member is measured, by a request. A "
        "suspected member has two of its round trips to answer, if that is more than timeout. For groups over long "
        "paths, of few members. 0: never.")


class VerifySuspect(Protocol, SuspicionTable):
    """Verifies suspicions, and withdraws those that turn out wrong."""

    control_only = True
    Config = VerifyConfig
    config: VerifyConfig
    needs = {"last_frames": LastFrames}
    last_frames: LastFrames
    COUNTERS = declare(
        counter("requests_sent", "Requests to suspected members."),
        counter("confirmed", "Suspicions passed up: the member did not answer in time."),
        counter("refuted", "Suspected members that answered."),
        counter("trips_measured", "Answers that showed the round trip to a member."),
    )

    def start(self) -> None:
        self.verifying: dict[Address, int] = {}        # suspect -> when its verification began, ns
        self.likely: dict[Address, None] = {}          # those of them that another member reports as gone
        self.members: tuple[Address, ...] = ()
        self.passed: dict[Address, int] = {}           # suspect -> when its suspicion was passed up, ns
        self.measuring: dict[Address, int] = {}        # member -> when the request was sent that measures its trip, ns
        self.trips: dict[Address, int] = {}            # member -> its round trip, ns

    def suspected_members(self) -> tuple[Address, ...]:
        """See SuspicionTable."""
        return tuple({**self.verifying, **self.passed})

    @on(Suspect)
    def on_suspect(self, event: Suspect) -> object:
        """Pass a certain suspicion, hold back any other until it is verified."""
        if event.certain:
            for member in event.members:
                self.stop_verifying(member)
            self.watch(event.members)
            return None
        for member in event.members:
            if member != self.me and member not in self.verifying and member not in self.passed:
                self.verify(member, likely=event.accused)
        return STOP

    def verify(self, member: Address, likely: bool) -> None:
        """Begin to verify a suspicion. likely: another member reports that the process is gone."""
        self.verifying[member] = self.now_ns
        if likely:
            self.likely[member] = None
        self.set_timer("verdict", self.timeout_ns(member), member)
        self.send_request(member)

    def timeout_ns(self, member: Address) -> int:
        """How long the suspect may take to answer: half as long if another member reports that it is gone."""
        timeout_ns = self.config.timeout_ns
        if self.config.measure_interval_ns:
            trip_ns = self.trips.get(member)
            timeout_ns = max(timeout_ns, UNMEASURED_NS if trip_ns is None else TRIPS_TO_ANSWER * trip_ns)
        return timeout_ns // (2 if member in self.likely else 1)

    @timer("request")
    def send_request(self, member: Address) -> None:
        self.count("requests_sent")
        self.send(AreYouAlive(), member)
        self.set_timer("request", max(1, self.timeout_ns(member) // self.config.num_msgs), member)

    @timer("verdict")
    def decide(self, member: Address) -> None:
        """The time to answer is over."""
        since_ns, timeout_ns, likely = self.verifying[member], self.timeout_ns(member), member in self.likely
        last_frame_ns = self.last_frames.last_frame_ns(member)
        self.stop_verifying(member)
        if last_frame_ns is not None and last_frame_ns > since_ns:
            self.pass_up(Unsuspect((member,)))
        elif self.now_ns - since_ns > timeout_ns + PAUSE_NS:
            # This process did not run, so the answer may wait unread in a socket buffer.
            self.verify(member, likely)
        else:
            self.count("confirmed")
            self.watch((member,))
            self.pass_up(Suspect((member,), certain=True))

    def stop_verifying(self, member: Address) -> None:
        self.verifying.pop(member, None)
        self.likely.pop(member, None)
        self.cancel_timer("request", member)
        self.cancel_timer("verdict", member)

    @on(Unsuspect)
    def on_unsuspect(self, event: Unsuspect) -> None:
        """A failure detector withdraws its suspicion."""
        for member in event.members:
            self.stop_verifying(member)
            self.passed.pop(member, None)

    @receives(AreYouAlive)
    def on_request(self, header: AreYouAlive, batch: Batch) -> None:
        self.send(IAmAlive(), batch.src)
        if self.members and batch.src not in self.members:
            # The source suspects this member, so it has it in its view: it does not know that it was excluded.
            self.pass_up(ExcludedHint(batch.src, asked=True))

    @receives(IAmAlive)
    def on_answer(self, header: IAmAlive, batch: Batch) -> None:
        self.end_measurement(batch.src)
        if batch.src in self.verifying:
            self.count("refuted")
            self.stop_verifying(batch.src)
            self.pass_up(Unsuspect((batch.src,)))

    # --- round trips --------------------------------------------------------------------------------------------------

    @timer("measure")
    def measure(self) -> None:
        """Send each member a request; those that have not answered the last one are measured by that still."""
        for member in self.members:
            if member != self.me:
                self.measuring.setdefault(member, self.now_ns)
                self.send(AreYouAlive(), member)
        self.set_timer("measure", self.config.measure_interval_ns)

    def end_measurement(self, member: Address) -> None:
        """An answer to the first request that was not answered, or to a later one: the trip is no longer than this."""
        sent_ns = self.measuring.pop(member, None)
        if sent_ns is None or self.now_ns - sent_ns > LONGEST_TRIP_NS:
            return
        self.count("trips_measured")
        trip_ns, before_ns = self.now_ns - sent_ns, self.trips.get(member, 0)
        shorter = trip_ns < before_ns
        self.trips[member] = before_ns - (before_ns - trip_ns) // SHORTER_WEIGHT if shorter else trip_ns

    # --- withdrawing suspicions that were passed up -------------------------------------------------------------------

    def watch(self, members: tuple[Address, ...]) -> None:
        """Watch for frames of members whose suspicion was passed up."""
        for member in members:
            self.passed.setdefault(member, self.now_ns)
        if self.passed and not self.timer_is_set("watch"):
            self.set_timer("watch", LATE_FRAMES_NS)

    @timer("watch")
    def withdraw(self) -> None:
        """Withdraw suspicions that frames disprove. Earlier frames do not: the network may have delayed them."""
        arrived_ns = {member: self.last_frames.last_frame_ns(member) or 0 for member in self.passed}
        alive = tuple(member for member, passed_ns in self.passed.items()
                      if arrived_ns[member] > passed_ns + LATE_FRAMES_NS)
        for member in alive:
            del self.passed[member]
        if alive:
            self.pass_up(Unsuspect(alive))
        if self.passed:
            self.set_timer("watch", LATE_FRAMES_NS)

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.members = event.view.members
        for member in [member for member in self.verifying if member not in event.view]:
            self.stop_verifying(member)
        self.passed = {member: at_ns for member, at_ns in self.passed.items() if member in event.view}
        if self.config.measure_interval_ns:
            self.measuring = {member: at_ns for member, at_ns in self.measuring.items() if member in event.view}
            self.trips = {member: trip_ns for member, trip_ns in self.trips.items() if member in event.view}
            if any(member not in self.trips for member in self.members if member != self.me):
                self.set_timer("measure", MEASURE_AFTER_NS)

    @on(Left)
    def on_left(self, event: Left) -> None:
        for member in list(self.verifying):
            self.stop_verifying(member)
        self.members, self.measuring, self.trips = (), {}, {}
        self.cancel_timer("watch")
        self.cancel_timer("measure")
