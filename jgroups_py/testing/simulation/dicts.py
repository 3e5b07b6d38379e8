"""A ReplicatedDict (blocks/dicts) on the simulator, for `--profile dict`, with the checks of D1 to D5.

Every member holds a copy of the dict. It writes keys that all members write, adds to numbers that all add to, and
writes keys that no other member writes. Contents are compared by place; the latter keys are checked at the end.
"""
from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from random import Random
from typing import Any

import attrs

import jgroups_py as jg
from jgroups_py.blocks.dicts.core import (
    MERGE,
    POLICIES,
    Answered,
    Changed,
    Conflict,
    DictCore,
    Refused,
    Reloaded,
    Send,
)
from jgroups_py.blocks.dicts.messages import COMPARE, DELETE, INCREMENT, POP, PUT, SET_DEFAULT, Operation
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.units import NS_PER_S
from jgroups_py.model.view import ViewId
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.runner import APPLICATIONS, Outcome
from jgroups_py.testing.simulation.alarm import Alarm
from jgroups_py.testing.simulation.ledger import Broken
from jgroups_py.testing.simulation.trial import Trial

PROFILE = "dict"
SUM = b"sum"                               # to which all members add
KEYS = 5                                   # that all members write
COUNTED = {"copies_taken": "copies taken", "merged": "merged copies", "expired": "entries expired",
           "taken_back": "writes taken back", "sent_again": "writes sent again"}


def bigger(key: bytes, mine: bytes, its: bytes) -> bytes:
    """The merger of these runs."""
    return max(mine, its)


class DictRun:
    """Shared by all members of one seed: the policy, and contents by view and place, as the first member had them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.policy = POLICIES[seed % len(POLICIES)]
        self.contents: dict[tuple[ViewId, int], tuple[bytes, str]] = {}
        self.at_end_of: dict[tuple[ViewId, ViewId], tuple[bytes, str]] = {}
        self.counts: Counter[str] = Counter()
        self.cores: list[DictCore] = []

    def start(self, channel: Any) -> DictHolder:
        """The application of a member that starts."""
        return DictHolder(channel, self)

    def reached(self) -> dict[str, int]:
        """State -> how often the run reached it."""
        counts = Counter(self.counts)
        for core in self.cores:
            counts.update({COUNTED[name]: number for name, number in core.counters.items() if name in COUNTED})
        return dict(counts)

    def same(self, known: dict[Any, tuple[bytes, str]], key: Any, digest: bytes, name: str, where: str) -> None:
        """Check that the contents are those that another member had there."""
        first, other = known.setdefault(key, (digest, name))
        if first != digest:
            raise Broken("D1", f"{name} and {other} have different contents {where}")

    def check_sum(self, holders: list[DictHolder]) -> None:
        """D4 of a number that all members add to: what running members added, and were not told of, is in it.

        There is no more in it, unless a member crashed that had added, or a second offer, or the copy of a third part,
        brought back what was told.
        """
        added = sum(holder.added for holder in holders)
        found = max((int(holder.core.get(SUM) or b"0") for holder in holders if holder.core is not None), default=0)
        exact = not any(holder.was_replaced_since for holder in holders) and all(
            core in [holder.core for holder in holders] and core.counters["merged"] <= 1 for core in self.cores)
        if found < added or (found > added and exact):
            raise Broken("D4", f"{found} in {SUM!r}, to which members added {added} that were not told as taken back")

    def at_end(self, holders: list[DictHolder]) -> None:
        """Check D1, D4, and that all writes have ended, once all is at rest."""
        self.check_sum(holders)
        settled = [holder for holder in holders if holder.core is not None]
        for holder in settled:
            core = holder.core
            assert core is not None, "chosen above"
            if not core.settled or core.waiting:
                raise Broken("L", f"{holder.channel.name} ends without a copy, or with writes under way")
            if core.items() != settled[0].items():
                raise Broken("D1", f"{holder.channel.name} and {settled[0].channel.name} end with different contents")
            lost = [key for key, value in holder.own.items() if core.get(key) != value and key not in holder.told]
            if lost:
                raise Broken("D4", f"{holder.channel.name} was answered that it wrote {lost}, which is not there, and "
                                   "was not told")


class DictHolder(jg.Receiver):
    """One member: a copy, and its operations."""

    def __init__(self, channel: Any, run: DictRun) -> None:
        self.channel = channel
        self.run = run
        self.core: DictCore | None = None
        self.certain = True
        self.own: dict[bytes, bytes] = {}            # own key -> the value that was answered last
        self.pending: dict[int, tuple[Operation, ...]] = {}
        self.told: dict[bytes, None] = {}
        self.written = 0
        self.added = 0                               # to SUM, answered and not told as taken back
        self.was_told_of_sum = self.was_replaced_since = False       # its copy, since then
        self.alarm = Alarm(channel, self.now_ns, self.wake)
        channel.receiver = self

    def items(self) -> dict[bytes, bytes]:
        """The contents of the copy."""
        return {} if self.core is None else self.core.items()

    def now_ns(self) -> int:
        now: float = self.channel.now
        return round(now * NS_PER_S)

    # --- the group --------------------------------------------------------------------------------------------------

    def view_accepted(self, view: jg.View) -> None:
        if self.core is None:
            self.core = DictCore(self.channel.address, self.run.policy, bigger if self.run.policy == MERGE else None)
            self.run.cores.append(self.core)
        core = self.core
        if core.view is not None and core.decided and core.settled:
            self.run.same(self.run.at_end_of, (core.view.id, view.id), self.digest(), self.channel.name,
                          f"at the end of {core.view}, both going on to {view}")
        previous = () if core.view is None else core.view.members
        core.view_installed(view, [member for member in previous if member not in view])
        self.certain = True
        self.settle()

    def order_uncertain(self, messages: int) -> None:
        self.certain = False

    def receive(self, message: jg.Message) -> None:
        core = self.core
        assert core is not None, "messages are delivered in views"
        assert message.src is not None, "a delivered message has a source"
        core.receive(message.src, message.payload, message.place, self.now_ns())
        self.settle()
        if self.certain and message.place and core.decided and core.settled and core.view is not None:
            self.run.same(self.run.contents, (core.view.id, message.place), self.digest(), self.channel.name,
                          f"after place {message.place} of {core.view}")

    def digest(self) -> bytes:
        """A digest of the copy, with versions and what is agreed about majorities."""
        core = self.core
        assert core is not None, "it has a copy"
        text = repr((core.applied, core.primary, [member.raw for member in core.electorate], sorted(
            (key, entry.value, entry.writer.raw, entry.version) for key, entry in core.entries.items()), sorted(
            (writer.raw, number) for writer, number in core.written.items()), [
                (one.writer.raw, one.key, one.after, one.until, one.only_increments) for one in core.untold]))
        return blake2b(text.encode(), digest_size=16).digest()

    def settle(self) -> None:
        """Carry out the outputs of the copy, and plan its next deadline."""
        core = self.core
        assert core is not None, "it has a view"
        outputs, core.outputs = core.outputs, []
        changed = [output.key for output in outputs if isinstance(output, Changed)]
        for output in outputs:
            if isinstance(output, Send):
                self.send(output.dest, output.data)
            elif isinstance(output, Answered):
                self.answered(output, changed)
            elif isinstance(output, Refused):
                self.pending.pop(output.number)
                self.run.counts["writes refused"] += 1
            elif isinstance(output, Conflict):
                self.told[output.key] = None
                self.added -= output.verb == INCREMENT
                self.was_told_of_sum |= output.verb == INCREMENT
            elif isinstance(output, Reloaded):
                self.was_replaced_since |= self.was_told_of_sum      # what is told with it comes behind it
                self.run.counts["copies replaced"] += 1
        self.alarm.set(core.next_deadline_ns)

    def wake(self) -> None:
        if self.core is not None and self.channel.state is jg.ChannelState.CONNECTED:
            self.core.advance(self.now_ns())
            self.settle()

    def send(self, dest: Address | None, data: bytes) -> None:
        try:
            self.channel.send(dest, data)
        except ChannelError:
            self.run.counts["messages refused by the channel"] += 1

    def answered(self, answer: Answered, changed: list[bytes]) -> None:
        """D3: a member reads its own writes."""
        core = self.core
        assert core is not None, "it was written to"
        self.run.counts["writes answered"] += 1
        for verb, key, value, _, _ in self.pending.pop(answer.number):
            self.added += verb == INCREMENT
            if key.startswith(b"own") and verb == PUT:
                self.own[key] = value
                self.told.pop(key, None)
                if core.get(key) != value and changed.count(key) == 1:
                    raise Broken("D3", f"{self.channel.name} does not read its own {key!r}")

    # --- operations -------------------------------------------------------------------------------------------------

    def act(self, rng: Random) -> None:
        """Write something."""
        if self.core is None:
            return
        self.written += 1
        value = f"{self.channel.address.raw.hex()[:6]}.{self.written}".encode()
        shared = b"key%d" % rng.randrange(KEYS)
        operations: list[Operation] = [(PUT, shared, value, None, rng.choice((0, 0, 0, 50, 2000))),
                      (DELETE, shared, b"", None, 0), (POP, shared, b"", None, 0),
                      (SET_DEFAULT, shared, value, None, 0), (INCREMENT, SUM, b"1", None, 0),
                      (COMPARE, shared, value, self.core.get(shared), 0)]
        chosen = [rng.choice(operations) for _ in range(rng.choice((1, 1, 2, 3)))]
        if rng.random() < 0.6:
            own = b"own " + self.channel.address.raw.hex()[:8].encode() + b" %d" % (self.written % 4)
            chosen.append((PUT, own, value, None, 0))
        self.pending[self.core.numbers + 1] = tuple(chosen)
        self.core.write(chosen)
        self.settle()


def act(holder: DictHolder, rng: Random) -> None:
    """An operation of a member: the trial's `act`."""
    holder.act(rng)


def run(seed: int, part: PlanPart = WHOLE, keep: bool = False) -> Outcome:
    """Run a seed, or a part of it."""
    shared = DictRun(seed)
    outcome = Trial(PROFILE, shared.start, act, at_end=shared.at_end, falls_silent=True).run(seed, part, keep=keep)
    return attrs.evolve(outcome, reached={**outcome.reached, **shared.reached()})


APPLICATIONS[PROFILE] = run

