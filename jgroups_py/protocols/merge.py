"""MERGE3: notices that groups are about which ought to be one (a partition healed, or they started apart).

Every member says now and then which view it has (Info, multicast). Who hears of another view than its own waits a
moment for more such news, drops what has become equal meanwhile, and reports the rest upwards (MergeNeeded); GMS
knows what to do with members that moved on, stayed behind or lead other groups. Without IP multicast strangers are
not reached by multicasts, so coordinators ask discovery for everyone instead. Sits above discovery, below GMS.
Source: JGroups MERGE3.java. Deviations: no separate check interval (news triggers the check), and the report holds
every member that disagrees, so that members of an excluded minority are found even without a coordinator.
"""
from __future__ import annotations

from typing import ClassVar

import attrs

from jgroups_py import wire
from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Batch, Header
from jgroups_py.errors import ConfigError
from jgroups_py.events import AddressesKnown, FindMembers, Left, MembersFound, MergeNeeded, ViewChange
from jgroups_py.ports import AddressBook, Membership
from jgroups_py.protocol import Protocol, on, receives, timer
from jgroups_py.units import duration, millis, show_duration
from jgroups_py.view import ViewId
from jgroups_py.wire import field

MERGE_ID = 4
GATHER_NS = millis(300)          # how long news is collected before it is reported
SEARCH_NS = millis(500)          # how long discovery asks around, without IP multicast
MAX_STRANGERS = 2000


@wire.header(proto=MERGE_ID, kind=1)
class Info(Header):
    """The sender is in this view and receives there."""

    view_id: ViewId = field(wire.VIEW_ID)
    physical: PhysicalAddress = field(wire.PHYSICAL)


@attrs.frozen
class MergeConfig:
    """How often members tell their view."""

    ignored: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("check_interval", "max_participants_in_merge", "use_separate_thread", "merge_fast",
                         "merge_fast_delay", "force_sending_discovery_rsps", "only_coords_run_consistency_checker",
                         "discard_incompatible_packets"),
                        "news of another view starts the check at once"),
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
    """Compares views."""

    control_only = True
    Config = MergeConfig
    config: MergeConfig
    needs = {"membership": Membership, "addresses": AddressBook}
    membership: Membership
    addresses: AddressBook

    def start(self) -> None:
        self.others: dict[Address, ViewId] = {}        # who was heard with a view that is not ours

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.others = {member: view_id for member, view_id in self.others.items() if view_id != event.view.id}
        if not self.timer_is_set("info"):
            self.plan()

    @on(Left)
    def left(self, event: Left) -> None:
        self.cancel_timer("info")
        self.cancel_timer("check")

    def plan(self) -> None:
        config = self.config
        self.set_timer("info", self.rng.randint(config.min_interval_ns, config.max_interval_ns))

    @timer("info")
    def inform(self) -> None:
        """Tell our view, or ask for those of others."""
        view, physical = self.membership.current_view(), self.addresses.my_physical()
        if view is None or physical is None:
            return
        self.plan()
        if self.addresses.has_multicast():
            self.send(Info(view.id, physical), None)
        elif view.coordinator == self.me:
            self.pass_down(FindMembers(SEARCH_NS, True))

    @receives(Info)
    def informed(self, header: Info, batch: Batch) -> None:
        if batch.src != self.me:
            self.pass_down(AddressesKnown({batch.src: header.physical}))
            self.heard(batch.src, header.view_id)

    @on(MembersFound)
    def found(self, event: MembersFound) -> None:
        for one in event.found:
            if one.view_id is not None:
                self.heard(one.member, one.view_id)

    def heard(self, member: Address, view_id: ViewId) -> None:
        view = self.membership.current_view()
        if view is None or view_id == view.id:
            self.others.pop(member, None)
        elif member in self.others or len(self.others) < MAX_STRANGERS:
            self.others[member] = view_id
            if not self.timer_is_set("check"):
                self.set_timer("check", GATHER_NS)
                if view.coordinator == self.me and self.addresses.has_multicast():
                    self.inform()              # all coordinators speak now, so that one merge unites all groups

    @timer("check")
    def check(self) -> None:
        view = self.membership.current_view()
        others, self.others = self.others, {}          # who still disagrees will say so again
        disagreeing = {member: view_id for member, view_id in others.items() if view is not None and view_id != view.id}
        if disagreeing:
            self.count("merges_needed")
            self.pass_up(MergeNeeded(disagreeing))
