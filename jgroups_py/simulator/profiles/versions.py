"""Profile versions: a group of members of two versions, where the later one has headers that the earlier one lacks.

Each start of a member draws its version, so members are upgraded, and taken back, under the faults of group. The later
version has a layer of its own, at a random height of the stack, which puts a header that may be skipped on some
batches, and sends messages with a header that may not. All guarantees of the group hold, and V1: nothing with a header
of that layer gets to the application of a member that lacks it. V2: at the end each member has the releases of all
members of its view right. V3: nothing with a header that may not be skipped was read by a member that lacks it.
"""
from __future__ import annotations

from collections import Counter
from random import Random

import attrs

from jgroups_py import wire
from jgroups_py.config.spec import LayerSpec
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.counters import counter, declare
from jgroups_py.model.events import ViewChange
from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.units import millis, seconds
from jgroups_py.model.version import OWN, MemberRelease
from jgroups_py.protocols.gms import Gms
from jgroups_py.protocols.transport import Transport
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.faults.actions import Action, Begin, LeaveOf
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.base import Plan, in_order, span
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.world import World
from jgroups_py.stack.protocol import Protocol, on, receives, timer

LATER_ID = 1100
LATER = MemberRelease((OWN.version[0], OWN.version[1] + 1, 0), OWN.version[:2])
ROUND_NS = millis(150)


@wire.header(proto=LATER_ID, kind=wire.SKIPPABLE + 1)
class Remark(Header):
    """On a batch of another layer; nothing depends on it."""

    text: str = wire.field(wire.TEXT)


@wire.header(proto=LATER_ID, kind=wire.SKIPPABLE + 2)
class NumberedRemark(Header):
    """As Remark, of fixed size."""

    number: int = wire.field(wire.U64)


@wire.header(proto=LATER_ID, kind=1)
class Demand(Header):
    """To all members that have the layer: its message means nothing without it."""

    text: str = wire.field(wire.TEXT)


UNSKIPPABLE = frozenset(((Demand.proto, Demand.kind),))


@attrs.frozen
class LaterConfig:
    """No properties."""


class Later(Protocol):
    """The layer that only the later version has."""

    Config = LaterConfig
    COUNTERS = declare(
        counter("remarks", "Headers that may be skipped, received."),
        counter("demands", "Messages with the header that may not, received."),
    )

    def start(self) -> None:
        self.number = 0

    @on(ViewChange)
    def on_view_change(self, event: ViewChange) -> None:
        self.set_timer("round", ROUND_NS)

    @timer("round")
    def on_round(self) -> None:
        self.number += 1
        self.send(Demand(f"round {self.number}"), None)
        self.set_timer("round", ROUND_NS)

    def down(self, batch: Batch) -> None:
        for made in (Remark("r" * self.rng.choice((0, 3, 300))), NumberedRemark(self.number)):
            if self.rng.random() < 0.4:
                batch = batch.push(made)
        self.pass_down(batch)

    @receives(Remark)
    def on_remark(self, header: Remark, batch: Batch) -> None:
        self.count("remarks")
        self.take_off(batch)

    @receives(NumberedRemark)
    def on_count(self, header: NumberedRemark, batch: Batch) -> None:
        self.count("remarks")
        self.take_off(batch)

    def take_off(self, batch: Batch) -> None:
        """Pass a batch up without the layer's headers; the first one was taken off."""
        while batch.headers and batch.headers[-1].proto == LATER_ID:
            batch = batch.pop()
        self.pass_up(batch)

    @receives(Demand)
    def on_demand(self, header: Demand, batch: Batch) -> None:
        self.count("demands")


class WatchedApp(App):
    """Notes batches that arrive with a header of the later version."""

    def __init__(self, rate: int, violations: list[Violation]) -> None:
        super().__init__(rate)
        self.violations = violations

    def delivered(self, batch: Batch) -> None:
        found = [type(header).__name__ for header in batch.headers if header.proto == LATER_ID]
        if found and not self.violations:
            text = f"{self.process.incarnation} delivers a message with {found[0]}, which no layer of it has read"
            self.violations.append(Violation("V1", text, self.world.now_ns))
        super().delivered(batch)


class VersionsProfile(GroupProfile):
    """One group of three to six members, even seeds on UDP, odd ones on TCP."""

    name = "versions"
    bursts = False
    reaches = ("headers skipped", "headers of the later version read", "frames refused for a header", "both versions",
               "changes of version")

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        self.draw = Random(f"{self.seed}/versions")
        self.share = self.draw.choice((0.3, 0.5, 0.7))
        self.height = self.draw.choice(("lowest", "above NAKACK", "highest"))
        self.later: dict[str, bool] = {}                     # name -> whether it runs the later version
        self.violations: list[Violation] = []
        self.met: Counter[str] = Counter()
        added: list[Action] = []
        for name in self.draw.sample(self.members, self.draw.randint(1, len(self.members))):
            at_ns = self.draw.randrange(seconds(1), plan.stop_ns - millis(200))
            again_ns = min(at_ns + span(self.draw, 0.3, 2), plan.stop_ns - millis(10))
            added += [LeaveOf(at_ns, name), Begin(again_ns, name)]
        return attrs.evolve(plan, faults=in_order([*plan.faults, *added]))

    def start(self, world: World, name: str) -> Process:
        later = self.draw.random() < self.share
        if self.later.get(name, later) != later:
            self.met["changes of version"] += 1
        self.later[name] = later
        spec = self.spec(world)
        if later:
            names = [layer.name for layer in spec.layers]
            at = {"lowest": 1, "highest": len(names)}.get(self.height, names.index("NAKACK") + 1)
            own = LayerSpec("LATER", LaterConfig(), own=Later)
            spec = attrs.evolve(spec, layers=(*spec.layers[:at], own, *spec.layers[at:]))
        process = world.start(name, spec, app=WatchedApp(300 if name == self.slow else 0, self.violations))
        stack = process.stack(LOCAL)
        assert stack is not None
        if later:
            stack.find(Gms).releases.own = LATER
        else:
            stack.find(Transport).addresses.unread.lacks = UNSKIPPABLE
        return process

    def judged(self, world: World, found: list[Violation]) -> list[Violation]:
        found = [*found, *self.violations]
        running = [process for process in world.all_processes if process.running]
        true = {process.me: LATER if self.later[process.name] else OWN for process in running}
        for process in running:
            stack = process.stack(LOCAL)
            assert stack is not None
            gms, transport, later = stack.find(Gms), stack.find(Transport), stack.find(Later)
            view, told = gms.current_view(), gms.member_releases()
            wrong = [] if view is None else [member for member in view.members if told.get(member) != true.get(member)]
            if wrong:
                text = (f"{process.incarnation} has release {told.get(wrong[0])} for {wrong[0]}, which runs "
                        f"{true.get(wrong[0])}")
                found.append(Violation("V2", text, world.now_ns))
            self.met["headers skipped"] += int(transport.counters["headers_skipped"])
            self.met["frames refused for a header"] += int(transport.counters["unknown_header_dropped"])
            if later is not None:
                self.met["headers of the later version read"] += int(later.counters["remarks"])
                if transport.counters["unknown_header_dropped"]:
                    found.append(Violation("V3", f"{process.incarnation} refused a header that it has", world.now_ns))
        self.met["both versions"] += len(set(true.values())) == 2
        return found
