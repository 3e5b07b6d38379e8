"""NAMES: members know each other by name, whatever their addresses: names are gossiped, re-resolved, and forgotten.

Problem: a stack file, a bridge or a seed list names hosts; addresses change when a host restarts elsewhere, and DNS is
slow, blocks, or does not know. Idea: every member tells its own name and place once a second to all neighbours, and
every two seconds what it knows of others (gossip.py); at first to bootstrap neighbours, whose names are resolved again
while they are silent. Other layers ask by the event ResolveName; what gossip knows is answered at once, the rest goes
to resolvers (resolver.py) that run off this thread: the question leaves as an output, the answer comes as an event.
Place: above the transport, below discovery. Source: Aeron's driver name resolver, whose frames are used (res.py).
Deviations: see gossip.py; a bootstrap neighbour without a port is asked at our own.
"""
from __future__ import annotations

import attrs

from jgroups_py.address import PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.errors import ConfigError, WireError
from jgroups_py.events import Connect, NameResolved, ResolveName, SendTo
from jgroups_py.outputs import Note, Resolve
from jgroups_py.ports import AddressBook
from jgroups_py.protocol import CONTROL, STOP, Protocol, on, receives, timer
from jgroups_py.protocols.names.config import NamesConfig
from jgroups_py.protocols.names.gossip import Gossip
from jgroups_py.protocols.names.headers import Resolution
from jgroups_py.protocols.names.res import MAX_NAME_BYTES, decode_frame
from jgroups_py.resolver import is_address, split_place


@attrs.define
class Bootstrap:
    """One of the neighbours that are told our name first. place: where it was found; asked_ns: when we asked last."""

    host: str
    port: int
    place: PhysicalAddress | None = None
    asked_ns: int | None = None


class Names(Protocol):
    """See the module."""

    control_only = True
    Config = NamesConfig
    config: NamesConfig
    needs = {"addresses": AddressBook}
    addresses: AddressBook

    def start(self) -> None:
        self.gossip: Gossip | None = None                    # once we know where we are
        self.bootstrap: list[Bootstrap] = []

    def stats(self) -> dict[str, float]:
        gossip = self.gossip
        known = (len(gossip.neighbours), len(gossip.cache)) if gossip is not None else (0, 0)
        return {**self.counters, "neighbours": known[0], "names": known[1],
                "bootstrap_neighbours": sum(self.is_neighbour(item) for item in self.bootstrap)}

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        physical = self.addresses.my_physical()
        assert physical is not None, "connecting follows binding"
        name = self.config.name or self.me.name
        if not (name.isascii() and 0 < len(name) <= MAX_NAME_BYTES):
            name = self.me.raw.hex()                         # no name that others could ask for
        self.gossip = Gossip(name, (self.config.interface or physical[0], physical[1]), self.config.timeout_ns)
        self.bootstrap = [item for text in self.config.bootstrap for item in self.read(text, physical[1])]
        self.set_timer("self", 0)
        self.set_timer("neighbours", self.config.neighbours_ns)

    def read(self, text: str, port: int) -> list[Bootstrap]:
        """The bootstrap neighbour that an entry means; nobody, if it means none."""
        try:
            host, number = split_place(text, port)
            return [Bootstrap(host, number, (host, number) if is_address(host) else None)]
        except ConfigError as error:
            self.count("bootstrap_invalid")
            self.emit(Note("warning", f"NAMES: bootstrap: {error}"))
            return []

    # --- telling ------------------------------------------------------------------------------------------------------

    @timer("self")
    def tell_self(self) -> None:
        gossip = self.gossip
        assert gossip is not None, "set when connecting"
        self.count("names_forgotten", gossip.forget(self.now_ns))
        self.look_for_bootstrap()
        self.say(gossip.introduce(item.place for item in self.bootstrap if item.place is not None))
        self.set_timer("self", self.config.self_ns)

    @timer("neighbours")
    def tell_neighbours(self) -> None:
        assert self.gossip is not None, "set when connecting"
        self.say(self.gossip.pass_on(self.now_ns))
        self.set_timer("neighbours", self.config.neighbours_ns)

    def say(self, frames: list[tuple[bytes, PhysicalAddress]]) -> None:
        for frame, place in frames:
            self.count("frames_sent")
            self.pass_down(SendTo(place, Batch(self.me, None, (frame,), (Resolution(),), CONTROL)))

    def look_for_bootstrap(self) -> None:
        """Resolve the names of those that are no neighbours, now and then."""
        for item in self.bootstrap:
            if is_address(item.host):
                continue
            due = item.asked_ns is None or self.now_ns - item.asked_ns >= self.config.bootstrap_ns
            if due and not self.is_neighbour(item):
                again = item.asked_ns is not None
                item.asked_ns = self.now_ns
                self.ask(item.host, item.port, "bootstrap", again)

    def is_neighbour(self, item: Bootstrap) -> bool:
        return self.gossip is not None and item.place in self.gossip.neighbours

    # --- hearing ------------------------------------------------------------------------------------------------------

    @receives(Resolution)
    def heard(self, header: Resolution, batch: Batch) -> None:
        gossip = self.gossip
        if gossip is None:
            return
        source = self.addresses.physical_of(batch.src)
        try:
            entries = [entry for payload in batch.payloads for entry in decode_frame(payload)]
        except WireError:
            return self.count("frames_malformed")
        for entry in entries:
            outcome = gossip.heard(entry, None if source is None else source[0], self.now_ns)
            if outcome:
                self.count(outcome)

    # --- answering ----------------------------------------------------------------------------------------------------

    @on(ResolveName)
    def wanted(self, event: ResolveName) -> object:
        """From above: gossip knows it, or the resolvers are asked."""
        place = None if self.gossip is None else self.gossip.find(event.name, event.port)
        if place is None:
            self.ask(event.name, event.port, event.parameter, event.again)
        else:
            self.pass_up(NameResolved(event.name, event.port, place))
        return STOP

    def ask(self, name: str, port: int, parameter: str, again: bool) -> None:
        self.count("names_asked")
        self.emit(Resolve(self.stack.net, name, port, self.config.resolver, parameter, again))

    @on(NameResolved)
    def resolved(self, event: NameResolved) -> None:
        """From below: an answer for us, for those above, or both."""
        if event.place is None:
            return self.count("names_not_found")
        for item in self.bootstrap:
            if (item.host, item.port) == (event.name, event.port) and item.place != event.place:
                item.place = event.place
                if self.gossip is not None:
                    self.say([frame for frame in self.gossip.introduce([event.place]) if frame[1] == event.place])
        return None
