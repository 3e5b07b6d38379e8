"""What a partition holds: the application's machine, and a memory, so that a write that is sent again happens once."""
from __future__ import annotations

from abc import ABC, abstractmethod

from jgroups_py.codec import BYTES, Interner, Reader, mapping

REMEMBERED = 4096                          # writes of a partition that are recognised when they come again
_RESULTS = mapping(BYTES, BYTES)


class Machine(ABC):
    """A partition's content. The same commands in the same order must give the same content and results everywhere:
    no clock, no chance, no order of a set."""

    @abstractmethod
    def apply(self, command: bytes) -> bytes:
        """Carry out a write; what it answers. It may not raise: a refusal is an answer."""

    @abstractmethod
    def read(self, query: bytes) -> bytes:
        """Answer a read, changing nothing."""

    @abstractmethod
    def save(self) -> bytes:
        """All of the content."""

    @abstractmethod
    def load(self, data: bytes) -> None:
        """Replace the content by what `save` gave."""


class Once:
    """A machine and the results of its latest writes. They are part of the state, so all replicas remember alike."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.results: dict[bytes, bytes] = {}              # request -> what it answered, the oldest first

    def apply(self, request: bytes, command: bytes) -> bytes:
        """Carry out a write unless that was done already; what it answered."""
        result = self.results.get(request)
        if result is None:
            result = self.results[request] = self.machine.apply(command)
            if len(self.results) > REMEMBERED:
                del self.results[next(iter(self.results))]
        return result

    def save(self) -> bytes:
        """Content and results."""
        out = bytearray()
        BYTES.write(self.machine.save(), out)
        _RESULTS.write(self.results, out)
        return bytes(out)

    def load(self, data: bytes) -> None:
        """What `save` gave."""
        reader = Reader(data, Interner())
        self.machine.load(BYTES.read(reader))
        self.results = _RESULTS.read(reader)
