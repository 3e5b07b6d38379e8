"""Which states a run got into, counted from its history: a profile that never gets where it is meant to is a toy.

Words are the keys, since they are printed and asserted: "failovers", "halves that both relayed", "sites OFFLINE", ...
A failover is the first view of a site without the coordinator of the view before. It lasts from the death of the old
relay until another site obeys the new one, three seconds at most.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.members import FAILED, JOINED, MEMBER_LEFT, REFUTED, UPDATED
from jgroups_py.sim import history as h
from jgroups_py.sim.process import Process
from jgroups_py.units import seconds
from jgroups_py.view import MergeView, View, ViewId

FAILOVER_NS = seconds(3)
TOGETHER_NS = seconds(10)
LATE_NS = seconds(5)                     # after the start of a site another one that it meets is late
LARGE_BYTES = 1_000_000
REPLAYED = 50
COUNTED = {"refused epochs": ("RELAY", "refused"), "messages read from disk": ("RELAY", "restored_messages"),
           "torn files": ("RELAY", "journal_damaged_files"), "disks that failed": ("RELAY", "journal_failures"),
           "receivers given up": ("FLOW", "receivers_silent"), "receivers back": ("FLOW", "receivers_back"),
           "senders not connected": ("FLOW", "disconnected"),
           "numbers sent for messages": ("RELAY", "passed_by"), "numbers refused": ("RELAY", "passed_by_refused"),
           "numbers delivered": ("TOPICS", "passed_by"), "interests heard": ("TOPICS", "heard"),
           "states of the own group": ("STATE_TRANSFER", "states_provided"),
           "states asked for again": ("STATE_TRANSFER", "asked_again"),
           "states refused or failed": ("STATE_TRANSFER", "transfers_failed"),
           "states of other sites": ("RELAY", "states_installed"),
           "states of other sites that failed": ("RELAY", "states_failed")}
"""State -> the protocol and its counter for it, of members that run at the end."""

MEMBER_STATES = {FAILED: "members failed", REFUTED: "suspicions refuted", MEMBER_LEFT: "members left"}
"""What SWIM says of a member -> state."""


@attrs.define(eq=False)
class Failover:
    """A new relay at a site. died_ns: when the old one ended (or the view changed); over_ns: when it was obeyed."""

    site: str
    epoch: ViewId
    old: Address
    new: Address
    died_ns: int
    installed_ns: int
    over_ns: int

    def overlaps(self, other: Failover) -> bool:
        """Whether one began before the other was over."""
        return self.died_ns < other.over_ns and other.died_ns < self.over_ns


class Coverage:
    """One pass over a history."""

    def __init__(self, history: h.History) -> None:
        self.history = history
        self.counts: Counter[str] = Counter()
        self.views: dict[Address, View] = {}             # who runs -> its view
        self.alive: dict[str, dict[Address, None]] = {}  # site -> who runs
        self.out: dict[Address, int] = {}
        self.paused: dict[str, None] = {}
        self.failovers: dict[ViewId, Failover] = {}
        self.installed: dict[ViewId, None] = {}
        self.relayed: dict[ViewId, None] = {}            # views in which messages of other sites were delivered
        self.split: dict[tuple[ViewId, ViewId], None] = {}
        self.statuses: dict[tuple[Address, str], str] = {}
        self.sent: dict[bytes, h.Send] = {}
        self.arrived: dict[str, dict[bytes, int]] = {}   # site -> message of another site -> when it came first
        self.died: dict[str, list[int]] = {}             # site -> when its last member ended
        self.heard_of: dict[tuple[Address, str], h.MemberSaid] = {}      # (who, name) -> the latest of SWIM's news
        self.started: dict[Address, int] = {}
        self.met: dict[str, dict[str, None]] = {}        # site -> the sites that some member of it heard of
        self.on_disk: dict[bytes, None] = {}             # what was on the disk of a member that crashed
        for entry in history.entries:
            self._see(entry)
        self._judge_failovers()
        self._judge_splits()
        self._count_from_disk()

    # --- one pass ---------------------------------------------------------------------------------------------------

    def _see(self, entry: h.Entry) -> None:
        match entry:
            case h.Start(at_ns, who, site):
                self.started[who] = at_ns
                self.alive.setdefault(site, {})[who] = None
            case h.Send():
                self.sent.update(dict.fromkeys(entry.payloads, entry))
            case h.Delivery():
                self._delivery(entry)
            case h.Install():
                self._install(entry)
            case h.Crash(at_ns, who) | h.Leave(at_ns, who):
                self._gone(who, at_ns)
            case h.Obeyed(at_ns, _, _, epoch) if epoch in self.failovers:
                failover = self.failovers[epoch]
                failover.over_ns = min(failover.over_ns, at_ns)
            case h.SiteStatus():
                self._status(entry)
            case h.OnDisk():
                self.on_disk.update(dict.fromkeys(entry.payloads))
            case h.MemberSaid():
                self._member(entry)
            case h.Lost():
                self.counts["losses told"] += 1
            case h.Skipped():
                self.counts["messages skipped"] += entry.messages
            case h.Remark(_, text):
                self._remark(text)

    def _member(self, entry: h.MemberSaid) -> None:
        who, member, change = entry.who, entry.member, entry.change
        before = self.heard_of.get((who, member.name))
        self.heard_of[who, member.name] = entry
        if change in MEMBER_STATES:
            self.counts[MEMBER_STATES[change]] += 1
        if before is not None and change in (JOINED, UPDATED):
            moved = before.member.place != member.place
            self.counts["moved members taken in"] += moved
            self.counts["failed members back"] += before.change == FAILED and not moved

    def _delivery(self, entry: h.Delivery) -> None:
        if isinstance(entry.src, ProxyUUID) and entry.dest is None:
            arrived = self.arrived.setdefault(self.history.sites[entry.who], {})
            for payload in entry.payloads:
                arrived.setdefault(payload, entry.at_ns)
                self.counts["large messages delivered far"] += len(payload) >= LARGE_BYTES
            if entry.view is not None:
                self.relayed[entry.view.id] = None

    def _install(self, entry: h.Install) -> None:
        view, previous, who = entry.view, entry.previous, entry.who
        site = self.history.sites[who]
        self.views[who] = view
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

    def _change(self, entry: h.Install, site: str, previous: View) -> None:
        view = entry.view
        self.counts["views raised above a fence"] += view.members == previous.members
        self.counts["paused members excluded"] += any(
            member not in view and member.name in self.paused for member in previous.members)
        old = previous.coordinator
        if old not in view:
            died_ns = self.out.get(old, entry.at_ns)
            self.failovers[view.id] = Failover(site, view.id, old, view.coordinator, died_ns, entry.at_ns,
                                               entry.at_ns + FAILOVER_NS)
            self.counts["failovers"] += 1
            self.counts["failovers in a half"] += self._has_other_half(site, view)
        self._look_for_splits(site, view)

    def _gone(self, who: Address, at_ns: int) -> None:
        self.out.setdefault(who, at_ns)
        self.views.pop(who, None)
        site = self.history.sites[who]
        here = self.alive[site]
        if here.pop(who, who) is None and not here:
            self.counts["sites that died as a whole"] += 1
            self.died.setdefault(site, []).append(at_ns)

    def _status(self, entry: h.SiteStatus) -> None:
        met = self.met.setdefault(self.history.sites[entry.who], {})
        if entry.site not in met:
            met[entry.site] = None
            first_ns = min(self.started[member] for member in self.alive[self.history.sites[entry.who]])
            self.counts["sites met late"] += entry.at_ns - first_ns > LATE_NS
        key = entry.who, entry.site
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
        """Views that stand at the site beside `view`, without a member in common, under coordinators that run."""
        for member in self.alive.get(site, {}):
            other = self.views.get(member)
            if other is not None and other.coordinator == member and member.name not in self.paused and \
                    member not in view and not any(one in view for one in other.members):
                yield other

    def _has_other_half(self, site: str, view: View) -> bool:
        return any(True for _ in self._halves(site, view))

    def _look_for_splits(self, site: str, view: View) -> None:
        for other in self._halves(site, view):
            self.split[view.id, other.id] = None

    def _judge_splits(self) -> None:
        self.counts["splits"] += len(self.split)
        self.counts["halves that both relayed"] += sum(
            one in self.relayed and other in self.relayed for one, other in self.split)

    # --- disks ------------------------------------------------------------------------------------------------------

    def _count_from_disk(self) -> None:
        """Messages that reached another site only after everybody at theirs had died."""
        for arrived in self.arrived.values():
            for payload, at_ns in arrived.items():
                sent = self.sent.get(payload) if payload in self.on_disk else None
                if sent is not None:
                    died = self.died.get(self.history.sites[sent.who], [])
                    self.counts["messages sent from disk"] += any(sent.at_ns < died_ns < at_ns for died_ns in died)

    # --- failovers --------------------------------------------------------------------------------------------------

    def _judge_failovers(self) -> None:
        found = [failover for failover in self.failovers.values() if failover.site]
        for index, one in enumerate(found):
            later = found[index + 1:]
            self.counts["overlapping failovers at one site"] += any(
                other.old == one.new and other.died_ns < one.over_ns for other in later)
            self.counts["overlapping failovers at two sites"] += any(
                other.site != one.site and one.overlaps(other) for other in later)
            together = {other.site for other in later if other.died_ns - one.died_ns < TOGETHER_NS}
            self.counts["three sites failing over within ten seconds"] += len(together | {one.site}) >= 3
            self._count_replayed(one)

    def _count_replayed(self, failover: Failover) -> None:
        for site, arrived in self.arrived.items():
            replayed = 0
            for payload, at_ns in arrived.items():
                sent = self.sent.get(payload)
                replayed += (at_ns > failover.installed_ns and sent is not None and sent.at_ns < failover.died_ns
                             and self.history.sites[sent.who] == failover.site)
            self.counts["messages replayed"] += replayed
            self.counts[f"messages replayed: more than {REPLAYED} at once"] += replayed > REPLAYED and site != ""


def reached(history: h.History, processes: Iterable[Process]) -> dict[str, int]:
    """State -> how often the run got into it; states it did not get into are left out."""
    counts = Coverage(history).counts
    counts["worlds of five sites"] += len({site for site in history.sites.values() if site}) >= 5
    for process in processes:
        if not process.node.closed:
            stats = process.node.stats()
            for state, (protocol, counter) in COUNTED.items():
                counts[state] += int(stats.get(protocol, {}).get(counter, 0))
    return {state: number for state, number in sorted(counts.items()) if number}
