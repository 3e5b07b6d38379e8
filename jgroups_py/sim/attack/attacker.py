"""An attacker on every link of a simulated world: hears all frames, and puts frames of its own into members' sockets.

It cannot take frames away or delay them (the network's own faults do that), has no key and runs no stack. A world has
at most one; it begins to listen when it is first asked for.
"""
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import attrs

from jgroups_py.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.errors import WireError
from jgroups_py.outputs import BRIDGE, LOCAL, Frame
from jgroups_py.ports import Membership
from jgroups_py.protocol import CONTROL
from jgroups_py.protocols.frag.headers import Fragment
from jgroups_py.protocols.gms.headers import JoinMe, LeaveMe
from jgroups_py.protocols.nakack.headers import Data as Multicast
from jgroups_py.protocols.unicast.headers import Data as Unicast
from jgroups_py.sim.attack.forging import Forger, cluster_of
from jgroups_py.sim.attack.ink import Ink
from jgroups_py.sim.attack.pen import header_pen, write_frame
from jgroups_py.sim.process import Process
from jgroups_py.sim.weighing import weigh
from jgroups_py.stack import Stack
from jgroups_py.view import ViewId
from jgroups_py.wire import decode_frame

if TYPE_CHECKING:
    from jgroups_py.batch import Header
    from jgroups_py.sim.world import World

HEARD_RATIO = 0.3                        # of frames that it takes note of
NODE_BYTES = 24 << 20                    # what a node may keep beside what it has been sent by its application
PLACE: PhysicalAddress = ("10.66.6.6", 6666)
HUGE_BYTES = 256 << 20                   # what a first fragment announces
LARGE = b"#" * 60_000


@attrs.frozen
class Excess:
    """A node kept more than it may."""

    at_ns: int
    text: str


class Attacker:
    """excesses: what its attacks made nodes keep; frames: how many it put into sockets."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = Random(f"{world.seed}/attacker")
        self.inks: dict[tuple[int, str], Ink] = {}
        self.views: dict[tuple[int, str], dict[bytes, None]] = {}
        self.excesses: list[Excess] = []
        self.frames = 0
        world.tap = self.hear

    # --- what it knows ------------------------------------------------------------------------------------------------

    def wire_of(self, process: Process, net: int) -> tuple[int, str]:
        """Members on one wire share what is known of it: a site's group, the bridge."""
        return net, process.site if net == LOCAL else ""

    def ink(self, wire: tuple[int, str]) -> Ink:
        """What was heard on a wire."""
        found = self.inks.get(wire)
        if found is None:
            found = self.inks[wire] = Ink(Random(f"{self.world.seed}/attacker/{wire}"))
        return found

    def hear(self, process: Process, frame: Frame, data: bytes) -> None:
        """A member sends a frame."""
        stack = process.stack(frame.net)
        if stack is None or self.rng.random() > HEARD_RATIO:
            return
        ink = self.ink(self.wire_of(process, frame.net))
        try:
            ink.learn(decode_frame(data, cluster_of(stack), ink.addresses))
        except WireError:
            return                                     # of a transport with frames of its own
        ink.raw.append(data)

    def look(self, process: Process, net: int) -> Ink:
        """What frames to a member are made of now: members, views and places of its wire."""
        world, wire = self.world, self.wire_of(process, net)
        ink = self.ink(wire)
        mates = [other for other in world.all_processes if self.wire_of(other, net) == wire]
        views = self.views.setdefault(wire, {})
        ink.members = [other.me for other in mates[-8:]]
        for other in mates:
            stack = other.stack(net) if other.running else None
            if stack is not None:
                ink.members.append(stack.me)
                membership = stack.find(Membership)
                view = membership.current_view() if membership is not None else None
                if view is not None:
                    views[view.id.raw] = None
                    ink.numbers.append(view.id.counter)
        ink.views = list(views)[-6:]
        ink.places = [place for place, socket in world.sockets.items() if socket.net == net]
        return ink

    # --- attacks ------------------------------------------------------------------------------------------------------

    def feed(self, process: Process, net: int, frame: bytes) -> None:
        """Put a frame into a member's socket, where it has one; it is read at the next tick."""
        socket = process.sockets.get(net)
        if socket is not None and process.running:
            self.frames += 1
            self.world.inject_frame(socket, frame, None if socket.stream else PLACE)

    def strike(self, name: str, kind: str, count: int, forger: Forger) -> None:
        """`count` frames of a kind of attack at a member, at the site's wire or the bridge's."""
        process = self.world.processes.get(name)
        if process is None or not process.running or process.paused:
            return
        net = BRIDGE if process.node.bridge is not None and forger.rng.random() < 0.3 else LOCAL
        stack = process.stack(net)
        if stack is None:
            return
        ink = self.look(process, net)
        for _ in range(count):
            frame = self.make(kind, ink, stack, forger)
            if frame is not None:
                self.feed(process, net, frame)

    def make(self, kind: str, ink: Ink, stack: Stack, forger: Forger) -> bytes | None:
        """One frame; None: nothing was heard that could be used."""
        if kind == "edges":
            return forger.frame(ink, stack)
        if kind == "replays":
            return forger.replayed(ink) if ink.raw else None
        return self.flood(kind, ink, stack, forger)

    def flood(self, kind: str, ink: Ink, stack: Stack, forger: Forger) -> bytes | None:
        """A frame that costs memory: of a stranger, or as a member far ahead of its numbers."""
        rng = forger.rng
        stranger = Address(rng.randbytes(16), "stranger")
        number = rng.randrange(1, 1 << 20)
        dest: bytes | None = stack.me.raw
        match kind:
            case "fragments":
                headers: tuple[Header, ...] = (Fragment(number, 0, 4096, HUGE_BYTES, 0), Unicast(1, 1, 1))
                return written(ink, stack, stranger.raw, dest, headers, (b"x" * 40,))
            case "unicasts":
                return written(ink, stack, stranger.raw, dest, (Unicast(1, 2, 1),), (rng.randbytes(1000),))
            case "joins":
                return written(ink, stack, stranger.raw, dest, (join_of(stranger, PLACE),), ())
            case "ahead":
                if not ink.views or not ink.members:
                    return None
                src = rng.choice(ink.members).raw
                return written(ink, stack, src, None, (Multicast(ink.views[-1], 1000 + 2 * number),), (LARGE + src,))
            case "leaves":                             # a member asks the one attacked to be let go, it seems
                if not ink.views or not ink.members:
                    return None
                raw = ink.views[-1]
                view_id = ViewId(int.from_bytes(raw[:-ADDRESS_BYTES], "big"), Address(raw[-ADDRESS_BYTES:]))
                return written(ink, stack, rng.choice(ink.members).raw, dest, (LeaveMe(view_id),), ())
        raise AssertionError(f"there is no attack {kind!r}")

    def weigh_all(self) -> None:
        """Look what members keep; more than they may is noted once a member."""
        for process in self.world.processes.values():
            if process.running:
                nbytes = weigh(process.node, (self.world, process)) - process.node.pending_bytes()
                if nbytes > NODE_BYTES:
                    self.excesses.append(Excess(self.world.now_ns, f"{process.incarnation} keeps {nbytes:,} bytes"))


def join_of(member: Address, place: PhysicalAddress) -> JoinMe:
    """A request of a member that does not exist; fields behind its name and place are drawn once and for all."""
    fields = [field.name for field in attrs.fields(JoinMe)]            # type: ignore[arg-type]
    return JoinMe(**dict(zip(fields, (member, place, 1), strict=False)))


def written(
    ink: Ink, stack: Stack, src: bytes, dest: bytes | None, headers: tuple[Header, ...], payloads: tuple[bytes, ...],
) -> bytes:
    """A frame with just these headers: of messages, or of control without payloads."""
    ink.edge_ratio = 0.0
    out = bytearray()
    for header in headers:
        header_pen(header.__class__)(ink, header, out)                 # type: ignore[arg-type]  # classes hash
    flags = 0 if payloads else CONTROL
    return write_frame(cluster_of(stack), src, dest, flags, len(headers), bytes(out), payloads)
