"""The content of a partition: the application's machine, and results of writes, so that a repeated write takes effect
once."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence

from jgroups_py.blocks.replication.supervisor import Supervisor
from jgroups_py.model.address import Address
from jgroups_py.wire.codec import BYTES, Interner, Reader, mapping

REMEMBERED = 4096                          # writes of a partition that are recognised when they are repeated
_RESULTS = mapping(BYTES, BYTES)


class Machine(ABC):
    """A partition's content. The same commands in the same order must give the same content and results everywhere:
    no clock, no chance, no order of a set. Its methods are called inside rounds of the channel: they must not block,
    and what they raise closes the channel, as this copy is not worth anything then."""

    @abstractmethod
    def apply(self, command: bytes) -> bytes:
        """Carry out a write and return its result. It may not raise: a refusal is a result."""

    @abstractmethod
    def read(self, query: bytes) -> bytes:
        """The result of a query; it changes nothing, and may not raise either."""

    @abstractmethod
    def save(self) -> bytes:
        """All of the content."""

    @abstractmethod
    def load(self, data: bytes) -> None:
        """Replace the content by the result of a `save`."""

    def take_notices(self) -> Sequence[tuple[Address, bytes]]:
        """What members are to be told of the writes since the last call. The leader sends it, once: it may be lost."""
        return ()

    def begin_supervisor(self, since_ns: int) -> Supervisor | None:
        """This replica leads: what it has to do beside carrying out writes, None: nothing.

        since_ns: no earlier leader has answered a strong read, or a write, that was sent after that.
        """
        return None


class IdempotentMachine:
    """A machine and the results of its latest writes. They are part of the state, so all replicas have the same."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.results: OrderedDict[bytes, bytes] = OrderedDict()      # request -> its result, the oldest first

    def apply(self, request: bytes, command: bytes) -> bytes:
        """Carry out a write unless that was done already. Returns its result."""
        result = self.results.get(request)
        if result is None:
            result = self.results[request] = self.machine.apply(command)
            if len(self.results) > REMEMBERED:
                self.results.popitem(last=False)           # a dict would look past all that it has removed before
        return result

    def save(self) -> bytes:
        """Content and results."""
        out = bytearray()
        BYTES.write(self.machine.save(), out)
        _RESULTS.write(self.results, out)
        return bytes(out)

    def load(self, data: bytes) -> None:
        """Replace both by the result of a `save`."""
        reader = Reader(data, Interner())
        self.machine.load(BYTES.read(reader))
        self.results = OrderedDict(_RESULTS.read(reader))
