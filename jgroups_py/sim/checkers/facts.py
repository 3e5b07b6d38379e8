"""What checkers need to know of a history, gathered in one pass."""
from __future__ import annotations

from collections.abc import Iterator

import attrs

from jgroups_py.address import Address
from jgroups_py.batch import NO_RELAY, NO_RELIABILITY, OOB
from jgroups_py.sim import history as h
from jgroups_py.topics import Interest
from jgroups_py.units import NS_PER_S
from jgroups_py.view import View, ViewId


@attrs.frozen(eq=False)
class Violation:
    """A guarantee that a history breaks, in its words."""

    guarantee: str
    text: str
    at_ns: int

    def __str__(self) -> str:
        return f"{self.guarantee} at {self.at_ns / NS_PER_S:.6f} s: {self.text}"


@attrs.frozen(eq=False, slots=True)
class Message:
    """One message that was sent.

    number: its place, from 1, among the ordered messages of its sender to the same destination (0: OOB or
    unreliable); relay_number: its place among the sender's multicasts that are relayed (0: none).
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

    @property
    def reliable(self) -> bool:
        """Whether the guarantees S2 to F speak of it."""
        return not self.flags & NO_RELIABILITY


Delivered = tuple[h.Delivery, bytes]


def topic_of(payload: bytes) -> str:
    """The topic that World.post wrote into a payload; "" if none. What follows a | is an application's."""
    _, about, topic = payload.partition(b"|")[0].rstrip(b".").rpartition(b"@")
    return topic.decode("ascii", "replace") if about else ""


class Facts:
    """A history, indexed."""

    def __init__(self, history: h.History) -> None:
        self.history = history
        self.name = history.name
        self.messages: dict[bytes, Message] = {}
        self.by_relay_number: dict[Address, list[Message]] = {}      # origin -> its relayed multicasts, from number 1
        self.installs: list[h.Install] = []
        self.installs_of: dict[Address, list[h.Install]] = {}
        self.deliveries: list[h.Delivery] = []
        self.sends: list[h.Send] = []
        self.lost: list[h.Lost | h.Covered] = []                                 # told where they will not come
        self.skipped_in: dict[tuple[Address, ViewId | None], dict[Address, int]] = {}    # (who, view) -> origin -> told
        self.skipped_before: dict[int, int] = {}                     # id of a delivery -> told until then of its source
        self._skipped: dict[tuple[Address, Address], int] = {}       # (who, origin) -> told so far
        self.too_slow: dict[tuple[Address, Address], int] = {}       # ... because the application was too slow
        self.forgotten: dict[tuple[Address, Address], int] = {}      # ... because nobody in the group kept them
        self.unbalanced: list[h.Unbalanced] = []
        self.stalled: list[h.Stalled] = []
        self.ledgers: list[h.Ledger] = []
        self.lost_far: list[h.Lost] = []                             # told at the origin's site of another one
        self.obeyed: list[h.Obeyed] = []
        self.on_disk: list[h.OnDisk] = []
        self.unreached: list[h.Unreached] = []
        self.awaited: list[h.Awaited] = []
        self.receipts: list[h.Receipted] = []
        self.member_news: list[h.MemberSaid] = []
        self.global_installs: list[h.GlobalInstall] = []
        self.ordered: dict[tuple[Address, Address | None], list[Message]] = {}   # (sender, dest) -> from number 1
        self.interests: dict[Address, list[tuple[int, Interest]]] = {}       # member -> from when on it wanted what
        self.out: dict[Address, int] = {}                            # who left, is leaving or crashed -> when
        self.leaving: dict[Address, None] = {}                       # who asked to leave and is not out
        self.healed_ns: int | None = None
        self.end: h.End | None = None
        self._met: dict[tuple[Address, str], int] = {}
        self._running: dict[str, dict[Address, None]] = {}           # site -> its members that run
        self._spoken: dict[str, dict[str, None]] = {}                # site that died as a whole -> obeyed since
        self._reborn: dict[Address, dict[str, int]] = {}             # its members since -> when they heard each site
        self._had: dict[str, dict[bytes, None]] = {}                 # site -> what its members delivered
        self._heard: dict[tuple[Address, Address, str], list[tuple[int, int]]] | None = None
        for entry in history.entries:
            self._add(entry)

    def _add(self, entry: h.Entry) -> None:
        match entry:
            case h.Delivery():
                self.deliveries.append(entry)
                if self._skipped:
                    self.skipped_before[id(entry)] = self._skipped.get((entry.who, entry.src), 0)
            case h.Send():
                self._add_messages(entry)
            case h.Install(_, who, _, _):
                self.installs.append(entry)
                self.installs_of.setdefault(who, []).append(entry)
            case h.Leaving(at_ns, who) | h.Leave(at_ns, who) | h.Crash(at_ns, who):
                self.out.setdefault(who, at_ns)
                self._left(entry)
            case h.GlobalInstall(at_ns, who, view):
                self.global_installs.append(entry)
                for site in view.sites:
                    self._met.setdefault((who, site), at_ns)
            case h.SiteStatus(at_ns, who, site, _):
                self._met.setdefault((who, site), at_ns)
            case h.Start(at_ns, who, site):
                self._started(at_ns, who, site)
            case h.Obeyed(at_ns, who, site, _):
                self.obeyed.append(entry)
                self._spoken.get(self.site(who), {})[site] = None
                for member in self._running.get(self.site(who), ()):
                    if member in self._reborn:
                        self._reborn[member].setdefault(site, at_ns)
            case h.Lost() if entry.dest_site is not None:
                self.lost_far.append(entry)
            case h.Lost(_, who, site, origin, first, stop) if not site:
                # NAKACK's numbers of a view: each at most one message, and not RELAY's numbers.
                self._excused(who, origin, stop - first, self.forgotten)
            case h.Lost() | h.Covered():
                self.lost.append(entry)
            case h.Skipped(_, who, origin, messages):
                self._excused(who, origin, messages, self.too_slow)
            case h.Unbalanced():
                self.unbalanced.append(entry)
            case h.Ledger():
                self.ledgers.append(entry)
            case h.Stalled():
                self.stalled.append(entry)
            case h.Interested(at_ns, who, interest):
                self.interests.setdefault(who, []).append((at_ns, interest))
            case h.OnDisk():
                self.on_disk.append(entry)
            case h.Unreached():
                self.unreached.append(entry)
            case h.Awaited():
                self.awaited.append(entry)
            case h.MemberSaid():
                self.member_news.append(entry)
            case h.Receipted():
                self.receipts.append(entry)
            case h.Healed(at_ns):
                self.healed_ns = at_ns
            case h.End():
                self.end = entry

    def _excused(self, who: Address, origin: Address, messages: int, why: dict[tuple[Address, Address], int]) -> None:
        why[who, origin] = why.get((who, origin), 0) + messages
        current = self.final_view(who)
        told = self.skipped_in.setdefault((who, None if current is None else current.id), {})
        told[origin] = told.get(origin, 0) + messages
        self._skipped[who, origin] = self._skipped.get((who, origin), 0) + messages

    def _started(self, at_ns: int, who: Address, site: str) -> None:
        here = self._running.get(site)
        if here is not None and not here:
            self._spoken[site] = {}
        if site in self._spoken:
            self._reborn[who] = dict.fromkeys(self._spoken[site], at_ns)
        self._running.setdefault(site, {})[who] = None

    def _left(self, entry: h.Leaving | h.Leave | h.Crash) -> None:
        if isinstance(entry, h.Leaving):
            self.leaving[entry.who] = None
        else:
            self._running.get(self.site(entry.who), {}).pop(entry.who, None)
            self.leaving.pop(entry.who, None)

    def _add_messages(self, sent: h.Send) -> None:
        self.sends.append(sent)
        ordered = not sent.flags & (OOB | NO_RELIABILITY)
        relayed = sent.dest is None and not sent.flags & (NO_RELAY | NO_RELIABILITY)
        in_order = self.ordered.setdefault((sent.who, sent.dest), [])
        numbers = self.by_relay_number.setdefault(sent.who, [])
        for payload in sent.payloads:
            assert payload not in self.messages, f"payload {payload!r} was sent twice; checkers need unique ones"
            message = Message(payload, sent.who, sent.dest, sent.flags, sent.view, sent.at_ns,
                              len(in_order) + 1 if ordered else 0, len(numbers) + 1 if relayed else 0,
                              topic_of(payload))
            self.messages[payload] = message
            if ordered:
                in_order.append(message)
            if relayed:
                numbers.append(message)

    # --- questions --------------------------------------------------------------------------------------------------

    def met_ns(self, member: Address, site: str) -> int | None:
        """When a member first heard of another site; what it multicast before was not meant for that site."""
        return self._met.get((member, site))

    def both_met_ns(self, sender: Address, member: Address) -> int:
        """When the later of two members of different sites heard of the other's site; the end if one never did."""
        met = [self.met_ns(sender, self.site(member)), self.met_ns(member, self.site(sender))]
        return max(self._end_ns if at_ns is None else at_ns for at_ns in met)

    def settled_before(self, member: Address, message: Message) -> bool:
        """Whether a member of a site that had died as a whole missed a message by that, as other sites know.

        It knows the sender's site from its disk at once, but not what the members before it had of that site. Until its
        site is spoken to again, messages may have been given up for it, which the sender's side is told, or have been
        delivered to a member before it. What the sender's site holds still, it is owed.
        """
        if member not in self._reborn:
            return False
        site = self.site(member)
        if message.at_ns > self._reborn[member].get(self.site(message.sender), self._end_ns):
            return False
        return message.payload in self._delivered_in(site) or any(
            lost.origin == message.sender and lost.dest_site == site and lost.first <= message.relay_number < lost.stop
            for lost in self.lost_far)

    def _delivered_in(self, site: str) -> dict[bytes, None]:
        """What members of a site delivered."""
        if site not in self._had:
            self._had[site] = {payload: None for delivery in self.deliveries if self.site(delivery.who) == site
                               for payload in delivery.payloads}
        return self._had[site]

    @property
    def _end_ns(self) -> int:
        return self.end.at_ns if self.end is not None else 0

    def may_lack(self, member: Address, message: Message) -> bool:
        """Whether the member's interests excuse that it never delivered the message.

        They do if it did not want what the message is about when it was sent, or gave it up since. They do if it
        subscribed in its life, up to the first message of that sender about that topic which it delivered after: by
        that its subscription is known to have begun. Later ones it must have, and so must those who want it from
        their start.
        """
        if not message.topic or member not in self.interests:
            return False
        changes = self.interests[member]
        since_ns: int | None = None
        for at_ns, interest in changes:
            if interest.wants(message.topic):
                since_ns = at_ns if since_ns is None else since_ns
            else:
                since_ns = None
                if at_ns > message.at_ns:
                    return True
        if since_ns is None or since_ns == changes[0][0]:
            return since_ns is None
        began_ns = next((sent_ns for at_ns, sent_ns in self._about(member, message) if at_ns > since_ns), None)
        return began_ns is None or message.at_ns <= began_ns

    def _about(self, member: Address, message: Message) -> list[tuple[int, int]]:
        """When the member delivered a message of that sender about that topic, and when that one was sent; in order."""
        if self._heard is None:
            self._heard = {}
            for delivery in self.deliveries:
                for payload in delivery.payloads if delivery.dest is None else ():
                    known = self.messages.get(payload)
                    if known is not None and known.topic and known.reliable and not known.flags & OOB:
                        key = (delivery.who, known.sender, known.topic)
                        self._heard.setdefault(key, []).append((delivery.at_ns, known.at_ns))
        return self._heard.get((member, message.sender, message.topic), [])

    def site(self, member: Address) -> str:
        """The member's site, "" without RELAY."""
        return self.history.sites.get(member, "")

    def is_local(self, delivery: h.Delivery) -> bool:
        """Whether the messages come from the receiver's own site."""
        return self.site(delivery.src) == self.site(delivery.who)

    def local_deliveries(self, *, unicast: bool) -> Iterator[tuple[h.Delivery, Message]]:
        """Reliable messages delivered at their own site, of those that were sent at all."""
        messages = self.messages
        for delivery in self.deliveries:
            if (delivery.dest is not None) == unicast and self.is_local(delivery):
                for payload in delivery.payloads:
                    message = messages.get(payload)
                    if message is not None and message.reliable:
                        yield delivery, message

    def remote_deliveries(self) -> Iterator[tuple[h.Delivery, Message]]:
        """Relayed multicasts delivered at other sites than their origin's."""
        for delivery in self.deliveries:
            if delivery.dest is None and not self.is_local(delivery):
                for payload in delivery.payloads:
                    message = self.messages.get(payload)
                    if message is not None and message.relay_number:
                        yield delivery, message

    def live(self) -> list[Address]:
        """Who runs at the end."""
        return list(self.end.live) if self.end is not None else []

    def final_view(self, member: Address) -> View | None:
        """The last view that the member installed."""
        installs = self.installs_of.get(member)
        return installs[-1].view if installs else None

    def skipped_between(self, before: h.Delivery, after: h.Delivery) -> int:
        """How many messages of their source the receiver of both was told that it lost between them, to be excused."""
        return self.skipped_before.get(id(after), 0) - self.skipped_before.get(id(before), 0)

    def skipped(self, who: Address, origin: Address) -> int:
        """How many messages of `origin` a member was told in all that it lost: it was too slow, or nobody
        kept them any more."""
        return self._skipped.get((who, origin), 0)

    def show(self, payload: bytes) -> str:
        """A message for a violation's text."""
        return h.show_payload(payload)

    def show_id(self, view: View | None) -> str:
        """A view by its id."""
        return "no view" if view is None else f"{self.name(view.id.coordinator)}|{view.id.counter}"
