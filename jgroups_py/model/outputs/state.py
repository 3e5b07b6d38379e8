"""State transfer, between STATE_TRANSFER and the application."""
from __future__ import annotations

import attrs

from jgroups_py.model.address import Address
from jgroups_py.model.outputs.base import Output


@attrs.frozen(eq=False)
class StateAdvised(Output):
    """`site` held nothing for the own site for a while, so the own site should fetch a state from it (relay rule 16).

    Emitted by the relay.
    """

    site: str


@attrs.frozen(eq=False)
class ProvideState(Output):
    """Call the application's get_state now, in order with the deliveries; answer with StateChunk(request) events."""

    request: int


@attrs.frozen(eq=False)
class StateBegin(Output):
    """A state follows in StateParts and one StateEnd, in order with the deliveries.

    The state holds everything delivered before this output and nothing of what is delivered after it, so what is
    delivered between the StateParts has to wait until the state is set. Another StateBegin before the StateEnd: begin
    anew (the provider was lost); what was delivered between the two then comes before the new state.
    """


@attrs.frozen(eq=False)
class StatePart(Output):
    """The next bytes of the state."""

    data: bytes


@attrs.frozen(eq=False)
class StateEnd(Output):
    """The state is complete (error ""), or failed; without a StateBegin before it, nothing was received.

    skipped: (site, origin, first, stop) of what will not be delivered, as a state of another site holds it.
    """

    error: str = ""
    skipped: tuple[tuple[str, Address, int, int], ...] = ()
