"""What a test sees: `simulation.run(...)` passes, or raises with everything one needs to look into the failure."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import attrs

from jgroups_py.sim.parts import WHOLE, Part
from jgroups_py.sim.runner import Outcome
from jgroups_py.sim.shrink import story
from jgroups_py.simulation.trial import Check, Trial

SHOWN_VIOLATIONS = 5


class SimulationFailure(AssertionError):
    """A seed breaks a guarantee or a check; the text says which, how to run it again, and the picture."""


@attrs.define
class Simulation:
    """One seed of a profile, for a test.

    again: what runs this seed, as words of a command; shrink_s: time for shrinking, less what was used so far.
    """

    profile: str
    seed: int
    again: str
    part: Part = WHOLE
    shrink_s: float = 30.0
    outcome: Outcome | None = attrs.field(default=None, repr=False)

    def run(
        self, start: Callable[[Any], Any], *, act: Callable[[Any, Random], object] | None = None,
        always: Check | None = None, at_end: Check | None = None,
    ) -> Outcome:
        """Simulate the application (see Trial).

        Raises:
            SimulationFailure: a guarantee or one of the checks does not hold.
        """
        __tracebackhide__ = True
        trial = Trial(self.profile, start, act, always, at_end)
        self.outcome = outcome = trial.run(self.seed, self.part)
        if outcome.violations:
            raise SimulationFailure("\n".join(self._report(outcome, self._shrunk(trial, outcome))))
        return outcome

    def _shrunk(self, trial: Trial, outcome: Outcome) -> Outcome | None:
        """The shrunk outcome; None if there is no time, or the part that was run is a shrunk one."""
        if self.shrink_s <= 0 or self.part != WHOLE:
            return None
        began_s = time.monotonic()
        least = trial.shrunk(outcome, self.shrink_s)
        self.shrink_s -= time.monotonic() - began_s
        return least

    def _report(self, outcome: Outcome, least: Outcome | None) -> Iterator[str]:
        yield f"seed {outcome.seed} of profile {self.profile} breaks {', '.join(outcome.guarantees)}"
        yield from outcome.violations[:SHOWN_VIOLATIONS]
        yield f"run it again: {self.again}{self.part.words('--jgroups-')}"
        if least is not None:
            yield from story(outcome, least, f"{self.again}{least.part.words('--jgroups-')}")
        yield ""
        yield from (least or outcome).picture
