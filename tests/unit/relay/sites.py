"""Sites of RELAY layers over an ideal group and an ideal bridge: in order, nothing lost unless a test says so.

Only RELAY is under test here; the whole stack runs in tests/simulator. A site's members share a list of multicasts
that is delivered to all at once by `settle`; a crash takes a member out and installs the next view (virtual synchrony:
what was multicast before is delivered by all survivors first).
"""
from __future__ import annotations

from collections import deque
from random import Random

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import (
    BridgeClosed,
    BridgeDelivered,
    BridgeEnd,
    BridgeView,
    LeaveRequested,
    RaiseView,
    SiteCommand,
    StateChunk,
    ViewChange,
)
from jgroups_py.model.outputs import (
    CloseBridge,
    Deliver,
    GlobalViewInstalled,
    LogEntry,
    MessagesLost,
    OpenBridge,
    ProvideState,
    ReadyToLeave,
    SiteCommandDone,
    SiteReceipt,
    SiteStatusChanged,
    StateAdvised,
    StateBegin,
    StateEnd,
    StatePart,
    ToBridge,
    Unreachable,
)
from jgroups_py.model.units import millis
from jgroups_py.model.view import MergeView, View, ViewId
from jgroups_py.node.node import NodeStack, new_address
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.stack.protocol import Protocol, on

REPORTED = (GlobalViewInstalled, MessagesLost, SiteCommandDone, SiteReceipt, SiteStatusChanged, StateAdvised,
            Unreachable)


class IdealGroup(Protocol):
    """The bottom: hands batches to the site. A test may put another `hand_over` in its place."""

    site: Site

    def down(self, batch: Batch) -> None:
        self.hand_over(batch)

    def hand_over(self, batch: Batch) -> None:
        self.site.sent.append((self.member, batch))

    @on(RaiseView)
    def raise_view(self, event: RaiseView) -> None:
        self.site.raised.append((self.member, event.above))


class Member:
    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name
        self.me = new_address(site.world.rng, name, site.name)
        self.group = IdealGroup()
        self.group.site, self.group.member = site, self
        self.relay = Relay(RelayConfig(site=site.name, bridge_props="bridge.xml", **site.options))
        self.stack = NodeStack([self.group, self.relay], self.me, now_ns=site.world.now_ns)
        self.running = True
        self.paused = False
        self.bridge: Address | None = None
        self.got: list[tuple[str, bytes]] = []             # (sender, payload)
        self.unicasts: list[tuple[str, bytes]] = []
        self.reported: list[object] = []
        self.notes: list[LogEntry] = []
        self.log: list[bytes] = []                         # the application's state: what it was given, once
        self.arriving: list[bytes] | None = None           # pieces of a state
        self.deferred: list[bytes] = []                       # given after StateBegin: belongs after the state
        self.state_ends: list[str] = []
        self.writes_all = True                             # False: its get_state never comes to an end
        self.ready_to_leave = False
        self.orders = 0

    def multicast(self, *texts: str) -> None:
        self.stack.inject(Batch(self.me, None, tuple(text.encode() for text in texts)), self.site.world.now_ns)
        self.drain()

    def unicast(self, dest: Address, text: str) -> None:
        self.stack.inject(Batch(self.me, dest, (text.encode(),)), self.site.world.now_ns)
        self.drain()

    def receive(self, batch: Batch) -> None:
        self.stack.send_up(batch)
        self.stack.run()
        self.drain()

    def drain(self) -> None:
        outputs, self.stack.outputs = self.stack.outputs, []
        world = self.site.world
        for output in outputs:
            if isinstance(output, Deliver):
                into = self.got if output.batch.dest is None else self.unicasts
                into.extend((str(output.batch.src), payload) for payload in output.batch.payloads)
                if output.batch.dest is None:
                    (self.log if self.arriving is None else self.deferred).extend(output.batch.payloads)
            elif isinstance(output, OpenBridge):
                world.expected[self.name] = output.expected
                world.join_bridge(self)
            elif isinstance(output, CloseBridge):
                world.settle()                             # a graceful leave: what was sent before arrives
                world.leave_bridge(self, "left", BridgeEnd.LEFT)
            elif isinstance(output, ToBridge):
                world.on_bridge.append((self.bridge, output.batch))
            elif isinstance(output, ProvideState | StateBegin | StatePart | StateEnd):
                self.state_output(output)
            elif isinstance(output, ReadyToLeave):
                self.ready_to_leave = True
            elif isinstance(output, LogEntry):
                self.notes.append(output)
            elif isinstance(output, REPORTED):
                self.reported.append(output)

    def state_output(self, output: object) -> None:
        """The application's state is its log, line by line."""
        if isinstance(output, ProvideState):
            state = b"".join(line + b"\n" for line in self.log)
            half = len(state) // 2
            for chunk in (StateChunk(output.request, state[:half]),
                          StateChunk(output.request, state[half:], self.writes_all)):
                self.stack.inject(chunk, self.site.world.now_ns)
            self.drain()
        elif isinstance(output, StateBegin):
            self.log += self.deferred
            self.deferred, self.arriving = [], []
        elif isinstance(output, StatePart):
            self.arriving.append(output.data)
        elif isinstance(output, StateEnd):
            self.state_ends.append(output.error)
            if not output.error and self.arriving is not None:
                self.log = b"".join(self.arriving).splitlines()
            self.log += self.deferred
            self.deferred, self.arriving = [], None

    def notify(self, event: object) -> None:
        self.stack.notify_layer(self.relay, event, self.site.world.now_ns)
        self.drain()

    def texts(self, prefix: str) -> list[str]:
        return [payload.decode() for _, payload in self.got if payload.decode().startswith(prefix)]

    def order(self, verb: str, site: str, timeout_ns: int = 0) -> None:
        """An operator at this member gives an order."""
        self.orders += 1
        self.stack.inject(SiteCommand(self.orders, verb, site, timeout_ns), self.site.world.now_ns)
        self.drain()

    @property
    def global_names(self) -> dict[str, list[str]]:
        view = self.relay.site_news.global_view
        return {} if view is None else {site: [m.name for m in members] for site, members in view.sites.items()}


class Site:
    def __init__(self, world: Sites, name: str, members: str, options: dict[str, object]) -> None:
        self.world, self.name, self.options = world, name, options
        self.sent: deque[tuple[Member, Batch]] = deque()
        self.raised: list[tuple[Member, int]] = []
        self.raises = 0
        self.members = {letter: Member(self, letter) for letter in members}
        self.groups: list[list[str]] = []
        self.view_of: dict[str, View] = {}
        self.counter = 0
        self.install(list(members))

    def install(self, names: list[str], *, counter: int | None = None) -> None:
        """A view of these members; a MergeView where their previous views differ."""
        self.flush()
        self.counter = max(self.counter + 1, counter or 0)
        members = [self.members[name] for name in names]
        previous = {self.view_of[n].id: self.view_of[n] for n in names if n in self.view_of}
        identity = ViewId(self.counter, members[0].me)
        addresses = tuple(member.me for member in members)
        self.groups = [g for g in self.groups if not set(g) & set(names)] + [names]
        view = View(identity, addresses) if len(previous) < 2 else \
            MergeView(identity, addresses, tuple(previous.values()))
        for name, member in zip(names, members, strict=True):
            before = self.view_of.get(name)
            self.view_of[name] = view
            gone = tuple(m for m in before.members if m not in view) if before else ()
            came = tuple(m for m in addresses if before is None or m not in before)
            member.stack.notify(ViewChange(view, before, came, gone), self.world.now_ns)
        for member in members:
            member.drain()

    def crash(self, name: str) -> None:
        """Crash a member; survivors deliver what it had multicast, then they install the view without it."""
        member = self.members[name]
        member.running = False
        self.world.leave_bridge(member, "crashed")
        group = next(g for g in self.groups if name in g)
        rest = [n for n in group if n != name]
        if rest:
            self.install(rest)
        self.groups = [g for g in self.groups if name not in g]

    def install_raised_views(self) -> None:
        """As GMS does on RaiseView: install a view with a higher counter in the member's group."""
        raised, self.raised = self.raised, []
        for member, above in raised:
            group = next((g for g in self.groups if member.name in g), None)
            if group is not None and self.view_of[member.name].id.counter <= above:
                self.raises += 1
                self.install(group, counter=above + 1)

    def restart(self) -> None:
        """All members crash; new ones with the same names form a new group that counts its views from 1."""
        names = list(self.members)
        for member in self.members.values():
            member.running = False
            self.world.leave_bridge(member, "crashed")
        self.sent.clear()
        self.counter, self.groups, self.view_of = 0, [], {}
        self.members = {name: Member(self, name) for name in names}
        self.install(names)

    def add(self, name: str) -> Member:
        self.members[name] = Member(self, name)
        self.view_of.pop(name, None)
        self.install([*self.groups[0], name])
        return self.members[name]

    def flush(self) -> bool:
        """Deliver what was sent in the group, in order."""
        worked = bool(self.sent)
        while self.sent:
            sender, batch = self.sent.popleft()
            group = next((g for g in self.groups if sender.name in g), [])
            for name in group:
                member = self.members[name]
                if member.running and (batch.dest is None or batch.dest == member.me):
                    member.receive(batch)
        return worked


class Sites:
    """All sites and the bridge between them. `cut` lists bridge addresses whose frames are lost."""

    def __init__(self, **sites: str) -> None:
        self.rng = Random(1)
        self.now_ns = 0
        self.on_bridge: deque[tuple[Address | None, Batch]] = deque()
        self.bridge: dict[Address, Member] = {}
        self.bridge_counter = 0
        self.lose = lambda src, batch: False
        self.options: dict[str, object] = {}
        self.without_bridge = ""                           # names whose bridge opens, but finds no relay
        self.expected: dict[str, bool] = {}                # name -> OpenBridge.expected of its latest one
        self.sites: dict[str, Site] = {}
        self.plan = sites

    def build(self, **options: object) -> Sites:
        for name, members in self.plan.items():
            self.sites[name] = Site(self, name, members, options)
        self.run()
        return self

    def __getitem__(self, name: str) -> Member:
        return next(site.members[name] for site in self.sites.values() if name in site.members)

    def join_bridge(self, member: Member) -> None:
        if member.name in self.without_bridge:
            return
        member.bridge = new_address(self.rng, member.name)
        self.bridge[member.bridge] = member
        self.bridge_view()

    def leave_bridge(self, member: Member, reason: str, end: BridgeEnd = BridgeEnd.FAILED) -> None:
        if member.bridge is None:
            return
        self.bridge.pop(member.bridge, None)
        member.bridge = None
        if member.running:
            member.notify(BridgeClosed(end, reason))
        self.bridge_view()

    def bridge_view(self) -> None:
        self.bridge_counter += 1
        if self.bridge:
            members = tuple(self.bridge)
            view = View(ViewId(self.bridge_counter, members[0]), members)
            for address, member in list(self.bridge.items()):
                if member.running and member.bridge == address:
                    member.notify(BridgeView(view, address))

    def settle(self) -> None:
        """Deliver everything that is under way, locally and on the bridge."""
        while True:
            worked = any([site.flush() for site in self.sites.values()])  # noqa: C419 - every site is flushed
            while self.on_bridge:
                worked = True
                src, batch = self.on_bridge.popleft()
                target = self.bridge.get(batch.dest)        # type: ignore[arg-type]
                if src in self.bridge and target is not None and target.running and not self.lose(src, batch):
                    target.notify(BridgeDelivered(batch.replaced(src=src)))
            for site in self.sites.values():
                worked = worked or bool(site.raised)
                site.install_raised_views()
            if not worked:
                return

    def run(self, duration_ns: int = millis(1000), step_ns: int = millis(5)) -> None:
        """Let time pass."""
        stop = self.now_ns + duration_ns
        while self.now_ns < stop:
            self.settle()
            self.now_ns += step_ns
            for site in self.sites.values():
                for member in site.members.values():
                    if member.running:
                        member.stack.advance(self.now_ns)
                        member.drain()
        self.settle()

    def leave(self, name: str, *, forget: bool = False) -> Member:
        member = self[name]
        member.notify(LeaveRequested(forget))
        return member


def numbered(start: int, stop: int) -> list[str]:
    return [f"c{i}" for i in range(start, stop)]


def reported(member: Member, kind: type) -> list[object]:
    return [output for output in member.reported if isinstance(output, kind)]


def statuses(member: Member) -> list[str]:
    return [output.status for output in reported(member, SiteStatusChanged)]     # type: ignore[attr-defined]


def lost(member: Member) -> list[tuple[str | None, int, int]]:
    """The losses reported to the member's application: (the site that lacks them, None for its own; first; stop)."""
    return [(loss.dest_site, loss.first, loss.stop) for loss in reported(member, MessagesLost)]


def answers(member: Member) -> list[str]:
    """The answers to the operator's orders at this member; "" for done."""
    return [done.error for done in reported(member, SiteCommandDone)]


def cut_off(world: Sites, name: str) -> None:
    """The member's bridge is closed and stays so."""
    world[name].relay.bridge_link.wanted = False
    world.leave_bridge(world[name], "cut off")
