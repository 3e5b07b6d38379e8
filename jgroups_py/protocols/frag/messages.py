"""A large message on its way out in fragments, and one that is reassembled."""
from __future__ import annotations

from jgroups_py.model.address import Address
from jgroups_py.model.batch import OOB, Batch, Header
from jgroups_py.protocols.frag.headers import ABANDONED, Fragment

REASSEMBLY_BYTES = 512           # memory of a Reassembly without fragments
FRAGMENT_BYTES = 64              # memory of a fragment beside its payload


class FragmentedMessage:
    """A message on its way out, in fragments of `fragment_bytes`.

    passed: fragments passed down; looped: fragments that came back through this member's own stack. Every member that
    stays in the view has those, or will have them before the next view.
    """

    __slots__ = ("batch", "fragment_bytes", "looped", "number", "passed", "total")

    def __init__(self, batch: Batch, number: int, fragment_bytes: int) -> None:
        assert len(batch) == 1, "a large message is a batch of its own"
        self.batch = batch
        self.number = number
        self.fragment_bytes = fragment_bytes
        self.total = -(-len(batch.payloads[0]) // fragment_bytes)
        self.passed = 0
        self.looped = 0

    def next_batch(self, most: int) -> Batch:
        """The next fragments, at most `most`, as one batch."""
        first = self.passed
        self.passed = stop = min(first + most, self.total)
        batch, payload, step = self.batch, self.batch.payloads[0], self.fragment_bytes
        fragments = tuple([payload[at:at + step] for at in range(first * step, min(stop * step, len(payload)), step)])
        header = Fragment(self.number, first, self.total, len(payload), batch.flags)
        # Not OOB even if the message is: out of order they could not be reassembled.
        return Batch(batch.src, batch.dest, fragments, (*batch.headers, header), batch.flags & ~OOB)

    def restart(self, number: int) -> None:
        """Begin again under another number, so that fragments of the first attempt are not taken for the new ones."""
        self.number = number
        self.passed = self.looped = 0

    @property
    def waiting_bytes(self) -> int:
        """Payload bytes that were not passed down yet."""
        return max(0, len(self.batch.payloads[0]) - self.passed * self.fragment_bytes)


class Reassembly:
    """A message of which the first fragments have arrived.

    next: the index of the fragment wanted next; headers: the message's own, above FRAG; since_ns: when it began.
    """

    __slots__ = ("dest", "first", "fragments", "headers", "kept_bytes", "next", "since_ns", "src")

    def __init__(self, first: Fragment, batch: Batch, since_ns: int) -> None:
        self.first = first
        self.src: Address = batch.src
        self.dest: Address | None = batch.dest
        # Those of the first fragment: where the batch of fragments was cut, the numbers in the headers were shifted.
        self.headers: tuple[Header, ...] = batch.headers
        self.next = 0
        self.fragments: list[bytes] = []
        self.kept_bytes = 0
        self.since_ns = since_ns

    @property
    def memory_bytes(self) -> int:
        """An estimate of the memory taken: with many small fragments it is far more than their payloads."""
        return REASSEMBLY_BYTES + self.kept_bytes + FRAGMENT_BYTES * len(self.fragments)

    def is_continued_by(self, header: Fragment) -> bool:
        """Whether these are the fragments wanted next."""
        first = self.first
        return (header.number == first.number and header.index == self.next and header.total == first.total
                and header.nbytes == first.nbytes)

    def add(self, batch: Batch) -> bool:
        """Add the next fragments; False: more than the first one announced."""
        self.next += len(batch.payloads)
        self.kept_bytes += batch.nbytes
        self.fragments += batch.payloads
        return self.next <= self.first.total and self.kept_bytes <= self.first.nbytes

    @property
    def flags(self) -> int:
        """The flags of the message."""
        return self.first.flags & ~ABANDONED

    @property
    def is_complete(self) -> bool:
        """Whether the last fragment has arrived."""
        return self.next == self.first.total

    def incomplete(self) -> Batch:
        """The fragments that have arrived, for the log of a drop."""
        return Batch(self.src, self.dest, tuple(self.fragments), self.headers, self.flags)

    def message(self) -> Batch:
        """The reassembled message."""
        return Batch(self.src, self.dest, (b"".join(self.fragments),), self.headers, self.flags)
