"""The flush of NAKACK under an ideal GMS: random sends, losses, crashes, and ballots that are begun and given up.

The driver below stands for GMS: it sees all members, needs no messages of its own and never errs, so that what the
checks find is NAKACK's.
"""
from __future__ import annotations

from collections.abc import Sequence
from random import Random

import attrs
import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.digest import Digest
from jgroups_py.model.events import Filled, FlushTo, Freeze, Frozen
from jgroups_py.model.view import View
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.protocols.stable.protocol import Stable, StableConfig
from jgroups_py.testing.bench import Bench, Group, InFlight, change, multicast, view_of

NAMES = "ABCDE"


@attrs.define
class Trial:
    """One seed. views: name -> the views it installed, each with what it delivered in it, in order."""

    rng: Random
    group: Group
    views: dict[str, list[tuple[View, list[bytes]]]]
    sent: dict[str, list[bytes]]

    @classmethod
    def of(cls, seed: int) -> Trial:
        rng = Random(seed)
        group = Group(lambda _: [Nakack(), Stable(StableConfig(max_bytes=300))], NAMES, str(seed))

        def delays_of(_: InFlight) -> Sequence[float]:
            return [rng.choice((0.1, 0.5, 2, 20)) for _ in range(rng.choice((0, 1, 1, 1, 2)))]
        group.delays_of = delays_of
        trial = cls(rng, group, {name: [] for name in NAMES}, {name: [] for name in NAMES})
        trial.install(view_of(*NAMES), None)
        return trial

    def names(self) -> list[str]:
        """Who lives."""
        return [name for name in NAMES if name not in self.group.crashed]

    def install(self, view: View, previous: View | None) -> None:
        """At each living member of the view, one after the other."""
        for name in self.names():
            if view.members and any(member.name == name for member in view.members):
                self.collect()
                self.group[name].down(change(view, previous))
                self.views[name].append((view, []))
                self.some_time()

    def collect(self) -> None:
        """Note what was delivered, under the view in which it was."""
        for name in NAMES:
            bench = self.group[name]
            if self.views[name]:
                self.views[name][-1][1].extend(bench.payloads())
                bench.delivered.clear()

    def send_some(self) -> None:
        """A few runs of random members."""
        for _ in range(self.rng.randrange(8)):
            name = self.rng.choice(self.names())
            number = len(self.sent[name])
            payloads = [b"%s%d" % (name.encode(), number + at) for at in range(self.rng.randrange(1, 4))]
            self.sent[name] += payloads
            self.group[name].down(multicast(name, *payloads))
            self.some_time()

    def some_time(self) -> None:
        self.group.run(self.rng.choice((0, 0, 0.3, 3)))

    def change_view(self, view: View) -> View:
        """Ballots until one comes to its end; members crash before, between and during them."""
        while True:
            if len(self.names()) > 2 and self.rng.random() < 0.5:
                self.group.crash(self.rng.choice(self.names()))
            survivors = self.names()
            digests = {name: self.frozen(self.group[name]) for name in survivors}
            cut = {member: max(digest[member] for digest in digests.values()) for member in view.members}
            holders = {member: self.holder(member, digests, cut[member]) for member in view.members}
            for name in survivors:
                self.group[name].down(FlushTo(cut, holders))
                self.some_time()
            if self.rng.random() < 0.3:
                continue                                        # the coordinator died, say: another ballot
            if len(self.names()) > 2 and self.rng.random() < 0.3:
                self.group.crash(self.rng.choice(survivors))
            if self.rng.random() < 0.5:
                self.send_some()                                # waits for the next view
            self.group.run(3000)
            if self.names() == survivors:
                assert all(self.group[name].passed_up(Filled)[-1] == Filled(cut) for name in survivors)
                new = view_of(*survivors, counter=view.id.counter + 1)
                self.install(new, view)
                return new

    def frozen(self, bench: Bench) -> Digest:
        bench.down(Freeze())
        self.some_time()
        return bench.passed_up(Frozen)[-1].digest

    def holder(self, member: Address, digests: dict[str, Digest], cut: int) -> Address:
        """Whoever has all of the member's messages below the cut; itself if it lives."""
        having = [name for name, digest in digests.items() if digest[member] == cut]
        return self.group[member.name if member.name in having else self.rng.choice(having)].me

    def check(self) -> None:
        """S2, S4, S5, F, and L for the last view."""
        self.collect()
        of = {name: {view.id: got for view, got in self.views[name]} for name in NAMES}
        for name in NAMES:
            everything = [payload for _, got in self.views[name] for payload in got]
            for sender in NAMES:
                mine = [payload for payload in everything if payload.startswith(sender.encode())]
                assert mine == self.sent[sender][:len(mine)], "in order, once, no holes"
            for (before, got), (after, _) in zip(self.views[name], self.views[name][1:], strict=False):
                for other in NAMES:
                    if before.id in of[other] and after.id in of[other]:
                        assert sorted(of[other][before.id]) == sorted(got), "virtual synchrony"
        for name in self.names():
            for sender in self.names():
                everything = [p for _, got in self.views[name] for p in got if p.startswith(sender.encode())]
                assert everything == self.sent[sender], "nothing of a survivor is lost"


@pytest.mark.parametrize("seed", range(25))
def test_survivors_deliver_the_same_in_each_view_whatever_happens_during_the_flush(seed: int) -> None:
    trial = Trial.of(seed)
    view = view_of(*NAMES)
    for _ in range(3):
        trial.send_some()
        view = trial.change_view(view)
    trial.send_some()
    trial.group.run(30_000)
    trial.check()
