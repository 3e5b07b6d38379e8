"""The copy of a ReplicatedDict at one member. Pure: time is an argument, messages are outputs.

Every write is an ordered multicast (TOTAL), and every member carries them out in that order: so copies that were equal
once are equal after each further place. In each new view the members have to agree on the copy that goes on:

* On a view every member multicasts a claim: the base of its copy. A base is a transition between two views (or
  nothing): all members that make it together have the same copy at its end, by virtual synchrony and the one order.
* When the claims of all members of the view are there, which is at the same place at all of them, they choose one base.
  These criteria count in turn: its part could write and has written; it has writes; most members have it; it has most
  writes. Members with that base go on with their copies. The first of them sends its copy to all others.
* Writes that arrive before that place are dropped at all members alike; their writers send them again in that view.

So a joiner, a member that merges back, and one that was suspended are the same case. A part has the majority (policy
"primary") if it has more than half of the electorate: the members of the last view in which there was a majority, less
those that have left on request. A part with exactly half has it if the lowest address is in it.

Every copy knows the number of the last write of each writer in its past, and every member what its own writes have
changed (its log). So a member that goes on with another past finds which of its writes are not there, and reports them.
A merger may drop writes of members that are away: the copy keeps for these which of them (`untold`).

A member is *settled* while it has a copy with which it goes on. Messages that arrive after the choice and before its
copy are kept, and carried out behind it.
"""
from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from jgroups_py.blocks.dicts.messages import (
    COMPARE,
    DELETE,
    INCREMENT,
    MESSAGES,
    POP,
    PUT,
    SET_DEFAULT,
    DictClaim,
    DictExpiry,
    DictMessage,
    DictOffer,
    DictSnapshot,
    DictWrite,
    Operation,
    PackedEntry,
    PackedUntold,
    encode,
    one_as_bytes,
    read_one,
    write_head,
)
from jgroups_py.model.address import Address
from jgroups_py.model.errors import WireError
from jgroups_py.model.units import NS_PER_MS
from jgroups_py.model.view import View
from jgroups_py.wire.codec import Interner

PRIMARY: Final = "primary"
KEEP: Final = "keep"
MERGE: Final = "merge"
POLICIES: Final = (PRIMARY, KEEP, MERGE)
MAX_TTL_MS: Final = 1 << 50
LOG_LIMIT: Final = 10_000                # own changes that can be told when they are taken back; older ones are not
WRITERS_LIMIT: Final = 4096              # writers of which a copy knows the last number; the last to write are kept
UNTOLD_LIMIT: Final = 10_000             # changes dropped by mergers whose writers may not know it; the latest are kept
Merger = Callable[[bytes, bytes, bytes], bytes]


@attrs.frozen(eq=False)
class Send:
    """Output: send `data`, to all members in the one order (dest None), or to one."""

    dest: Address | None
    data: bytes


@attrs.frozen(eq=False)
class Changed:
    """Output: `key` was changed at `place` of the view, by the member `by`. old, new None: no value."""

    key: bytes
    old: bytes | None
    new: bytes | None
    place: int
    by: Address


@attrs.frozen(eq=False)
class Reloaded:
    """Output: the copy was replaced by that of another member; all keys may have changed."""


@attrs.frozen(eq=False)
class Conflict:
    """Output: a merge took back an own change of `key`. other: the value that is there now; verb: PUT, DELETE (value is
    empty) or INCREMENT (value: by how much)."""

    key: bytes
    value: bytes
    other: bytes | None
    verb: int = PUT


@attrs.frozen(eq=False)
class OwnChange:
    """An own write that was carried out, and changed `key`; see Conflict."""

    number: int
    verb: int
    key: bytes
    value: bytes


@attrs.frozen(eq=False)
class Answered:
    """Output: this member's write `number` was carried out at `place`; results: one for each operation."""

    number: int
    place: int
    results: tuple[Any, ...]


@attrs.frozen(eq=False)
class Refused:
    """Output: this member's write `number` was not carried out, as this part of the group has no majority."""

    number: int


Output = Send | Changed | Reloaded | Conflict | Answered | Refused


@attrs.frozen
class Untold:
    """Changes of `key` that a merger dropped, by the writes of `writer` with after < number <= until. only_increments:
    the value of the other past was the same, so other writes are there."""

    writer: Address
    key: bytes
    after: int
    until: int
    only_increments: bool

    def has(self, change: OwnChange) -> bool:
        """Whether it is about this change of the writer."""
        return self.key == change.key and self.after < change.number <= self.until and (
            change.verb == INCREMENT or not self.only_increments)

    def later_than(self, number: int) -> Untold | None:
        """What it says of writes after this one."""
        return self if number <= self.after else attrs.evolve(self, after=number) if number < self.until else None


@attrs.define(eq=False, slots=True)
class DictEntry:
    """A value. version: the number of the write that made it; expires_ns: by this member's clock, 0: never."""

    value: bytes
    writer: Address
    version: int
    expires_ns: int = 0


class NotANumber(ValueError):
    """The result of an increment of a value that is not a number."""


def base_of(previous: View, view: View) -> bytes:
    """The base of the copies of members that went from one view to the next together."""
    return previous.id.raw + view.id.raw


class DictCore:
    """See the module. me: this member; policy: one of POLICIES; merger: for MERGE, a pure function of key, mine, its.

    outputs: to be carried out, in order, and emptied by the caller; tells_changes: Changed is among them.
    """

    def __init__(self, me: Address, policy: str = PRIMARY, merger: Merger | None = None) -> None:
        if policy not in POLICIES:
            raise ValueError(f"on_split is one of {', '.join(POLICIES)}, not {policy!r}")
        if (policy == MERGE) != (merger is not None):
            raise ValueError('on_split="merge" and a function merge(key, mine, its) belong together')
        self.me = me
        self.policy = policy
        self.merger = merger
        self.outputs: list[Output] = []
        self.tells_changes = True
        # The copy.
        self.entries: dict[bytes, DictEntry] = {}
        self.applied = 0                                 # writes carried out since the copy began
        self.base = b""                                  # of the copy; empty: there is none
        self.written: dict[Address, int] = {}            # writer -> the number of its last write; latest writer last
        self.log: deque[OwnChange] = deque(maxlen=LOG_LIMIT)       # what own writes of this past changed
        self.untold: list[Untold] = []                   # dropped by mergers; their writers may not know it
        self.electorate: tuple[Address, ...] = ()        # members of the last view with a majority
        self.primary = False                             # whether this part may write
        self.settled = False
        # The view.
        self.view: View | None = None
        self.head = b""                                  # of its writes
        self.claims: dict[Address, DictClaim] = {}
        self.decided = False
        self.kept: list[tuple[Address, DictMessage, int]] = []     # after the choice, while this member has no copy
        self.provider: Address | None = None             # the first member with the chosen base
        self.early_copies: dict[Address, DictSnapshot] = {}        # came before the last claim: unicasts may overtake
        self.unmerged: list[OwnChange] = []              # of a former copy, until its part has offered it,
        self.offerer: Address | None = None              # which this member does
        self.deadlines: list[tuple[int, bytes, int]] = []          # heap of (when, key, version); some are over
        # Own writes that were not carried out yet: number -> operations, oldest first.
        self.waiting: dict[int, tuple[Operation, ...]] = {}
        self.numbers = 0
        self.counters = {"writes": 0, "sent_again": 0, "copies_sent": 0, "copies_taken": 0, "malformed": 0,
                         "stale_dropped": 0, "expired": 0, "taken_back": 0, "merged": 0}
        self._interner = Interner()

    # --- reading ----------------------------------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        """Whether writes are carried out here; unknown (True) while a view has not been decided."""
        return not self.decided or self.primary or self.policy != PRIMARY

    def get(self, key: bytes) -> bytes | None:
        """The value of a key in this copy."""
        entry = self.entries.get(key)
        return None if entry is None else entry.value

    def items(self) -> dict[bytes, bytes]:
        """All keys with their values."""
        return {key: entry.value for key, entry in self.entries.items()}

    # --- own writes -------------------------------------------------------------------------------------------------

    def write(self, operations: Iterable[Operation]) -> int:
        """Send a write; returns its number. Answered or Refused follows."""
        self.numbers += 1
        self.waiting[self.numbers] = tuple(operations)
        if self.view is not None and self.decided and self.settled:
            self.send_write(self.numbers)
        return self.numbers

    def send_write(self, number: int) -> None:
        """Multicast an own write in this view, or refuse it where this part has no majority."""
        assert self.view is not None, "it is sent in a view"
        if not self.can_write:
            del self.waiting[number]
            self.outputs.append(Refused(number))
            return
        operations = self.waiting[number]
        if len(operations) == 1 and operations[0][3] is None:
            data = one_as_bytes(self.head, number, operations[0])
        else:
            data = encode(DictWrite(self.view.id.raw, number, operations))
        self.outputs.append(Send(None, data))

    # --- views ------------------------------------------------------------------------------------------------------

    def view_installed(self, view: View, failed: Iterable[Address] = ()) -> None:
        """A view begins; failed: members that left it and were reported by failure detection."""
        previous, self.view, self.head = self.view, view, write_head(view.id.raw)
        if previous is not None and self.decided:
            # All that make this transition together delivered the same in the last view, and in one order.
            self.base = base_of(previous, view) if self.settled else b""
        elif previous is None and len(view) == 1:
            self.base = b""                              # a group begins; see `choose`
        self.decided, self.claims, self.kept, self.provider, self.early_copies = False, {}, [], None, {}
        unmerged, self.unmerged, self.offerer = self.unmerged, [], None
        self.report_taken_back(unmerged)                 # who should have offered that part's copy is gone
        self.collect_deadlines()                         # expiries that were under way may be lost with the last view
        lost = dict.fromkeys(failed)
        gone = tuple(member for member in (previous.members if previous is not None else ())
                     if member not in view and member not in lost)
        claim = DictClaim(view.id.raw, self.base, self.primary, self.applied, gone)
        self.outputs.append(Send(None, encode(claim)))

    # --- receiving --------------------------------------------------------------------------------------------------

    def receive(self, src: Address, data: bytes, place: int, now_ns: int) -> None:
        """A message, in the one order. place: its place in the view, 0 for a unicast."""
        if place and self.settled and self.decided and self.view is not None and src in self.view:
            one = read_one(self.head, data)
            if one is not None:
                self.apply(src, one[0], one[1:], place, now_ns)
                return
        try:
            message = MESSAGES.decode(data, self._interner)
        except WireError:
            self.counters["malformed"] += 1
            return
        view = self.view
        # Only unicasts have no place, and a copy is the only message that is one.
        if view is None or src not in view or getattr(message, "view", b"") != view.id.raw or \
                isinstance(message, DictSnapshot) == bool(place):
            self.counters["stale_dropped"] += 1
        elif isinstance(message, DictClaim):
            self.claimed(src, message, now_ns)
        elif isinstance(message, DictSnapshot):
            self.take_copy(src, message, now_ns)
        elif not self.decided:
            self.counters["stale_dropped"] += 1          # at all members alike: its writer sends it again
        elif self.settled:
            self.carry_out(src, message, place, now_ns)
        else:
            self.kept.append((src, message, place))

    def carry_out(self, src: Address, message: DictMessage, place: int, now_ns: int) -> None:
        if isinstance(message, DictWrite):
            self.apply(src, message.number, message.operations, place, now_ns)
        elif isinstance(message, DictExpiry):
            self.expire(src, message, place)
        elif isinstance(message, DictOffer):
            self.merge(src, message, place, now_ns)

    # --- which copy goes on -----------------------------------------------------------------------------------------

    def claimed(self, src: Address, claim: DictClaim, now_ns: int) -> None:
        assert self.view is not None, "checked by the caller"
        self.claims.setdefault(src, claim)
        if not self.decided and len(self.claims) == len(self.view):
            self.choose(self.view, now_ns)

    def choose(self, view: View, now_ns: int) -> None:
        """Choose the base, when all claims of the view are there: at the same place at all members."""
        counts: dict[bytes, int] = {}
        for claim in self.claims.values():
            counts[claim.base] = counts.get(claim.base, 0) + 1
        best = max((claim for claim in self.claims.values() if claim.base), default=None, key=lambda claim: (
            claim.primary and claim.applied > 0, claim.applied > 0, counts[claim.base], claim.applied, claim.base))
        mine, self.decided = self.claims[self.me], True
        if best is None:
            self.found(view)
        elif mine.base == best.base:
            # A writer with this base carried out all that was merged into it, or took a copy that names it.
            self.untold = [one for one in self.untold if one.writer not in self.claims
                           or self.claims[one.writer].base != best.base]
            self.settled = True
            self.elect(view, best.base)
            self.give_copies(view, best.base, now_ns)
        else:
            self.offer(view, mine.base, now_ns)
            self.settled = False
            self.provider = next(member for member in view.members if self.claims[member].base == best.base)
            if self.provider in self.early_copies:
                self.take_copy(self.provider, self.early_copies[self.provider], now_ns)
                return                                   # it has sent the waiting writes
        for number in list(self.waiting) if self.settled else ():
            self.counters["sent_again"] += 1
            self.send_write(number)

    def found(self, view: View) -> None:
        """No member has a copy: all begin with an empty one.

        A member may have had one: it was to take another one, whose provider went before it came.
        """
        before, self.entries = self.entries, {}
        self.applied, self.settled, self.primary = 0, True, True
        self.written, self.untold = {}, []
        self.electorate = view.members
        if before:
            self.outputs.append(Reloaded())
        self.report_replaced(self.take_from_log(0), before)

    def elect(self, view: View, base: bytes) -> None:
        """Find out whether this part has a majority, from facts that all its members have: so all agree."""
        if view.coordinator in self.claims and self.claims[view.coordinator].base == base:
            gone = self.claims[view.coordinator].gone
            self.electorate = tuple(member for member in self.electorate if member not in gone or member in view)
        here = [member for member in self.electorate if member in view]
        self.primary = 2 * len(here) > len(self.electorate) or not self.electorate or (
            2 * len(here) == len(self.electorate) and min(self.electorate) in view)
        if self.primary:
            self.electorate = view.members

    def give_copies(self, view: View, base: bytes, now_ns: int) -> None:
        """The first member with the chosen base sends its copy to all that have another one, or none."""
        others = [member for member in view.members if self.claims[member].base != base]
        if others and self.me == next(member for member in view.members if member not in others):
            copy = encode(DictSnapshot(view.id.raw, self.applied, self.primary, self.electorate, self.packed(now_ns),
                                       tuple(self.written.items()), self.packed_untold()))
            for member in others:
                self.counters["copies_sent"] += 1
                self.outputs.append(Send(member, copy))

    def packed(self, now_ns: int) -> tuple[PackedEntry, ...]:
        return tuple((key, entry.value, entry.writer, entry.version,
                      0 if not entry.expires_ns else max(1, (entry.expires_ns - now_ns) // NS_PER_MS))
                     for key, entry in self.entries.items())

    def packed_untold(self) -> tuple[PackedUntold, ...]:
        return tuple((one.writer, one.key, one.after, one.until, one.only_increments) for one in self.untold)

    def take_copy(self, src: Address, copy: DictSnapshot, now_ns: int) -> None:
        """The copy of a member with the chosen base, as it was at the place of the choice."""
        if not self.decided:
            self.early_copies[src] = copy                # at most one of each member
            return
        if self.settled or src != self.provider:
            self.counters["stale_dropped"] += 1
            return
        self.counters["copies_taken"] += 1
        before, self.entries = self.entries, {
            key: DictEntry(value, writer, version, ttl_ms and now_ns + min(ttl_ms, MAX_TTL_MS) * NS_PER_MS)
            for key, value, writer, version, ttl_ms in copy.entries}
        self.applied, self.primary, self.electorate, self.settled = (
            copy.applied, copy.primary, copy.electorate, True)
        self.written = dict(copy.written[-WRITERS_LIMIT:])
        self.untold = [Untold(*one) for one in copy.untold[-UNTOLD_LIMIT:]]
        self.collect_deadlines()
        self.outputs.append(Reloaded())
        later = self.take_from_log(self.written.get(self.me, 0))
        lost = [*self.take_dropped(self.untold), *later]
        if self.policy == MERGE and self.offerer is not None:
            self.unmerged = lost
        else:
            self.report_replaced(lost, before)
        for number in list(self.waiting):
            self.counters["sent_again"] += 1
            self.send_write(number)
        kept, self.kept = self.kept, []
        for src, message, place in kept:
            self.carry_out(src, message, place, now_ns)

    def take_from_log(self, number: int) -> list[OwnChange]:
        """Own changes that came after that number: they are taken from the log."""
        lost: list[OwnChange] = []
        while self.log and self.log[-1].number > number:
            lost.append(self.log.pop())
        return lost[::-1]

    def take_dropped(self, untold: Iterable[Untold]) -> list[OwnChange]:
        """Own changes that a merger dropped: they are taken from the log."""
        mine = [one for one in untold if one.writer == self.me]
        dropped = [change for change in self.log if any(one.has(change) for one in mine)] if mine else []
        self.remove_from_log(dropped)
        return dropped

    def remove_from_log(self, changes: Iterable[OwnChange]) -> None:
        taken = set(map(id, changes))
        if taken:
            self.log = deque((change for change in self.log if id(change) not in taken), LOG_LIMIT)

    def report_taken_back(self, changes: Iterable[OwnChange]) -> None:
        """Tell own changes that are not in this past (D4)."""
        for change in changes:
            self.counters["taken_back"] += 1
            self.outputs.append(Conflict(change.key, change.value, self.get(change.key), change.verb))

    def report_replaced(self, changes: Iterable[OwnChange], before: Mapping[bytes, DictEntry]) -> None:
        """Tell own changes that went with the copy `before`, but for those whose key has the same value now."""
        self.report_taken_back(change for change in changes if change.verb == INCREMENT or self.get(change.key) != (
            None if change.key not in before else before[change.key].value))

    def offer(self, view: View, mine: bytes, now_ns: int) -> None:
        """Policy "merge": the first member of a part that was not chosen multicasts what it has."""
        if self.policy != MERGE or not mine:
            return
        self.offerer = next(member for member in view.members if self.claims[member].base == mine)
        if self.me == self.offerer:
            self.outputs.append(Send(None, encode(DictOffer(
                view.id.raw, self.packed(now_ns), tuple(self.written.items()), self.packed_untold()))))

    def merge(self, src: Address, offer: DictOffer, place: int, now_ns: int) -> None:
        """Carry out an offer. All members get the same result, as the function is pure."""
        if self.merger is None:
            return
        self.counters["merged"] += 1
        offered = {key: value for key, value, _, _, _ in offer.entries}
        before = {key: self.get(key) for key in offered}
        for key, value, writer, _, ttl_ms in offer.entries:
            mine = before[key]
            merged = value if mine is None or mine == value else self.merger(key, mine, value)
            if merged != mine:
                self.put(key, merged, writer, min(ttl_ms, MAX_TTL_MS), place, now_ns)
        known, untold = dict(offer.written), [Untold(*one) for one in offer.untold[-UNTOLD_LIMIT:]]
        self.tell_replaced(before, known.get(self.me, 0), [one for one in untold if one.writer == self.me])
        if src == self.offerer:
            self.tell_unmerged(offered, before)
        self.note_dropped(offered, before, known, untold)
        for writer, number in known.items():
            self.note_written(writer, max(number, self.written.get(writer, 0)))

    def tell_replaced(self, before: Mapping[bytes, bytes | None], known: int, untold: Iterable[Untold]) -> None:
        """Own changes of this past that the offering part does not have, whose values an offer replaced: after the
        number that it knows, or dropped there by a merger.

        A key that others have deleted since is no own value; one that this member deleted is back.
        """
        replaced = [change for change in self.log if change.key in before
                    and (change.number > known or any(one.has(change) for one in untold))
                    and self.get(change.key) != before[change.key]
                    and (before[change.key] is None) == (change.verb == DELETE)]
        self.remove_from_log(replaced)
        self.report_taken_back(replaced)

    def note_dropped(self, offered: Mapping[bytes, bytes], before: Mapping[bytes, bytes | None],
                     known: Mapping[Address, int], untold: Iterable[Untold]) -> None:
        """Note for writers that may be away what an offer and this past have lost in their merger.

        known: the last numbers of the offering part; untold: what mergers had dropped there.
        """
        mine = self.written
        kept: deque[Untold | None] = deque(maxlen=UNTOLD_LIMIT)
        # Where one value stands, the writes of its past are there, whatever mergers dropped in the other one.
        for one in self.untold:
            its_stands = one.key in before and before[one.key] != offered[one.key] == self.get(one.key)
            kept.append(one.later_than(known.get(one.writer, 0)) if its_stands else one)
        for one in untold:
            now = self.get(one.key)
            kept.append(one.later_than(mine.get(one.writer, 0)) if before.get(one.key, now) == now else one)
        newer = [(writer, mine.get(writer, 0), known.get(writer, 0)) for writer in (*mine, *(
            writer for writer in known if writer not in mine)) if mine.get(writer, 0) != known.get(writer, 0)]
        for key in (*(key for key in self.entries if key not in offered), *offered):
            now, old = self.get(key), before.get(key, self.get(key))
            for writer, here, there in newer:
                if here > there and now != old:
                    kept.append(Untold(writer, key, there, here, False))
                elif there > here and (now != offered.get(key) or now == old):
                    kept.append(Untold(writer, key, here, there, now == offered.get(key)))
        self.untold = [one for one in kept if one is not None]

    def tell_unmerged(self, offered: Mapping[bytes, bytes], before: Mapping[bytes, bytes | None]) -> None:
        """The offer of the former part was carried out: own changes there are in this past, or are told."""
        unmerged, self.unmerged = self.unmerged, []
        stood: list[OwnChange] = []
        for change in unmerged:
            key = change.key
            stands = self.get(key) == offered.get(key)
            if change.verb == INCREMENT:                     # of two equal sums one has won, this one has not
                stands = stands and key in offered and before[key] != offered[key]
            if stands:
                stood.append(change)
            else:
                self.report_taken_back([change])
        self.log = deque(sorted([*self.log, *stood], key=lambda change: change.number), LOG_LIMIT)

    # --- carrying out ------------------------------------------------------------------------------------------------

    def apply(self, src: Address, number: int, operations: tuple[Operation, ...], place: int, now_ns: int) -> None:
        """Carry out a write."""
        if self.policy == PRIMARY and not self.primary:
            return                                       # sent before its writer had decided, which then refuses it
        self.counters["writes"] += 1
        results = tuple([self.carry_out_one(src, operation, place, now_ns, number) for operation in operations])
        self.note_written(src, number)
        if src == self.me and number in self.waiting:
            del self.waiting[number]
            self.outputs.append(Answered(number, place, results))

    def note_written(self, writer: Address, number: int) -> None:
        """The last write of a writer in this past."""
        self.written.pop(writer, None)
        self.written[writer] = number
        if len(self.written) > WRITERS_LIMIT:
            del self.written[next(iter(self.written))]

    def note_change(self, src: Address, number: int, verb: int, key: bytes, value: bytes) -> None:
        if src == self.me:
            self.log.append(OwnChange(number, verb, key, value))

    def carry_out_one(self, src: Address, operation: Operation, place: int, now_ns: int, number: int) -> Any:
        """Carry out one operation; its result."""
        verb, key, value, argument, ttl_ms = operation
        entry = self.entries.get(key)
        old = None if entry is None else entry.value
        if verb == PUT or (verb == SET_DEFAULT and old is None) or (verb == COMPARE and old == argument):
            self.put(key, value, src, min(ttl_ms, MAX_TTL_MS), place, now_ns)
            self.note_change(src, number, PUT, key, value)
        elif verb in (DELETE, POP) and old is not None:
            self.remove(key, place, src)
            self.note_change(src, number, DELETE, key, b"")
        elif verb == INCREMENT:
            found = self.increment(key, old, value, src, place, now_ns)
            if not isinstance(found, NotANumber):
                self.note_change(src, number, INCREMENT, key, value)
            return found
        if verb == SET_DEFAULT:
            return value if old is None else old
        return old == argument if verb == COMPARE else old

    def increment(self, key: bytes, old: bytes | None, by: bytes, src: Address, place: int, now_ns: int) -> Any:
        """Add to a number; the same error at all members if there is none."""
        try:
            number = int(old or b"0") + int(by)
            value = b"%d" % number                       # fails, as `int` does, above some thousand digits
        except ValueError:
            return NotANumber("the value is no number, or too large")
        self.put(key, value, src, 0, place, now_ns)
        return number

    def put(self, key: bytes, value: bytes, by: Address, ttl_ms: int, place: int, now_ns: int) -> None:
        old = self.entries.get(key)
        self.applied += 1
        entry = self.entries[key] = DictEntry(value, by, self.applied, ttl_ms and now_ns + ttl_ms * NS_PER_MS)
        if ttl_ms:
            heapq.heappush(self.deadlines, (entry.expires_ns, key, entry.version))
        if self.tells_changes:
            self.outputs.append(Changed(key, None if old is None else old.value, value, place, by))

    def remove(self, key: bytes, place: int, by: Address) -> None:
        self.applied += 1
        gone = self.entries.pop(key)
        if self.tells_changes:
            self.outputs.append(Changed(key, gone.value, None, place, by))

    # --- time -------------------------------------------------------------------------------------------------------

    def collect_deadlines(self) -> None:
        """Rebuild the heap of deadlines from all entries."""
        self.deadlines = [(entry.expires_ns, key, entry.version) for key, entry in self.entries.items()
                          if entry.expires_ns]
        heapq.heapify(self.deadlines)

    @property
    def next_deadline_ns(self) -> int | None:
        """When `advance` is due; only at the coordinator, which alone multicasts expiries."""
        if self.view is None or not self.settled or not self.decided or self.view.coordinator != self.me:
            return None
        return self.deadlines[0][0] if self.deadlines else None

    def advance(self, now_ns: int) -> None:
        """As coordinator, multicast which entries expire; they are removed when that arrives, in the order."""
        due_ns = self.next_deadline_ns
        if due_ns is None or due_ns > now_ns or self.view is None:
            return
        due = []
        while self.deadlines and self.deadlines[0][0] <= now_ns:
            _, key, version = heapq.heappop(self.deadlines)
            if key in self.entries and self.entries[key].version == version:
                due.append((key, version))
        if due:
            self.outputs.append(Send(None, encode(DictExpiry(self.view.id.raw, tuple(due)))))

    def expire(self, src: Address, expiry: DictExpiry, place: int) -> None:
        """Of the coordinator only. A later write of the key has another version, and stays."""
        assert self.view is not None, "checked by the caller"
        for key, version in expiry.entries if src == self.view.coordinator else ():
            entry = self.entries.get(key)
            if entry is not None and entry.version == version and entry.expires_ns:
                self.counters["expired"] += 1
                self.remove(key, place, src)
