"""NAMES: finds members by name at changing addresses: names are gossiped, re-resolved, and forgotten.

Problem: a stack file, a bridge or a seed list names hosts; their addresses change when a host restarts elsewhere, and
DNS is slow, blocks, or lacks the name. Idea: every member sends its own name and address once a second to all
neighbours, and every two seconds its cache of other names (gossip.py); first to bootstrap neighbours, whose names are
resolved again while no frame comes from them. Other layers look a name up by the event ResolveName. A cached name is
answered at once; the others go to resolvers (model/name_resolution.py) that run on other threads: the request leaves
as an output, the answer comes as an event.

Place: above the transport, below discovery. Source: Aeron's driver name resolver, whose frames are used (res.py).
Deviations: see gossip.py; for a bootstrap neighbour without a port this member's own is used.
"""
from __future__ import annotations

from jgroups_py.model.address import PhysicalAddress
from jgroups_py.model.batch import Batch
from jgroups_py.model.counters import counter, declare, drop, figure
from jgroups_py.model.errors import WireError
from jgroups_py.model.events import Connect, NameResolved, ResolveName, SendTo
from jgroups_py.model.outputs import LogEntry, Resolve
from jgroups_py.model.ports import AddressBook
from jgroups_py.protocols.name_service.bootstrap import Bootstraps
from jgroups_py.protocols.name_service.config import NamesConfig
from jgroups_py.protocols.name_service.gossip import NameGossip
from jgroups_py.protocols.name_service.headers import Resolution
from jgroups_py.protocols.name_service.res import MAX_NAME_BYTES, decode_frame
from jgroups_py.stack.protocol import CONTROL, STOP, Protocol, on, receives, timer


class Names(Protocol):
    """The layer: timers of gossip, its frames, and the lookups of other layers."""

    control_only = True
    Config = NamesConfig
    config: NamesConfig
    COUNTERS = declare(
        counter("names_looked_up", "Names given to the resolvers."),
        counter("names_not_found", "Of these, names without an address."),
        counter("names_forgotten", "Names without a confirmation for too long."),
        counter("frames_sent", "Frames of gossip sent."),
        counter("bootstrap_invalid", "Malformed entries of `bootstrap`."),
        *NameGossip.COUNTERS,
        drop("frames_malformed", "Frames that cannot be decoded."),
        figure("neighbours", "Neighbours that were confirmed lately."),
        figure("names", "Names in the cache."),
        figure("bootstrap_neighbours", "Entries of `bootstrap` that are neighbours now."),
    )

    needs = {"addresses": AddressBook}
    addresses: AddressBook

    def start(self) -> None:
        self.gossip: NameGossip | None = None                    # set once the own address is known
        self.bootstrap = Bootstraps((), 0, self.config.bootstrap_ns)

    def stats(self) -> dict[str, float]:
        gossip = self.gossip
        known = (len(gossip.neighbours), len(gossip.cache)) if gossip is not None else (0, 0)
        return {**self.counters, "neighbours": known[0], "names": known[1],
                "bootstrap_neighbours": 0 if gossip is None else self.bootstrap.present(gossip.neighbours)}

    @on(Connect)
    def on_connect(self, event: Connect) -> None:
        physical = self.addresses.my_physical()
        assert physical is not None, "connecting follows binding"
        name = self.config.name or self.me.name
        if not (name.isascii() and 0 < len(name) <= MAX_NAME_BYTES):
            name = self.me.raw.hex()                         # a frame has room for ASCII only; the hex form is unique
        self.gossip = NameGossip(name, (self.config.interface or physical[0], physical[1]), self.config.timeout_ns)
        self.bootstrap = Bootstraps(self.config.bootstrap, physical[1], self.config.bootstrap_ns)
        for problem in self.bootstrap.problems:
            self.count("bootstrap_invalid")
            self.emit(LogEntry("warning", f"NAMES: bootstrap: {problem}"))
        self.set_timer("self", 0)
        self.set_timer("neighbours", self.config.neighbours_ns)

    # --- sending ------------------------------------------------------------------------------------------------------

    @timer("self")
    def announce(self) -> None:
        """Every `self_interval`: forget old names, re-resolve silent bootstrap neighbours, send the own name."""
        gossip = self.gossip
        assert gossip is not None, "set when connecting"
        self.count("names_forgotten", gossip.forget(self.now_ns))
        for name, port, again in self.bootstrap.due(gossip.neighbours, self.now_ns):
            self.resolve(name, port, "bootstrap", again)
        self.send_frames(gossip.announce(self.bootstrap.places()))
        self.set_timer("self", self.config.self_ns)

    @timer("neighbours")
    def pass_on(self) -> None:
        assert self.gossip is not None, "set when connecting"
        self.send_frames(self.gossip.pass_on(self.now_ns))
        self.set_timer("neighbours", self.config.neighbours_ns)

    def send_frames(self, frames: list[tuple[bytes, PhysicalAddress]]) -> None:
        for frame, place in frames:
            self.count("frames_sent")
            self.pass_down(SendTo(place, Batch(self.me, None, (frame,), (Resolution(),), CONTROL)))

    # --- receiving ----------------------------------------------------------------------------------------------------

    @receives(Resolution)
    def on_resolution(self, header: Resolution, batch: Batch) -> None:
        gossip = self.gossip
        if gossip is None:
            return
        source = self.addresses.physical_of(batch.src)
        try:
            entries = [entry for payload in batch.payloads for entry in decode_frame(payload)]
        except WireError:
            return self.drop("frames_malformed", batch, "it cannot be decoded")
        for entry in entries:
            outcome = gossip.take(entry, None if source is None else source[0], self.now_ns)
            if outcome:
                self.count(outcome)

    # --- lookups of other layers --------------------------------------------------------------------------------------

    @on(ResolveName)
    def on_resolve_name(self, event: ResolveName) -> object:
        """From above: answer from the cache of gossip, or give the name to the resolvers."""
        place = None if self.gossip is None else self.gossip.find(event.name, event.port)
        if place is None:
            self.resolve(event.name, event.port, event.parameter, event.again, event.version)
        else:
            self.pass_up(NameResolved(event.name, event.port, place))
        return STOP

    def resolve(self, name: str, port: int, parameter: str, again: bool, version: int = 4) -> None:
        self.count("names_looked_up")
        self.emit(Resolve(self.stack.net, name, port, self.config.resolver, parameter, again, version))

    @on(NameResolved)
    def on_name_resolved(self, event: NameResolved) -> None:
        """From below: the address of a bootstrap neighbour, or of a name that a layer above looked up, or both."""
        if event.place is None:
            return self.count("names_not_found")
        if self.bootstrap.resolved(event.name, event.port, event.place) and self.gossip is not None:
            self.send_frames([frame for frame in self.gossip.announce([event.place]) if frame[1] == event.place])
        return None
