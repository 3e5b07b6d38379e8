"""The states that a run reached, counted from its history: a profile proves nothing unless it reaches its states.

The keys are printed and asserted: "failovers", "halves that both relayed", "sites OFFLINE", ... A failover is the
first view of a site without the coordinator of the view before. It lasts from the end of the old relay until another
site accepts the epoch of the new one, three seconds at most.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import NO_TOTAL_ORDER
from jgroups_py.model.swim_member import FAILED, JOINED, MEMBER_LEFT, REFUTED, UPDATED
from jgroups_py.model.units import seconds
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.simulator import history as h
from jgroups_py.simulator.process import Process

FAILOVER_NS = seconds(3)
TOGETHER_NS = seconds(10)
LATE_NS = seconds(5)                     # a site first known this long after the own site's start is late
LARGE_BYTES = 1_000_000
REPLAYED = 50
COUNTED = {"refused epochs": ("RELAY", "refused"), "messages read from disk": ("RELAY", "restored_messages"),
           "torn files": ("RELAY", "journal_damaged_files"), "disks that failed": ("RELAY", "journal_failures"),
           "receivers given up": ("FLOW", "receivers_silent"), "receivers back": ("FLOW", "receivers_back"),
           "senders not connected": ("FLOW", "disconnected"),
           "numbers sent for messages": ("RELAY", "passed_by"), "numbers refused": ("RELAY", "passed_by_refused"),
           "numbers delivered": ("TOPICS", "passed_by"), "interests received": ("TOPICS", "interests_confirmed"),
           "reports of a safe order": ("TOTAL", "reports_sent"), "waits for the order": ("TOTAL", "waited_too_long"),
           "states of the own group": ("STATE_TRANSFER", "states_provided"),
           "states requested again": ("STATE_TRANSFER", "requested_again"),
           "states refused or failed": ("STATE_TRANSFER", "transfers_failed"),
           "standbys that took over": ("RELAY", "standby_took_over"),
           "states of other sites": ("RELAY", "states_installed"),
           "states of other sites that failed": ("RELAY", "states_failed")}
"""State -> the protocol and its counter for it, of members that run at the end."""

MEMBER_STATES = {FAILED: "members failed", REFUTED: "suspicions refuted", MEMBER_LEFT: "members left"}
"""Change that SWIM reports of a member -> state."""


@attrs.define(eq=False)
class Failover:
    """A new relay at a site. died_ns: when the old one ended (or the view changed); over_ns: when it was accepted."""

    site: str
    epoch: ViewId
    old: Address
    new: Address
    ended_ns: int
    installed_ns: int
    over_ns: int

    def overlaps(self, other: Failover) -> bool:
        """Whether one began before the other was over."""
        return self.ended_ns < other.over_ns and other.ended_ns < self.over_ns


class Coverage:
    """One pass over a history."""

    def __init__(self, history: h.History) -> None:
        self.history = history
        self.counts: Counter[str] = Counter()
        self.views: dict[Address, View] = {}             # running member -> its view
        self.running: dict[str, dict[Address, None]] = {}    # site -> its running members
        self.out: dict[Address, int] = {}
        self.paused: dict[str, None] = {}
        self.failovers: dict[ViewId, Failover] = {}
        self.installed: dict[ViewId, None] = {}
        self.relayed: dict[ViewId, None] = {}            # views in which messages of other sites were delivered
        self.split: dict[tuple[ViewId, ViewId], None] = {}
        self.statuses: dict[tuple[Address, str], str] = {}
        self.sent: dict[bytes, h.MessageSent] = {}
        self.arrived: dict[str, dict[bytes, int]] = {}   # site -> message of another site -> when first delivered
        self.site_ends: dict[str, list[int]] = {}             # site -> when its last member ended
        self.latest_change: dict[tuple[Address, str], h.MembershipChange] = {}   # (member, subject's name) -> the last
        self.started: dict[Address, int] = {}
        self.known_sites: dict[str, dict[str, None]] = {}    # site -> the sites that some member of it knew
        self.on_disk: dict[bytes, None] = {}             # messages on the disk of a member that crashed
        for entry in history.entries:
            self._see(entry)
        self._count_failovers()
        self._count_splits()
        self._count_from_disk()

    # --- one pass ---------------------------------------------------------------------------------------------------

    def _see(self, entry: h.Entry) -> None:
        match entry:
            case h.Start(at_ns, member, site):
                self.started[member] = at_ns
                self.running.setdefault(site, {})[member] = None
            case h.MessageSent():
                self.sent.update(dict.fromkeys(entry.payloads, entry))
            case h.MessageDelivered():
                self._delivery(entry)
            case h.InstalledView():
                self._install(entry)
            case h.Crash(at_ns, member) | h.MemberLeft(at_ns, member):
                self._ended(member, at_ns)
            case h.EpochAccepted(at_ns, _, _, epoch) if epoch in self.failovers:
                failover = self.failovers[epoch]
                failover.over_ns = min(failover.over_ns, at_ns)
            case h.SiteStatusSeen():
                self._status(entry)
            case h.OnDisk():
                self.on_disk.update(dict.fromkeys(entry.payloads))
            case h.MembershipChange():
                self._member(entry)
            case h.Lost():
                self.counts["losses declared"] += 1
            case h.Skipped():
                self.counts["messages skipped"] += entry.messages
            case h.Uncertain():
                self.counts["rests of views"] += 1
            case h.Remark(_, text):
                self._remark(text)

    def _member(self, entry: h.MembershipChange) -> None:
        subject, change = entry.subject, entry.change
        before = self.latest_change.get((entry.member, subject.name))
        self.latest_change[entry.member, subject.name] = entry
        if change in MEMBER_STATES:
            self.counts[MEMBER_STATES[change]] += 1
        if before is not None and change in (JOINED, UPDATED):
            moved = before.subject.place != subject.place
            self.counts["moved members taken in"] += moved
            self.counts["failed members back"] += before.change == FAILED and not moved

    def _delivery(self, entry: h.MessageDelivered) -> None:
        if entry.flags & NO_TOTAL_ORDER:
            self.counts["messages without an order"] += len(entry.payloads)
        if isinstance(entry.src, ProxyUUID) and entry.dest is None:
            arrived = self.arrived.setdefault(self.history.sites[entry.member], {})
            for payload in entry.payloads:
                arrived.setdefault(payload, entry.at_ns)
                self.counts["large messages delivered far"] += len(payload) >= LARGE_BYTES
            if entry.view is not None:
                self.relayed[entry.view.id] = None

    def _install(self, entry: h.InstalledView) -> None:
        view, previous, member = entry.view, entry.previous, entry.member
        site = self.history.sites[member]
        self.views[member] = view
        if view.id in self.installed:
            return
        self.installed[view.id] = None
        if site and len(view) >= 7:
            self.counts["sites with seven members"] += 1
        if isinstance(view, MergeView):
            self.counts["merged sites"] += 1
            self.counts["relays by a merge"] += bool(site) and any(
                sub.coordinator != view.coordinator and len(sub) > 1 for sub in view.subgroups)
            self.counts["excluded members merged back"] += any(len(group) == 1 for group in view.subgroups)
        elif previous is not None:
            self._change(entry, site, previous)

    def _change(self, entry: h.InstalledView, site: str, previous: View) -> None:
        view = entry.view
        self.counts["views raised above a fence"] += view.members == previous.members
        self.counts["paused members excluded"] += any(
            member not in view and member.name in self.paused for member in previous.members)
        old = previous.coordinator
        if old not in view:
            ended_ns = self.out.get(old, entry.at_ns)
            self.failovers[view.id] = Failover(site, view.id, old, view.coordinator, ended_ns, entry.at_ns,
                                               entry.at_ns + FAILOVER_NS)
            self.counts["failovers"] += 1
            self.counts["failovers in a half"] += self._has_other_half(site, view)
        self._look_for_splits(site, view)

    def _ended(self, member: Address, at_ns: int) -> None:
        self.out.setdefault(member, at_ns)
        self.views.pop(member, None)
        site = self.history.sites[member]
        here = self.running[site]
        if here.pop(member, member) is None and not here:
            self.counts["sites that died as a whole"] += 1
            self.site_ends.setdefault(site, []).append(at_ns)

    def _status(self, entry: h.SiteStatusSeen) -> None:
        known_sites = self.known_sites.setdefault(self.history.sites[entry.member], {})
        if entry.site not in known_sites:
            known_sites[entry.site] = None
            first_ns = min(self.started[member] for member in self.running[self.history.sites[entry.member]])
            self.counts["sites met late"] += entry.at_ns - first_ns > LATE_NS
        key = entry.member, entry.site
        if entry.status == "UP" and self.statuses.get(key) == "OFFLINE":
            self.counts["sites back from OFFLINE"] += 1
        elif entry.status != "UP":
            self.counts[f"sites {entry.status}"] += 1
        self.statuses[key] = entry.status

    def _remark(self, text: str) -> None:
        name, _, what = text.partition(" ")
        if what == "is paused":
            self.paused[name] = None
        elif what == "goes on":
            self.paused.pop(name, None)
        self.counts["clocks moved"] += text.startswith("the wall clock of")

    # --- splits -----------------------------------------------------------------------------------------------------

    def _halves(self, site: str, view: View) -> Iterable[View]:
        """Other current views of the site, without a member in common with `view`, whose coordinators run."""
        for member in self.running.get(site, {}):
            other = self.views.get(member)
            if other is not None and other.coordinator == member and member.name not in self.paused and \
                    member not in view and not any(one in view for one in other.members):
                yield other

    def _has_other_half(self, site: str, view: View) -> bool:
        return any(True for _ in self._halves(site, view))

    def _look_for_splits(self, site: str, view: View) -> None:
        for other in self._halves(site, view):
            self.split[view.id, other.id] = None

    def _count_splits(self) -> None:
        self.counts["splits"] += len(self.split)
        self.counts["halves that both relayed"] += sum(
            one in self.relayed and other in self.relayed for one, other in self.split)

    # --- disks ------------------------------------------------------------------------------------------------------

    def _count_from_disk(self) -> None:
        """Count messages that reached another site only after all members of their own had ended."""
        for arrived in self.arrived.values():
            for payload, at_ns in arrived.items():
                sent = self.sent.get(payload) if payload in self.on_disk else None
                if sent is not None:
                    site_ends = self.site_ends.get(self.history.sites[sent.member], [])
                    self.counts["messages sent from disk"] += any(
                        sent.at_ns < ended_ns < at_ns for ended_ns in site_ends)

    # --- failovers --------------------------------------------------------------------------------------------------

    def _count_failovers(self) -> None:
        found = [failover for failover in self.failovers.values() if failover.site]
        for index, one in enumerate(found):
            later = found[index + 1:]
            self.counts["overlapping failovers at one site"] += any(
                other.old == one.new and other.ended_ns < one.over_ns for other in later)
            self.counts["overlapping failovers at two sites"] += any(
                other.site != one.site and one.overlaps(other) for other in later)
            together = {other.site for other in later if other.ended_ns - one.ended_ns < TOGETHER_NS}
            self.counts["three sites failing over within ten seconds"] += len(together | {one.site}) >= 3
            self._count_replayed(one)

    def _count_replayed(self, failover: Failover) -> None:
        for site, arrived in self.arrived.items():
            replayed = 0
            for payload, at_ns in arrived.items():
                sent = self.sent.get(payload)
                replayed += (at_ns > failover.installed_ns and sent is not None and sent.at_ns < failover.ended_ns
                             and self.history.sites[sent.member] == failover.site)
            self.counts["messages replayed"] += replayed
            self.counts[f"messages replayed: more than {REPLAYED} at once"] += replayed > REPLAYED and site != ""


def reached(history: h.History, processes: Iterable[Process]) -> dict[str, int]:
    """State -> how often the run reached it; states that it did not reach are left out."""
    counts = Coverage(history).counts
    counts["worlds of five sites"] += len({site for site in history.sites.values() if site}) >= 5
    for process in processes:
        if not process.node.closed:
            stats = process.node.stats()
            for state, (protocol, counter) in COUNTED.items():
                counts[state] += int(stats.get(protocol, {}).get(counter, 0))
    return {state: number for state, number in sorted(counts.items()) if number}
