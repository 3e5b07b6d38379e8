"""The history of a run: what the checkers judge, what a person reads, what is hashed to compare two runs.

One list in order of time. A member is its Address, which is one incarnation; `names` gives it a readable name like
"A#2" (the second start of A). A message is its payload, which the simulator makes unique and readable:
"A#2>*/17" is the 18th message of A#2, to all. Records hold whole runs, not messages.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import attrs

from jgroups_py.address import Address, ProxyUUID
from jgroups_py.members import Accusation, Member
from jgroups_py.topics import Interest
from jgroups_py.units import NS_PER_S
from jgroups_py.view import GlobalView, MergeView, View, ViewId

SHOWN_PAYLOAD_BYTES = 40


@attrs.frozen(eq=False)
class Record:
    """Something that happened at `who` at time `at_ns`."""

    at_ns: int
    who: Address


@attrs.frozen(eq=False)
class Start(Record):
    """A process began; site "" without RELAY."""

    site: str


@attrs.frozen(eq=False)
class Install(Record):
    """install(p, V, previous)."""

    view: View
    previous: View | None


@attrs.frozen(eq=False)
class Send(Record):
    """send(p, m, V) for each payload; view None: p was in none."""

    dest: Address | None
    payloads: tuple[bytes, ...]
    flags: int
    view: View | None


@attrs.frozen(eq=False)
class Delivery(Record):
    """deliver(p, m, V) for each payload; src is a ProxyUUID where the messages come from another site."""

    src: Address
    dest: Address | None
    payloads: tuple[bytes, ...]
    flags: int
    view: View | None


@attrs.frozen(eq=False)
class Leaving(Record):
    """The application asked to leave."""


@attrs.frozen(eq=False)
class Leave(Record):
    """leave(p): p is out, for `reason` ("left" if it asked for it)."""

    reason: str


@attrs.frozen(eq=False)
class Crash(Record):
    """crash(p)."""


@attrs.frozen(eq=False)
class OnDisk(Record):
    """The relayed multicasts that are on the disk of a member that has just crashed.

    complete: the disk had power and never failed, so everything that the member held should be there.
    """

    payloads: tuple[bytes, ...]
    complete: bool


@attrs.frozen(eq=False)
class GlobalInstall(Record):
    """RELAY's view of all sites."""

    view: GlobalView


@attrs.frozen(eq=False)
class SiteStatus(Record):
    """RELAY's opinion of a site."""

    site: str
    status: str


@attrs.frozen(eq=False)
class Obeyed(Record):
    """As relay, `who` obeys the relay of `site` whose epoch this is."""

    site: str
    epoch: ViewId


@attrs.frozen(eq=False)
class Lost(Record):
    """messages_lost: numbers first to stop of `origin` will not come here, or to `dest_site` if that is given."""

    site: str
    origin: Address
    first: int
    stop: int
    dest_site: str | None = None


@attrs.frozen(eq=False)
class Skipped(Record):
    """messages_skipped: so many messages of `origin` stood here and were dropped: the application was too slow."""

    origin: Address
    messages: int


@attrs.frozen(eq=False)
class Unbalanced(Record):
    """The ledger of `who` does not add up (R9)."""

    text: str


@attrs.frozen(eq=False)
class Ledger(Record):
    """What the ledger of a relay says at the end of the run about one site: origin -> from where on nothing is
    acknowledged nor lost, the number that comes next, and what is lost."""

    site: str
    acked: dict[Address, int]
    numbers: dict[Address, int]
    lost: dict[Address, tuple[tuple[int, int], ...]]


@attrs.frozen(eq=False)
class Stalled(Record):
    """Between the relay `who` and another one, which can talk, nothing moves (R12)."""

    text: str


@attrs.frozen(eq=False)
class Covered(Record):
    """A state of another site was set that holds messages first to stop of `origin`; they are not delivered."""

    site: str
    origin: Address
    first: int
    stop: int


@attrs.frozen(eq=False)
class Awaited(Record):
    """The sender of a message waits for receipts of these sites ("*": all)."""

    payload: bytes
    sites: tuple[str, ...]


@attrs.frozen(eq=False)
class Receipted(Record):
    """What it is told: all living members of the views have the message, or it is lost for a site."""

    payload: bytes
    views: dict[str, tuple[ViewId, ...]]
    lost_for: str


@attrs.frozen(eq=False)
class MemberSaid(Record):
    """What SWIM at `who` says of a member: a change of members.py, with the evidence."""

    change: str
    member: Member
    accusations: tuple[Accusation, ...]


@attrs.frozen(eq=False)
class Interested(Record):
    """From here on `who` wants messages about these topics."""

    interest: Interest


@attrs.frozen(eq=False)
class Unreached(Record):
    """unreachable: a unicast to `dest` is not known to be delivered."""

    dest: Address


@attrs.frozen(eq=False)
class Remark:
    """A fault, or a note of a node, for the reader; no checker looks at it."""

    at_ns: int
    text: str


@attrs.frozen(eq=False)
class Healed:
    """From here on nothing fails any more."""

    at_ns: int


@attrs.frozen(eq=False)
class End:
    """The end of the run. live: the members that run, with the payload bytes their stacks still keep back."""

    at_ns: int
    live: dict[Address, int]


Entry = Record | Remark | Healed | End


class History:
    """What happened, in order of time."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.names: dict[Address, str] = {}
        self.sites: dict[Address, str] = {}
        self.bridge_names: dict[Address, str] = {}

    def add(self, entry: Entry) -> None:
        """Append; times never go back."""
        assert not self.entries or entry.at_ns >= self.entries[-1].at_ns, "a history is in order of time"
        self.entries.append(entry)

    def started(self, at_ns: int, who: Address, name: str, site: str = "") -> None:
        """A new incarnation."""
        self.names[who] = name
        self.sites[who] = site
        self.add(Start(at_ns, who, site))

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
                text += ", missed " + ", ".join(f"{n} of {self.name(who)}" for who, n in view.missed.items())
        return text

    def lines(self) -> Iterator[str]:
        """The whole history, an entry a line."""
        for entry in self.entries:
            yield f"{entry.at_ns / NS_PER_S:11.6f} {self.show(entry)}"

    def show(self, entry: Entry) -> str:
        """One entry without its time."""
        match entry:
            case Start(_, who, site):
                return f"{self.name(who)} starts" + (f" at {site}" if site else "")
            case Install(_, who, view, previous):
                return f"{self.name(who)} installs {self.view(view)}" + ("" if previous else " first")
            case Send(_, who, dest, payloads, _, _):
                return f"{self.name(who)} sends to {self.name(dest)}: {show_payloads(payloads)}"
            case Delivery(_, who, src, dest, payloads, _, _):
                how = "" if dest is None else " (unicast)"
                return f"{self.name(who)} delivers from {self.name(src)}{how}: {show_payloads(payloads)}"
            case Leaving(_, who):
                return f"{self.name(who)} wants to leave"
            case Leave(_, who, reason):
                return f"{self.name(who)} is out: {reason}"
            case Crash(_, who):
                return f"{self.name(who)} crashes"
            case _:
                return self._show_rest(entry)

    def _show_rest(self, entry: Entry) -> str:
        match entry:
            case GlobalInstall(_, who, view):
                sites = "; ".join(f"{site}: {self.members(view.sites[site])}" for site in sorted(view.sites))
                return f"{self.name(who)} sees globally {sites}"
            case SiteStatus(_, who, site, status):
                return f"{self.name(who)} takes {site} for {status}"
            case Obeyed(_, who, site, epoch):
                return f"{self.name(who)} obeys the relay of {site} in {self.name(epoch.coordinator)}|{epoch.counter}"
            case Lost(_, who, site, origin, first, stop, dest_site):
                lost = f"{first}..{stop} of {self.name(origin)} at {site}" + (f" for {dest_site}" if dest_site else "")
                return f"{self.name(who)} hears of lost messages {lost}"
            case Skipped(_, who, origin, messages):
                return f"{self.name(who)} is told that it was too slow for {messages} messages of {self.name(origin)}"
            case Unbalanced(_, who, text):
                return f"the ledger of {self.name(who)} does not add up: {text}"
            case Ledger(_, who, site, acked, numbers, _):
                held = sum(max(0, number - acked.get(origin, 1)) for origin, number in numbers.items())
                return f"the ledger of {self.name(who)} for {site} knows {len(numbers)} origins, {held} are held"
            case Stalled(_, who, text):
                return f"{self.name(who)} stands still {text}"
            case Covered(_, who, site, origin, first, stop):
                return f"{self.name(who)} has {first}..{stop} of {self.name(origin)} at {site} by a state"
            case Awaited(_, who, payload, sites):
                return f"{self.name(who)} waits until all members of {' '.join(sites)} have {show_payload(payload)}"
            case Receipted(_, who, payload, views, lost_for):
                what = f"is lost for {lost_for}" if lost_for else f"is at {' '.join(views)}"
                return f"{self.name(who)} is told that {show_payload(payload)} {what}"
            case MemberSaid(_, who, change, member, accusations):
                evidence = f" ({'; '.join(map(str, accusations))})" if accusations else ""
                return f"{self.name(who)} hears: {member.name} {change}, incarnation {member.incarnation}{evidence}"
            case Interested(_, who, interest):
                return f"{self.name(who)} wants topics: {str(interest) or 'none'}"
            case Unreached(_, who, dest):
                return f"{self.name(who)} is told that {self.name(dest)} is unreachable"
            case OnDisk(_, who, payloads, _):
                return f"{self.name(who)} leaves on its disk {show_payloads(payloads)}"
            case Remark(_, text):
                return f"-- {text}"
            case Healed():
                return "-- all faults heal"
            case End(_, live):
                kept = "".join(f", {self.name(member)} keeps {n} bytes" for member, n in live.items() if n)
                return f"-- end; live: {self.members(live)}{kept}"
        raise AssertionError(f"an entry without words: {entry!r}")

    def digest(self) -> str:
        """A hash of everything that happened; equal for equal seeds, anywhere."""
        hashed = blake2b(digest_size=16)
        for line in self.lines():
            hashed.update(line.encode())
            hashed.update(b"\n")
        return hashed.hexdigest()


def show_payloads(payloads: tuple[bytes, ...]) -> str:
    """The first and last payload of a run and how many it has."""
    if not payloads:
        return "nothing"
    if len(payloads) == 1:
        return show_payload(payloads[0])
    return f"{show_payload(payloads[0])} .. {show_payload(payloads[-1])} ({len(payloads)})"


def show_payload(payload: bytes) -> str:
    """A payload as text; long ones cut, with their length."""
    text = payload[:SHOWN_PAYLOAD_BYTES].decode("ascii", "backslashreplace").rstrip(".")
    return text if len(payload) <= SHOWN_PAYLOAD_BYTES else f"{text}+{len(payload)}B"
