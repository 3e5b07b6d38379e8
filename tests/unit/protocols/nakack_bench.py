"""What the tests of NAKACK share: members and groups with nothing else in their stacks."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from jgroups_py.model.batch import Batch, Header
from jgroups_py.model.view import View
from jgroups_py.protocols.nakack import Nakack, NakackConfig
from jgroups_py.protocols.nakack.headers import MulticastData
from jgroups_py.testing.bench import Bench, Group, InFlight, change, multicast, view_of

V1 = view_of("A", "B", "C")
V2 = view_of("A", "B", "C", counter=2)


def member(name: str = "A", **properties: object) -> Bench:
    """A bench with NAKACK in view V1."""
    bench = Bench(Nakack(NakackConfig(**properties)), me=name)        # type: ignore[arg-type]
    bench.down(change(V1))
    return bench


def group(names: str = "ABC", seed: str = "0", **properties: object) -> Group:
    """Members with NAKACK, all in one view."""
    config = NakackConfig(**properties)                               # type: ignore[arg-type]
    made = Group(lambda name: [Nakack(config)], names, seed)
    made.install(view_of(*names))
    return made


def data(src: str, first: int, *payloads: bytes, view: View = V1) -> Batch:
    """A numbered run as it arrives."""
    return multicast(src, *payloads, headers=(MulticastData(view.id.raw, first),))


def lose(
    header: type[Header], *, dest: str | None = None, src: str | None = None, times: int = 10**9,
) -> Callable[[InFlight], Sequence[float]]:
    """A delays_of that loses the next `times` batches with this lowest header (of `src`, to `dest`)."""
    left = [times]

    def delays_of(in_flight: InFlight) -> Sequence[float]:
        wanted = in_flight.has(header) and dest in (None, in_flight.dest) and src in (None, in_flight.src)
        if wanted and left[0] > 0:
            left[0] -= 1
            return ()
        return (0.0,)
    return delays_of
