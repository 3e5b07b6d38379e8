"""Sites fetch states from each other while relays crash and networks fail: state and stream fit at every member."""
from __future__ import annotations

import attrs
import pytest

from jgroups_py.model.address import Address
from jgroups_py.model.batch import NO_RELAY, NO_RELIABILITY
from jgroups_py.model.units import seconds
from jgroups_py.protocols.relay import Relay
from jgroups_py.protocols.relay.headers import Vector
from jgroups_py.protocols.relay.inbound.delivery import RemoteDelivery
from jgroups_py.protocols.relay.origin.send_gate import SendGate
from jgroups_py.protocols.relay.state.forwarder import StateForwarder
from jgroups_py.protocols.relay.state.provider import StateProvider
from jgroups_py.simulator import World
from jgroups_py.simulator.checkers import CHECKERS, Facts, check
from jgroups_py.simulator.faults.actions import Action, SendMessages, Starter, is_up
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.base import Plan
from jgroups_py.simulator.profiles.relay import RelayCrashProfile
from jgroups_py.simulator.runner import carry_out
from tests.simulator.planted_bugs.safeguard import Patch

TIMEOUT_NS = seconds(5)
WHILE_WAITING = [name for name in CHECKERS if name != "R5"]    # a member that fetches a state keeps back its multicasts


@attrs.frozen
class FetchFar(Action):
    """Ask a member of another site for its state, unless one is on its way."""

    name: str
    target: str

    def do(self, world: World, start: Starter) -> bool:
        process, other = world.processes.get(self.name), world.processes.get(self.target)
        if process is None or other is None or process.paused or not is_up(world, self.name):
            return False
        view = process.global_view
        if waits(process) or view is None or other.me not in view:
            return False
        world.get_state(self.name, self.target, TIMEOUT_NS)
        return True

    def describe(self) -> str:
        return f"{self.name} fetches the state of {self.target}"


def waits(process: Process) -> bool:
    """Whether its application waits for a state."""
    relay = process.node.relay
    assert isinstance(relay, Relay)
    return relay.state_transfer.request is not None


class SiteStates(RelayCrashProfile):
    """Profile relay-crash, with states."""

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        rng = self.rng
        times = [rng.randrange(seconds(3), plan.stop_ns) for _ in range(10)]
        times += [max(0, fault.at_ns + rng.randrange(-seconds(0.02), seconds(0.05))) for fault in plan.faults]
        fetches = [self.fetch(at_ns, rng.choice(self.members)) for at_ns in sorted(times)]
        # Right behind a message, so that it is still on its way when the provider is asked.
        sends = [action for action in plan.traffic if isinstance(action, SendMessages) and not action.dest]
        for send in rng.sample(sends, 12):
            fetch = self.fetch(send.at_ns + rng.randrange(seconds(0.002)), send.name)
            fetches.append(rng.choice((fetch, attrs.evolve(fetch, name=fetch.target, target=fetch.name))))
        # What stays in its site is in no other site's state.
        keep = ~(NO_RELIABILITY | NO_RELAY)
        messages = [attrs.evolve(action, flags=action.flags & keep) if isinstance(action, SendMessages) else action
                for action in plan.traffic]
        traffic = sorted((*messages, *fetches), key=lambda action: action.at_ns)
        return attrs.evolve(plan, traffic=tuple(traffic))

    def fetch(self, at_ns: int, name: str) -> FetchFar:
        """A member of another site is asked."""
        far = [other for other in self.members if self.site_of[other] != self.site_of[name]]
        return FetchFar(at_ns, name, self.rng.choice(far))

    def start(self, world: World, name: str) -> Process:
        process = super().start(world, name)
        process.app = App()
        process.app.joins(world, process)
        return process


def played(seed: int) -> World:
    world, profile = World(seed), SiteStates(seed)
    carry_out(world, profile)
    world.run_for(3 * TIMEOUT_NS)
    return world


@pytest.mark.parametrize("seed", [*range(12), 135])
def test_state_and_later_messages_are_each_message_once(seed: int) -> None:
    world = played(seed)
    assert [str(found) for found in check(world.history, WHILE_WAITING)] == []
    facts = Facts(world.history)
    for process in world.all_processes:
        if not process.running:
            continue
        app = process.app
        assert not waits(process), f"{process.incarnation} still waits for a state"
        places = {payload: at for at, payload in enumerate(app.log)}
        assert len(places) == len(app.log), f"{process.incarnation} has a message twice"
        for origin, messages in facts.by_relay_number.items():
            has = [message.payload in places for message in messages]
            if origin in world.history.names and any(has) and world.by_address[origin].running:
                holes = [message.relay_number for message, there in zip(messages, has, strict=True) if not there]
                assert all(number < 1 + has.index(True) for number in holes), \
                    f"{process.incarnation} lacks {holes} of {world.history.names[origin]}"
                order = [places[message.payload] for message in messages if message.payload in places]
                assert order == sorted(order), f"{process.incarnation} has {world.history.names[origin]} out of order"


def test_the_seeds_exercise_transfers() -> None:
    fetched = sum(app.state_errors.count("") for seed in range(3) for app in
                  [process.app for process in played(seed).all_processes])
    assert fetched > 10


# --- what is planted is found -----------------------------------------------------------------------------------------

def cut_at_once(self: StateProvider) -> None:
    """The provider does not wait until it has what the asking site has."""
    for key in list(self.waiting):
        self.fix(key)


def put_nothing_off(self: StateForwarder, site: str, origin: Address) -> bool:
    """The relay goes on disseminating."""
    return False


def keep_nothing_back(self: SendGate, closed: bool, why: str) -> None:
    """Members go on multicasting."""


def skip_nothing(self: RemoteDelivery, vector: Vector) -> tuple[()]:
    """Members go on where they stood."""
    return ()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("patch", [
    Patch(StateProvider, "fix_covered_states", cut_at_once), Patch(StateForwarder, "defers", put_nothing_off),
    Patch(SendGate, "shut", keep_nothing_back), Patch(RemoteDelivery, "skip_to", skip_nothing),
], ids=lambda patch: patch.without.__name__)
def test_without_a_safeguard_state_and_messages_do_not_fit(patch: Patch) -> None:
    with patch.applied():
        assert not all(fits(seed) for seed in range(30))


def fits(seed: int) -> bool:
    """Whether the seed finds nothing."""
    try:
        test_state_and_later_messages_are_each_message_once(seed)
    except AssertionError:
        return False
    return True
