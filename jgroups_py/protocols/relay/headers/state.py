"""Headers for a state of another site (transfer.py). `requester` and `attempt` identify one attempt to get it."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Header
from jgroups_py.model.view import ViewId
from jgroups_py.protocols.relay.headers import NUMBERS, PROTO, VECTOR, Numbers, Vector

Key = tuple[Address, int]                    # (requester, attempt)


@wire.part
class Keyed(Header):
    """The fields with which every header of an attempt begins."""

    requester: Address = wire.field(wire.ADDRESS)
    attempt: int = wire.field(wire.U32)

    @property
    def key(self) -> Key:
        """Identifies the attempt."""
        return self.requester, self.attempt


@wire.header(proto=PROTO, kind=40)
class SiteStateRequestHeader(Keyed):
    """A member to its relay: fetch the state of `site`, from its member `target` if that is there."""

    site: str = wire.field(wire.NAME)
    target: Address = wire.field(wire.ADDRESS)
    timeout_ns: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=41)
class StatePause(Keyed):
    """The relay to all: keep multicasts back. Void in any other view, so nothing of an old attempt has an effect."""

    view_id: ViewId = wire.field(wire.VIEW_ID)


@wire.header(proto=PROTO, kind=42)
class StatePaused(Keyed):
    """The answer: the member's next multicast will have number `next`. refusal: why it cannot install a state now."""

    next: int = wire.field(wire.U64)
    refusal: str = wire.field(wire.TEXT)


@wire.header(proto=PROTO, kind=43)
class StateFetch(Keyed):
    """The relay to that of the other site, and that one to the provider: request for a state that covers `vector`."""

    target: Address = wire.field(wire.ADDRESS)
    vector: Vector = wire.field(VECTOR)
    timeout_ns: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=44)
class StateFixed(Keyed):
    """The provider, through its relay: the state is fixed; it holds exactly what is below this vector."""

    vector: Vector = wire.field(VECTOR)


@wire.header(proto=PROTO, kind=45)
class StateStart(Keyed):
    """The relay to all: a state follows; a member passes it up after it has delivered its site's messages below `cut`.
    """

    cut: Numbers = wire.field(NUMBERS)


@wire.header(proto=PROTO, kind=46)
class StateMore(Keyed):
    """A member to its relay, and that one on to the provider: there is room for the bytes below `stop`."""

    stop: int = wire.field(wire.U64)


@wire.header(proto=PROTO, kind=47)
class StatePiece(Keyed):
    """The next bytes of the state. The last piece has none, but an `error` if the provider's application failed."""

    last: bool = wire.field(wire.BOOL)
    error: str = wire.field(wire.TEXT)

    def messages(self, number: int) -> int:
        """None: they are bytes of a state."""
        return 0


@wire.header(proto=PROTO, kind=48)
class StateInstall(Keyed):
    """The relay to all: the state is complete and holds what is below this vector; members continue above it."""

    vector: Vector = wire.field(VECTOR)


@wire.header(proto=PROTO, kind=49)
class StateFailed(Keyed):
    """Any participant to the others: the attempt has failed. final: a further one would fail, too."""

    reason: str = wire.field(wire.TEXT)
    final: bool = wire.field(wire.BOOL)
