"""FD_ALL: suspects members of which no frame arrived for `timeout`.

Every member multicasts a heartbeat each `interval`, unless it multicast something else since the last one. Any frame
of a member counts as a heartbeat; the transport records when the last one arrived (port LastFrames). A process that did
not run for a while (stopped, overloaded host) may have missed frames, so it suspects no member: the timeout of every
member begins anew. A heartbeat of a non-member is a hint that it was excluded and does not know it (ExcludedHint).

With `accrual_members` the first members of the view, the coordinator and those next in line, also send each other
heartbeats at a finer pace, and suspect one another by accrual (accrual.py). Such a heartbeat is an ordinary one that
has a destination, so members of before can read it; one that sends none is left to `timeout`.

Place: above the transport, below VERIFY_SUSPECT. Source: JGroups FD_ALL3.java. Deviations: one timestamp instead of a
bitmap of slots; the new timeout after this process was paused; the hint.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import ExcludedHint, Left, Suspect, Unsuspect, ViewChange
from jgroups_py.model.non_members import NonMembers
from jgroups_py.model.ports import LastFrames
from jgroups_py.model.units import count, duration, flag, seconds, show_duration
from jgroups_py.protocols.fd_all.accrual import ArrivalTimes
from jgroups_py.stack.protocol import MULTICASTS, Protocol, on, only, receives, timer

FD_ALL_ID = 6
PAUSE_INTERVALS = 3      # more intervals than this between two checks: this process did not run
HINT_INTERVAL_NS = seconds(3)


@wire.header(proto=FD_ALL_ID, kind=1)
class Heartbeat(Header):
    """The sender is alive."""


@attrs.frozen
class FdAllConfig:
    """The properties of FD_ALL."""

    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("timeout_check_interval", "use_time_service", "msg_counts_as_heartbeat", "num_threads"),
        "every frame counts as a heartbeat, and members are checked each interval")

    timeout_ns: int = duration(
        "10s", least="10ms", doc="A member of which no frame arrived for so long is suspected. Lower notices frozen "
        "processes and dead hosts sooner; too low suspects busy ones.")
    interval_ns: int = duration(
        "2s", least="1ms", doc="How often a member that sends nothing else multicasts a heartbeat. Lower allows a "
        "lower timeout and costs a small multicast of each member that often.")
    accrual_members: int = count(
        0, name="accrual_members", doc="So many members, from the coordinator on, watch each other at a finer pace, so "
        "that a coordinator whose host stops is replaced in about accrual_timeout and VERIFY_SUSPECT's timeout. Each "
        "sends one frame to each other per accrual_interval. 0: none do.")
    accrual_interval_ns: int = duration(
        "100ms", least="1ms", name="accrual_interval", doc="The pace of these heartbeats.")
    accrual_timeout_ns: int = duration(
        "500ms", least="2ms", name="accrual_timeout", doc="The shortest silence at which one of them is suspected; it "
        "is longer for a member whose heartbeats are usually late. Lower notices a stopped host sooner, higher spares "
        "members that stall.")
    suppress_heartbeats: bool = flag(True, doc="Whether a member's other multicasts replace its heartbeats.")

    def __attrs_post_init__(self) -> None:
        if self.timeout_ns < 2 * self.interval_ns:
            raise ConfigError(f"timeout {show_duration(self.timeout_ns)} is less than two intervals of "
                              f"{show_duration(self.interval_ns)}; one lost heartbeat would be a suspicion")
        if self.accrual_members and self.accrual_timeout_ns < 2 * self.accrual_interval_ns:
            raise ConfigError(f"accrual_timeout {show_duration(self.accrual_timeout_ns)} is less than two of "
                              f"accrual_interval ({show_duration(self.accrual_interval_ns)}); one lost heartbeat would "
                              "be a suspicion")


class FdAll(Protocol):
    """Multicasts heartbeats, and checks once an interval of which members no frame arrived."""

    control_only = True
    Config = FdAllConfig
    config: FdAllConfig
    needs = {"last_frames": LastFrames}
    last_frames: LastFrames
    COUNTERS = declare(
        counter("heartbeats_sent", "Heartbeats multicast because nothing else was."),
        counter("own_pauses", "How often all timeouts began anew because this process itself did not run."),
        counter("suspected", "Members reported because they were silent for too long."),
        counter("accrual_suspected", "Members reported because they were silent for longer than is usual of them."),
        counter("false_alarms", "Of these, how many were heard of again."),
    )

    def start(self) -> None:
        self.others: tuple[Address, ...] = ()
        self.since: dict[Address, int] = {}            # member -> earliest begin of its timeout, ns
        self.suspects: dict[Address, None] = {}
        self.checked_ns = 0
        self.in_view = False
        self.non_members = NonMembers(HINT_INTERVAL_NS)      # limits hints to one per process and interval
        self.did_multicast = False                     # since the last heartbeat was due
        self.close: dict[Address, ArrivalTimes] = {}   # members that this one watches at the finer pace
        self.overdue: dict[Address, None] = {}         # those of them that were silent for too long
        self.paced_ns = 0                              # when the last of these heartbeats was sent

    @only(MULTICASTS)
    def down(self, batch: Batch) -> None:
        self.did_multicast = self.config.suppress_heartbeats
        self.pass_down(batch)

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.others = tuple(member for member in event.view.members if member != self.me)
        self.since = {member: self.since.get(member, self.now_ns) for member in self.others}
        self.suspects = {member: None for member in self.suspects if member in self.since}
        self.in_view = True
        self.non_members.forget()
        if self.others and not self.timer_is_set("beat"):
            self.checked_ns = self.now_ns
            # A random start: members that joined together must not multicast at the same instant.
            self.set_timer("beat", self.rng.randint(1, self.config.interval_ns))
        self.choose_close(event.view.members[:self.config.accrual_members])

    @on(Left)
    def on_left(self, event: Left) -> None:
        self.others, self.in_view = (), False
        self.cancel_timer("beat")
        self.choose_close(())

    @timer("beat")
    def beat(self) -> None:
        if not self.others:
            return
        if not self.did_multicast:
            self.count("heartbeats_sent")
            self.send(Heartbeat(), None)
        self.did_multicast = False
        self.check()
        self.set_timer("beat", self.config.interval_ns)

    def check(self) -> None:
        """Suspect members whose timeout is over, and withdraw the suspicion of those of which a frame arrived."""
        if self.now_ns - self.checked_ns > PAUSE_INTERVALS * self.config.interval_ns:
            # Frames sent meanwhile may be lost, or wait unread in a socket buffer: no silence of others is proven.
            self.count("own_pauses")
            self.since = dict.fromkeys(self.others, self.now_ns)
        self.checked_ns = self.now_ns
        oldest_ns = self.now_ns - self.config.timeout_ns
        timed_out = {member: None for member in self.others if self.last_heartbeat_ns(member) < oldest_ns}
        newly = tuple(member for member in timed_out if member not in self.suspects)
        cleared = tuple(member for member in self.suspects if member not in timed_out)
        self.suspects = timed_out
        if cleared:
            self.pass_up(Unsuspect(cleared))
        if newly:
            self.count("suspected", len(newly))
            self.pass_up(Suspect(newly))

    # --- the finer pace -----------------------------------------------------------------------------------------------

    def choose_close(self, first: tuple[Address, ...]) -> None:
        """Watch the first members of the view, if this is one of them."""
        chosen = first if self.me in first else ()
        self.close = {member: self.close.get(member) or ArrivalTimes() for member in chosen if member != self.me}
        self.overdue = {member: None for member in self.overdue if member in self.close}
        if not self.close:
            self.cancel_timer("pace")
        elif not self.timer_is_set("pace"):
            self.paced_ns = self.now_ns
            self.set_timer("pace", self.rng.randint(1, self.config.accrual_interval_ns))

    @timer("pace")
    def pace(self) -> None:
        """Send heartbeats to the members that are watched so, and look for those that are overdue."""
        for member in self.close:
            self.send(Heartbeat(), member)
        if self.now_ns - self.paced_ns > PAUSE_INTERVALS * self.config.accrual_interval_ns:
            self.count("own_pauses")
            for member, times in self.close.items():
                times.pause()
                self.since[member] = self.now_ns
        self.paced_ns = self.now_ns
        self.report_overdue()
        self.set_timer("pace", self.config.accrual_interval_ns)

    def report_overdue(self) -> None:
        """Suspect members of which nothing came for longer than is usual, and withdraw that where something did."""
        overdue: dict[Address, None] = {}
        for member, times in self.close.items():
            limit_ns = times.limit_ns(self.config.accrual_timeout_ns)
            if limit_ns is not None and self.now_ns - self.last_heartbeat_ns(member) > limit_ns:
                overdue[member] = None
        newly = tuple(member for member in overdue if member not in self.overdue)
        cleared = tuple(member for member in self.overdue if member not in overdue)
        self.overdue = overdue
        if cleared:
            self.count("false_alarms", len(cleared))
            self.pass_up(Unsuspect(cleared))
        if newly:
            self.count("accrual_suspected", len(newly))
            self.pass_up(Suspect(newly))

    def last_heartbeat_ns(self, member: Address) -> int:
        """When the last frame of a member arrived; not before its timeout begins."""
        last_frame_ns = self.last_frames.last_frame_ns(member)
        return max(self.since[member], last_frame_ns if last_frame_ns is not None else 0)

    @receives(Heartbeat)
    def on_heartbeat(self, header: Heartbeat, batch: Batch) -> None:
        """Report a non-member to GMS: it may not know that it was excluded. The transport has recorded its frame."""
        src = batch.src
        if batch.dest is not None and src in self.close:
            self.close[src].arrived(self.now_ns)
        if not self.in_view or src in self.since or src == self.me:
            return
        if self.non_members.is_due(src, self.now_ns):
            self.pass_up(ExcludedHint(src))
