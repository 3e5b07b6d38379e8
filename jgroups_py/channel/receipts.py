"""send(until=...): returns when every living member of a site has the message. Needs RELAY.

A receipt reaches the waiting thread or task from inside a round of the loop, past the application's queue, so a send
may wait for one inside a callback too.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count

from jgroups_py.channel.block import Block, Connection
from jgroups_py.model.batch import NO_FC, NO_RELAY, NO_RELIABILITY, Header
from jgroups_py.model.errors import ChannelError, MessageLostError, ReceiptError, ReceiptTimeoutError, UnknownSiteError
from jgroups_py.model.events import SendUntil, StopWaiting
from jgroups_py.model.outputs import Closed, Output, Receipt
from jgroups_py.runtime.send_queue import MESSAGE_COST

STABLE = "stable"
ALL_SITES = "*"
ALLOWED = ("until is 'stable' (all members of the own group), 'stable@SITE' (all members of a site), 'stable@*' (those "
           "of all sites that are not OFFLINE), or a list of these")

Resolve = Callable[[Receipt | None], None]


def sites_of(until: str | Iterable[str], own_site: str | None, others: Collection[str]) -> tuple[str, ...]:
    """The sites that `until` names.

    Raises:
        ValueError: it names none, or the stack has no RELAY.
        UnknownSiteError: a site that is not known.
    """
    words = [until] if isinstance(until, str) else list(until)
    found = []
    for word in words:
        kind, at, site = word.partition("@") if isinstance(word, str) else ("", "", "")
        if kind != STABLE or bool(at) != bool(site):
            raise ValueError(f"{word!r}: {ALLOWED}")
        found.append(site)
    if not found:
        raise ValueError(f"{until!r}: {ALLOWED}")
    if own_site is None:
        raise ValueError("send(until=...) needs RELAY in the stack, which tracks the members that have a message")
    for site in found:
        if site not in ("", ALL_SITES, own_site, *others):
            known = ", ".join(sorted(others)) or "none yet"
            raise UnknownSiteError(f"no site {site!r} is known; this one is {own_site!r}, others: {known}")
    return tuple(dict.fromkeys(site or own_site for site in found))


def check_message(dest: object, flags: int, sites: tuple[str, ...], own_site: str | None, relays: bool) -> None:
    """Whether there can be a receipt for such a message.

    Raises:
        ValueError: there cannot.
    """
    if dest is not None:
        raise ValueError("until is for messages to all members (dest None)")
    if flags & NO_RELIABILITY:
        raise ValueError("there is no receipt for a message with NO_RELIABILITY: members may miss it")
    if sites != (own_site,) and (flags & NO_RELAY or not relays):
        raise ValueError("the message does not leave its site (" + (
            "NO_RELAY" if flags & NO_RELAY else "RELAY has relay_multicasts=false") + "), so no other site gets it")


class Receipts(Block):
    """The sends of a channel that wait for their receipts."""

    def __init__(self) -> None:
        self._tickets = count(1)
        self._waiting: dict[int, Resolve] = {}
        self._connection: Connection | None = None

    def begin(self, connection: Connection) -> None:
        self._connection = connection

    def early(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Inside a round: hand out receipts; at the end of the connection all that wait get None."""
        if not self._waiting:
            return outputs
        rest = []
        for output in outputs:
            if output.__class__ is Receipt:
                resolve = self._waiting.pop(output.ticket, None)
                if resolve is not None:
                    resolve(output)
                continue
            if output.__class__ is Closed:
                for ticket in list(self._waiting):
                    self._waiting.pop(ticket)(None)
            rest.append(output)
        return rest

    def send(
        self, sites: tuple[str, ...], payload: bytes, flags: int, headers: tuple[Header, ...], timeout: float | None,
        resolve: Resolve,
    ) -> int:
        """Queue a message; `resolve` is called once, with its receipt, or with None when the connection ends.

        Returns the number by which to `give_up`. Raises what SendQueue.put raises; the message was not queued then.
        """
        assert self._connection is not None, "a channel that is connected has a connection"
        ticket = next(self._tickets)
        self._waiting[ticket] = resolve
        try:
            self._connection.sends.put_event(SendUntil(ticket, sites, payload, headers, flags),
                                             len(payload) + MESSAGE_COST, timeout,
                                             multicast=not flags & NO_FC, may_overdraw=True)
        except BaseException:
            self._waiting.pop(ticket, None)
            raise
        return ticket

    def give_up(self, ticket: int) -> None:
        """No thread waits for it any more."""
        if self._waiting.pop(ticket, None) is not None and self._connection is not None:
            try:
                self._connection.sends.put_event(StopWaiting(ticket), 0, None)
            except ChannelError:
                return                                       # the connection has ended, and with it the waiting


def check_receipt(receipt: Receipt | None, sites: tuple[str, ...]) -> None:
    """Raise what a receipt, or its absence at the end of the connection, means.

    Raises:
        MessageLostError: a site does not get the message.
        ReceiptError: the channel was closed.
    """
    if receipt is None:
        raise ReceiptError(f"the channel was closed before all members of {', '.join(sites)} were known to have it")
    if receipt.lost_for:
        raise MessageLostError(receipt.lost_for)


def timed_out(sites: tuple[str, ...], timeout: float) -> ReceiptTimeoutError:
    """What to raise when no receipt came in time."""
    return ReceiptTimeoutError(f"not known within {timeout:g} s whether all members of {', '.join(sites)} have it; "
                               "it was sent and still is on its way to them")
