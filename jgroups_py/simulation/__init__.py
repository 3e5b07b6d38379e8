"""Your application on the simulator: its receivers on simulated members, our checkers and yours.

    from jgroups_py.simulation import Trial

    trial = Trial("group", start=Counter, act=lambda counter, rng: counter.add(rng.randint(1, 9)), at_end=all_equal)
    outcome = trial.run(seed=7)              # outcome.violations, outcome.picture

With pytest it is the fixture `simulation` (pytest_plugin.py); design/simulator.md says what is simulated and how.
"""
from __future__ import annotations

from jgroups_py.simulation.channel import SimulatedChannel
from jgroups_py.simulation.report import Simulation, SimulationFailure
from jgroups_py.simulation.trial import Trial

__all__ = ["Simulation", "SimulationFailure", "SimulatedChannel", "Trial"]
