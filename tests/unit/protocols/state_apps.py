"""Members whose application is a log: a state is a log, and after a transfer logs must agree."""
from __future__ import annotations

from jgroups_py import wire
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import GetState, StateChunk
from jgroups_py.model.outputs import Deliver, Output, ProvideState, StateBegin, StateEnd, StatePart
from jgroups_py.model.units import NS_PER_S
from jgroups_py.model.view import View
from jgroups_py.protocols.state_transfer import StateTransfer, StateTransferConfig
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.bench import Bench, Group, address, change, view_of

V1 = view_of("A", "B", "C")


class Loop(Protocol):
    """Turns our own multicasts round, as NAKACK does."""

    def down(self, batch: Batch) -> None:
        self.pass_down(batch)
        if batch.dest is None:
            self.pass_up(batch)


class App(Bench):
    """A member whose application keeps a log, gives it as its state, and takes a state as its log.

    It treats a state as the channel does: what is delivered while one arrives waits until it is set. slow: it writes
    its state only when told to.
    """

    def __init__(self, *layers: Protocol, **options: str) -> None:
        self.log: list[bytes] = []
        self.arriving: list[bytes] | None = None
        self.aside: list[bytes] = []
        self.ends: list[str] = []
        self.begins = 0
        self.slow = False
        self.requests: list[tuple[int, bytes]] = []
        super().__init__(*layers, **options)

    def _collect(self) -> None:
        outputs, self.stack.outputs = self.stack.outputs, []
        for output in outputs:
            self.take(output)
        if self.requests and not self.slow:
            self.write()
        if self.stack.outputs:
            self._collect()

    def take(self, output: Output) -> None:
        """The channel hands the output to the application."""
        if isinstance(output, Deliver):
            (self.log if self.arriving is None else self.aside).extend(output.batch.payloads)
        elif isinstance(output, ProvideState):
            self.requests.append((output.request, b",".join(self.log)))
        elif isinstance(output, StateBegin):
            self.begins += 1
            self.settle()
            self.arriving = []
        elif isinstance(output, StatePart):
            assert self.arriving is not None
            self.arriving.append(output.data)
        elif isinstance(output, StateEnd):
            self.ends.append(output.error)
            if self.arriving is not None and not output.error:
                state = b"".join(self.arriving)
                self.log = state.split(b",") if state else []
            self.settle()

    def settle(self) -> None:
        """What waited for the state comes now."""
        self.log += self.aside
        self.arriving, self.aside = None, []

    def write(self, piece: int = 10) -> None:
        """Write the states that were asked for, in small pieces."""
        requests, self.requests = self.requests, []
        for request, state in requests:
            for at in range(0, len(state), piece):
                self.stack.inject(StateChunk(request, state[at:at + piece]), self.now_ns)
            self.stack.inject(StateChunk(request, b"", last=True), self.now_ns)


class Apps(Group):
    """A group of such members."""

    def __init__(self, names: str = "ABC", seed: str = "0", **config: object) -> None:
        super().__init__(lambda name: [], "")
        self.members = {name: self.member(name, seed, config) for name in names}
        self.interners = {name: wire.Interner() for name in names}
        for name, bench in self.members.items():
            self.interners[name].adopt(bench.me)

    def member(self, name: str, seed: str, config: dict[str, object]) -> App:
        """One member with its layers."""
        return App(Loop(), StateTransfer(StateTransferConfig(**config)), me=name, seed=seed)   # type: ignore[arg-type]

    def __getitem__(self, name: str) -> App:
        return self.members[name]                             # type: ignore[return-value]

    def see(self, view: View, previous: View | None = None) -> None:
        """Every living member of `view` installs it, after everything under way has arrived."""
        self.settle()
        for member in view.members:
            if member.name not in self.crashed:
                known = previous if previous is not None and member in previous else None
                self[member.name].up(change(view, known))
        self.settle()


def apps(view: View = V1, **config: object) -> Apps:
    made = Apps("".join(member.name for member in view.members), **config)
    made.see(view)
    return made


def get_state(group: Apps, name: str, target: str | None = None, timeout_s: float = 10) -> None:
    group[name].down(GetState(None if target is None else address(target), round(timeout_s * NS_PER_S)))
