"""Taking a large message apart, and putting one together."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import OOB, Batch, Header
from jgroups_py.protocols.frag.headers import Fragment

PARTIAL_BYTES = 512              # of a message of which nothing but its header is kept
PIECE_BYTES = 64                 # of a piece beside its payload


class FragmentedMessage:
    """A message on its way out, in pieces of `piece_bytes`.

    passed: pieces that were passed down; looped: those that came back to us through our own stack, which means that
    every member that stays in the view has them or will have them before the next view.
    """

    __slots__ = ("batch", "looped", "number", "passed", "piece_bytes", "total")

    def __init__(self, batch: Batch, number: int, piece_bytes: int) -> None:
        assert len(batch) == 1, "a large message is a run of one"
        self.batch = batch
        self.number = number
        self.piece_bytes = piece_bytes
        self.total = -(-len(batch.payloads[0]) // piece_bytes)
        self.passed = 0
        self.looped = 0

    def next_batch(self, most: int) -> Batch:
        """The next pieces, at most `most`, as one run."""
        first = self.passed
        self.passed = stop = min(first + most, self.total)
        batch, payload, step = self.batch, self.batch.payloads[0], self.piece_bytes
        pieces = tuple([payload[at:at + step] for at in range(first * step, min(stop * step, len(payload)), step)])
        header = Fragment(self.number, first, self.total, len(payload), batch.flags)
        # Pieces keep their order even if the message need not: OOB ones would overtake each other.
        return Batch(batch.src, batch.dest, pieces, (*batch.headers, header), batch.flags & ~OOB)

    def restart(self, number: int) -> None:
        """Begin again, as another message."""
        self.number = number
        self.passed = self.looped = 0

    @property
    def waiting_bytes(self) -> int:
        """What was not passed down yet."""
        return max(0, len(self.batch.payloads[0]) - self.passed * self.piece_bytes)


class Partial:
    """A message of which the first pieces arrived.

    next: the piece wanted next; headers: those above the fragments; since_ns: when it began.
    """

    __slots__ = ("dest", "first", "headers", "kept_bytes", "next", "pieces", "since_ns", "src")

    def __init__(self, first: Fragment, batch: Batch, since_ns: int) -> None:
        self.first = first
        self.src: Address = batch.src
        self.dest: Address | None = batch.dest
        # Of the first piece: cutting the run moved the numbers in the headers of the later ones.
        self.headers: tuple[Header, ...] = batch.headers
        self.next = 0
        self.pieces: list[bytes] = []
        self.kept_bytes = 0
        self.since_ns = since_ns

    @property
    def memory_bytes(self) -> int:
        """What it takes, about: many small pieces take more than their bytes."""
        return PARTIAL_BYTES + self.kept_bytes + PIECE_BYTES * len(self.pieces)

    def continues(self, header: Fragment) -> bool:
        """Whether these pieces are the ones wanted next."""
        first = self.first
        return (header.number == first.number and header.index == self.next and header.total == first.total
                and header.nbytes == first.nbytes)

    def add(self, batch: Batch) -> bool:
        """Take the next pieces; False if there are more of them than the message has."""
        self.next += len(batch.payloads)
        self.kept_bytes += batch.nbytes
        self.pieces += batch.payloads
        return self.next <= self.first.total and self.kept_bytes <= self.first.nbytes

    @property
    def complete(self) -> bool:
        """Whether this was the last piece."""
        return self.next == self.first.total

    def so_far(self) -> Batch:
        """The pieces that came."""
        return Batch(self.src, self.dest, tuple(self.pieces), self.headers, self.first.flags)

    def whole(self) -> Batch:
        """The message."""
        return Batch(self.src, self.dest, (b"".join(self.pieces),), self.headers, self.first.flags)
