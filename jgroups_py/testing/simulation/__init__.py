"""Applications on the simulator: their receivers run on simulated members, under the package's checkers and their own.

    from jgroups_py.testing.simulation import Trial

    trial = Trial("group", start=Counter, act=lambda counter, rng: counter.add(rng.randint(1, 9)), at_end=all_equal)
    outcome = trial.run(seed=7)              # outcome.violations, outcome.picture

`start` may be a coroutine function: it gets an AsyncChannel of production on a virtual event loop.

    async def app(channel):
        await channel.connect("demo")
        return Account(channel)                  # what `act` and the checks are given

With threads=True it gets a JChannel, and its threads run on virtual time, one at a time.

With pytest use the fixture `simulation` (testing/pytest_plugin.py). design/simulator.md describes what is simulated.
"""
from __future__ import annotations

from jgroups_py.testing.simulation.channel import SimulatedChannel
from jgroups_py.testing.simulation.refusals import SimulationError
from jgroups_py.testing.simulation.report import Simulation, SimulationFailure
from jgroups_py.testing.simulation.trial import Trial

__all__ = ["Simulation", "SimulationFailure", "SimulatedChannel", "SimulationError", "Trial"]
