"""The fixture's object: `simulation.run(...)` returns, or raises with all that is needed to analyse the failure."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import attrs

from jgroups_py.simulator.plan_parts import WHOLE, PlanPart
from jgroups_py.simulator.runner import Outcome
from jgroups_py.simulator.shrink import story
from jgroups_py.testing.simulation.refusals import SimulationError
from jgroups_py.testing.simulation.trial import Check, Trial

SHOWN_VIOLATIONS = 5


class SimulationFailure(AssertionError):
    """A seed violates a guarantee or a check; the text has these, the command that repeats it, and the picture."""


@attrs.define
class Simulation:
    """One seed of a profile, for a test.

    again: the command that repeats this seed; shrink_s: seconds left for shrinking. refusal: what the application did
    that cannot be simulated; it does so in every seed.
    """

    profile: str
    seed: int
    again: str
    part: PlanPart = WHOLE
    shrink_s: float = 30.0
    outcome: Outcome | None = attrs.field(default=None, repr=False)
    refusal: SimulationError | None = None

    def run(
        self, start: Callable[[Any], Any], *, act: Callable[[Any, Random], object] | None = None,
        always: Check | None = None, at_end: Check | None = None, clock_drift: float = 0.0,
        threads: bool = False,
    ) -> Outcome:
        """Simulate the application (see Trial).

        Raises:
            SimulationFailure: a guarantee or a check is violated.
            SimulationError: the application waits for real, or reaches outside of the simulation.
        """
        __tracebackhide__ = True
        trial = Trial(self.profile, start, act, always, at_end, clock_drift=clock_drift,
                      threads=threads)
        try:
            self.outcome = outcome = trial.run(self.seed, self.part)
        except SimulationError as error:
            self.refusal = error
            raise
        if outcome.violations:
            raise SimulationFailure("\n".join(self._report(outcome, self._shrunk(trial, outcome))))
        return outcome

    def _shrunk(self, trial: Trial, outcome: Outcome) -> Outcome | None:
        """The shrunk outcome; None if there is no time left, or a part of the plan was run."""
        if self.shrink_s <= 0 or self.part != WHOLE:
            return None
        began_s = time.monotonic()
        least = trial.shrunk(outcome, self.shrink_s)
        self.shrink_s -= time.monotonic() - began_s
        return least

    def _report(self, outcome: Outcome, least: Outcome | None) -> Iterator[str]:
        yield f"seed {outcome.seed} of profile {self.profile} breaks {', '.join(outcome.guarantees)}"
        yield from outcome.violations[:SHOWN_VIOLATIONS]
        yield f"run it again: {self.again}{self.part.options('--jgroups-')}"
        if least is not None:
            yield from story(outcome, least, f"{self.again}{least.part.options('--jgroups-')}")
        yield ""
        yield from (least or outcome).picture
