"""Members fetch states while everything fails around them: each request ends, and no state repeats a message."""
from __future__ import annotations

import attrs
import pytest

from jgroups_py.model.batch import NO_RELIABILITY
from jgroups_py.model.units import seconds
from jgroups_py.simulator import World
from jgroups_py.simulator.checkers import check
from jgroups_py.simulator.faults.actions import Action, SendMessages, Starter, is_up
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles import GroupProfile, Plan
from jgroups_py.simulator.runner import carry_out

TIMEOUT_NS = seconds(5)


class Curious(App):
    """Counts the states it asked for."""

    asked = 0


@attrs.frozen
class Fetch(Action):
    """Ask for the state of `target`, or the coordinator's, unless one is on its way."""

    name: str
    target: str

    def do(self, world: World, start: Starter) -> bool:
        process = world.processes.get(self.name)
        if process is None or process.paused or not is_up(world, self.name) or process.view is None:
            return False
        app = process.app
        if isinstance(app, Curious) and app.asked == len(app.state_errors):
            app.asked += 1
            known = self.target in [member.name for member in process.view.members]
            world.get_state(self.name, self.target if known else None, TIMEOUT_NS)
        return True

    def describe(self) -> str:
        return f"{self.name} fetches the state of {self.target or 'the coordinator'}"


class States(GroupProfile):
    """Profile group, with states."""

    name = "group"

    def make_plan(self) -> Plan:
        plan = super().make_plan()
        rng = self.rng
        self.slow = None
        times = [rng.randrange(seconds(1), plan.stop_ns) for _ in range(12)]
        times += [max(0, fault.at_ns + rng.randrange(-seconds(0.02), seconds(0.05))) for fault in plan.faults]
        fetches = [Fetch(at_ns, rng.choice(self.members), rng.choice(["", *self.members])) for at_ns in sorted(times)]
        # Unreliable multicasts have no place in their sender's stream, so a state may hold one that is still to come.
        talk = [attrs.evolve(action, flags=action.flags & ~NO_RELIABILITY)
                if isinstance(action, SendMessages) else action for action in plan.traffic]
        return attrs.evolve(plan, traffic=(*talk, *fetches))

    def start(self, world: World, name: str) -> Process:
        process = super().start(world, name)
        process.app = Curious()
        process.app.joins(world, process)
        return process


def order_of(log: list[bytes], incarnation: str) -> list[int]:
    start = f"{incarnation}>*/".encode()
    return [int(payload[len(start):].rstrip(b".")) for payload in log if payload.startswith(start)]


@pytest.mark.parametrize("seed", range(25))
def test_states_under_faults(seed: int) -> None:
    world, profile = World(seed), States(seed)
    carry_out(world, profile)
    world.run_for(2 * TIMEOUT_NS)
    assert [str(found) for found in check(world.history)] == []
    for process in world.all_processes:
        app = process.app
        assert isinstance(app, Curious)
        if process.running:
            assert len(app.state_errors) == app.asked, f"{process.incarnation} still waits for a state"
        for sender in world.all_processes:
            numbers = order_of(app.log, sender.incarnation)
            assert numbers == sorted(dict.fromkeys(numbers)), f"{process.incarnation} has {sender.incarnation}'s twice"


def test_the_seeds_exercise_transfers() -> None:
    done = 0
    for seed in range(5):
        world, profile = World(seed), States(seed)
        carry_out(world, profile)
        done += sum(process.app.state_errors.count("") for process in world.all_processes)
    assert done > 20
