"""State transfer in simulated worlds: requests as actions, an application with a state, and the checks.

The application's state is its name and the log of multicasts that it delivered, so that an installed state can be
compared with the provided one, and the deliveries after it with those of the provider.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from random import Random

import attrs

from jgroups_py.model.batch import NO_RELIABILITY, Batch
from jgroups_py.model.events import StateBusy, StateChunk
from jgroups_py.model.units import NS_PER_S, millis
from jgroups_py.model.view import View
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.state_transfer import StateTransfer
from jgroups_py.simulator.checkers import Facts, Violation
from jgroups_py.simulator.checkers.facts import is_free
from jgroups_py.simulator.faults.actions import Action, Starter, is_up
from jgroups_py.simulator.history import MessageSent
from jgroups_py.simulator.process import STATE_CHUNK_BYTES, Process, parse_log
from jgroups_py.simulator.profiles.sites import Replier
from jgroups_py.simulator.world import World

FITS, ENDS = "G", "L"                    # the guarantees
SLOW_CHUNK_NS, READ_NS = millis(7), millis(30)
FAILS_EVERY = 5                          # a failing provider refuses every fifth state
ERROR = "the application has no state just now"


@attrs.frozen
class FetchState(Action):
    """Request the state of `target` ("": of the coordinator). again: even while a request is under way."""

    name: str
    target: str
    timeout_ns: int
    again: bool = False

    def do(self, world: World, start: Starter) -> bool:
        process = world.processes.get(self.name)
        if process is None or process.paused or not is_up(world, self.name) or process.view is None:
            return False
        app = process.app
        if (self.target and self.target not in world.processes) or not isinstance(app, StateApp) or \
                (is_waiting(process) and not self.again):
            return False
        app.request(self.target, self.timeout_ns)
        return True

    def describe(self) -> str:
        return (f"{self.name} fetches the state of {self.target or 'the coordinator'}, and waits "
                f"{self.timeout_ns / NS_PER_S:g} s")


@attrs.frozen
class StateBehaviour:
    """How the applications of a run handle states.

    padding: bytes of each state besides the log; slow_writer: a state is written in pieces, with pauses between them;
    slow_reader: readers report that they fall behind; fails: providers refuse every fifth state.
    """

    padding: int = 0
    slow_writer: bool = False
    slow_reader: bool = False
    fails: bool = False


def behaviour(rng: Random) -> StateBehaviour:
    """Draw the behaviour of a run's applications."""
    return StateBehaviour(rng.choice((0, 0, 0, 0, 100_000, 700_000, 1_600_000)), rng.random() < 0.3, rng.random() < 0.3,
                  rng.random() < 0.3)


@attrs.frozen(eq=False)
class StateAtProvider:
    """A state that `process` provided after `place` multicasts of its stream, with its digest."""

    name: str
    process: Process
    place: int
    digest: bytes


@attrs.define(eq=False)
class InstalledState:
    """A state that arrived; deliveries after it begin at `place` of the stream.

    provided: the provided state; None: no member provided these bytes, so it was not installed. stop: place at which
    the next state begins to arrive; None: there is none.
    """

    provided: StateAtProvider | None
    place: int
    stop: int | None = None


class StateApp(Replier):
    """An application whose state is its log, with a name and padding in front.

    stream: each reliable multicast that it delivered, with the view of the delivery; provided, installed: states, in
    order; requested, ends_before: number of its requests, and how many had ended at the time of the latest.
    """

    def __init__(self, behaviour: StateBehaviour) -> None:
        super().__init__()
        self.behaviour = behaviour
        self.fails = behaviour.fails
        self.stream: list[tuple[bytes, View | None]] = []
        self.provided: list[StateAtProvider] = []
        self.installed: list[InstalledState] = []
        self.requested = 0
        self.ends_before = 0
        # (messages deferred before it, place, request): requests that wait for the end of the state that is arriving
        self._pending_requests: list[tuple[int, int, int]] = []
        self._begun = 0
        self._behind = False

    def request(self, target: str, timeout_ns: int) -> None:
        """Request a state."""
        self.requested += 1
        self.ends_before = len(self.state_errors)
        self.world.remark(f"{self.process.incarnation} asks {target or 'the coordinator'} for the state")
        self.world.get_state(self.process.name, target or None, timeout_ns)

    def delivered(self, batch: Batch) -> None:
        if batch.dest is None and not batch.flags & NO_RELIABILITY:
            self.stream.extend((payload, self.process.view) for payload in batch.payloads)
        super().delivered(batch)

    # --- providing --------------------------------------------------------------------------------------------------

    def state_requested(self, request: int) -> None:
        if self._incoming is None:
            self._provide(request, len(self.stream))
        else:                             # it must cover messages that are applied after the state that is arriving
            self._pending_requests.append((len(self._deferred), len(self.stream), request))

    def _provide(self, request: int, place: int) -> None:
        name = f"state {len(self.provided)} of {self.process.incarnation}"
        if self.fails and len(self.provided) % FAILS_EVERY == FAILS_EVERY - 1:
            self.provided.append(StateAtProvider(name, self.process, place, b""))
            return self._write(request, [(b"", ERROR)])
        parts = [name.encode(), bytes(self.behaviour.padding), *self.log]
        state = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        self.provided.append(StateAtProvider(name, self.process, place, digest_of(state)))
        pieces = [state[at:at + STATE_CHUNK_BYTES] for at in range(0, len(state), STATE_CHUNK_BYTES)]
        return self._write(request, [(piece, "") for piece in pieces])

    def _write(self, request: int, pieces: list[tuple[bytes, str]]) -> None:
        """Write the first of the pieces now; the others at once or, as a slow writer, later."""
        data, error = pieces.pop(0)
        self.world.inject_event(self.process, StateChunk(request, data, not pieces, error))
        if pieces and self.behaviour.slow_writer:
            self.world.after(SLOW_CHUNK_NS, self._write, request, pieces)
        elif pieces:
            self._write(request, pieces)

    # --- taking -----------------------------------------------------------------------------------------------------

    def state_begins(self) -> None:
        super().state_begins()
        self._begun = len(self.stream)

    def state_part(self, data: bytes) -> None:
        super().state_part(data)
        if self.behaviour.slow_reader and not self._behind:
            self._behind = True
            self.world.inject_event(self.process, StateBusy(True))
            self.world.after(READ_NS, self._catch_up)

    def _catch_up(self) -> None:
        self._behind = False
        self.world.inject_event(self.process, StateBusy(False))

    def state_ends(self, error: str) -> None:
        state = b"".join(self._incoming or ())
        arrived = not error and self._incoming is not None
        self.world.remark(f"{self.process.incarnation} "
                          + (f"has the state {digest_of(state).hex()}" if arrived else f"has no state: {error}"))
        if not arrived:
            return super().state_ends(error)
        self.state_errors.append(error)
        self._incoming = None
        digest = digest_of(state)
        provided = next((known for app in apps(self.world) for known in app.provided if known.digest == digest), None)
        if provided is not None:
            self.log = parse_log(state)[2:]
        if self.installed:
            self.installed[-1].stop = self._begun
        self.installed.append(InstalledState(provided, self._begun))
        return self._append_deferred()

    def _append_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        wanted, self._pending_requests, at = self._pending_requests, [], 0
        for stop, place, request in wanted:
            self.log += deferred[at:stop]
            self._provide(request, place)
            at = stop
        self.log += deferred[at:]


def digest_of(state: bytes) -> bytes:
    """The digest by which states are compared."""
    return blake2b(state, digest_size=8).digest()


def is_waiting(process: Process) -> bool:
    """Whether a state is on its way to the application, or deliveries are queued behind one."""
    node = process.node
    if node.closed:
        return False
    relay = node.relay
    local = next((layer for layer in node.local.layers if isinstance(layer, StateTransfer)), None)
    return process.app._incoming is not None or (local is not None and local.transfer is not None) or \
        (isinstance(relay, Relay) and (relay.state_transfer.busy or relay.state_transfer.open))


# --- checks -----------------------------------------------------------------------------------------------------------

def check_states(world: World, *, by_numbers: bool) -> list[Violation]:
    """Violations in the states of a run and in the deliveries around them.

    by_numbers: check RELAY's numbers, too: of each running origin a member has all messages from its first one on.
    Only where nothing may be lost.
    """
    return [*endless(world), *altered(world), *repeated(world), *unlike_provider(world),
            *(holes(world) if by_numbers else ())]


def apps(world: World) -> Iterator[StateApp]:
    """The applications of all processes."""
    for process in world.all_processes:
        assert isinstance(process.app, StateApp), "every member of such a profile runs a StateApp"
        yield process.app


def endless(world: World) -> Iterator[Violation]:
    """L: requests that have not ended."""
    for app in apps(world):
        process = app.process
        if process.running and (is_waiting(process) or (app.requested and len(app.state_errors) <= app.ends_before)):
            yield Violation(ENDS, f"{process.incarnation} still waits for a state", world.now_ns)


def altered(world: World) -> Iterator[Violation]:
    """Installed states that differ from every provided one."""
    for app in apps(world):
        if any(state.provided is None for state in app.installed):
            yield Violation(FITS, f"{app.process.incarnation} got a state that no member provided",
                            world.now_ns)


def repeated(world: World) -> Iterator[Violation]:
    """Messages that a member has twice, by a state and by delivery, or out of their sender's order.

    Those that have no place in a TOTAL order have an order of their own.
    """
    unordered = unordered_payloads(world)
    for app in apps(world):
        process, last, seen = app.process, dict[tuple[str, bool], int](), set[bytes]()
        for payload in app.log:
            sender, number = place_of(payload)
            stream = sender, payload in unordered
            if payload in seen or number <= last.get(stream, -1):
                yield Violation(FITS, f"{process.incarnation} has number {number} of {sender} after number "
                                f"{last[stream]}", world.now_ns)
                break
            last[stream] = number
            seen.add(payload)


def unordered_payloads(world: World) -> dict[bytes, None]:
    """The payloads of multicasts that have no place in a TOTAL order."""
    relayed = any(world.history.sites.values())
    return {payload: None for entry in world.history.entries
            if isinstance(entry, MessageSent) and is_free(entry.flags, relayed=relayed) for payload in entry.payloads}


def place_of(payload: bytes) -> tuple[str, int]:
    """The sender of a multicast and its number.

    >>> place_of(b"A#1>*/17....")
    ('A#1', 17)
    """
    sender, _, number = payload.rstrip(b".").decode().partition(">*/")
    return sender, int(number)


def unlike_provider(world: World) -> Iterator[Violation]:
    """Within a view, a member of the provider's group delivers after the state what the provider delivered after it.

    Of each sender, one has a prefix of what the other has; if both installed the same next view, exactly the same.
    """
    unordered = unordered_payloads(world)
    for app in apps(world):
        process = app.process
        for state in app.installed:
            source = state.provided
            if source is None or source.process.site != process.site:
                continue
            provider = source.process.app
            assert isinstance(provider, StateApp), "it provided a state"
            stop = next((later.place for later in provider.installed if later.place > source.place), None)
            mine = by_view(app.stream[state.place:state.stop], unordered)
            its = by_view(provider.stream[source.place:stop], unordered)
            whole = state.stop is None and stop is None
            for view in [view for view in mine if view in its]:
                together = whole and successor(process, view) == successor(source.process, view) is not None
                text = compared(mine[view], its[view], together=together)
                if text:
                    yield Violation(FITS, f"{process.incarnation} installed {source.name}, and then delivered {text} "
                                    f"in {world.history.view(view)}", world.now_ns)
                    break


def by_view(
    stream: Iterable[tuple[bytes, View | None]], unordered: dict[bytes, None],
) -> dict[View, dict[str, list[int]]]:
    """View -> sender -> numbers of the messages delivered in it; those in `unordered` as of another sender."""
    found: dict[View, dict[str, list[int]]] = {}
    for payload, view in stream:
        if view is not None:
            sender, number = place_of(payload)
            stream_of = f"{sender} (no order)" if payload in unordered else sender
            found.setdefault(view, {}).setdefault(stream_of, []).append(number)
    return found


def successor(process: Process, view: View) -> View | None:
    """The view that the process installed after `view`."""
    places = [at for at, known in enumerate(process.views[:-1]) if known == view]
    return process.views[places[0] + 1] if places else None


def compared(mine: dict[str, list[int]], its: dict[str, list[int]], *, together: bool) -> str:
    """How the deliveries of two members differ; "" if they do not."""
    for sender in dict.fromkeys((*mine, *its)):
        one, other = mine.get(sender, []), its.get(sender, [])
        least = min(len(one), len(other))
        if one[:least] != other[:least] or (together and len(one) != len(other)):
            return f"{shown(one)} of {sender}, but the provider {shown(other)}"
    return ""


def shown(numbers: list[int]) -> str:
    """The first and the last number, and how many there are."""
    return f"{numbers[0]}..{numbers[-1]} ({len(numbers)})" if numbers else "nothing"


def holes(world: World) -> Iterator[Violation]:
    """Gaps behind the first message that a member has of a running origin."""
    facts = Facts(world.history)
    for app in apps(world):
        has = dict.fromkeys(app.log)
        for origin, messages in facts.by_relay_number.items() if app.process.running else ():
            there = [message.payload in has for message in messages]
            if origin in world.by_address and world.by_address[origin].running and any(there) and \
                    not all(there[there.index(True):]):
                lacking = there.index(False, there.index(True))
                yield Violation(FITS, f"{app.process.incarnation} has {facts.show(messages[lacking].payload)} "
                                "neither by a state nor by delivery", world.now_ns)
