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

from jgroups_py.address import PhysicalAddress
from jgroups_py.batch import Batch
from jgroups_py.errors import WireError
from jgroups_py.events import Connect, SendTo
from jgroups_py.naming import NameResolved, Resolve, ResolveName
from jgroups_py.outputs import Note
from jgroups_py.ports import AddressBook
from jgroups_py.protocol import CONTROL, STOP, Protocol, on, receives, timer
from jgroups_py.protocols.names.bootstrap import Bootstraps
from jgroups_py.protocols.names.config import NamesConfig
from jgroups_py.protocols.names.gossip import Gossip
from jgroups_py.protocols.names.headers import Resolution
from jgroups_py.protocols.names.res import MAX_NAME_BYTES, decode_frame


class Names(Protocol):
    """See the module."""

    control_only = True
    Config = NamesConfig
    config: NamesConfig
    needs = {"addresses": AddressBook}
    addresses: AddressBook

    def start(self) -> None:
        self.gossip: Gossip | None = None                    # once we know where we are
        self.bootstrap = Bootstraps((), 0, self.config.bootstrap_ns)

    def stats(self) -> dict[str, float]:
        gossip = self.gossip
        known = (len(gossip.neighbours), len(gossip.cache)) if gossip is not None else (0, 0)
        return {**self.counters, "neighbours": known[0], "names": known[1],
                "bootstrap_neighbours": 0 if gossip is None else self.bootstrap.present(gossip.neighbours)}

    @on(Connect)
    def connecting(self, event: Connect) -> None:
        physical = self.addresses.my_physical()
        assert physical is not None, "connecting follows binding"
        name = self.config.name or self.me.name
        if not (name.isascii() and 0 < len(name) <= MAX_NAME_BYTES):
            name = self.me.raw.hex()                         # no name that others could ask for
        self.gossip = Gossip(name, (self.config.interface or physical[0], physical[1]), self.config.timeout_ns)
        self.bootstrap = Bootstraps(self.config.bootstrap, physical[1], self.config.bootstrap_ns)
        for problem in self.bootstrap.problems:
            self.count("bootstrap_invalid")
            self.emit(Note("warning", f"NAMES: bootstrap: {problem}"))
        self.set_timer("self", 0)
        self.set_timer("neighbours", self.config.neighbours_ns)

    # --- telling ------------------------------------------------------------------------------------------------------

    @timer("self")
    def tell_self(self) -> None:
        gossip = self.gossip
        assert gossip is not None, "set when connecting"
        self.count("names_forgotten", gossip.forget(self.now_ns))
        for name, port, again in self.bootstrap.due(gossip.neighbours, self.now_ns):
            self.ask(name, port, "bootstrap", again)
        self.say(gossip.introduce(self.bootstrap.places()))
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
        if self.bootstrap.resolved(event.name, event.port, event.place) and self.gossip is not None:
            self.say([frame for frame in self.gossip.introduce([event.place]) if frame[1] == event.place])
        return None
