"""FD_ALL: suspects members of which no frame arrived for `timeout`.

Every member multicasts a heartbeat each `interval`, unless it multicast something else since the last one. Any frame
of a member counts as a sign of life; the transport records when the last one came (port LastFrames). A member that did
not run for a while (stopped process, overloaded host) may have missed frames, so it suspects no member: all get a
fresh `timeout`. A heartbeat of a member outside the view is a hint that it was excluded without noticing.

Place: above the transport, below VERIFY_SUSPECT. Source: JGroups FD_ALL3.java. Deviations: one timestamp instead of a
bitmap of slots; the fresh timeout after a pause of our own; the hint.
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
from jgroups_py.model.units import duration, flag, seconds, show_duration
from jgroups_py.stack.protocol import MULTICASTS, Protocol, on, only, receives, timer

FD_ALL_ID = 6
OVERSLEPT = 3            # more intervals than this between two checks mean that this process did not run
HINT_INTERVAL_NS = seconds(3)


@wire.header(proto=FD_ALL_ID, kind=1)
class Heartbeat(Header):
    """The sender lives."""


@attrs.frozen
class FdAllConfig:
    """The properties of FD_ALL."""

    ignored: ClassVar[dict[str, str]] = dict.fromkeys(
        ("timeout_check_interval", "use_time_service", "msg_counts_as_heartbeat", "num_threads"),
        "every frame counts as a heartbeat, and members are checked each interval")

    timeout_ns: int = duration(
        "10s", least="10ms", doc="A member that was not heard for so long is suspected. Lower notices frozen "
        "processes and dead hosts sooner; too low suspects busy ones.")
    interval_ns: int = duration(
        "2s", least="1ms", doc="How often a member that is silent otherwise multicasts a heartbeat. Lower allows a "
        "lower timeout and costs a small multicast of each member that often.")
    suppress_heartbeats: bool = flag(True, doc="Whether own multicast traffic replaces heartbeats.")

    def __attrs_post_init__(self) -> None:
        if self.timeout_ns < 2 * self.interval_ns:
            raise ConfigError(f"timeout {show_duration(self.timeout_ns)} is less than two intervals of "
                              f"{show_duration(self.interval_ns)}; one lost heartbeat would be a suspicion")


class FdAll(Protocol):
    """Multicasts heartbeats, and checks once an interval which members are silent."""

    control_only = True
    Config = FdAllConfig
    config: FdAllConfig
    needs = {"last_frames": LastFrames}
    last_frames: LastFrames
    COUNTERS = declare(
        counter("heartbeats_sent", "Heartbeats multicast because nothing else was."),
        counter("overslept", "How often silence was excused because this process itself did not run."),
        counter("suspected", "Members reported because they were silent for too long."),
    )

    def start(self) -> None:
        self.others: tuple[Address, ...] = ()
        self.since: dict[Address, int] = {}            # member -> time from which its silence counts, ns
        self.suspects: dict[Address, None] = {}
        self.checked_ns = 0
        self.in_view = False
        self.non_members = NonMembers(HINT_INTERVAL_NS)
        self.did_multicast = False                     # something was multicast since the last heartbeat was due

    @only(MULTICASTS)
    def down(self, batch: Batch) -> None:
        self.did_multicast = self.config.suppress_heartbeats
        self.pass_down(batch)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.others = tuple(member for member in event.view.members if member != self.me)
        self.since = {member: self.since.get(member, self.now_ns) for member in self.others}
        self.suspects = {member: None for member in self.suspects if member in self.since}
        self.in_view = True
        self.non_members.forget()
        if self.others and not self.timer_is_set("beat"):
            self.checked_ns = self.now_ns
            # A random start: members that joined together must not multicast at the same instant.
            self.set_timer("beat", self.rng.randint(1, self.config.interval_ns))

    @on(Left)
    def left(self, event: Left) -> None:
        self.others, self.in_view = (), False
        self.cancel_timer("beat")

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
        """Report members that have become silent, and take back suspicions of members that are heard again."""
        if self.now_ns - self.checked_ns > OVERSLEPT * self.config.interval_ns:
            self.count("overslept")
            self.since = dict.fromkeys(self.others, self.now_ns)
        self.checked_ns = self.now_ns
        oldest = self.now_ns - self.config.timeout_ns
        silent = {member: None for member in self.others if self.last_sign(member) < oldest}
        fresh = tuple(member for member in silent if member not in self.suspects)
        again = tuple(member for member in self.suspects if member not in silent)
        self.suspects = silent
        if again:
            self.pass_up(Unsuspect(again))
        if fresh:
            self.count("suspected", len(fresh))
            self.pass_up(Suspect(fresh))

    def last_sign(self, member: Address) -> int:
        last_frame_ns = self.last_frames.last_frame_ns(member)
        return max(self.since[member], last_frame_ns if last_frame_ns is not None else 0)

    @receives(Heartbeat)
    def heard(self, header: Heartbeat, batch: Batch) -> None:
        """Hint to GMS if the sender is not in the view: it may not know that it was excluded.

        The transport has recorded the sign of life already.
        """
        src = batch.src
        if not self.in_view or src in self.since or src == self.me:
            return
        if self.non_members.is_due(src, self.now_ns):
            self.pass_up(ExcludedHint(src))
