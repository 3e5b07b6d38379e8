"""Headers for a state from another site (state.py). `asker` and `attempt` name one try of one member to get it."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.batch import Header
from jgroups_py.protocols.relay.headers import NUMBERS, PROTO, VECTOR, Numbers, Vector
from jgroups_py.view import ViewId

Key = tuple[Address, int]                    # (asker, attempt)


@wire.part
class Keyed(Header):
    """What every header of one try begins with."""

    asker: Address = wire.field(wire.ADDRESS)
    attempt: int = wire.field(wire.U32)

    @property
    def key(self) -> Key:
        """What tells tries apart."""
        return self.asker, self.attempt


@wire.header(proto=PROTO, kind=40)
class StateAsk(Keyed):
    """A member to its relay: get us the state of `site`, of its member `target` if possible."""

    site: str = wire.field(wire.NAME)
    target: Address = wire.field(wire.ADDRESS)
    timeout_ns: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=41)
class StatePause(Keyed):
    """The relay to all: keep your multicasts back. It is void in any other view than this."""

    view_id: ViewId = wire.field(wire.VIEW_ID)


@wire.header(proto=PROTO, kind=42)
class StatePaused(Keyed):
    """A member to the relay: it does; its next one will have number `next`. refusal: why it cannot take a state now."""

    next: int = wire.field(wire.U64)
    refusal: str = wire.field(wire.TEXT)


@wire.header(proto=PROTO, kind=43)
class StateFetch(Keyed):
    """The relay to the other site's, which gives it to the provider: a state that holds all of `vector`."""

    target: Address = wire.field(wire.ADDRESS)
    vector: Vector = wire.field(VECTOR)
    timeout_ns: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=44)
class StateCover(Keyed):
    """The provider, by its relay: the state is cut; it holds exactly what is below this vector."""

    vector: Vector = wire.field(VECTOR)


@wire.header(proto=PROTO, kind=45)
class StateStart(Keyed):
    """The relay to all: a state follows; it begins when you have delivered our site's messages below `cut`."""

    cut: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=46)
class StateMore(Keyed):
    """A member to the relay, and that by the other relay to the provider: go on up to byte `stop`."""

    stop: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=47)
class StatePiece(Keyed):
    """The next bytes; the last piece has none, and an `error` if the provider's application failed."""

    last: bool = wire.field(wire.BOOL)
    error: str = wire.field(wire.TEXT)

    def messages(self, number: int) -> int:
        """None: bytes of a state."""
        return 0


@wire.header(proto=PROTO, kind=48)
class StateInstall(Keyed):
    """The relay to all: the state is complete; what it holds is below this vector, go on above it."""

    vector: Vector = wire.field(VECTOR)


@wire.header(proto=PROTO, kind=49)
class StateOver(Keyed):
    """Anybody to anybody who takes part: this try has failed. final: another one would, too."""

    reason: str = wire.field(wire.TEXT)
    final: bool = wire.field(wire.BOOL)
