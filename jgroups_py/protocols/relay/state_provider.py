"""Gives our application's state to another site: the side of the provider, any member. See state.py.

The state is cut when what this member delivered covers what the asking site has; what it holds then is told with it.
Chunks leave as fast as the asking site asks for them.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.events import StateChunk, Tell
from jgroups_py.outputs import ProvideState
from jgroups_py.protocols.relay.headers import Vector
from jgroups_py.protocols.relay.receiving import RELIABLE
from jgroups_py.protocols.relay.state_headers import (
    Key,
    Keyed,
    StateCover,
    StateFetch,
    StateMore,
    StateOver,
    StatePiece,
)
from jgroups_py.protocols.relay.vectors import copied, lower, overlaid
from jgroups_py.units import seconds
from jgroups_py.windows.paced import PacedBytes

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.relay import Relay

FIRST_REQUEST = 1 << 32                      # of ProvideState; STATE_TRANSFER's count from 1
MAX_ERROR_CHARS = 1000
IDLE_NS = seconds(5)                         # the asking site says at least each second that it still wants the state


class Stream(PacedBytes):
    """What the application wrote and nobody has asked for yet."""

    __slots__ = ("end", "key", "request")

    def __init__(self, key: Key, request: int) -> None:
        super().__init__()
        self.key = key
        self.request = request
        self.end: StateChunk | None = None   # the application's last chunk


class Provider:
    """See the module."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.waiting: dict[Key, Vector] = {}         # what is to be covered before the state is cut
        self.streams: dict[Key, Stream] = {}
        self.requests = FIRST_REQUEST

    @property
    def nbytes(self) -> int:
        """Bytes that the application wrote and that wait here."""
        return sum([stream.queued_bytes for stream in self.streams.values()])

    def asked(self, header: StateFetch) -> None:
        """Our relay wants our state for another site."""
        self.drop_of(header.asker)
        if self.relay.states.busy:
            return self.answer(StateOver(*header.key, "the member that was asked is getting a state itself", False))
        self.waiting[header.key] = header.vector
        self.relay.set_timer("state_refuse", header.timeout_ns // 3, header.key)
        return self.delivered()

    def delivered(self) -> None:
        """Something more is covered. While we take a state ourselves, there is none to give that fits our vector."""
        states = self.relay.states
        if not self.waiting or states.taking is not None or states.open or states.local:
            return
        for key, vector in list(self.waiting.items()):
            if not lower(self.vector_for(vector), vector):
                self.cut(key)

    def vector_for(self, wanted: Vector) -> Vector:
        """Ours, with an entry for everything that is wanted."""
        unknown: Vector = {site: dict.fromkeys(numbers, 1) for site, numbers in wanted.items()}
        return overlaid(unknown, self.vector)

    @property
    def vector(self) -> Vector:
        """What this member has delivered, its own site's origins included."""
        return {**copied(self.relay.receiving.seen), self.relay.config.site: dict(self.relay.numbers)}

    def cut(self, key: Key) -> None:
        """The state holds what was delivered up to here, and nothing else."""
        del self.waiting[key]
        self.relay.cancel_timer("state_refuse", key)
        self.requests += 1
        self.streams[key] = Stream(key, self.requests)
        self.relay.set_timer("state_idle", IDLE_NS, key)
        self.relay.count("states_provided")
        self.answer(StateCover(*key, self.vector))
        self.relay.pass_up(Tell(ProvideState(self.requests)))

    def refuse(self, key: Key) -> None:
        """On a timer: we do not get hold of what the asking site has."""
        if self.waiting.pop(key, None) is not None:
            self.answer(StateOver(*key, "the member that was asked does not get hold of all messages that the asking "
                                        "site has", False))

    def chunk(self, event: StateChunk) -> None:
        """The application goes on."""
        stream = next((stream for stream in self.streams.values() if stream.request == event.request), None)
        if stream is None:
            return self.relay.count("unwanted_chunks_dropped")
        stream.write(event.data)
        if event.last:
            stream.end = event
        return self.pump(stream)

    def more(self, header: StateMore) -> None:
        """The asking site reads on."""
        stream = self.streams.get(header.key)
        if stream is not None:
            stream.stop = max(stream.stop, header.stop)
            self.relay.set_timer("state_idle", IDLE_NS, header.key)
            self.pump(stream)

    def pump(self, stream: Stream) -> None:
        """Send what was asked for and is there."""
        while (data := stream.read()) is not None:
            self.answer(StatePiece(*stream.key, False, ""), (data,))
        end = stream.end
        if end is not None and stream.stop and (end.error or not stream.queue):
            self.drop(stream.key)
            self.answer(StatePiece(*stream.key, True, end.error[:MAX_ERROR_CHARS]))

    def answer(self, header: Keyed, payloads: tuple[bytes, ...] = ()) -> None:
        """To our relay, which knows the way."""
        self.relay.send(header, self.relay.view.coordinator, payloads, RELIABLE)

    def drop_of(self, asker: Address) -> None:
        """The asker has another try, or none."""
        for key in [key for key in (*self.waiting, *self.streams) if key[0] == asker]:
            self.drop(key)

    def drop(self, key: Key) -> None:
        """Nobody wants this one any more."""
        self.waiting.pop(key, None)
        self.streams.pop(key, None)
        self.relay.cancel_timer("state_refuse", key)
        self.relay.cancel_timer("state_idle", key)

    def relay_changed(self) -> None:
        """The way to the askers is gone; they ask again."""
        for key in (*self.waiting, *self.streams):
            self.drop(key)
