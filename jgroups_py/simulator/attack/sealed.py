"""An attacker on every link of a sealed world, and the checks that need an observer of all wires.

The attacker has no key: it resends recorded frames (to other members, later incarnations, other sites and the bridge),
flips bits, cuts, exchanges fields of heads, and sends frames as members without ENCRYPT would. What each member opens
is recorded at its transport, independent of what ENCRYPT itself counts:

K1 every frame is sealed; K2 a frame that is opened was sent by a member, on this wire; K3 an incarnation opens no frame
twice, and none that was sent long before it started; K9 nothing is sealed with a key that was retired; K11 what ENCRYPT
keeps is bounded, and of non-members it keeps nothing (bounds.py); K13 no two frames have the same head, and so the same
nonce; K14 no key is in a text that is sealed, in the history, or in what shows an object (silence.py).
"""
from __future__ import annotations

from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.outputs import LOCAL, Frame
from jgroups_py.model.ports import FrameSealer
from jgroups_py.model.units import NS_PER_S, seconds
from jgroups_py.protocols.transport.protocol import Transport
from jgroups_py.sealing.keyring import GroupKey
from jgroups_py.simulator.attack.attacker import PLACE, Attacker
from jgroups_py.simulator.attack.bounds import excesses
from jgroups_py.simulator.attack.forging import Forger
from jgroups_py.simulator.attack.silence import Silence
from jgroups_py.simulator.attack.value_pool import ValuePool
from jgroups_py.simulator.attack.withholding import Withheld
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.process import Process
from jgroups_py.stack.stack import Stack
from jgroups_py.wire import SOURCE_END, SOURCE_OFFSET
from jgroups_py.wire.sealed_head import HEAD_BYTES, SENDER_END, SENDER_OFFSET

if TYPE_CHECKING:
    from jgroups_py.simulator.world import World

SEALED = b"JP\2"
KEPT_FRAMES = 1500                       # of each wire: the first ones, and a random choice of later ones
FIRST_FRAMES = 300
UNDER_WAY_NS = seconds(5)                # the longest time that a frame is under way in bad weather
READ_WITHIN_NS = seconds(3)              # members that run have read a changed keyring by then
SWAPPED = ((4, 12), (12, 20), (SENDER_OFFSET, SENDER_END), (SENDER_END, HEAD_BYTES), (3, 4), (0, HEAD_BYTES))
"""Fields of a head, as ranges of bytes: key id, cluster, sender, counter, stream, the whole head."""


class WatchedSealer(FrameSealer):
    """Stands between a transport and ENCRYPT; reports each frame that is opened to the attacker."""

    def __init__(self, sealer: FrameSealer, attacker: SealedAttacker, process: Process, net: int) -> None:
        self.sealer, self.attacker, self.process, self.net = sealer, attacker, process, net
        self.began_ns = attacker.world.now_ns
        self.opened: dict[bytes, None] = {}

    def seal(
        self, text: list[bytes | bytearray], dest: Address | None, physical: PhysicalAddress | None,
    ) -> list[bytes | bytearray] | None:
        frame = self.sealer.seal(text, dest, physical)
        if frame is not None:
            self.attacker.sealed(self, bytes(frame[0]), text, dest)
        return frame

    @property
    def copies_clear(self) -> bool:                      # type: ignore[override]
        return self.sealer.copies_clear

    def clear_copy(
        self, text: list[bytes | bytearray], dest: Address | None,
    ) -> list[bytes | bytearray] | None:
        return self.sealer.clear_copy(text, dest)

    def overhead(self) -> int:
        return self.sealer.overhead()

    def open(self, data: bytes, physical: PhysicalAddress | None) -> tuple[bytes, int] | None:
        opened = self.sealer.open(data, physical)
        if opened is not None:
            if physical == PLACE:
                self.attacker.from_its_place[data[SOURCE_OFFSET:SOURCE_END]] = None
            text, end = opened
            self.attacker.opened(self, data, text[:end])
        return opened


class SealedAttacker(Attacker):
    """The attacker of a sealed world. violations: of K1 to K3, K9, K11, K13, K14; at most one of each."""

    has_keys = False                     # frames of its own open, so ENCRYPT may keep senders that do not exist

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.violations: dict[str, Violation] = {}
        self.senders: dict[bytes, None] = {}                         # that members ever were: address and salt
        self.retired: dict[bytes, GroupKey] = {}                     # keys of keyrings that were retired,
        self.retired_ns: dict[bytes, int] = {}                       # and when
        self.from_its_place: dict[bytes, None] = {}                  # sources of frames that opened and came from there
        self.silence = Silence(world)
        self.withheld: Withheld | None = None
        self.sent: dict[tuple[int, str], dict[bytes, int]] = {}      # wire -> digest of a frame -> when it was sent
        self.heads: dict[bytes, bytes] = {}                          # head of a frame -> digest of the frame
        self.recorded: dict[tuple[int, str], list[bytes]] = {}

    def found(self, name: str, text: str) -> None:
        """Record a violation, unless there is one of the same guarantee."""
        self.violations.setdefault(name, Violation(name, text, self.world.now_ns))

    def intercept(self, process: Process, frame: Frame, data: bytes) -> None:
        stack = process.stack(frame.net)
        if stack is not None:                                # None: the member has just left; its last frames count too
            self.watch(process, frame.net, stack)
        if data[:3] != SEALED:
            return self.found("K1", f"{process.incarnation} sent a frame that is not sealed: {data[:40].hex()}")
        digest, head = blake2b(data, digest_size=16).digest(), data[:HEAD_BYTES]
        wire = self.wire_of(process, frame.net)
        self.sent.setdefault(wire, {}).setdefault(digest, self.world.now_ns)
        if self.heads.setdefault(head, digest) != digest:
            self.found("K13", f"{process.incarnation} sealed two frames with the nonce of {head.hex()}")
        self.senders[head[SENDER_OFFSET:SENDER_END]] = None
        self.not_retired(process, head)
        kept = self.recorded.setdefault(wire, [])
        if len(kept) < KEPT_FRAMES:
            kept.append(data)
        elif self.rng.random() < 0.1:
            kept[self.rng.randrange(FIRST_FRAMES, KEPT_FRAMES)] = data
        return None

    def not_retired(self, process: Process, head: bytes) -> None:
        """K9: nothing is sealed with a key that was retired some time ago."""
        key, now_ns = head[4:12], self.world.now_ns
        since_ns = self.retired_ns.get(key)
        if since_ns is not None and now_ns > max(since_ns, process.resumed_ns) + READ_WITHIN_NS:
            self.found("K9", f"{process.incarnation} seals with key {key.hex()}, which was retired "
                             f"{(now_ns - since_ns) / NS_PER_S:.1f} s ago")

    def watch(self, process: Process, net: int, stack: Stack) -> None:
        """Watch what a stack opens. Called with its first frame, so before it can receive an answer."""
        transport = stack.transport
        sealer = transport.__dict__.get("sealer")
        if sealer is not None and not isinstance(sealer, WatchedSealer):
            transport.__dict__["sealer"] = WatchedSealer(sealer, self, process, net)

    def sealed(self, at: WatchedSealer, head: bytes, text: list[bytes | bytearray], dest: Address | None) -> None:
        """A member sealed a text in a frame with this head."""
        found = self.silence.in_text(b"".join(text), secret_to=dest)
        if found:
            self.found("K14", f"{at.process.incarnation} sends {found}")

    def opened(self, at: WatchedSealer, data: bytes, text: bytes) -> None:
        """Check a frame that a member opened."""
        digest = blake2b(data, digest_size=16).digest()
        sent_ns = self.sent.get(self.wire_of(at.process, at.net), {}).get(digest)
        if sent_ns is None:
            return self.found("K2", f"{at.process.incarnation} opened a frame that no member of its group sent")
        if digest in at.opened:
            self.found("K3", f"{at.process.incarnation} opened a frame twice")
        elif sent_ns < at.began_ns - UNDER_WAY_NS:
            self.found("K3", f"{at.process.incarnation} opened a frame that was sent "
                             f"{(at.began_ns - sent_ns) / NS_PER_S:.1f} s before it started")
        at.opened[digest] = None
        return None

    def weigh_all(self) -> None:
        super().weigh_all()
        excess = next(excesses(self.world, None if self.has_keys else self.senders), "")
        if excess:
            self.found("K11", excess)
        for process in self.world.processes.values():
            for net in process.sockets if process.running else ():
                self.check_places(process, net)

    def check_places(self, process: Process, net: int) -> None:
        """K2: a member is believed to be at the attacker's place only if a frame of it opened that came from there, at
        this member or at one from which this member learnt it."""
        stack = process.stack(net)
        transport = stack.transport if stack is not None else None
        if isinstance(transport, Transport):
            for source, place in transport.book.items():
                if place == PLACE and source.raw not in self.from_its_place:
                    self.found("K2", f"{process.incarnation} sends to {source} at the place of the attacker, from "
                                     "which nothing of it has opened")

    def at_the_end(self) -> None:
        """What is checked once, when a run is over."""
        found = next(self.silence.breaches(), "")
        if found:
            self.found("K14", found)

    # --- attacks ------------------------------------------------------------------------------------------------------

    def withholds(self, process: Process, frame: Frame, data: bytes) -> bool:
        """Whether the attacker keeps a datagram from its receivers; it delivers it later, or never."""
        return self.withheld is not None and self.withheld.takes(process, frame, data)

    def feed(self, process: Process, net: int, frame: bytes) -> None:
        socket = process.sockets.get(net)
        if socket is not None and process.running:
            self.frames += 1
            self.world.inject_frame(socket, frame, PLACE)

    def make(self, kind: str, pool: ValuePool, stack: Stack, forger: Forger) -> bytes | None:
        if kind == "clear":
            return forger.frame(pool, stack)
        frame = self.choose(stack.net, forger.rng)
        if frame is None:
            return None
        return bytes(self.changed(kind, frame, forger.rng))

    def choose(self, net: int, rng: Random) -> bytes | None:
        """A recorded frame: mostly from the same kind of wire; early ones are as likely as late ones."""
        wires = sorted(wire for wire in self.recorded if (wire[0] == net) == (rng.random() < 0.9))
        if not wires:
            return None
        frames = self.recorded[rng.choice(wires)]
        return frames[rng.randrange(min(len(frames), rng.choice((30, FIRST_FRAMES, KEPT_FRAMES))))]

    def changed(self, kind: str, frame: bytes, rng: Random) -> bytes | bytearray:
        """The frame after an attack of this kind."""
        made = bytearray(frame)
        match kind:
            case "resend":
                return frame
            case "flip":
                at = rng.randrange(8 * (len(made) if rng.random() < 0.5 else min(len(made), HEAD_BYTES)))
                made[at // 8] ^= 1 << at % 8
            case "cut":
                return made[:rng.randrange(len(made))] if rng.random() < 0.8 else made + rng.randbytes(5)
            case "swap":
                other = self.choose(LOCAL, rng) or frame
                for first, stop in rng.sample(SWAPPED, rng.choice((1, 1, 2))):
                    made[first:stop] = other[first:stop]
            case "strangers":
                made[SENDER_OFFSET:SENDER_END] = rng.randbytes(SENDER_END - SENDER_OFFSET)
            case _:
                raise AssertionError(f"there is no attack {kind!r}")
        return made
