"""A test bench for layers: a stack of a few real layers on a recording transport, and groups of such stacks.

`Bench` is one member: pass batches and events in at either end, read what comes out at the other, let time pass.
`Group` connects several benches by a wire that encodes and decodes every batch; a test may lose, delay, duplicate or
reorder its messages. The bench is independent of any protocol.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs

from jgroups_py import wire
from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.digest import Digest
from jgroups_py.model.events import Event, ViewChange
from jgroups_py.model.outputs import Deliver, Output, ViewInstalled
from jgroups_py.model.ports import AddressBook, DigestSource, FrameRoom, LastFrames, ViewSource
from jgroups_py.model.units import NS_PER_MS
from jgroups_py.model.view import View, ViewId
from jgroups_py.stack.protocol import Protocol, on
from jgroups_py.stack.stack import Stack

E = TypeVar("E")
H = TypeVar("H", bound=Header)
CLUSTER = wire.cluster_id("bench")


def address(name: str) -> Address:
    """The address of the member called `name`: the same in every call; addresses sort as their names do."""
    return Address(name.encode().ljust(16, b"\0"), name)


def view_of(*names: str, counter: int = 1) -> View:
    """A view of these members, installed by the first."""
    members = tuple(map(address, names))
    return View(ViewId(counter, members[0]), members)


def change(view: View, previous: View | None = None) -> ViewChange:
    """The event that installs `view` after `previous`."""
    before = previous.members if previous is not None else ()
    return ViewChange(view, previous, tuple(m for m in view.members if m not in before),
                      tuple(m for m in before if m not in view.members))


def multicast(src: str, *payloads: bytes, flags: int = 0, headers: tuple[Header, ...] = ()) -> Batch:
    """A batch of multicasts."""
    return Batch(address(src), None, payloads, headers, flags)


def unicast(src: str, dest: str, *payloads: bytes, flags: int = 0, headers: tuple[Header, ...] = ()) -> Batch:
    """A batch of unicasts."""
    return Batch(address(src), address(dest), payloads, headers, flags)


class RecordingTransport(Protocol, LastFrames, AddressBook, FrameRoom):
    """The transport of a bench: records the batches that would go over the wire, and has the transport's ports."""

    def start(self) -> None:
        self.batches: list[Batch] = []
        self.last_frames: dict[Address, int] = {}
        self.book: dict[Address, PhysicalAddress] = {}
        self.frame_bytes = 64_000
        self.multicasts = True

    def down(self, batch: Batch) -> None:
        if batch.dest == self.me:
            self.pass_up(batch)
        else:
            self.batches.append(batch)

    def last_frame_ns(self, member: Address) -> int | None:
        return self.last_frames.get(member)

    def physical_of(self, member: Address) -> PhysicalAddress | None:
        return self.book.get(member)

    def my_physical(self) -> PhysicalAddress | None:
        return self.book.get(self.me, ("127.0.0.1", 7800))

    def has_multicast(self) -> bool:
        return self.multicasts

    def max_frame_bytes(self) -> int:
        return self.frame_bytes


class StubPorts(Protocol, DigestSource, ViewSource):
    """Provides ports of layers that the bench lacks: a test sets `digest_value` and `view`."""

    def start(self) -> None:
        self.digest_in = b""                                  # ViewId.raw, taken from each ViewChange
        self.digest_value: Digest = {}
        self.view: View | None = None

    def digest(self) -> Digest:
        return dict(self.digest_value)

    def digest_view(self) -> bytes:
        return self.digest_in

    def current_view(self) -> View | None:
        return self.view

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        self.digest_in = event.view.id.raw


class BenchStack(Stack):
    """A stack that records the events that leave it at either end."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.up_events: list[Event] = []
        self.down_events: list[Event] = []
        super().__init__(*args, **options)

    def surface(self, event: Event) -> None:
        self.up_events.append(event)

    def _to_nowhere(self, item: Any) -> None:
        super()._to_nowhere(item)
        self.down_events.append(item)


class Bench:
    """One member: `layers` (lowest first) on a RecordingTransport.

    delivered: all batches that reached the top; views: all views that did; outputs: all other outputs.
    """

    def __init__(self, *layers: Protocol, me: str = "A", seed: str = "0", **options: Any) -> None:
        """options: as Stack takes them."""
        self.me = address(me)
        self.name = me
        self.transport = RecordingTransport()
        self.stack = BenchStack([self.transport, *layers], self.me, seed=seed, member=me, **options)
        self.delivered: list[Batch] = []
        self.views: list[View] = []
        self.outputs: list[Output] = []

    @property
    def now_ns(self) -> int:
        """The bench's clock."""
        return self.stack.now_ns

    def down(self, item: Batch | Event) -> None:
        """Pass an item into the top of the stack."""
        self.stack.inject(item, self.now_ns)
        self._collect()

    def up(self, item: Batch | Event) -> None:
        """Pass an item into the bottom of the stack, above the transport."""
        self.stack.notify(item, self.now_ns)                  # type: ignore[arg-type]
        self._collect()

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass, timer by timer."""
        self.advance_to(self.now_ns + round(ms * NS_PER_MS))

    def advance_to(self, at_ns: int) -> None:
        """Let time pass up to `at_ns`."""
        while True:
            due = self.stack.next_deadline_ns
            if due is None or due > at_ns:
                break
            self.stack.advance(max(due, self.now_ns))
        self.stack.advance(at_ns)
        self._collect()

    def sent(self) -> list[Batch]:
        """Batches that reached the transport since the last call."""
        taken, self.transport.batches = self.transport.batches, []
        return taken

    def sent_with(self, header: type[H]) -> list[tuple[H, Batch]]:
        """Of the batches sent since the last call, those with this lowest header: (header, batch without it). Others
        are discarded."""
        return [(b.headers[-1], b.pop()) for b in self.sent() if b.headers and isinstance(b.headers[-1], header)]

    def passed_up(self, kind: type[E]) -> list[E]:
        """Events of this kind that left the stack at the top since the last call for that kind."""
        return self._pick(self.stack.up_events, kind)

    def passed_down(self, kind: type[E]) -> list[E]:
        """Events of this kind that left the stack at the bottom since the last call for that kind."""
        return self._pick(self.stack.down_events, kind)

    def payloads(self, src: str | None = None) -> list[bytes]:
        """The payloads delivered so far, in order; with `src`, of that sender only."""
        return [p for b in self.delivered if src is None or b.src == address(src) for p in b.payloads]

    def stats(self) -> dict[str, float]:
        """The counters of all layers in one table."""
        return {name: value for layer in self.stack.layers for name, value in layer.stats().items()}

    @staticmethod
    def _pick(events: list[Any], kind: type[E]) -> list[E]:
        found = [event for event in events if isinstance(event, kind)]
        events[:] = [event for event in events if not isinstance(event, kind)]
        return found

    def _collect(self) -> None:
        outputs, self.stack.outputs = self.stack.outputs, []
        for output in outputs:
            if isinstance(output, Deliver):
                self.delivered.append(output.batch)
            elif isinstance(output, ViewInstalled):
                self.views.append(output.view)
            else:
                self.outputs.append(output)


@attrs.frozen
class InFlight:
    """A batch on its way between two members."""

    src: str
    dest: str
    batch: Batch

    def has(self, header: type[Header]) -> bool:
        """Whether its lowest header is one of these."""
        return bool(self.batch.headers) and isinstance(self.batch.headers[-1], header)


DelaysOf = Callable[[InFlight], Sequence[float]]


def without_delay(_: InFlight) -> Sequence[float]:
    """The delays on a perfect wire: a message arrives once, without delay."""
    return (0.0,)


class Group:
    """Several benches on one wire. `delays_of` gives the delay in ms of each copy of a message; (): it is lost."""

    def __init__(self, make: Callable[[str], Sequence[Protocol]], names: str | Sequence[str], seed: str = "0") -> None:
        self.members = {name: Bench(*make(name), me=name, seed=seed) for name in names}
        self.delays_of: DelaysOf = without_delay
        self.in_flight: list[tuple[int, int, InFlight]] = []        # (arrival ns, order, what)
        self.order = 0
        self.crashed: dict[str, None] = {}
        self.interners = {name: wire.Interner() for name in self.members}
        for name, bench in self.members.items():
            self.interners[name].adopt(bench.me)

    def __getitem__(self, name: str) -> Bench:
        return self.members[name]

    @property
    def running(self) -> list[Bench]:
        """The members that have not crashed."""
        return [bench for name, bench in self.members.items() if name not in self.crashed]

    @property
    def now_ns(self) -> int:
        """The group's clock."""
        return max(bench.now_ns for bench in self.running)

    def crash(self, name: str) -> None:
        """Stop a member; messages that it has sent still arrive."""
        self.crashed[name] = None

    def install(self, view: View, previous: View | None = None) -> None:
        """Pass the ViewChange to every running member of `view` from above, without any agreement."""
        for member in view.members:
            if member.name not in self.crashed:
                self[member.name].down(change(view, previous))
        self.settle()

    def settle(self) -> None:
        """Deliver every message that arrives now, and those sent in response that arrive now."""
        self.run(0)

    def run(self, ms: float) -> None:
        """Let `ms` milliseconds pass at all members, and deliver messages that arrive meanwhile."""
        until_ns = self.now_ns + round(ms * NS_PER_MS)
        while True:
            self._collect_sent()
            arrival = min((entry[0] for entry in self.in_flight), default=None)
            timers = [due for bench in self.running if (due := bench.stack.next_deadline_ns) is not None]
            at_ns = min([at for at in (arrival, *timers) if at is not None], default=until_ns + 1)
            if at_ns > until_ns:
                break
            for bench in self.running:
                bench.advance_to(max(at_ns, bench.now_ns))
            self._collect_sent()
            self._deliver_due(at_ns)
        for bench in self.running:
            bench.advance_to(until_ns)
        self._collect_sent()

    def _collect_sent(self) -> None:
        for src, bench in self.members.items():
            for batch in bench.sent():
                if src not in self.crashed:
                    for dest in self.members if batch.dest is None else (batch.dest.name or _name_of(batch.dest),):
                        if dest != src and dest in self.members:
                            self._send(InFlight(src, dest, batch), bench.now_ns)

    def _send(self, in_flight: InFlight, now_ns: int) -> None:
        for delay_ms in self.delays_of(in_flight):
            self.order += 1
            self.in_flight.append((now_ns + round(delay_ms * NS_PER_MS), self.order, in_flight))

    def _deliver_due(self, at_ns: int) -> None:
        due = sorted(entry for entry in self.in_flight if entry[0] <= at_ns)
        self.in_flight = [entry for entry in self.in_flight if entry[0] > at_ns]
        for _, _, in_flight in due:
            if in_flight.dest not in self.crashed:
                self[in_flight.dest].up(self.over_the_wire(in_flight))

    def over_the_wire(self, in_flight: InFlight) -> Batch:
        """The batch as the receiver decodes it."""
        data = b"".join(wire.encode_frame(CLUSTER, in_flight.batch))
        return wire.decode_frame(data, CLUSTER, self.interners[in_flight.dest])


def _name_of(member: Address) -> str:
    return member.raw.rstrip(b"\0").decode()
