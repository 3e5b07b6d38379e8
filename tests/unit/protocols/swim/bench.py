"""One member A of SWIM on a bench: frames to it, the frames that it sends, the changes that its application gets."""
from __future__ import annotations

from typing import TypeVar

from jgroups_py.model.address import Address, PhysicalAddress
from jgroups_py.model.batch import Header
from jgroups_py.model.events import Connect, SendTo
from jgroups_py.model.outputs import MemberChanged
from jgroups_py.model.swim_member import Member
from jgroups_py.protocols.swim import Swim, SwimConfig
from jgroups_py.protocols.swim.headers import Alive
from jgroups_py.testing.bench import Bench, address, unicast

H = TypeVar("H", bound=Header)
HOST = {name: f"10.0.0.{number}" for number, name in enumerate("ABCDEFGH", 1)}
PORT = 7946


def place(name: str) -> PhysicalAddress:
    return HOST[name], PORT


def alive(name: str, incarnation: int = 1, *, member: Address | None = None, at: PhysicalAddress | None = None,
          listener: PhysicalAddress | None = None, meta: bytes = b"") -> Alive:
    """The Alive of `name`."""
    return Alive(incarnation, name, at or place(name), member or address(name), listener, meta)


class SwimBench(Bench):
    """A without GMS, in a group whose other nodes are played by the test."""

    def __init__(self, others: str = "", config: SwimConfig | None = None) -> None:
        self.swim = Swim(config or SwimConfig())
        super().__init__(self.swim)
        self.down(Connect("demo"))
        for name in others:
            self.receive(alive(name), src=name)
        self.frames()
        self.changed()

    def receive(self, *headers: Header, src: str = "B") -> None:
        """Give A a frame from `src`; the last header is the lowest."""
        self.up(unicast(src, "A", headers=headers))

    def frames(self) -> list[tuple[str, tuple[Header, ...]]]:
        """The frames that A sent since the last call: (host or name of the receiver, headers, the lowest last)."""
        to_places = [(sent.physical[0], sent.batch.headers) for sent in self.passed_down(SendTo)]
        return [*to_places, *((str(batch.dest), batch.headers) for batch in self.sent())]

    def sent_headers(self, kind: type[H]) -> list[tuple[str, H]]:
        """All headers of a kind in these frames, each with its receiver."""
        return [(to, header) for to, headers in self.frames() for header in headers if isinstance(header, kind)]

    def changed(self) -> list[tuple[str, str]]:
        """The changes that the application got since the last call: (change, name)."""
        found = [(output.change, output.member.name) for output in self.changes()]
        self.outputs = [output for output in self.outputs if not isinstance(output, MemberChanged)]
        return found

    def changes(self) -> list[MemberChanged]:
        """The same as outputs, with all fields."""
        return [output for output in self.outputs if isinstance(output, MemberChanged)]

    def known(self, name: str) -> Member:
        """A node as A's table has it."""
        return next(member for member in self.swim.known_members() if member.name == name)
