"""Values for hostile frames: edges of every integer, texts that no correct member sends, and values seen on the wire.

A frame with only edge values is dropped by the first check, so most fields of most frames are plausible: from frames
that members sent (`recorded`), or near the numbers in them. `edge_ratio` is the share of the other fields; it is drawn
for each frame.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

from jgroups_py.model.address import ADDRESS_BYTES, Address, PhysicalAddress
from jgroups_py.model.batch import Batch, Header
from jgroups_py.wire.codec import Interner

EDGES = (0, 1, 2, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 33, 1 << 61, (1 << 62) - 2,
         (1 << 62) - 1, 1 << 62, 1 << 63, (1 << 64) - 3, (1 << 64) - 2, (1 << 64) - 1)
NEAR = (-2, -1, 0, 0, 0, 1, 1, 2, 3, 60, 4096, 1 << 20, (1 << 32) - 2, 1 << 32)
MOST_TEXT = 0xFFFF
TEXTS = ("", "\0", "a\0b", "x" * MOST_TEXT, "\u202eevil\u202c", "xn--\u0130\u2603", "a\nb",
         "\x1b[31mred\x1b]0;title\x07",
         "no such host;:", "..", "../../x", "%s%n", "\u2066\u2069", "é" * 300, "1" * 70 + ".example", "255.255.255.255",
         "0.0.0.0", "::1", "127.0.0.1:1", "*", "tcp://127.0.0.1:1", "localhost", "A", "NYC", "SFO", "offline", "online",
         "orders", "127.0.0.1", "\U0001f4a3")
PORTS = (0, 1, 80, 7800, 7900, 7946, 65535)
PAYLOADS = (b"", b"x", b"\0" * 100, bytes(range(256)), b"." * 1400)
LARGE = (b"#" * 60_000,)
RECORDED = 24                            # batches that are kept for each header class
KNOWN_NUMBERS = 400
NON_MEMBERS = 40


class ValuePool:
    """The values from which the frames of one wire are drawn."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.random = rng.random
        self.edge_ratio = 0.2
        self.large_ratio = 0.01
        self.addresses = Interner()
        self.numbers: deque[int] = deque([1], maxlen=KNOWN_NUMBERS)    # numbers of frames that members sent
        self.recorded: dict[type[Header], deque[Batch]] = {}
        self.raw: deque[bytes] = deque(maxlen=200)                     # whole frames, to replay
        self.members: Sequence[Address] = ()
        self.views: Sequence[bytes] = ()                               # ViewId.raw: current ones and former ones
        self.places: Sequence[PhysicalAddress] = ()
        self.non_members = [rng.randbytes(ADDRESS_BYTES) for _ in range(NON_MEMBERS)]

    def number(self, bits: int) -> int:
        """An unsigned integer of `bits` bits."""
        random = self.random
        if random() < 0.6:
            value = EDGES[int(random() * len(EDGES))]
        else:
            value = self.numbers[int(random() * len(self.numbers))] + NEAR[int(random() * len(NEAR))]
        return value & ((1 << bits) - 1)

    def address(self) -> bytes:
        """A raw address, mostly that of a member."""
        random = self.random
        if self.members and random() < 0.75:
            return self.members[int(random() * len(self.members))].raw
        return self.non_member()

    def non_member(self) -> bytes:
        """A raw address that no member has."""
        random = self.random
        if random() < 0.9:
            return self.non_members[int(random() * NON_MEMBERS)]
        return (bytes(ADDRESS_BYTES), b"\xff" * ADDRESS_BYTES, self.rng.randbytes(ADDRESS_BYTES))[int(random() * 3)]

    def view_id(self) -> bytes:
        """ViewId.raw of a current view, of an earlier one, or of one with a drawn counter and coordinator."""
        random = self.random
        if self.views and random() < 0.7:
            return self.views[int(random() * len(self.views))]
        return self.number(64).to_bytes(8, "big") + self.address()

    def text(self) -> bytes:
        """A text in UTF-8, rarely malformed."""
        random = self.random
        if self.members and random() < 0.3:
            return self.members[int(random() * len(self.members))].name.encode()
        if random() < 0.03:
            return b"\xff\xfe\x80"
        # The longest ones are rare: a frame has room for only one, and they cost more time than all others.
        text = TEXTS[int(random() * len(TEXTS))]
        return b"long" if len(text) == MOST_TEXT and random() < 0.7 else text.encode()

    def place(self) -> tuple[bytes, int]:
        """A host and a port."""
        random = self.random
        if self.places and random() < 0.5:
            host, port = self.places[int(random() * len(self.places))]
            return host.encode(), port
        return self.text(), PORTS[int(random() * len(PORTS))]

    def payloads(self) -> tuple[bytes, ...]:
        """None (a control message), one, or a few."""
        random = self.random
        draw = random()
        if draw < 0.4:
            return ()
        if draw < 0.4 + self.large_ratio:
            return LARGE
        return tuple(PAYLOADS[int(random() * len(PAYLOADS))] for _ in range((1, 1, 1, 2, 3, 30)[int(random() * 6)]))

    def record(self, batch: Batch) -> None:
        """Record the headers and numbers of a batch that a member sent."""
        for header in batch.headers:
            kept = self.recorded.get(header.__class__)
            if kept is None:
                kept = self.recorded[header.__class__] = deque(maxlen=RECORDED)
            kept.append(batch)
            for name in header.__attrs_attrs__:                        # type: ignore[attr-defined]
                value = getattr(header, name.name)
                if value.__class__ is int:
                    self.numbers.append(value)
