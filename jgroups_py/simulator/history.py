"""The history of a run: checkers judge it, people read it as text, and its hash is compared between runs.

One list in order of time. A member is its Address, which is one incarnation; `names` gives it a readable name like
"A#2" (the second incarnation of A). A message is its payload, which the simulator makes unique and readable:
"A#2>*/17" is the 18th message of A#2, to all. An entry holds a whole batch, not one message.

The hash covers the lines of `show`: a change of their wording changes the digest of every seed.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import attrs

from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.swim_member import Accusation, Member
from jgroups_py.model.topics import Interest
from jgroups_py.model.units import NS_PER_S
from jgroups_py.model.view import GlobalView, MergeView, View, ViewId

SHOWN_PAYLOAD_BYTES = 40


@attrs.frozen(eq=False)
class HistoryEntry:
    """Something that happened at `member` at time `at_ns`."""

    at_ns: int
    member: Address


@attrs.frozen(eq=False)
class Start(HistoryEntry):
    """A process began; site "" without RELAY."""

    site: str


@attrs.frozen(eq=False)
class InstalledView(HistoryEntry):
    """install(p, V, previous)."""

    view: View
    previous: View | None


@attrs.frozen(eq=False)
class MessageSent(HistoryEntry):
    """send(p, m, V) for each payload; view None: p had no view. sites: the other sites that it is for; None: all."""

    dest: Address | None
    payloads: tuple[bytes, ...]
    flags: int
    view: View | None
    sites: tuple[str, ...] | None = None


@attrs.frozen(eq=False)
class MessageDelivered(HistoryEntry):
    """deliver(p, m, V) for each payload; src is a ProxyUUID where the messages come from another site.

    place: of the first one in the order of V (TOTAL); 0: none.
    """

    src: Address
    dest: Address | None
    payloads: tuple[bytes, ...]
    flags: int
    view: View | None
    place: int = 0


@attrs.frozen(eq=False)
class Leaving(HistoryEntry):
    """The application asked to leave."""


@attrs.frozen(eq=False)
class MemberLeft(HistoryEntry):
    """leave(p): p has ended, for `reason` ("left" if its application asked for it)."""

    reason: str


@attrs.frozen(eq=False)
class Crash(HistoryEntry):
    """crash(p)."""


@attrs.frozen(eq=False)
class OnDisk(HistoryEntry):
    """The relayed multicasts on the disk of a member that has just crashed.

    complete: the disk had power and never failed, so everything that the member held must be there.
    """

    payloads: tuple[bytes, ...]
    complete: bool


@attrs.frozen(eq=False)
class GlobalInstall(HistoryEntry):
    """RELAY's view of all sites."""

    view: GlobalView


@attrs.frozen(eq=False)
class SiteStatusSeen(HistoryEntry):
    """The status that RELAY at `member` reports of a site."""

    site: str
    status: str


@attrs.frozen(eq=False)
class EpochAccepted(HistoryEntry):
    """As relay, `member` accepts the relay of `site` that has this epoch, and refuses lower ones from now on."""

    site: str
    epoch: ViewId


@attrs.frozen(eq=False)
class Lost(HistoryEntry):
    """messages_lost: numbers first to stop of `origin` will not be delivered here, or at `dest_site` if given."""

    site: str
    origin: Address
    first: int
    stop: int
    dest_site: str | None = None


@attrs.frozen(eq=False)
class Skipped(HistoryEntry):
    """messages_skipped: messages of `origin` were dropped here, because the application was too slow."""

    origin: Address
    messages: int


@attrs.frozen(eq=False)
class Uncertain(HistoryEntry):
    """order_uncertain: the next `messages` multicasts, up to the next view, had no final place."""

    messages: int


@attrs.frozen(eq=False)
class Unbalanced(HistoryEntry):
    """The ledger of `member` does not add up (R9)."""

    text: str


@attrs.frozen(eq=False)
class LedgerReading(HistoryEntry):
    """The ledger of a relay about one site at the end of the run.

    acked: origin -> number below which everything is acknowledged or lost; numbers: origin -> next number; lost:
    origin -> ranges. received: with TOPICS, origin -> ranges of numbers that RELAY at any member of that site, crashed
    ones included, passed up to TOPICS, which delivered the messages or dropped them as unsubscribed.
    """

    site: str
    acked: dict[Address, int]
    numbers: dict[Address, int]
    lost: dict[Address, tuple[tuple[int, int], ...]]
    received: dict[Address, tuple[tuple[int, int], ...]] = attrs.Factory(dict)


@attrs.frozen(eq=False)
class Stalled(HistoryEntry):
    """The relay `member` makes no progress with another relay that it can reach (R12)."""

    text: str


@attrs.frozen(eq=False)
class Covered(HistoryEntry):
    """An installed state of another site covers messages first to stop of `origin`; they are not delivered."""

    site: str
    origin: Address
    first: int
    stop: int


@attrs.frozen(eq=False)
class Awaited(HistoryEntry):
    """The sender of a message waits for receipts of these sites ("*": all)."""

    payload: bytes
    sites: tuple[str, ...]


@attrs.frozen(eq=False)
class Receipted(HistoryEntry):
    """The receipt: all running members of the views have the message, or it is lost for a site."""

    payload: bytes
    views: dict[str, tuple[ViewId, ...]]
    lost_for: str


@attrs.frozen(eq=False)
class MembershipChange(HistoryEntry):
    """SWIM at `member` reports a change of the member `subject` (model/swim_member.py), with the evidence."""

    change: str
    subject: Member
    accusations: tuple[Accusation, ...]


@attrs.frozen(eq=False)
class ReportedGone(HistoryEntry):
    """`member` is certain that the process of `gone` has ended (MemberGone)."""

    gone: Address


@attrs.frozen(eq=False)
class InterestDeclared(HistoryEntry):
    """From here on `member` is subscribed to these topics."""

    interest: Interest


@attrs.frozen(eq=False)
class Unreached(HistoryEntry):
    """unreachable: whether a unicast to `dest` was delivered is unknown."""

    dest: Address


@attrs.frozen(eq=False)
class Remark:
    """A fault, or a log entry of a node, for the reader. R5 reads the faults; no other checker does."""

    at_ns: int
    text: str


@attrs.frozen(eq=False)
class Healed:
    """From here on no fault is injected."""

    at_ns: int


@attrs.frozen(eq=False)
class End:
    """The end of the run. live: running member -> payload bytes that its stack still queues."""

    at_ns: int
    live: dict[Address, int]


Entry = HistoryEntry | Remark | Healed | End


class History:
    """The entries of a run, in order of time, with the names and sites of its members."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.names: dict[Address, str] = {}
        self.sites: dict[Address, str] = {}
        self.bridge_names: dict[Address, str] = {}

    def add(self, entry: Entry) -> None:
        """Append an entry; times never decrease."""
        assert not self.entries or entry.at_ns >= self.entries[-1].at_ns, "a history is in order of time"
        self.entries.append(entry)

    def started(self, at_ns: int, member: Address, name: str, site: str = "") -> None:
        """Register a new incarnation and append its Start."""
        self.names[member] = name
        self.sites[member] = site
        self.add(Start(at_ns, member, site))

    # --- reading ----------------------------------------------------------------------------------------------------

    def name(self, address: Address | None) -> str:
        """ "A#1", "D#1@SFO" for a proxy, "all" for None."""
        if address is None:
            return "all"
        known = self.names.get(address) or self.bridge_names.get(address) or str(address)
        return f"{known}@{address.site}" if isinstance(address, ProxyUUID) else known

    def members(self, members: Iterable[Address]) -> str:
        """ "A#1 B#1"."""
        return " ".join(self.name(member) for member in members)

    def view(self, view: View | None) -> str:
        """ "A#1|3 [A#1 B#1]"."""
        if view is None:
            return "no view"
        text = f"{self.name(view.id.coordinator)}|{view.id.counter} [{self.members(view.members)}]"
        if isinstance(view, MergeView):
            subgroups = ", ".join(f"{self.name(s.id.coordinator)}|{s.id.counter}" for s in view.subgroups)
            text += f" merges {subgroups}"
            if view.missed:
                text += ", missed " + ", ".join(f"{n} of {self.name(member)}" for member, n in view.missed.items())
        return text

    def lines(self) -> Iterator[str]:
        """The whole history, an entry a line."""
        for entry in self.entries:
            yield f"{entry.at_ns / NS_PER_S:11.6f} {self.show(entry)}"

    def show(self, entry: Entry) -> str:
        """One entry without its time."""
        match entry:
            case Start(_, member, site):
                return f"{self.name(member)} starts" + (f" at {site}" if site else "")
            case InstalledView(_, member, view, previous):
                return f"{self.name(member)} installs {self.view(view)}" + ("" if previous else " first")
            case MessageSent(_, member, dest, payloads, _, _):
                return f"{self.name(member)} sends to {self.name(dest)}: {show_payloads(payloads)}"
            case MessageDelivered(_, member, src, dest, payloads, _, _, _):
                how = "" if dest is None else " (unicast)"
                return f"{self.name(member)} delivers from {self.name(src)}{how}: {show_payloads(payloads)}"
            case Leaving(_, member):
                return f"{self.name(member)} wants to leave"
            case MemberLeft(_, member, reason):
                return f"{self.name(member)} is out: {reason}"
            case Crash(_, member):
                return f"{self.name(member)} crashes"
            case _:
                return self._show_rest(entry)

    def _show_rest(self, entry: Entry) -> str:
        match entry:
            case GlobalInstall(_, member, view):
                sites = "; ".join(f"{site}: {self.members(view.sites[site])}" for site in sorted(view.sites))
                return f"{self.name(member)} sees globally {sites}"
            case SiteStatusSeen(_, member, site, status):
                return f"{self.name(member)} takes {site} for {status}"
            case EpochAccepted(_, member, site, epoch):
                shown = f"{self.name(epoch.coordinator)}|{epoch.counter}"
                return f"{self.name(member)} obeys the relay of {site} in {shown}"
            case Lost(_, member, site, origin, first, stop, dest_site):
                lost = f"{first}..{stop} of {self.name(origin)} at {site}" + (f" for {dest_site}" if dest_site else "")
                return f"{self.name(member)} hears of lost messages {lost}"
            case Skipped(_, member, origin, messages):
                skipped = f"{messages} messages of {self.name(origin)}"
                return f"{self.name(member)} is told that it was too slow for {skipped}"
            case Uncertain(_, member, messages):
                return f"{self.name(member)} is told that {messages} messages had no final place"
            case Unbalanced(_, member, text):
                return f"the ledger of {self.name(member)} does not add up: {text}"
            case LedgerReading(_, member, site, acked, numbers):
                held = sum(max(0, number - acked.get(origin, 1)) for origin, number in numbers.items())
                return f"the ledger of {self.name(member)} for {site} knows {len(numbers)} origins, {held} are held"
            case Stalled(_, member, text):
                return f"{self.name(member)} stands still {text}"
            case Covered(_, member, site, origin, first, stop):
                return f"{self.name(member)} has {first}..{stop} of {self.name(origin)} at {site} by a state"
            case Awaited(_, member, payload, sites):
                return f"{self.name(member)} waits until all members of {' '.join(sites)} have {show_payload(payload)}"
            case Receipted(_, member, payload, views, lost_for):
                what = f"is lost for {lost_for}" if lost_for else f"is at {' '.join(views)}"
                return f"{self.name(member)} is told that {show_payload(payload)} {what}"
            case MembershipChange(_, member, change, subject, accusations):
                evidence = f" ({'; '.join(map(str, accusations))})" if accusations else ""
                number = f"incarnation {subject.incarnation}"
                return f"{self.name(member)} hears: {subject.name} {change}, {number}{evidence}"
            case ReportedGone(_, member, gone):
                return f"{self.name(member)} is certain that the process of {self.name(gone)} has ended"
            case InterestDeclared(_, member, interest):
                return f"{self.name(member)} wants topics: {str(interest) or 'none'}"
            case Unreached(_, member, dest):
                return f"{self.name(member)} is told that {self.name(dest)} is unreachable"
            case OnDisk(_, member, payloads, _):
                return f"{self.name(member)} leaves on its disk {show_payloads(payloads)}"
            case Remark(_, text):
                return f"-- {text}"
            case Healed():
                return "-- all faults heal"
            case End(_, live):
                kept = "".join(f", {self.name(member)} keeps {n} bytes" for member, n in live.items() if n)
                return f"-- end; live: {self.members(live)}{kept}"
        raise AssertionError(f"an entry without a text: {entry!r}")

    def digest(self) -> str:
        """A hash of all lines; equal for equal seeds on every machine."""
        hashed = blake2b(digest_size=16)
        for line in self.lines():
            hashed.update(line.encode())
            hashed.update(b"\n")
        return hashed.hexdigest()


def show_payloads(payloads: tuple[bytes, ...]) -> str:
    """The first and last payload of a batch, and their number."""
    if not payloads:
        return "nothing"
    if len(payloads) == 1:
        return show_payload(payloads[0])
    return f"{show_payload(payloads[0])} .. {show_payload(payloads[-1])} ({len(payloads)})"


def show_payload(payload: bytes) -> str:
    """A payload as text; long ones cut, with their length."""
    text = payload[:SHOWN_PAYLOAD_BYTES].decode("ascii", "backslashreplace").rstrip(".")
    return text if len(payload) <= SHOWN_PAYLOAD_BYTES else f"{text}+{len(payload)}B"
