"""A history as a Lamport diagram in text: a column for each process, time downwards, the entry's text at the right.

                  NYC         SFO
                  A     B     C     D
       1.502310   *     |     |     |     A#1 sends to all: A#1>*/0
       1.502633   +---->|     |     |     B#1 delivers from A#1: A#1>*/0
       1.702118   X     |     |     |     A#1 crashes

A run has thousands of entries, so only those that matter for a violation are drawn. The text of the violation selects
them: it names messages and members as the history does. Drawn are the sends and deliveries of a named message (of all
messages, if none is named), membership changes of the members involved, reports of their relays, and every fault. If
that exceeds `limit` lines, the least relevant entries are left out. Source: Lamport, "Time, Clocks, and the Ordering of
Events in a Distributed System" (CACM 1978); there time runs upwards.
"""
from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.units import NS_PER_S
from jgroups_py.simulator import history as h
from jgroups_py.simulator.checkers.facts import Violation

LIMIT = 60                               # lines of a picture
COLUMN = 6                               # characters from one process to the next
TEXT_WIDTH = 110                         # an entry's text is cut there
TIME_WIDTH = 14
MESSAGE = re.compile(r"[^\s,:;()]+#\d+>\S+?/\d+")           # A#1>*/17
MARKS: dict[type, str] = {
    h.Start: "o", h.Crash: "X", h.MemberLeft: "X", h.Leaving: "x", h.MessageSent: "*", h.InstalledView: "V"}
"""The mark in a process's column; R is a report of RELAY, @ a delivery of the process's own message."""
MEMBER = re.compile(r"[^\s,:;()\[\]>'|@]+#\d+")             # A#1


@attrs.frozen
class Subject:
    """What a picture is about: messages by their shown name, members by incarnation. healed_ns: when faults ended.

    general: the violation names no member, so all are drawn.
    """

    messages: frozenset[str]
    members: frozenset[str]
    general: bool
    healed_ns: float


def picture(history: h.History, violations: Sequence[Violation] = (), limit: int = LIMIT) -> Iterator[str]:
    """The lines of the diagram; without violations, of all members' views and all faults."""
    subject = subject_of(history, violations)
    stop_ns = min((found.at_ns for found in violations), default=None)
    entries = [entry for entry in history.entries if stop_ns is None or entry.at_ns <= stop_ns]
    ranks = [rank(history, entry, subject) for entry in entries]
    shown = set(chosen(ranks, limit))
    columns = Columns(history)
    yield from columns.head()
    left_out = 0
    for index, entry in enumerate(entries):
        if index in shown:
            if left_out:
                yield columns.gap(left_out)
            left_out = 0
            yield columns.line(entry)
        else:
            left_out += ranks[index] is not None
            columns.happened(entry)
    if left_out:
        yield columns.gap(left_out)
    for found in violations:
        yield f"{found.at_ns / NS_PER_S:{TIME_WIDTH - 3}.6f}  {'!' * columns.width} {found.guarantee}: {found.text}"


def subject_of(history: h.History, violations: Iterable[Violation]) -> Subject:
    """The messages and members that the violations name, and the members that handled those messages."""
    text = "\n".join(found.text for found in violations)
    messages = frozenset(MESSAGE.findall(text))
    members = set(MEMBER.findall(text)) & set(history.names.values())
    for entry in history.entries:
        if isinstance(entry, h.MessageSent | h.MessageDelivered) and named(entry, messages):
            members.add(history.name(entry.member))
    healed_ns = next((entry.at_ns for entry in history.entries if isinstance(entry, h.Healed)), math.inf)
    return Subject(messages, frozenset(members or history.names.values()), not members, healed_ns)


def named(entry: h.MessageSent | h.MessageDelivered, messages: frozenset[str]) -> bool:
    """Whether a batch contains one of the messages."""
    return bool(messages) and any(message_name(payload) in messages for payload in entry.payloads)


def message_name(payload: bytes) -> str:
    """ "A#1>*/17" of a payload that begins with it."""
    found = MESSAGE.match(h.show_payload(payload))
    return found.group() if found else ""


def rank(history: h.History, entry: h.Entry, subject: Subject) -> int | None:
    """How relevant an entry is to the subject: 0 is drawn first, None never."""
    match entry:
        case h.MessageSent() | h.MessageDelivered():
            if subject.general:
                return 5 if entry.at_ns < subject.healed_ns else 6
            return 0 if named(entry, subject.messages) else None
        case h.Crash() | h.MemberLeft() | h.Leaving():
            return 1
        case h.Remark(_, text):
            return 3 if MEMBER.match(text) else 1             # a log entry of a node, else a fault
        case h.Lost(_, member, _, origin):
            return 1 if {history.name(member), history.name(origin)} & subject.members else 3
        case h.Start() | h.InstalledView():
            return 2 if history.name(entry.member) in subject.members else 4
        case h.GlobalInstall():
            return 4 if history.name(entry.member) in subject.members else None
        case h.HistoryEntry():                                      # a report of RELAY
            return 3 if history.name(entry.member) in subject.members else 5
    return 1


def chosen(ranks: Sequence[int | None], limit: int) -> list[int]:
    """The indexes of the entries to draw: those of the best ranks; of equal ranks the latest."""
    wanted = [index for index, value in enumerate(ranks) if value is not None]
    best = sorted(wanted, key=lambda index: (ranks[index], -index))
    return best[:limit]


class Columns:
    """The columns: which process runs, which is paused."""

    def __init__(self, history: h.History) -> None:
        self.history = history
        self.place: dict[str, int] = {}                       # name without incarnation -> column
        self.site: dict[str, str] = {}
        for member, incarnation in history.names.items():
            self.site.setdefault(base(incarnation), history.sites.get(member, ""))
        first = {site: min(name for name, at in self.site.items() if at == site) for site in self.site.values()}
        for name in sorted(self.site, key=lambda name: (first[self.site[name]], name)):
            self.place[name] = len(self.place)
        self.states = [" "] * len(self.place)
        self.width = COLUMN * len(self.place) - COLUMN + 1

    def head(self) -> Iterator[str]:
        """Sites, if there are any, and names."""
        if any(self.site.values()):
            firsts = {self.site[name]: place for name, place in reversed(self.place.items())}
            yield " " * TIME_WIDTH + self._spread({place: site for site, place in firsts.items()})
        yield " " * TIME_WIDTH + self._spread({place: name for name, place in self.place.items()})

    def _spread(self, words: dict[int, str]) -> str:
        text = ""
        for place in sorted(words):
            text = text.ljust(place * COLUMN) + words[place] + " "
        return text.rstrip()

    def gap(self, number: int) -> str:
        """A line for entries that are left out."""
        return f"{'...':>{TIME_WIDTH - 3}}   {self._row()}  ({number} more)"

    def line(self, entry: h.Entry) -> str:
        """The line of an entry; it also updates the columns of the following lines."""
        row = self.happened(entry)
        words = self.history.show(entry)
        if len(words) > TEXT_WIDTH:
            words = words[:TEXT_WIDTH - 3] + "..."
        return f"{entry.at_ns / NS_PER_S:{TIME_WIDTH - 3}.6f}   {row}  {words}"

    def happened(self, entry: h.Entry) -> str:
        """Update the columns by an entry; returns the row that shows it."""
        if isinstance(entry, h.Remark):
            self._paused(entry.text)
            return self._row()
        if not isinstance(entry, h.HistoryEntry):
            return self._row()
        mine = self._place_of(entry.member)
        if isinstance(entry, h.Start):
            self.states[mine] = "|"
        if isinstance(entry, h.Crash | h.MemberLeft):
            self.states[mine] = " "
        if isinstance(entry, h.MessageDelivered):
            return self._arrow(self._place_of(entry.src, mine), mine)
        return self._row({mine: MARKS.get(entry.__class__, "R")})

    def _paused(self, text: str) -> None:
        name, _, what = text.partition(" ")
        if what in ("is paused", "goes on") and name in self.place:
            self.states[self.place[name]] = ":" if what == "is paused" else "|"

    def _place_of(self, member: Address, otherwise: int = 0) -> int:
        """The member's column; `otherwise` for an address that never started, which a violation of S1 may name."""
        return self.place.get(base(self.history.name(member).partition("@")[0]), otherwise)

    def _row(self, marks: dict[int, str] | None = None) -> str:
        cells = {**dict(enumerate(self.states)), **(marks or {})}
        return "".join(cells[place].ljust(COLUMN) for place in range(len(self.states)))[:self.width]

    def _arrow(self, src: int, dest: int) -> str:
        """From the sender's column to the receiver's, past those in between."""
        if src == dest:
            return self._row({dest: "@"})
        row = list(self._row())
        first, stop = sorted((src * COLUMN, dest * COLUMN))
        for at in range(first + 1, stop):
            row[at] = "-" if at % COLUMN else "+"
        row[src * COLUMN] = "+"
        row[dest * COLUMN - 1 if src < dest else dest * COLUMN + 1] = ">" if src < dest else "<"
        return "".join(row)


def base(incarnation: str) -> str:
    """ "A" of "A#2"."""
    return incarnation.partition("#")[0]
