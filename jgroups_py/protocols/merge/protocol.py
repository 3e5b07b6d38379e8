"""MERGE3: detects members of the same cluster in other views (a partition healed, or groups formed apart).

Every member multicasts the id of its view (Info) at random times. A member that receives another view id than its own
collects further ones for GATHER_NS, drops those that have become equal meanwhile, and reports the rest to GMS
(MergeNeeded). GMS decides what to do about members that have installed a later view, that were left behind in an
earlier one, or that coordinate another group. Without IP multicast, multicasts do not reach non-members; coordinators
search by discovery instead, and one that takes over from a failed coordinator does so at once.

Place: above discovery, below GMS. Source: JGroups MERGE3.java. Deviations: no separate check interval (a differing view
id triggers the check), and the report holds every member that disagrees, so that members of an excluded minority are
found even without a coordinator.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.events import AddressesKnown, FindMembers, Left, MembersFound, MergeNeeded, ViewChange
from jgroups_py.model.ports import AddressBook, ViewSource
from jgroups_py.model.units import duration, millis, show_duration
from jgroups_py.model.view import ViewId
from jgroups_py.stack.protocol import Protocol, on, receives, timer
from jgroups_py.wire import field

MERGE_ID = 4
GATHER_NS = millis(300)          # how long differing view ids are collected before they are reported
SEARCH_NS = millis(500)          # how long discovery searches, without IP multicast
MAX_NON_MEMBERS = 2000           # bounds the memory that forged sources can take


@wire.header(proto=MERGE_ID, kind=1)
class Info(Header):
    """The sender is in view `view_id` and receives at `physical`."""

    view_id: ViewId = field(wire.VIEW_ID)
    physical: PhysicalAddress = field(wire.PHYSICAL)


@attrs.frozen
class MergeConfig:
    """How often members multicast the ids of their views."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("check_interval", "max_participants_in_merge", "use_separate_thread", "merge_fast",
                         "merge_fast_delay", "force_sending_discovery_rsps", "only_coords_run_consistency_checker",
                         "discard_incompatible_packets"),
                        "an Info of another view starts the check at once"),
    }

    min_interval_ns: int = duration("1s", least="10ms", doc="Shortest time between two Infos of a member.")
    max_interval_ns: int = duration(
        "4s", least="10ms", doc="Longest time between two Infos. Lower heals partitions sooner and costs a small "
        "multicast of each member that often.")

    def __attrs_post_init__(self) -> None:
        if self.min_interval_ns > self.max_interval_ns:
            raise ConfigError(f"min_interval {show_duration(self.min_interval_ns)} exceeds max_interval "
                              f"{show_duration(self.max_interval_ns)}")


class Merge(Protocol):
    """Multicasts the id of this member's view, and compares it with those of others."""

    control_only = True
    Config = MergeConfig
    config: MergeConfig
    needs = {"membership": ViewSource, "addresses": AddressBook}
    membership: ViewSource
    addresses: AddressBook
    COUNTERS = declare(
        counter("merges_needed", "How often members of other views were found and reported to GMS."),
    )

    def start(self) -> None:
        self.others: dict[Address, ViewId] = {}        # process in another view than this member's -> that view

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.others = {member: view_id for member, view_id in self.others.items() if view_id != event.view.id}
        if not self.timer_is_set("info"):
            self.set_info_timer()
        before = event.previous.coordinator if event.previous is not None else None
        if before in event.failed and event.view.coordinator == self.me and not self.addresses.has_multicast():
            # While the group had no coordinator its members answered no joiner, who may have begun a group of its own.
            self.later(self.send_info)

    @on(Left)
    def on_left(self, event: Left) -> None:
        self.cancel_timer("info")
        self.cancel_timer("check")

    def set_info_timer(self) -> None:
        config = self.config
        self.set_timer("info", self.rng.randint(config.min_interval_ns, config.max_interval_ns))

    @timer("info")
    def send_info(self) -> None:
        """Multicast the id of this member's view; without IP multicast, the coordinator searches for other views."""
        view, physical = self.membership.current_view(), self.addresses.my_physical()
        if view is None or physical is None:
            return
        self.set_info_timer()
        if self.addresses.has_multicast():
            self.send(Info(view.id, physical), None)
        elif view.coordinator == self.me:
            self.pass_down(FindMembers(SEARCH_NS, True))

    @receives(Info)
    def on_info(self, header: Info, batch: Batch) -> None:
        if batch.src != self.me:
            self.pass_down(AddressesKnown({batch.src: header.physical}))
            self.compare(batch.src, header.view_id)

    @on(MembersFound)
    def on_members_found(self, event: MembersFound) -> None:
        for one in event.found:
            if one.view_id is not None:
                self.compare(one.member, one.view_id)

    def compare(self, member: Address, view_id: ViewId) -> None:
        """Record a process whose view differs; the check follows when others had time to send theirs."""
        view = self.membership.current_view()
        if view is None or view_id == view.id:
            self.others.pop(member, None)
        elif member in self.others or len(self.others) < MAX_NON_MEMBERS:
            self.others[member] = view_id
            if not self.timer_is_set("check"):
                self.set_timer("check", GATHER_NS)
                if view.coordinator == self.me and self.addresses.has_multicast():
                    # All coordinators send theirs now, so that the check finds all groups, and one merge unites them.
                    self.send_info()

    @timer("check")
    def check(self) -> None:
        """Report the members whose views differ. They are not kept: one whose view still differs sends another Info."""
        view = self.membership.current_view()
        others, self.others = self.others, {}
        different = {member: view_id for member, view_id in others.items() if view is not None and view_id != view.id}
        if different:
            self.count("merges_needed")
            self.pass_up(MergeNeeded(different))
