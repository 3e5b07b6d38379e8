"""States in simulated worlds: requests for them as actions, an application that provides and takes them, and the judge.

The application's state is the log of multicasts that it was given, with a name in front, so that what a member took can
be compared with what a member provided, and what each was given afterwards.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from random import Random

import attrs

from jgroups_py.batch import NO_RELIABILITY, Batch
from jgroups_py.events import StateBusy, StateChunk
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.state_transfer import StateTransfer
from jgroups_py.sim.checkers import Facts, Violation
from jgroups_py.sim.faults import Action, Starter, is_up
from jgroups_py.sim.process import STATE_CHUNK_BYTES, Process, parse_log
from jgroups_py.sim.profiles.sites import Replier
from jgroups_py.sim.world import World
from jgroups_py.units import NS_PER_S, millis
from jgroups_py.view import View

FITS, ENDS = "G", "L"                    # the guarantees
SLOW_CHUNK_NS, READ_NS = millis(7), millis(30)
FAILS_EVERY = 5                          # so many-th state of a provider of the kind that fails now and then
ERROR = "the application has no state just now"


@attrs.frozen
class Fetch(Action):
    """Ask for the state of `target`, or the coordinator's. again: also while one is on its way."""

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
                (waits(process) and not self.again):
            return False
        app.ask(self.target, self.timeout_ns)
        return True

    def words(self) -> str:
        return (f"{self.name} fetches the state of {self.target or 'the coordinator'}, and waits "
                f"{self.timeout_ns / NS_PER_S:g} s")


@attrs.frozen
class Manner:
    """How the applications of a run handle states.

    padding: bytes that each state has besides the log; slow_writer: a state is written in pieces, with pauses between
    them; slow_reader: a reader falls behind now and then; fails: a provider fails now and then.
    """

    padding: int = 0
    slow_writer: bool = False
    slow_reader: bool = False
    fails: bool = False


def manner(rng: Random) -> Manner:
    """Drawn for a run."""
    return Manner(rng.choice((0, 0, 0, 0, 100_000, 700_000, 1_600_000)), rng.random() < 0.3, rng.random() < 0.3,
                  rng.random() < 0.3)


@attrs.frozen(eq=False)
class Given:
    """A state that was provided: by which process, how many multicasts it had been given before, its digest."""

    name: str
    process: Process
    place: int
    digest: bytes


@attrs.define(eq=False)
class Taken:
    """A state that arrived; what was given afterwards begins at `place` of the stream.

    given: what it is; None: it is none that was given, and was not set. stop: where the next one begins to arrive;
    None: there is no other.
    """

    given: Given | None
    place: int
    stop: int | None = None


class StateApp(Replier):
    """An application whose state is its log, with a name and padding in front.

    stream: each reliable multicast that it was given, with the view of the delivery; given, taken: states,
    in order; asked, ends_before: how many it asked for, and how many had ended, well or not, when it asked last.
    """

    def __init__(self, manner: Manner) -> None:
        super().__init__()
        self.manner = manner
        self.fails = manner.fails
        self.stream: list[tuple[bytes, View | None]] = []
        self.given: list[Given] = []
        self.taken: list[Taken] = []
        self.asked = 0
        self.ends_before = 0
        self._wanted: list[tuple[int, int, int]] = []    # (messages aside before it, place, request): answered after it
        self._begun = 0
        self._behind = False

    def ask(self, target: str, timeout_ns: int) -> None:
        """Ask for a state."""
        self.asked += 1
        self.ends_before = len(self.state_errors)
        self.world.remark(f"{self.process.incarnation} asks {target or 'the coordinator'} for the state")
        self.world.get_state(self.process.name, target or None, timeout_ns)

    def delivered(self, batch: Batch) -> None:
        if batch.dest is None and not batch.flags & NO_RELIABILITY:
            self.stream.extend((payload, self.process.view) for payload in batch.payloads)
        super().delivered(batch)

    # --- providing --------------------------------------------------------------------------------------------------

    def state_wanted(self, request: int) -> None:
        if self._incoming is None:
            self._provide(request, len(self.stream))
        else:                                             # what it is to hold comes after the state that is arriving
            self._wanted.append((len(self._aside), len(self.stream), request))

    def _provide(self, request: int, place: int) -> None:
        name = f"state {len(self.given)} of {self.process.incarnation}"
        if self.fails and len(self.given) % FAILS_EVERY == FAILS_EVERY - 1:
            self.given.append(Given(name, self.process, place, b""))
            return self._write(request, [(b"", ERROR)])
        parts = [name.encode(), bytes(self.manner.padding), *self.log]
        state = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        self.given.append(Given(name, self.process, place, digest_of(state)))
        pieces = [state[at:at + STATE_CHUNK_BYTES] for at in range(0, len(state), STATE_CHUNK_BYTES)]
        return self._write(request, [(piece, "") for piece in pieces])

    def _write(self, request: int, pieces: list[tuple[bytes, str]]) -> None:
        """The first of the pieces now; the others too, or later."""
        data, error = pieces.pop(0)
        self.world.give_down(self.process, StateChunk(request, data, not pieces, error))
        if pieces and self.manner.slow_writer:
            self.world.after(SLOW_CHUNK_NS, self._write, request, pieces)
        elif pieces:
            self._write(request, pieces)

    # --- taking -----------------------------------------------------------------------------------------------------

    def state_begins(self) -> None:
        super().state_begins()
        self._begun = len(self.stream)

    def state_part(self, data: bytes) -> None:
        super().state_part(data)
        if self.manner.slow_reader and not self._behind:
            self._behind = True
            self.world.give_down(self.process, StateBusy(True))
            self.world.after(READ_NS, self._catch_up)

    def _catch_up(self) -> None:
        self._behind = False
        self.world.give_down(self.process, StateBusy(False))

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
        given = next((known for app in apps(self.world) for known in app.given if known.digest == digest), None)
        if given is not None:
            self.log = parse_log(state)[2:]
        if self.taken:
            self.taken[-1].stop = self._begun
        self.taken.append(Taken(given, self._begun))
        return self._take_aside()

    def _take_aside(self) -> None:
        aside, self._aside = self._aside, []
        wanted, self._wanted, at = self._wanted, [], 0
        for stop, place, request in wanted:
            self.log += aside[at:stop]
            self._provide(request, place)
            at = stop
        self.log += aside[at:]


def digest_of(state: bytes) -> bytes:
    """To compare states by."""
    return blake2b(state, digest_size=8).digest()


def waits(process: Process) -> bool:
    """Whether a state is on its way to the application, or something is kept back for one."""
    node = process.node
    if node.closed:
        return False
    relay = node.relay
    local = next((layer for layer in node.local.layers if isinstance(layer, StateTransfer)), None)
    return process.app._incoming is not None or (local is not None and local.transfer is not None) or \
        (isinstance(relay, Relay) and (relay.states.busy or relay.states.open))


# --- the judge --------------------------------------------------------------------------------------------------------

def judge_states(world: World, *, by_numbers: bool) -> list[Violation]:
    """What is wrong with the states of a run, and with what was delivered around them.

    by_numbers: by the numbers of RELAY: of each origin that lives a member has all from the first that it has on; only
    where nothing may be lost.
    """
    return [*endless(world), *altered(world), *repeated(world), *unlike_the_provider(world),
            *(holes(world) if by_numbers else ())]


def apps(world: World) -> Iterator[StateApp]:
    """The applications of all processes."""
    for process in world.all_processes:
        assert isinstance(process.app, StateApp), "each member of such a profile has one"
        yield process.app


def endless(world: World) -> Iterator[Violation]:
    """L: requests that have not ended."""
    for app in apps(world):
        process = app.process
        if process.running and (waits(process) or (app.asked and len(app.state_errors) <= app.ends_before)):
            yield Violation(ENDS, f"{process.incarnation} still waits for a state", world.now_ns)


def altered(world: World) -> Iterator[Violation]:
    """States that are not, byte for byte, what a provider gave."""
    for app in apps(world):
        if any(state.given is None for state in app.taken):
            yield Violation(FITS, f"{app.process.incarnation} got a state with other bytes than were given",
                            world.now_ns)


def repeated(world: World) -> Iterator[Violation]:
    """Messages that a member has twice, by a state and by delivery, and such as are out of their sender's order."""
    for app in apps(world):
        process, last = app.process, dict[str, int]()
        for payload in app.log:
            sender, number = place_of(payload)
            if number <= last.get(sender, -1):
                yield Violation(FITS, f"{process.incarnation} has number {number} of {sender} after number "
                                f"{last[sender]}", world.now_ns)
                break
            last[sender] = number


def place_of(payload: bytes) -> tuple[str, int]:
    """The sender of a multicast and its number.

    >>> place_of(b"A#1>*/17....")
    ('A#1', 17)
    """
    sender, _, number = payload.rstrip(b".").decode().partition(">*/")
    return sender, int(number)


def unlike_the_provider(world: World) -> Iterator[Violation]:
    """What a member of the provider's group was given after the state, in a view, is what the provider was given there.

    Of each sender one has what the other has, or the beginning of it; as much, if both went on to the same view.
    """
    for app in apps(world):
        process = app.process
        for state in app.taken:
            source = state.given
            if source is None or source.process.site != process.site:
                continue
            giver = source.process.app
            assert isinstance(giver, StateApp), "it gave a state"
            stop = next((later.place for later in giver.taken if later.place > source.place), None)
            mine, its = by_view(app.stream[state.place:state.stop]), by_view(giver.stream[source.place:stop])
            whole = state.stop is None and stop is None
            for view in [view for view in mine if view in its]:
                together = whole and successor(process, view) == successor(source.process, view) is not None
                text = compared(mine[view], its[view], together=together)
                if text:
                    yield Violation(FITS, f"{process.incarnation} took {source.name}, and was given {text} "
                                    f"in {world.history.view(view)} then", world.now_ns)
                    break


def by_view(stream: Iterable[tuple[bytes, View | None]]) -> dict[View, dict[str, list[int]]]:
    """View -> sender -> numbers of what was given in it."""
    found: dict[View, dict[str, list[int]]] = {}
    for payload, view in stream:
        if view is not None:
            sender, number = place_of(payload)
            found.setdefault(view, {}).setdefault(sender, []).append(number)
    return found


def successor(process: Process, view: View) -> View | None:
    """The view that the process installed after another one."""
    places = [at for at, known in enumerate(process.views[:-1]) if known == view]
    return process.views[places[0] + 1] if places else None


def compared(mine: dict[str, list[int]], its: dict[str, list[int]], *, together: bool) -> str:
    """How two members were given different messages; "" if they were not."""
    for sender in dict.fromkeys((*mine, *its)):
        one, other = mine.get(sender, []), its.get(sender, [])
        least = min(len(one), len(other))
        if one[:least] != other[:least] or (together and len(one) != len(other)):
            return f"{shown(one)} of {sender}, but the provider {shown(other)}"
    return ""


def shown(numbers: list[int]) -> str:
    """The first and the last, and how many."""
    return f"{numbers[0]}..{numbers[-1]} ({len(numbers)})" if numbers else "nothing"


def holes(world: World) -> Iterator[Violation]:
    """Of an origin that lives a member has all from the first number that it has."""
    facts = Facts(world.history)
    for app in apps(world):
        has = dict.fromkeys(app.log)
        for origin, messages in facts.by_relay_number.items() if app.process.running else ():
            there = [message.payload in has for message in messages]
            if origin in world.by_address and world.by_address[origin].running and any(there) and \
                    not all(there[there.index(True):]):
                lacking = there.index(False, there.index(True))
                yield Violation(FITS, f"{app.process.incarnation} lacks {facts.show(messages[lacking].payload)}, by "
                                "states and by delivery", world.now_ns)
