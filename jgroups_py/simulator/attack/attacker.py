"""An attacker on every link of a simulated world: it reads all frames and injects frames of its own into sockets.

It cannot remove or delay frames (faults of the network do that), has no key and runs no stack. A world has at most one,
which reads frames from its creation on.
"""
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import attrs

from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.errors import WireError
from jgroups_py.model.outputs import BRIDGE, LOCAL, Frame
from jgroups_py.model.ports import ViewSource
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.frag.headers import Fragment
from jgroups_py.protocols.gms.headers import JoinRequest, LeaveRequest
from jgroups_py.protocols.nakack.headers import MulticastData as Multicast
from jgroups_py.protocols.unicast.headers import UnicastData as Unicast
from jgroups_py.simulator.attack.forging import Forger, cluster_of
from jgroups_py.simulator.attack.frame_writer import header_writer, write_frame
from jgroups_py.simulator.attack.value_pool import ValuePool
from jgroups_py.simulator.object_sizes import weigh
from jgroups_py.simulator.process import Process
from jgroups_py.stack.protocol import CONTROL
from jgroups_py.stack.stack import Stack
from jgroups_py.wire import decode_frame

if TYPE_CHECKING:
    from jgroups_py.model.batch import Header
    from jgroups_py.simulator.world import World

INTERCEPTED_RATIO = 0.3                  # share of the frames that it keeps
NODE_BYTES = 24 << 20                    # bound of a node's memory, without messages of its own application
PLACE: PhysicalAddress = ("10.66.6.6", 6666)    # physical address of the attacker
HUGE_BYTES = 256 << 20                   # size of the message that a forged first fragment announces
LARGE = b"#" * 60_000


@attrs.frozen
class Excess:
    """A node held more memory than NODE_BYTES."""

    at_ns: int
    text: str


class Attacker:
    """The attacker of a world. pools, views: by wire; excesses: nodes whose memory exceeded the bound; frames: how many
    it injected."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = Random(f"{world.seed}/attacker")
        self.pools: dict[tuple[int, str], ValuePool] = {}
        self.views: dict[tuple[int, str], dict[bytes, None]] = {}
        self.excesses: list[Excess] = []
        self.frames = 0
        world.tap = self.intercept

    # --- knowledge ----------------------------------------------------------------------------------------------------

    def wire_of(self, process: Process, net: int) -> tuple[int, str]:
        """The key of the wire of a member's net: (net, site), for the bridge (net, ""). Its members share one pool."""
        return net, process.site if net == LOCAL else ""

    def pool(self, wire: tuple[int, str]) -> ValuePool:
        """The values seen on a wire."""
        found = self.pools.get(wire)
        if found is None:
            found = self.pools[wire] = ValuePool(Random(f"{self.world.seed}/attacker/{wire}"))
        return found

    def intercept(self, process: Process, frame: Frame, data: bytes) -> None:
        """Read a frame that a member sends."""
        stack = process.stack(frame.net)
        if stack is None or self.rng.random() > INTERCEPTED_RATIO:
            return
        pool = self.pool(self.wire_of(process, frame.net))
        try:
            pool.record(decode_frame(data, cluster_of(stack), pool.addresses))
        except WireError:
            return                                     # the transport has a frame format of its own
        pool.raw.append(data)

    def survey(self, process: Process, net: int) -> ValuePool:
        """Refresh the members, views and physical addresses of a member's wire; returns the pool of the wire."""
        world, wire = self.world, self.wire_of(process, net)
        pool = self.pool(wire)
        on_wire = [other for other in world.all_processes if self.wire_of(other, net) == wire]
        views = self.views.setdefault(wire, {})
        pool.members = [other.me for other in on_wire[-8:]]
        for other in on_wire:
            stack = other.stack(net) if other.running else None
            if stack is not None:
                pool.members.append(stack.me)
                membership = stack.find(ViewSource)
                view = membership.current_view() if membership is not None else None
                if view is not None:
                    views[view.id.raw] = None
                    pool.numbers.append(view.id.counter)
        pool.views = list(views)[-6:]
        pool.places = [place for place, socket in world.sockets.items() if socket.net == net]
        return pool

    # --- attacks ------------------------------------------------------------------------------------------------------

    def feed(self, process: Process, net: int, frame: bytes) -> None:
        """Inject a frame into a member's socket, if it has one; the member reads it at the next tick."""
        socket = process.sockets.get(net)
        if socket is not None and process.running:
            self.frames += 1
            self.world.inject_frame(socket, frame, None if socket.stream else PLACE)

    def strike(self, name: str, kind: str, count: int, forger: Forger) -> None:
        """Inject `count` frames of a kind of attack at a member, on its local wire or the bridge's."""
        process = self.world.processes.get(name)
        if process is None or not process.running or process.paused:
            return
        net = BRIDGE if process.node.bridge is not None and forger.rng.random() < 0.3 else LOCAL
        stack = process.stack(net)
        if stack is None:
            return
        pool = self.survey(process, net)
        for _ in range(count):
            frame = self.make(kind, pool, stack, forger)
            if frame is not None:
                self.feed(process, net, frame)

    def make(self, kind: str, pool: ValuePool, stack: Stack, forger: Forger) -> bytes | None:
        """Make one frame; None: no usable frame has been seen yet."""
        if kind == "edges":
            return forger.frame(pool, stack)
        if kind == "replays":
            return forger.replayed(pool) if pool.raw else None
        return self.flood(kind, pool, stack, forger)

    def flood(self, kind: str, pool: ValuePool, stack: Stack, forger: Forger) -> bytes | None:
        """Make a frame that costs memory: from a non-member, or from a member far ahead of its numbers."""
        rng = forger.rng
        non_member = Address(rng.randbytes(16), "stranger")
        number = rng.randrange(1, 1 << 20)
        dest: bytes | None = stack.me.raw
        match kind:
            case "fragments":
                headers: tuple[Header, ...] = (Fragment(number, 0, 4096, HUGE_BYTES, 0), Unicast(1, 1, 1))
                return written(pool, stack, non_member.raw, dest, headers, (b"x" * 40,))
            case "unicasts":
                return written(pool, stack, non_member.raw, dest, (Unicast(1, 2, 1),), (rng.randbytes(1000),))
            case "joins":
                return written(pool, stack, non_member.raw, dest, (join_of(non_member, PLACE),), ())
            case "ahead":
                if not pool.views or not pool.members:
                    return None
                src = rng.choice(pool.members).raw
                return written(pool, stack, src, None, (Multicast(pool.views[-1], 1000 + 2 * number),), (LARGE + src,))
            case "leaves":                             # a forged LeaveRequest of a member
                if not pool.views or not pool.members:
                    return None
                raw = pool.views[-1]
                view_id = ViewId(int.from_bytes(raw[:-ADDRESS_BYTES], "big"), Address(raw[-ADDRESS_BYTES:]))
                return written(pool, stack, rng.choice(pool.members).raw, dest, (LeaveRequest(view_id),), ())
        raise AssertionError(f"there is no attack {kind!r}")

    def weigh_all(self) -> None:
        """Measure the memory of all nodes, and record each that exceeds the bound."""
        for process in self.world.processes.values():
            if process.running:
                nbytes = weigh(process.node, (self.world, process, self)) - process.node.pending_bytes()
                if nbytes > NODE_BYTES:
                    self.excesses.append(Excess(self.world.now_ns, f"{process.incarnation} keeps {nbytes:,} bytes"))


def join_of(member: Address, place: PhysicalAddress) -> JoinRequest:
    """A join request of a member that does not exist."""
    fields = [field.name for field in attrs.fields(JoinRequest)]            # type: ignore[arg-type]
    return JoinRequest(**dict(zip(fields, (member, place, 1), strict=False)))


def written(
    pool: ValuePool, stack: Stack, src: bytes, dest: bytes | None, headers: tuple[Header, ...],
    payloads: tuple[bytes, ...],
) -> bytes:
    """A frame with exactly these headers; one without payloads is a control message."""
    pool.edge_ratio = 0.0
    out = bytearray()
    for header in headers:
        header_writer(header.__class__)(pool, header, out)                 # type: ignore[arg-type]  # classes hash
    flags = 0 if payloads else CONTROL
    return write_frame(cluster_of(stack), src, dest, flags, len(headers), bytes(out), payloads)
