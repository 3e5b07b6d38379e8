"""A segment of the journal: its name, the numbers in it, and how much of it is still held."""
from __future__ import annotations

from collections.abc import Iterator

import attrs

from jgroups_py.model.address import Address
from jgroups_py.protocols.relay.origin.hold import Hold
from jgroups_py.sealing.files import FileCipher

Span = tuple[Address, int, int]
SUFFIX = ".hold"


def segment_name(number: int) -> str:
    """The file name of a segment; names sort as their numbers do."""
    return f"{number:016x}{SUFFIX}"


def segment_number(name: str) -> int:
    """The number in a file name; 0 if it is not the name of a segment."""
    digits = name.removesuffix(SUFFIX)
    try:
        number = int(digits, 16)
    except ValueError:
        return 0
    return number if segment_name(number) == name else 0


def folder_name(member: str) -> str:
    """A member's folder below `hold_dir`: its name, with characters that file names cannot have as %xx.

    >>> folder_name("A"), folder_name("a/b"), folder_name("..")
    ('A', 'a%2fb', '%2e%2e')
    """
    plain = member.strip(".") != ""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_" or (c == "." and plain)) else
                   "".join(f"%{byte:02x}" for byte in c.encode()) for c in member) or "%"


@attrs.define(eq=False)
class JournalSegment:
    """One file. spans: origin -> from the lowest number in it to one past the highest; key: the id of the key with
    which it is sealed, b"" if it is not; cipher: only while it is the newest."""

    name: str
    nbytes: int = 0
    spans: dict[Address, tuple[int, int]] = attrs.Factory(dict)
    key: bytes = b""
    cipher: FileCipher | None = None

    def seal(self, key: bytes, cipher: FileCipher | None) -> None:
        """It is sealed with this key. cipher: if it is to be written."""
        self.key, self.cipher = key, cipher

    def end(self) -> None:
        """Nothing more is appended to it."""
        self.cipher = None

    def grow(self, nbytes: int) -> None:
        """Bytes were appended."""
        self.nbytes += nbytes

    def cover(self, origin: Address, first: int, stop: int) -> None:
        """Messages with these numbers were appended."""
        before = self.spans.get(origin)
        self.spans[origin] = (first, stop) if before is None else (min(first, before[0]), max(stop, before[1]))

    def live(self, hold: Hold) -> Iterator[Span]:
        """The parts of its spans that are still held (what was dropped in between may be among them)."""
        for origin, (first, stop) in self.spans.items():
            held = hold.first_from(origin, first)
            if held is not None and held < stop:
                yield origin, held, stop

    def live_ratio(self, hold: Hold) -> float:
        """The part of its messages that is still held, roughly: 0 only if nothing is."""
        total = sum(stop - first for first, stop in self.spans.values())
        return sum(stop - first for _, first, stop in self.live(hold)) / total if total else 0.0
