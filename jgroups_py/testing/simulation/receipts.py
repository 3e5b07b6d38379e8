"""Receipts in one group on the simulator: every send waits for one, each is judged as it comes; `--profile receipts`.

E1: each member that a receipt names had the message, for "handled" its receiver had returned from it, when the receipt
came. E2: every wait ends, with a receipt or an error, in its time. E3: the members and those that left are together
the members of the view in which the send was called.
"""
from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import attrs

import jgroups_py as jg
from jgroups_py.channel.receipt import Receipt
from jgroups_py.model.address import Address
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.runner import APPLICATIONS, Outcome
from jgroups_py.testing.simulation.ledger import Broken
from jgroups_py.testing.simulation.naming import MARK
from jgroups_py.testing.simulation.trial import Trial

PROFILE = "receipts"
WORDS: tuple[Any, ...] = ("stable", "handled", ("stable", "handled"), "rsvp")
TIMEOUTS = (0.3, 5.0, 60.0, 60.0)           # of a send, s
LAGS = (0.0, 0.0, 0.05, 0.5)                # of a member's receiver, s
OPERATIONS = (1, 1, 1, 5, 40)               # sends at a time


class ReceiptsRun:
    """One seed: what each member has and has handled, of all incarnations. broken: the violations found."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.broken: list[Broken] = []
        self.handled: dict[Address, dict[bytes, None]] = {}
        self.counts: Counter[str] = Counter()
        self.askers: list[Asker] = []

    def start(self, channel: Any) -> Asker:
        """The application of a member that starts."""
        asker = Asker(self, channel, len(self.askers))
        self.askers.append(asker)
        return asker

    def arrived(self, member: Address, payload: bytes) -> bool:
        """Whether a member's stack has passed a message up; a slow receiver gets it later."""
        return any(payload in asker.arrived() for asker in self.askers if asker.me == member)

    def always(self, askers: list[Asker]) -> None:
        """E1 and E3, found since the last call."""
        for broken in self.broken:
            raise broken

    def at_end(self, askers: list[Asker]) -> None:
        """E2, at the members that run to the end."""
        for asker in askers:
            for send in asker.waiting.values():
                raise Broken("E2", f"{asker.channel.name} still waits for {send.payload!r}, sent until {send.words} at "
                                   f"{send.at:.3f} s with a timeout of {send.timeout:g} s")


@attrs.define(eq=False)
class SentWithReceipt:
    """A send that waits. at: virtual seconds."""

    payload: bytes
    words: tuple[str, ...]
    view: jg.View
    at: float
    timeout: float


class Asker(jg.Receiver):
    """One incarnation of a member: sends, and judges the receipts."""

    def __init__(self, run: ReceiptsRun, channel: Any, number: int) -> None:
        rng = Random(f"{run.seed}/receipts/{number}")
        self.run = run
        self.channel = channel
        self.waiting: dict[int, SentWithReceipt] = {}
        self.sent = 0
        self.merged = False
        self.me: Address = channel._member.me
        self._arrived: dict[bytes, None] = {}
        self._read = 0                                       # of the member's log of deliveries
        channel.lag = rng.choice(LAGS)

    def view_accepted(self, view: jg.View) -> None:
        self.merged = isinstance(view, jg.MergeView)

    def receive(self, message: jg.Message) -> None:
        self.run.handled.setdefault(self.me, {})[message.payload] = None

    def arrived(self) -> dict[bytes, None]:
        """The payloads that the stack has passed up so far."""
        log = self.channel._member.log
        for named in log[self._read:]:
            self._arrived[named.partition(MARK)[2]] = None
        self._read = len(log)
        return self._arrived

    def act(self, rng: Random) -> None:
        """Send some messages with receipts."""
        for _ in range(rng.choice(OPERATIONS)):
            self.sent += 1
            payload = f"{self.me.raw.hex()[:8]}.{self.sent}".encode()
            until, timeout = rng.choice(WORDS), rng.choice(TIMEOUTS)
            flags = jg.Flag.RSVP if until == "rsvp" else jg.Flag.NONE
            view = self.channel.receipts._polls.view
            receipt = self.channel.send(payload, flags=flags, until=None if until == "rsvp" else until, wait=False,
                                        timeout=timeout)
            self.waiting[self.sent] = SentWithReceipt(payload, receipt.until, view, self.channel.now, timeout)
            receipt.when_done(lambda done, number=self.sent: self.judge(number, done))

    def judge(self, number: int, receipt: Receipt) -> None:
        """A receipt, or the error in its place, has come."""
        send, counts = self.waiting.pop(number), self.run.counts
        if receipt.error is not None:
            counts["timeouts of receipts" if isinstance(receipt.error, jg.ReceiptTimeoutError) else "closed"] += 1
            return
        counts["receipts"] += 1
        counts["receipts that name members that left"] += bool(receipt.left)
        counts["receipts of merged views"] += self.merged
        for member in receipt.members:
            if not self.run.arrived(member, send.payload) or (
                    "handled" in receipt.until and send.payload not in self.run.handled.get(member, {})):
                self.broken("E1", f"a receipt ({', '.join(receipt.until)}) names {member}, for which {send.payload!r} "
                                  "is not so yet")
        named = {*receipt.members, *receipt.left}
        if named != set(send.view.members) or set(receipt.members) & set(receipt.left):
            self.broken("E3", f"the receipt of {send.payload!r} names {receipt.members} and, as left, {receipt.left}; "
                              f"it was sent in {send.view}")

    def broken(self, guarantee: str, text: str) -> None:
        """A receipt is wrong; `always` raises it."""
        self.run.broken.append(Broken(guarantee, f"{self.channel.name}: {text}"))


def act(asker: Asker, rng: Random) -> None:
    """The trial's `act`."""
    asker.act(rng)


def run(seed: int, part: PlanPart = WHOLE, keep: bool = False) -> Outcome:
    """Run a seed, or a part of it."""
    shared = ReceiptsRun(seed)
    outcome = Trial(PROFILE, shared.start, act, at_end=shared.at_end, always=shared.always).run(seed, part, keep=keep)
    return attrs.evolve(outcome, reached={**outcome.reached, **shared.counts})


APPLICATIONS[PROFILE] = run
