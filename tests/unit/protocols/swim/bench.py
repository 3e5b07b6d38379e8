"""One member A of SWIM on a bench: what it is told, what it says to whom, what its application hears."""
from __future__ import annotations

from typing import TypeVar

from jgroups_py.address import Address, PhysicalAddress
from jgroups_py.batch import Header
from jgroups_py.events import Connect, SendTo
from jgroups_py.members import Member
from jgroups_py.outputs import MemberChanged
from jgroups_py.protocols.swim import Swim, SwimConfig
from jgroups_py.protocols.swim.headers import Alive
from tests.unit.harness import Bench, address, unicast

H = TypeVar("H", bound=Header)
HOST = {name: f"10.0.0.{number}" for number, name in enumerate("ABCDEFGH", 1)}
PORT = 7946


def place(name: str) -> PhysicalAddress:
    return HOST[name], PORT


def alive(name: str, incarnation: int = 1, *, member: Address | None = None, at: PhysicalAddress | None = None,
          listener: PhysicalAddress | None = None, meta: bytes = b"") -> Alive:
    """What `name` says of itself."""
    return Alive(incarnation, name, at or place(name), member or address(name), listener, meta)


class SwimBench(Bench):
    """A, alone with nodes that the test speaks for."""

    def __init__(self, others: str = "", config: SwimConfig | None = None) -> None:
        self.swim = Swim(config or SwimConfig())
        super().__init__(self.swim)
        self.down(Connect("demo"))
        for name in others:
            self.hear(alive(name), src=name)
        self.frames()
        self.news()

    def hear(self, *headers: Header, src: str = "B") -> None:
        """A frame from `src`; the last header is the lowest."""
        self.up(unicast(src, "A", headers=headers))

    def frames(self) -> list[tuple[str, tuple[Header, ...]]]:
        """What A said since the last call: (host or name of whom, headers, the lowest last)."""
        told = [(sent.physical[0], sent.batch.headers) for sent in self.passed_down(SendTo)]
        return [*told, *((str(batch.dest), batch.headers) for batch in self.sent())]

    def all_said(self, kind: type[H]) -> list[tuple[str, H]]:
        """Of these frames all headers of a kind, to whom."""
        return [(to, header) for to, headers in self.frames() for header in headers if isinstance(header, kind)]

    def news(self) -> list[tuple[str, str]]:
        """What the application heard since the last call: (change, name)."""
        found = [(said.change, said.member.name) for said in self.changes()]
        self.outputs = [output for output in self.outputs if not isinstance(output, MemberChanged)]
        return found

    def changes(self) -> list[MemberChanged]:
        """The same, with all that is said."""
        return [output for output in self.outputs if isinstance(output, MemberChanged)]

    def known(self, name: str) -> Member:
        """What A knows of a node."""
        return next(member for member in self.swim.known_members() if member.name == name)
