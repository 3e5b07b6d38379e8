"""An index of a history for the checkers, built in one pass."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELAY, NO_RELIABILITY, NO_TOTAL_ORDER, OOB
from jgroups_py.model.topics import Interest
from jgroups_py.model.units import NS_PER_S
from jgroups_py.model.view import View, ViewId
from jgroups_py.simulator import history as h


@attrs.frozen(eq=False)
class Violation:
    """A guarantee that a history breaks, in its words."""

    guarantee: str
    text: str
    at_ns: int

    def __str__(self) -> str:
        return f"{self.guarantee} at {self.at_ns / NS_PER_S:.6f} s: {self.text}"


@attrs.frozen(eq=False, slots=True)
class SentMessage:
    """One message that was sent.

    number: its place, from 1, in its stream (0: OOB or unreliable); relay_number: its place among the sender's
    multicasts that are relayed (0: none); free: a multicast that has no place in a TOTAL order.
    """

    payload: bytes
    sender: Address
    dest: Address | None
    flags: int
    view: View | None
    at_ns: int
    number: int
    relay_number: int
    topic: str = ""
    sites: tuple[str, ...] | None = None
    free: bool = False

    @property
    def reliable(self) -> bool:
        """Whether the guarantees S2 to F apply to it."""
        return not self.flags & NO_RELIABILITY

    @property
    def stream(self) -> Stream:
        """The messages among which it has its number."""
        return self.sender, self.dest, self.free


Delivered = tuple[h.MessageDelivered, bytes]
Stream = tuple[Address, Address | None, bool]
"""Messages with one order: (sender, destination, whether they are free)."""


def is_free(flags: int, *, relayed: bool) -> bool:
    """Whether a multicast with these flags has no place in a TOTAL order: NO_TOTAL_ORDER frees it, unless RELAY numbers
    it."""
    return bool(flags & NO_TOTAL_ORDER) and (not relayed or bool(flags & NO_RELAY))


def topic_of(payload: bytes) -> str:
    """The topic that World.post wrote into a payload; "" if none. Bytes after a | belong to the application."""
    _, about, topic = payload.partition(b"|")[0].rstrip(b".").rpartition(b"@")
    return topic.decode("ascii", "replace") if about else ""


class Facts:
    """A history, indexed."""

    def __init__(self, history: h.History) -> None:
        self.history = history
        self.name = history.name
        self.has_sites = any(history.sites.values())
        self.messages: dict[bytes, SentMessage] = {}
        self.by_relay_number: dict[Address, list[SentMessage]] = {}      # origin -> its relayed multicasts, from 1
        self.installs: list[h.InstalledView] = []
        self.installs_of: dict[Address, list[h.InstalledView]] = {}
        self.deliveries: list[h.MessageDelivered] = []
        self.sends: list[h.MessageSent] = []
        self.lost: list[h.Lost | h.Covered] = []                     # declared at the site that lacks the messages
        # Losses within a member's own group, counted in messages: (member, view) -> origin -> declared in that view
        self.skipped_in: dict[tuple[Address, ViewId | None], dict[Address, int]] = {}
        self.skipped_before: dict[int, int] = {}                     # id of a delivery -> declared before it
        self._skipped: dict[tuple[Address, Address], int] = {}       # (member, origin) -> declared so far
        self.too_slow: dict[tuple[Address, Address], int] = {}       # ... because the application was too slow
        self.unretained: dict[tuple[Address, Address], int] = {}     # ... because no member retained them
        self.unbalanced: list[h.Unbalanced] = []
        self.stalled: list[h.Stalled] = []
        self.ledgers: list[h.LedgerReading] = []
        self.lost_elsewhere: list[h.Lost] = []                       # declared at the origin's site, for another site
        self.accepted_epochs: list[h.EpochAccepted] = []
        self.on_disk: list[h.OnDisk] = []
        self.unreached: list[h.Unreached] = []
        self.awaited: list[h.Awaited] = []
        self.receipts: list[h.Receipted] = []
        self.membership_changes: list[h.MembershipChange] = []
        self.gone_too_early: list[h.ReportedGone] = []               # reports of the end of a process that still ran
        self.global_installs: list[h.GlobalInstall] = []
        self.ordered: dict[Stream, list[SentMessage]] = {}           # stream -> its messages, from number 1
        self.order: Any = None                                       # what order.py made of it
        self.interests: dict[Address, list[tuple[int, Interest]]] = {}       # member -> (since when, interest)
        self.out: dict[Address, int] = {}                            # member that left, leaves or crashed -> when
        self.leaving: dict[Address, None] = {}                       # members that asked to leave and still run
        self.healed_ns: int | None = None
        self.end: h.End | None = None
        self._first_known: dict[tuple[Address, str], int] = {}       # (member, other site) -> when it was known first
        self._running: dict[str, dict[Address, None]] = {}           # site -> its members that run
        # Site of which all members have crashed -> sites of which it has accepted a relay's epoch since.
        self._accepted_since: dict[str, dict[str, None]] = {}
        # Member that started there since -> site -> when the first epoch of that site was accepted.
        self._restarted: dict[Address, dict[str, int]] = {}
        self._had: dict[str, dict[bytes, None]] = {}                 # site -> payloads that its members delivered
        self._topic_deliveries: dict[tuple[Address, Address, str], list[tuple[int, int]]] | None = None
        self._collected: dict[type, list[Any]] = {                   # entries of which nothing but the list is made
            h.Unbalanced: self.unbalanced, h.LedgerReading: self.ledgers, h.Stalled: self.stalled,
            h.OnDisk: self.on_disk, h.Unreached: self.unreached, h.Awaited: self.awaited,
            h.MembershipChange: self.membership_changes, h.Receipted: self.receipts}
        for entry in history.entries:
            self._add(entry)

    def _add(self, entry: h.Entry) -> None:
        collected = self._collected.get(type(entry))
        if collected is not None:
            collected.append(entry)
            return
        match entry:
            case h.MessageDelivered():
                self.deliveries.append(entry)
                if self._skipped:
                    self.skipped_before[id(entry)] = self._skipped.get((entry.member, entry.src), 0)
            case h.MessageSent():
                self._add_messages(entry)
            case h.InstalledView(_, member, _, _):
                self.installs.append(entry)
                self.installs_of.setdefault(member, []).append(entry)
            case h.Leaving(at_ns, member) | h.MemberLeft(at_ns, member) | h.Crash(at_ns, member):
                self.out.setdefault(member, at_ns)
                self._left(entry)
            case h.GlobalInstall(at_ns, member, view):
                self.global_installs.append(entry)
                for site in view.sites:
                    self._first_known.setdefault((member, site), at_ns)
            case h.SiteStatusSeen(at_ns, member, site, _):
                self._first_known.setdefault((member, site), at_ns)
            case h.Start(at_ns, member, site):
                self._started(at_ns, member, site)
            case h.EpochAccepted(at_ns, member, site, _):
                self.accepted_epochs.append(entry)
                self._accepted_since.get(self.site(member), {})[site] = None
                for local in self._running.get(self.site(member), ()):
                    if local in self._restarted:
                        self._restarted[local].setdefault(site, at_ns)
            case h.Lost() if entry.dest_site is not None:
                self.lost_elsewhere.append(entry)
            case h.Lost(_, member, site, origin, first, stop) if not site:
                # NAKACK's numbers of a view: each at most one message, and not RELAY's numbers.
                self._excused(member, origin, stop - first, self.unretained)
            case h.Lost() | h.Covered():
                self.lost.append(entry)
            case h.Skipped(_, member, origin, messages):
                self._excused(member, origin, messages, self.too_slow)
            case h.InterestDeclared(at_ns, member, interest):
                self.interests.setdefault(member, []).append((at_ns, interest))
            case h.ReportedGone():
                if entry.gone in self._running.get(self.site(entry.gone), ()):
                    self.gone_too_early.append(entry)
            case h.Healed(at_ns):
                self.healed_ns = at_ns
            case h.End():
                self.end = entry

    def _excused(
        self, member: Address, origin: Address, messages: int, why: dict[tuple[Address, Address], int],
    ) -> None:
        why[member, origin] = why.get((member, origin), 0) + messages
        current = self.final_view(member)
        declared = self.skipped_in.setdefault((member, None if current is None else current.id), {})
        declared[origin] = declared.get(origin, 0) + messages
        self._skipped[member, origin] = self._skipped.get((member, origin), 0) + messages

    def _started(self, at_ns: int, member: Address, site: str) -> None:
        here = self._running.get(site)
        if here is not None and not here:
            self._accepted_since[site] = {}
        if site in self._accepted_since:
            self._restarted[member] = dict.fromkeys(self._accepted_since[site], at_ns)
        self._running.setdefault(site, {})[member] = None

    def _left(self, entry: h.Leaving | h.MemberLeft | h.Crash) -> None:
        if isinstance(entry, h.Leaving):
            self.leaving[entry.member] = None
        else:
            self._running.get(self.site(entry.member), {}).pop(entry.member, None)
            self.leaving.pop(entry.member, None)

    def _add_messages(self, sent: h.MessageSent) -> None:
        self.sends.append(sent)
        ordered = not sent.flags & (OOB | NO_RELIABILITY)
        relayed = sent.dest is None and not sent.flags & (NO_RELAY | NO_RELIABILITY)
        free = sent.dest is None and is_free(sent.flags, relayed=self.has_sites)
        in_order = self.ordered.setdefault((sent.member, sent.dest, free), [])
        numbers = self.by_relay_number.setdefault(sent.member, [])
        for payload in sent.payloads:
            assert payload not in self.messages, f"payload {payload!r} was sent twice; checkers need unique ones"
            message = SentMessage(payload, sent.member, sent.dest, sent.flags, sent.view, sent.at_ns,
                                  len(in_order) + 1 if ordered else 0, len(numbers) + 1 if relayed else 0,
                                  topic_of(payload), sent.sites, free)
            self.messages[payload] = message
            if ordered:
                in_order.append(message)
            if relayed:
                numbers.append(message)

    # --- questions --------------------------------------------------------------------------------------------------

    def known_ns(self, member: Address, site: str) -> int | None:
        """When another site was first known to a member; the member's earlier multicasts are not for that site."""
        return self._first_known.get((member, site))

    def both_known_ns(self, sender: Address, member: Address) -> int:
        """When both of two members of different sites knew the other's site; the end if one never did."""
        known = [self.known_ns(sender, self.site(member)), self.known_ns(member, self.site(sender))]
        return max(self._end_ns if at_ns is None else at_ns for at_ns in known)

    def settled_before(self, member: Address, message: SentMessage) -> bool:
        """Whether a message was settled for the member's site, which crashed as a whole, before the member started.

        The member knows the sender's site from its disk at once, but not what earlier members had of that site. Until
        its site has accepted an epoch of the sender's relay again, messages may have been declared lost for it at the
        sender's site, or been delivered to an earlier member. Whatever the sender's site still holds must arrive.
        """
        if member not in self._restarted:
            return False
        site = self.site(member)
        if message.at_ns > self._restarted[member].get(self.site(message.sender), self._end_ns):
            return False
        return message.payload in self._delivered_in(site) or any(
            lost.origin == message.sender and lost.dest_site == site and lost.first <= message.relay_number < lost.stop
            for lost in self.lost_elsewhere)

    def _delivered_in(self, site: str) -> dict[bytes, None]:
        """The payloads that members of a site delivered."""
        if site not in self._had:
            self._had[site] = {payload: None for delivery in self.deliveries if self.site(delivery.member) == site
                               for payload in delivery.payloads}
        return self._had[site]

    @property
    def _end_ns(self) -> int:
        return self.end.at_ns if self.end is not None else 0

    def declared_lost(self, member: Address, message: SentMessage) -> bool:
        """Whether the message was declared lost to the member, or a state that it installed covers it."""
        return any(lost.member == member and lost.origin == message.sender
                   and lost.first <= message.relay_number < lost.stop for lost in self.lost)

    def is_for(self, member: Address, message: SentMessage) -> bool:
        """Whether the message is for the member's site."""
        return message.sites is None or self.site(member) in (*message.sites, self.site(message.sender))

    def may_lack(self, member: Address, message: SentMessage) -> bool:
        """Whether the member's interests excuse that it never delivered the message, or that it is for other sites.

        Interests do if it was not subscribed to the topic when the message was sent, or has unsubscribed since. A
        subscription made while the member runs takes effect at the first message of that sender about that topic
        which the member delivers afterwards; earlier messages are excused. A subscription from the member's start on
        excuses nothing.
        """
        if not self.is_for(member, message):
            return True
        if not message.topic or member not in self.interests:
            return False
        changes = self.interests[member]
        since_ns: int | None = None
        for at_ns, interest in changes:
            if interest.includes(message.topic):
                since_ns = at_ns if since_ns is None else since_ns
            else:
                since_ns = None
                if at_ns > message.at_ns:
                    return True
        if since_ns is None or since_ns == changes[0][0]:
            return since_ns is None
        began_ns = next((sent_ns for at_ns, sent_ns in self._about(member, message) if at_ns > since_ns), None)
        return began_ns is None or message.at_ns <= began_ns

    def _about(self, member: Address, message: SentMessage) -> list[tuple[int, int]]:
        """(delivered at, sent at) of the member's deliveries from that sender about that topic, in order."""
        if self._topic_deliveries is None:
            self._topic_deliveries = {}
            for delivery in self.deliveries:
                for payload in delivery.payloads if delivery.dest is None else ():
                    known = self.messages.get(payload)
                    if known is not None and known.topic and known.reliable and not known.flags & OOB:
                        key = (delivery.member, known.sender, known.topic)
                        self._topic_deliveries.setdefault(key, []).append((delivery.at_ns, known.at_ns))
        return self._topic_deliveries.get((member, message.sender, message.topic), [])

    def site(self, member: Address) -> str:
        """The member's site, "" without RELAY."""
        return self.history.sites.get(member, "")

    def is_local(self, delivery: h.MessageDelivered) -> bool:
        """Whether the messages come from the receiver's own site."""
        return self.site(delivery.src) == self.site(delivery.member)

    def local_deliveries(self, *, unicast: bool) -> Iterator[tuple[h.MessageDelivered, SentMessage]]:
        """Reliable messages delivered at their own site; payloads that no member sent are left out (S1)."""
        messages = self.messages
        for delivery in self.deliveries:
            if (delivery.dest is not None) == unicast and self.is_local(delivery):
                for payload in delivery.payloads:
                    message = messages.get(payload)
                    if message is not None and message.reliable:
                        yield delivery, message

    def remote_deliveries(self) -> Iterator[tuple[h.MessageDelivered, SentMessage]]:
        """Relayed multicasts delivered at other sites than their origin's."""
        for delivery in self.deliveries:
            if delivery.dest is None and not self.is_local(delivery):
                for payload in delivery.payloads:
                    message = self.messages.get(payload)
                    if message is not None and message.relay_number:
                        yield delivery, message

    def live(self) -> list[Address]:
        """The members that run at the end."""
        return list(self.end.live) if self.end is not None else []

    def final_view(self, member: Address) -> View | None:
        """The last view that the member installed."""
        installs = self.installs_of.get(member)
        return installs[-1].view if installs else None

    def skipped_between(self, before: h.MessageDelivered, after: h.MessageDelivered) -> int:
        """How many messages of their source were declared lost to the receiver between two deliveries."""
        return self.skipped_before.get(id(after), 0) - self.skipped_before.get(id(before), 0)

    def skipped(self, member: Address, origin: Address) -> int:
        """How many messages of `origin` were declared lost to a member within its group: its application was too slow,
        or no member retained them any more."""
        return self._skipped.get((member, origin), 0)

    def show(self, payload: bytes) -> str:
        """A payload, for the text of a violation."""
        return h.show_payload(payload)

    def show_id(self, view: View | None) -> str:
        """A view by its id."""
        return "no view" if view is None else f"{self.name(view.id.coordinator)}|{view.id.counter}"
