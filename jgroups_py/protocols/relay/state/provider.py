"""This member's state for another site: the side of the provider, which may be any member (relay rule 16, transfer.py).

The state is fixed when this member has delivered everything that the requesting site has: otherwise the state would
lack messages that members there have, and will not get again. Its vector goes ahead of it. Pieces are sent as far as
the requesting site has room for them.
"""
from __future__ import annotations

from jgroups_py.model.batch import Batch
from jgroups_py.model.events import OutputInOrder, StateChunk, ViewChange
from jgroups_py.model.outputs import ProvideState
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay.announcements import PrefixDelivered
from jgroups_py.protocols.relay.group import LocalGroup
from jgroups_py.protocols.relay.headers import Vector
from jgroups_py.protocols.relay.headers.state import (
    Key,
    Keyed,
    StateFailed,
    StateFetch,
    StateFixed,
    StateMore,
    StatePiece,
)
from jgroups_py.protocols.relay.inbound.vectors import copied, lower, overlaid
from jgroups_py.protocols.relay.part import RELIABLE, RelayPart, RelayPort, on_announcement
from jgroups_py.protocols.relay.ports import DeliveryPort, NumberingPort, StateProviderPort, StateTransferPort
from jgroups_py.stack.component import needs
from jgroups_py.stack.protocol import STOP, on, receives, timer
from jgroups_py.windows.pacing import PacedBytes

FIRST_REQUEST = 1 << 32                      # of ProvideState; those of STATE_TRANSFER begin at 1
MAX_ERROR_CHARS = 1000
IDLE_NS = seconds(5)                         # without MORE, which the requesting relay repeats each second


class StateStream(PacedBytes):
    """Bytes that the application wrote and the requesting site has no room for yet."""

    __slots__ = ("end", "key", "request")

    def __init__(self, key: Key, request: int) -> None:
        super().__init__()
        self.key = key
        self.request = request
        self.end: StateChunk | None = None   # the application's last chunk

    def request_up_to(self, stop: int) -> None:
        """The requesting site has room for the bytes below `stop`; a late, lower one changes nothing."""
        self.stop = max(self.stop, stop)


class StateProvider(RelayPart, StateProviderPort):
    """See the module."""

    group: LocalGroup = needs(LocalGroup)
    numbering: NumberingPort = needs(NumberingPort)
    delivery: DeliveryPort = needs(DeliveryPort)
    transfer: StateTransferPort = needs(StateTransferPort)

    def __init__(self, layer: RelayPort) -> None:
        super().__init__(layer)
        self.waiting: dict[Key, Vector] = {}         # what must be delivered here before the state is fixed
        self.streams: dict[Key, StateStream] = {}
        self.requests = FIRST_REQUEST

    @property
    def nbytes(self) -> int:
        return sum([stream.queued_bytes for stream in self.streams.values()])

    @receives(StateFetch)
    def fetch_received(self, header: StateFetch, batch: Batch) -> None:
        """The relay passes on a request of another site."""
        for key in [key for key in (*self.waiting, *self.streams) if key[0] == header.requester]:
            self.end_attempt(key)                    # a member has one attempt at a time: this one replaces the earlier
        if self.transfer.busy:
            return self.answer(StateFailed(*header.key, "the member that was asked is getting a state itself", False))
        self.waiting[header.key] = header.vector
        self.set_timer("state_refuse", header.timeout_ns // 3, header.key)
        return self.fix_covered_states()

    @on_announcement(PrefixDelivered)
    def delivered(self, event: PrefixDelivered) -> None:
        self.fix_covered_states()

    def fix_covered_states(self) -> None:
        """Fix each state whose wanted vector this member has reached.

        None while this member installs a state itself: until INSTALL its vector does not match what its application
        has, so messages would be missing from the state it provides, or be in it and be delivered again.
        """
        if not self.waiting or self.transfer.installing or self.transfer.open or self.transfer.local:
            return
        for key, vector in list(self.waiting.items()):
            if not lower(self.vector_for(vector), vector):
                self.fix(key)

    def vector_for(self, wanted: Vector) -> Vector:
        """This member's vector, with an entry for every origin of `wanted`."""
        unknown: Vector = {site: dict.fromkeys(numbers, 1) for site, numbers in wanted.items()}
        return overlaid(unknown, self.vector)

    @property
    def vector(self) -> Vector:
        """What this member has delivered, origins of its own site included."""
        return {**copied(self.delivery.seen), self.config.site: dict(self.numbering.numbers)}

    def fix(self, key: Key) -> None:
        """Request the state from the application: it holds what was delivered up to here, and nothing else."""
        del self.waiting[key]
        self.cancel_timer("state_refuse", key)
        self.requests += 1
        self.streams[key] = StateStream(key, self.requests)
        self.set_timer("state_idle", IDLE_NS, key)
        self.count("states_provided")
        self.answer(StateFixed(*key, self.vector))
        self.pass_up(OutputInOrder(ProvideState(self.requests)))

    @timer("state_refuse")
    def refuse(self, key: Key) -> None:
        """On a timer: some message that the requesting site has did not arrive here in time."""
        if self.waiting.pop(key, None) is not None:
            self.answer(StateFailed(*key, "the member that was asked does not get hold of all messages that the asking "
                                        "site has", False))

    @on(StateChunk)
    def chunk_written(self, event: StateChunk) -> object:
        """The application wrote a piece. Those for STATE_TRANSFER's requests are passed on."""
        if event.request <= FIRST_REQUEST:
            return None
        self.chunk(event)
        return STOP

    def chunk(self, event: StateChunk) -> None:
        """The application wrote a piece for a request of this part."""
        stream = next((stream for stream in self.streams.values() if stream.request == event.request), None)
        if stream is None:
            return self.drop("unwanted_chunks_dropped", None, f"request {event.request} for a state is over")
        stream.write(event.data)
        if event.last:
            stream.end = event
        return self.pump(stream)

    def more(self, header: StateMore) -> None:
        stream = self.streams.get(header.key)
        if stream is not None:
            stream.request_up_to(header.stop)
            self.set_timer("state_idle", IDLE_NS, header.key)
            self.pump(stream)

    def pump(self, stream: StateStream) -> None:
        """Send what is written, as far as the requesting site has room; behind it the last piece, or the error."""
        while (data := stream.read()) is not None:
            self.answer(StatePiece(*stream.key, False, ""), (data,))
        end = stream.end
        if end is not None and stream.stop and (end.error or not stream.queue):
            self.end_attempt(stream.key)
            self.answer(StatePiece(*stream.key, True, end.error[:MAX_ERROR_CHARS]))

    def answer(self, header: Keyed, payloads: tuple[bytes, ...] = ()) -> None:
        """Send to this site's relay, which sends it on to the requesting site."""
        self.send(header, self.group.view.coordinator, payloads, RELIABLE)

    @timer("state_idle")
    def end_attempt(self, key: Key) -> None:
        """An attempt is over; or, on a timer, no MORE came for long."""
        self.waiting.pop(key, None)
        self.streams.pop(key, None)
        self.cancel_timer("state_refuse", key)
        self.cancel_timer("state_idle", key)

    @on(ViewChange)
    def view_changed(self, event: ViewChange) -> None:
        """Attempts go through the relay. A new relay ends them, and the requesting members start new ones."""
        if self.group.previous is not None and not self.group.relay_changed:
            return
        for key in (*self.waiting, *self.streams):
            self.end_attempt(key)
