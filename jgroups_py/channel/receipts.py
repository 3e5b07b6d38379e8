"""send(until=...): when all members have a message ("stable"), have handled it ("handled"), or its place is final.

With RELAY in the stack, "stable" of any site is RELAY's answer, and "handled" asks each member once the sites have the
message. Without RELAY, members of the own group are polled (channel/receipt_polls.py). Either reaches the waiting
thread or task from inside a round of the loop, past the application's queue, so a send may wait for "stable" and
"ordered" inside a callback too. "handled" would wait for that callback, and is refused there.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import count
from time import monotonic
from typing import ClassVar

import attrs

from jgroups_py.channel.block import Block, Connection
from jgroups_py.channel.receipt import Receipt
from jgroups_py.channel.receipt_polls import NEVER_NS, LaneKey, MemberReply, PollResult, ReceiptPolls
from jgroups_py.model.address import Address, ProxyUUID
from jgroups_py.model.batch import NO_FC, NO_RELAY, NO_RELIABILITY, Batch, Header
from jgroups_py.model.counters import counter, declare, drop, table
from jgroups_py.model.errors import ChannelError, MessageLostError, ReceiptError, ReceiptTimeoutError, UnknownSiteError
from jgroups_py.model.events import SendUntil, StopWaiting
from jgroups_py.model.outputs import (
    Closed,
    Deliver,
    GlobalViewInstalled,
    MessagesSkipped,
    Output,
    SiteReceipt,
    Unreachable,
    ViewInstalled,
)
from jgroups_py.model.units import millis, seconds
from jgroups_py.runtime.loop import Task
from jgroups_py.runtime.send_queue import MESSAGE_COST, NOW
from jgroups_py.system.drops import LoggedCounters
from jgroups_py.wire.block_headers import BlockHeader, ReceiptAnswer, ReceiptPoll

STABLE, HANDLED, ORDERED = "stable", "handled", "ordered"
STAGES = {STABLE: 1, HANDLED: 2, ORDERED: 3}
ALL_SITES = "*"
ALLOWED = ("until is 'stable' (all members of the own group have it), 'ordered' (its place in the total order is "
           "final), 'handled' (all receivers have returned from it); with RELAY 'stable@SITE', 'handled@SITE', '...@*' "
           "(those of all sites that are not OFFLINE); or a list of these")
TOTAL = "TOTAL"                             # the protocol that "ordered" needs
DIGEST_BYTES = 8                            # of a payload, to name a message that a receiver raised for
FAILURES_KEPT = 64                          # such messages of one sender that a member remembers
SWEEP_NS = millis(5)                        # granularity of timeouts
NEW_KINDS = frozenset((ViewInstalled, GlobalViewInstalled, Unreachable, MessagesSkipped, Closed, SiteReceipt))

Resolve = Callable[[SiteReceipt | None], None]


@attrs.frozen
class Until:
    """What a send waits for. words: as given; sites: those of RELAY's receipt; lanes: those of the polls.

    handled: whether receivers must return.
    """

    words: tuple[str, ...]
    sites: tuple[str, ...] = ()
    lanes: tuple[LaneKey, ...] = ()
    handled: bool = attrs.field(init=False)

    @handled.default
    def _is_handled(self) -> bool:
        return any(lane.stage == STAGES[HANDLED] for lane in self.lanes)


def until_of(
    until: str | Iterable[str], own_site: str | None, statuses: Mapping[str, str], *, orders: bool,
) -> Until:
    """The meaning of the words in `until`. statuses: other site -> its status; orders: the stack has a total order.

    Raises:
        ValueError: there is no such word, or the stack lacks what it needs. UnknownSiteError: a site that is not known.
    """
    words = (until,) if isinstance(until, str) else tuple(until)
    asked: dict[str, dict[str, None]] = {STABLE: {}, HANDLED: {}, ORDERED: {}}
    for word in words:
        kind, at, site = word.partition("@") if isinstance(word, str) else ("", "", "")
        if kind not in STAGES or bool(at) != bool(site):
            raise ValueError(f"{word!r}: {ALLOWED}")
        if at and own_site is None:
            raise ValueError(f"{word!r} needs RELAY in the stack: without it there are no sites")
        if site not in ("", ALL_SITES, own_site, *statuses):
            known = ", ".join(sorted(statuses)) or "none yet"
            raise UnknownSiteError(f"no site {site!r} is known; this one is {own_site!r}, others: {known}")
        if kind == ORDERED and site not in ("", own_site):
            raise ValueError(f"{word!r}: each site has an order of its own; there is none across sites")
        asked[kind][site or own_site or ""] = None
    if not words:
        raise ValueError(f"{until!r}: {ALLOWED}")
    if asked[ORDERED] and not orders:
        raise ValueError("until='ordered' needs TOTAL in the stack: without it there is no order among senders")
    if own_site is None:
        return Until(words, (), tuple(LaneKey(STAGES[kind]) for kind, sites in asked.items() if sites))
    handled = {site: None for name in asked[HANDLED] for site in _sites_named(name, own_site, statuses)}
    lanes = (LaneKey(STAGES[HANDLED], tuple("" if site == own_site else site for site in handled)),) if handled else ()
    return Until(words, tuple({**asked[STABLE], **asked[HANDLED], **asked[ORDERED]}), lanes)


def _sites_named(name: str, own_site: str, statuses: Mapping[str, str]) -> list[str]:
    if name != ALL_SITES:
        return [name]
    return [own_site, *sorted(site for site, status in statuses.items() if status != "OFFLINE")]


def check_message(dest: object, flags: int, sites: Collection[str], own_site: str | None, relays: bool) -> None:
    """Whether there can be a receipt for such a message.

    Raises:
        ValueError: there cannot.
    """
    if dest is not None:
        raise ValueError("until, and the flag RSVP, are for messages to all members (dest None); send one member a "
                         "request (blocks.rpc)")
    if flags & NO_RELIABILITY:
        raise ValueError("there is no receipt for a message with NO_RELIABILITY: members may miss it")
    if tuple(sites) not in ((), (own_site,)) and (flags & NO_RELAY or not relays):
        raise ValueError("the message does not leave its site (" + (
            "NO_RELAY" if flags & NO_RELAY else "RELAY has relay_multicasts=false") + "), so no other site gets it")


@attrs.define(eq=False)
class PendingSend:
    """A send whose receipt is pending. parts: the number of missing results; tickets: of its polls; answered: called
    with this and the result of a poll."""

    receipt: Receipt
    until: Until
    timeout: float | None
    parts: int
    tickets: range
    answered: Callable[[PendingSend, PollResult], None]
    left_ns: int | None = None                               # of the timeout, once it is queued; None: all
    deadline_ns: int = NEVER_NS
    relay_ticket: int = 0
    error: ChannelError | None = None

    def __call__(self, result: PollResult) -> None:
        self.answered(self, result)


@attrs.define(eq=False)
class Failures:
    """The messages of one sender that this member's receiver raised for. Used on the consumer's thread.

    since: digest -> the first poll whose answer named it, 0: none yet. skipped_in: the same for messages that FLOW
    dropped; None: none was.
    """

    since: dict[bytes, int] = attrs.Factory(dict)
    skipped_in: int | None = None

    def answer(self, poll: ReceiptPoll) -> tuple[bytes, bool]:
        """The payload and `skipped` of the answer to a poll. Failures that the sender has received are forgotten."""
        self.since = {digest: first for digest, first in self.since.items() if first == 0 or first > poll.settled}
        if self.skipped_in is not None and 0 < self.skipped_in <= poll.settled:
            self.skipped_in = None
        for digest, first in self.since.items():
            self.since[digest] = first or poll.number
        if self.skipped_in == 0:
            self.skipped_in = poll.number
        return b"".join(self.since), self.skipped_in is not None


class Receipts(Block):
    """The sends of a channel that wait for their receipts, and its answers to the polls of others."""

    headers: ClassVar[tuple[type[BlockHeader], ...]] = (ReceiptPoll,)
    COUNTERS = declare(
        counter("receipt_polls_sent", "Polls of receipts that were sent, repeated ones too."),
        counter("receipt_polls_answered", "Polls of receipts of other members and of this one that were answered."),
        drop("receipt_answers_late", "Answers to a poll of receipts that is over: after a view change, or repeated."),
        drop("receipt_polls_malformed", "Polls and answers of receipts that are malformed."),
    )

    def __init__(self, own_site: str | None = None) -> None:
        self.counters = LoggedCounters(table(self.COUNTERS))
        self._relay_tickets = count(1)
        self._waiting: dict[int, Resolve] = {}               # RELAY's tickets
        self._connection: Connection | None = None
        self._lock = threading.Lock()                        # of all below, up to the empty line
        self._polls = ReceiptPolls(self._poll, (STAGES[ORDERED],))
        self._pending: dict[int, PendingSend] = {}           # key: id of the receipt
        self._fresh: list[PendingSend] = []                  # queued since the last round that looked
        self._to_send: list[tuple[Address | None, ReceiptPoll]] = []
        self._settled: list[PendingSend] = []
        self._next_ticket = 0                                # of polls
        self._answered_lane = self._lane_done                # once, not for each send
        self._sweep_ns = NEVER_NS

        self._sweeper: Task | None = None
        self._failures: dict[Address, Failures] = {}         # sender -> what the receiver did not handle
        self._own_site = own_site

    def begin(self, connection: Connection) -> None:
        with self._lock:
            self._connection = connection
            self._polls = ReceiptPolls(self._poll, (STAGES[ORDERED],))
            self._failures = {}
            self._fresh = []
            self._sweep_ns = NEVER_NS

    # --- inside a round ---------------------------------------------------------------------------------------------

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Inside a round: answer polls, settle receipts; the end of the connection settles all with an error."""
        for output in outputs:
            kind = output.__class__
            if kind in NEW_KINDS or (kind is Deliver and output.batch.headers                 # type: ignore[attr-defined]
                                     and output.batch.headers[0].__class__ in (ReceiptPoll, ReceiptAnswer)):  # type: ignore[attr-defined]
                break
        else:
            return outputs
        rest = []
        for output in outputs:
            if isinstance(output, Deliver):
                if output.batch.headers and self._handles(output.batch):
                    continue
            elif isinstance(output, SiteReceipt):
                self._relay_reports(output)
                continue
            else:
                self._heard(output)
            rest.append(output)
        self._flush()
        return rest

    def _heard(self, output: Output) -> None:
        """A change of the members, or the end."""
        connection = self._connection
        if connection is None:
            return
        now_ns, polls = connection.now_ns, self._polls
        if isinstance(output, Closed):
            return self._close()
        with self._lock:
            if isinstance(output, ViewInstalled):
                polls.me = connection.address
                polls.view_installed(output.view, now_ns)
            elif isinstance(output, GlobalViewInstalled):
                polls.sites_changed({site: members for site, members in output.view.sites.items()
                                     if site != self._own_site}, now_ns)
            elif isinstance(output, Unreachable):
                polls.unreachable(output.dest, now_ns)
        if isinstance(output, MessagesSkipped) and output.origin is not None:
            self._failures.setdefault(output.origin, Failures()).skipped_in = 0
        return None

    def _handles(self, batch: Batch) -> bool:
        """Whether a batch is a poll or an answer that goes no further."""
        header, connection = batch.headers[0], self._connection
        if connection is None or header.__class__ not in (ReceiptPoll, ReceiptAnswer):
            return False
        if isinstance(header, ReceiptAnswer):
            failed = digests_in(batch.payloads)              # answers to a poll and its repetition are one batch
            if failed is None:
                self.counters.drop("receipt_polls_malformed", f"the answer of {batch.src} has no whole digests")
            else:
                self._answered(batch.src, header.number, MemberReply(failed, header.skipped))
            return True
        assert isinstance(header, ReceiptPoll), "the other of the two"
        if header.stage == STAGES[HANDLED]:
            return False                                     # in its turn after the receiver's calls: `deliver`
        if header.stage == STAGES[STABLE]:
            self._answer(batch.src, header, b"", skipped=False)
        elif header.stage == STAGES[ORDERED]:
            if batch.src == connection.address:
                self._answered(batch.src, header.number, MemberReply())
        else:
            self.counters.drop("receipt_polls_malformed", f"a poll of {batch.src} for stage {header.stage}")
        return True

    def deliver(self, batch: Batch) -> None:
        """The consumer has come to a poll: the receiver has handled all that the poll's sender had sent before it."""
        header = batch.headers[0]
        assert isinstance(header, ReceiptPoll), "no other header comes here"
        failures = self._failures.get(batch.src)
        payload, skipped = (b"", False) if failures is None else failures.answer(header)
        self._answer(batch.src, header, payload, skipped=skipped)

    def failed(self, source: Address | None, payloads: Iterable[bytes]) -> None:
        """On the consumer's thread: the receiver raised for these messages."""
        if source is None:
            return
        if source not in self._failures and self._connection is not None and self._connection.view is not None:
            there = self._connection.view.members            # a sender that has left sends no more polls
            self._failures = {sender: kept for sender, kept in list(self._failures.items())
                              if sender in there or isinstance(sender, ProxyUUID)}
        failures = self._failures.setdefault(source, Failures())
        since = failures.since
        for payload in payloads:
            since[digest_of(payload)] = 0
        if len(since) > FAILURES_KEPT:                       # too many to name: none of this sender's counts as handled
            since.clear()
            failures.skipped_in = 0

    def _answer(self, dest: Address, poll: ReceiptPoll, payload: bytes, *, skipped: bool) -> None:
        connection = self._connection
        self.counters.add("receipt_polls_answered")
        if connection is None:
            return
        if dest == connection.address:
            reply = MemberReply(digests_in((payload,)) or frozenset(), skipped)
            connection.call(partial(self._answered_late, dest, poll.number, reply))
            return
        try:
            connection.sends.put(dest, payload, NO_FC, (ReceiptAnswer(poll.number, skipped),), NOW)
        except ChannelError:
            return                                           # this member leaves, and will be in `left`

    def _answered(self, member: Address, number: int, reply: MemberReply) -> None:
        assert self._connection is not None, "an answer comes over a connection"
        with self._lock:
            known = self._polls.answered(member, number, reply, self._connection.now_ns)
        if not known:
            self.counters.drop("receipt_answers_late", f"of {member} to poll {number}")

    def _answered_late(self, member: Address, number: int, reply: MemberReply) -> None:
        """An answer outside `early`."""
        self._answered(member, number, reply)
        self._flush()

    # --- sending with a receipt -------------------------------------------------------------------------------------

    def start(
        self, until: Until, receipt: Receipt, payload: bytes, flags: int, headers: tuple[Header, ...],
        room: float | None, timeout: float | None,
    ) -> None:
        """Queue a message; `receipt` is settled once.

        room: seconds to wait for room; timeout: for the receipt, from now on. Raises what SendQueue.put raises; the
        message was not queued then.
        """
        connection = self._connection
        assert connection is not None, "a channel that is connected has a connection"
        began = None if room is None or room == NOW else monotonic()
        digest = digest_of(payload) if until.handled else b""
        with self._lock:                                     # before it is queued: about the present members
            first, lanes = self._next_ticket, until.lanes
            self._next_ticket += len(lanes)
            pending = self._pending[id(receipt)] = PendingSend(
                receipt, until, timeout, len(lanes) + bool(until.sites), range(first, self._next_ticket),
                self._answered_lane)
            for ticket, key in enumerate(lanes, first):
                self._polls.register(key, ticket, digest, pending)
        try:
            if until.sites:
                pending.relay_ticket = self.send(until.sites, payload, flags, headers, room,
                                                 partial(self._relay_done, pending))
            else:
                connection.sends.put(None, payload, flags, headers, room)
        except BaseException:
            with self._lock:
                self._forget(pending)
            raise
        if began is not None and timeout is not None:        # one timeout for room and receipt
            pending.left_ns = seconds(max(0.0, timeout - (monotonic() - began)))
        with self._lock:
            is_first = not self._fresh
            self._fresh.append(pending)
        if is_first:                                          # one round looks at all that are queued until then
            connection.call(partial(self._queued, connection))

    def _queued(self, connection: Connection) -> None:
        """In a round after messages were queued: start their polls; with sites, when the sites have them."""
        with self._lock:
            fresh, self._fresh = self._fresh, []
            over = connection.ended or connection is not self._connection
            for pending in fresh if over else ():
                self._end(pending, closed_early(pending.until.words))
            for pending in () if over else fresh:
                if pending.timeout is not None:
                    left_ns = seconds(pending.timeout) if pending.left_ns is None else pending.left_ns
                    pending.deadline_ns = connection.now_ns + left_ns
                    if pending.deadline_ns < self._sweep_ns:
                        self._arm(pending.deadline_ns, connection)
            if not over:
                self._polls.ready((ticket for pending in fresh if not pending.until.sites
                                   for ticket in pending.tickets), connection.now_ns)
        self._flush()

    def _lane_done(self, pending: PendingSend, settled: PollResult) -> None:
        """With the lock held: the members of a poll have answered."""
        receipt = pending.receipt
        if not (receipt.members or receipt.left or receipt.failed or settled.left):      # the first answer, as most are
            receipt.members, receipt.failed = tuple(settled.members), tuple(settled.failed)
            self._part_done(pending)
            return
        receipt.left = tuple(dict.fromkeys((*receipt.left, *settled.left)))
        members = dict.fromkeys((*receipt.members, *settled.members))    # one may have left between two answers
        receipt.members = tuple([member for member in members if member not in receipt.left])
        receipt.failed = tuple(dict.fromkeys((*receipt.failed, *settled.failed)))
        self._part_done(pending)

    def _part_done(self, pending: PendingSend) -> None:
        pending.parts -= 1
        if not pending.parts and self._pending.pop(id(pending.receipt), None) is not None:
            self._settled.append(pending)                    # its tickets have all ended

    def _relay_done(self, pending: PendingSend, report: SiteReceipt | None) -> None:
        """RELAY's report: the sites have the message, or some site will not get it; None: the connection ended."""
        connection = self._connection
        with self._lock:
            if report is None:
                self._end(pending, closed_early(pending.until.words))
            elif report.lost_for:
                self._end(pending, MessageLostError(report.lost_for))
            else:
                pending.receipt.views = report.views
                self._polls.ready(pending.tickets, 0 if connection is None else connection.now_ns)
                self._part_done(pending)

    def _end(self, pending: PendingSend, error: ChannelError | None) -> None:
        """With the lock held."""
        if self._pending.pop(id(pending.receipt), None) is not None:
            self._forget(pending)
            pending.error = error
            self._settled.append(pending)

    def _forget(self, pending: PendingSend) -> None:
        self._pending.pop(id(pending.receipt), None)
        for ticket in pending.tickets:
            self._polls.give_up(ticket)

    def _close(self) -> None:
        for ticket in list(self._waiting):
            self._waiting.pop(ticket)(None)
        with self._lock:
            for pending in list(self._pending.values()):
                self._end(pending, closed_early(pending.until.words))

    # --- time -------------------------------------------------------------------------------------------------------

    def _arm(self, due_ns: int, connection: Connection) -> None:
        """With the lock held, in a round: plan the check of deadlines and of unanswered polls."""
        if due_ns >= NEVER_NS:
            return
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_ns = due_ns
        self._sweeper = connection.later(max(SWEEP_NS, due_ns - connection.now_ns), partial(self._sweep, connection))

    def _sweep(self, connection: Connection) -> None:
        if connection is not self._connection:
            return
        with self._lock:
            self._sweep_ns, self._sweeper = NEVER_NS, None
            for pending in [pending for pending in self._pending.values() if pending.deadline_ns <= connection.now_ns]:
                left = [member for ticket in pending.tickets for member in self._polls.left(ticket)]
                pending.receipt.left = tuple(dict.fromkeys((*pending.receipt.left, *left)))
                if pending.relay_ticket:
                    self.give_up(pending.relay_ticket)
                self._end(pending, timed_out(pending.until.words, pending.timeout or 0))
            self._polls.repeat(connection.now_ns)
            deadline_ns = min((pending.deadline_ns for pending in self._pending.values()), default=NEVER_NS)
            self._arm(min(deadline_ns, self._polls.due_ns()), connection)
        self._flush()

    def _poll(self, dest: Address | None, number: int, stage: int, settled: int) -> None:
        self._to_send.append((dest, ReceiptPoll(number, stage, settled)))

    def _flush(self) -> None:
        """In a round: send the polls and settle the receipts that came up, without the lock."""
        connection = self._connection
        with self._lock:
            to_send, self._to_send = self._to_send, []
            settled, self._settled = self._settled, []
            repeat_ns = self._polls.due_ns() if to_send else NEVER_NS
            if connection is not None and repeat_ns < self._sweep_ns:
                self._arm(repeat_ns, connection)
        for dest, header in to_send:
            self.counters.add("receipt_polls_sent")
            try:
                if connection is not None:
                    connection.sends.put(dest, b"", 0, (header,), NOW)
            except ChannelError:
                pass                                         # the poll is repeated, unless the connection ends
        if settled:
            settled[0].receipt.run(partial(_settle, settled))

    # --- RELAY's receipts -------------------------------------------------------------------------------------------

    def send(
        self, sites: tuple[str, ...], payload: bytes, flags: int, headers: tuple[Header, ...], timeout: float | None,
        resolve: Resolve,
    ) -> int:
        """Queue a message; `resolve` is called once, with its receipt, or with None when the connection ends.

        Returns the number by which to `give_up`. Raises what SendQueue.put raises; the message was not queued then.
        """
        assert self._connection is not None, "a channel that is connected has a connection"
        ticket = next(self._relay_tickets)
        self._waiting[ticket] = resolve
        try:
            self._connection.sends.put_event(SendUntil(ticket, sites, payload, headers, flags),
                                             len(payload) + MESSAGE_COST, timeout,
                                             multicast=not flags & NO_FC, may_overdraw=True, payload_bytes=len(payload))
        except BaseException:
            self._waiting.pop(ticket, None)
            raise
        return ticket

    def give_up(self, ticket: int) -> None:
        """The thread that waited has given up."""
        if self._waiting.pop(ticket, None) is not None and self._connection is not None:
            try:
                self._connection.sends.put_event(StopWaiting(ticket), 0, None)
            except ChannelError:
                return                                       # the connection has ended, and all waits with it

    def _relay_reports(self, report: SiteReceipt) -> None:
        resolve = self._waiting.pop(report.ticket, None)
        if resolve is not None:
            resolve(report)


def _settle(ended: list[PendingSend]) -> None:
    for pending in ended:
        pending.receipt.settle(pending.error)


def digest_of(payload: bytes) -> bytes:
    """The digest by which the answer to a poll names a message."""
    return blake2b(payload, digest_size=DIGEST_BYTES).digest()


def digests_in(payloads: Iterable[bytes]) -> frozenset[bytes] | None:
    """The digests in an answer; None: one is incomplete, or there are too many.

    >>> digests_in((b"digest 1digest 2", b"")) == {b"digest 1", b"digest 2"}, digests_in((b"digest",))
    (True, None)
    """
    found = []
    for payload in payloads:
        if len(payload) % DIGEST_BYTES or len(payload) > FAILURES_KEPT * DIGEST_BYTES:
            return None
        found += [payload[at:at + DIGEST_BYTES] for at in range(0, len(payload), DIGEST_BYTES)]
    return frozenset(found)


def closed_early(words: tuple[str, ...]) -> ReceiptError:
    """The error of a receipt that was pending when the connection ended."""
    return ReceiptError(f"the channel was closed before the message was known to be {', '.join(words)}")


def timed_out(words: tuple[str, ...], timeout: float) -> ReceiptTimeoutError:
    """The error when no receipt came in time."""
    return ReceiptTimeoutError(f"not known within {timeout:g} s whether the message is {', '.join(words)}; "
                               "it was sent and still is on its way")
