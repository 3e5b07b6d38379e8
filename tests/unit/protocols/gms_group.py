"""Groups of GMS on NAKACK for tests: joining, splitting the net, dying at a chosen message."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from jgroups_py.model.batch import Header
from jgroups_py.model.events import Connect, MergeNeeded, Suspect
from jgroups_py.model.view import View
from jgroups_py.protocols.discovery.ping import Ping
from jgroups_py.protocols.gms import Gms
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.nakack import Nakack
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.bench import Group, InFlight, address, multicast

LATENCY_MS = 0.5


class Members(Group):
    """Groups of GMS on NAKACK; messages take half a millisecond."""

    def __init__(self, names: str, **properties: object) -> None:
        def layers(_: str) -> Sequence[Protocol]:
            return [Ping(), Nakack(), Gms(GmsConfig(**properties))]          # type: ignore[arg-type]
        super().__init__(layers, names)
        self.names = names
        self.sides: list[str] = []                       # members that can communicate, if the net is split
        self.delays_of = self.usual

    def usual(self, in_flight: InFlight) -> Sequence[float]:
        """One copy, unless the net is split between the two."""
        apart = self.sides and not any(in_flight.src in side and in_flight.dest in side for side in self.sides)
        return () if apart else (LATENCY_MS,)

    def connect(self, names: Iterable[str]) -> None:
        """All at once."""
        for name in names:
            self[name].down(Connect("demo"))

    def join(self, names: Iterable[str]) -> None:
        """One after the other."""
        for name in names:
            self.connect(name)
            self.run(1500)

    def gms(self, name: str) -> Gms:
        """The layer."""
        layer = self[name].stack.find(Gms)
        assert isinstance(layer, Gms)
        return layer

    def view(self, name: str) -> View | None:
        """The view of a member."""
        return self.gms(name).current_view()

    def names_in_view(self, name: str) -> str:
        """The members in the view of a member, in order."""
        view = self.view(name)
        return "" if view is None else "".join(str(member) for member in view.members)

    def agree(self, names: str) -> bool:
        """Whether these have one view with exactly these members."""
        return all(self.view(name) == self.view(names[0]) and sorted(self.names_in_view(name)) == sorted(names)
                   for name in names)

    def suspect(self, suspects: str, by: Iterable[str]) -> None:
        """Failure detection at these members reports suspicions."""
        for name in by:
            self[name].up(Suspect(tuple(map(address, suspects)), certain=True))

    def multicast(self, name: str, *payloads: bytes) -> None:
        """A multicast of the application."""
        self[name].down(multicast(name, *payloads))


def in_view(names: str, **properties: object) -> Members:
    """A group in which all of `names` are, in this order."""
    members = Members(names, **properties)
    members.join(names)
    assert members.agree(names)
    assert members.names_in_view(names[0]) == names
    return members


def crash_at(members: Members, header: type[Header], reached: int, coordinator: str = "A") -> None:
    """Let the coordinator crash while it sends `header`, after it was sent to so many members."""
    count = [0]

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        if in_flight.src == coordinator and in_flight.has(header):
            count[0] += 1
            if count[0] > reached:
                members.crash(coordinator)
        return () if in_flight.src in members.crashed else (LATENCY_MS,)
    members.delays_of = delays_of


def split(members: Members, *sides: str) -> None:
    """Cut the net and let failure detection notice."""
    members.sides = list(sides)
    for side in sides:
        members.suspect("".join(name for name in members.names if name not in side), by=side)
    members.run(5000)
    for side in sides:
        assert members.agree(side)


def heal(members: Members, *coordinators: str) -> None:
    """Mend the net and report the coordinators to each other, as MERGE3 does."""
    members.sides = []
    views = {address(name): view.id for name in coordinators if (view := members.view(name)) is not None}
    for name in coordinators:
        members[name].up(MergeNeeded(views))
