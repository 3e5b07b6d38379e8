"""What NAKACK says. `view` is ViewId.raw: numbers mean something only inside their view."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.address import Address
from jgroups_py.batch import Header

VIEW_ID_BYTES = 24
_VIEW = wire.fixed_bytes(VIEW_ID_BYTES)


@wire.header(proto=8, kind=1)
class Data(Header):
    """A run of multicasts of the frame's source; the first message has number `first`."""

    view: bytes = wire.field(_VIEW)
    first: int = wire.field(wire.U64)

    def shift(self, number: int) -> Data:
        return Data(self.view, self.first + number)


@wire.header(proto=8, kind=2)
class Missing(Header):
    """Please resend these messages of `sender`."""

    view: bytes = wire.field(_VIEW)
    sender: Address = wire.field(wire.ADDRESS)
    ranges: tuple[tuple[int, int], ...] = wire.field(wire.RANGES)


@wire.header(proto=8, kind=3)
class Resent(Header):
    """A run of multicasts of `sender`, from whoever holds it; the first message has number `first`."""

    view: bytes = wire.field(_VIEW)
    sender: Address = wire.field(wire.ADDRESS)
    first: int = wire.field(wire.U64)

    def shift(self, number: int) -> Resent:
        return Resent(self.view, self.sender, self.first + number)


@wire.header(proto=8, kind=4)
class SentSoFar(Header):
    """The frame's source has multicast all messages below `stop` and fell silent."""

    view: bytes = wire.field(_VIEW)
    stop: int = wire.field(wire.U64)


@wire.header(proto=8, kind=5)
class Gone(Header):
    """Answer to Missing: I keep none of these messages of `sender` any more, as all members said that they had them."""

    view: bytes = wire.field(_VIEW)
    sender: Address = wire.field(wire.ADDRESS)
    first: int = wire.field(wire.U64)
    stop: int = wire.field(wire.U64)
