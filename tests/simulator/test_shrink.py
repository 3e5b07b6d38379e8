"""Failing seeds shrink to little, the little fails alike, and the picture shows what matters."""
from __future__ import annotations

from collections.abc import Iterable

import attrs
import pytest

from jgroups_py.model.units import seconds
from jgroups_py.simulator.plan_parts import WHOLE, PlanPart, actions_of
from jgroups_py.simulator.profiles import PROFILES, Plan
from jgroups_py.simulator.runner import Outcome, run_seed
from jgroups_py.simulator.shrink import Shrinker, shrink, shrink_seed
from tests.simulator.planted_bugs import SAFEGUARDS

SEEDS = range(100)
ENOUGH_SECONDS = 120                     # two are, on a quiet machine


def outcome_of(plan: Plan, part: PlanPart, culprits: Iterable[int], found_ns: int) -> Outcome:
    """What a run would give that fails if all `culprits` are among its actions."""
    actions = part.actions(plan)
    broken = ("X",) if {number for number, _ in actions} >= set(culprits) else ()
    return Outcome(profile="group", seed=0, part=part, violations=broken, guarantees=broken, found_ns=found_ns,
                   digest="", sim_ns=part.stop_ns(plan), groups=1, events=0, frames=0, faults=(), traffic=(),
                   injected={}, cpu_s=0.0)


def shrinker(culprits: Iterable[int], found_ns: int = seconds(60), limit_s: float = 5.0) -> Shrinker:
    plan = PROFILES["group"](0).plan
    return Shrinker(outcome_of(plan, WHOLE, culprits, found_ns), plan,
                    lambda part: outcome_of(plan, part, culprits, found_ns), limit_s)


def is_start(plan: Plan, number: int) -> bool:
    return number >= len(plan.faults) and actions_of(plan)[number].kind == "restart"


@pytest.mark.parametrize("culprits", [(), (0,), (1, 3), (2, 20), (0, 1, 2, 3, 4), (30, 31, 60)])
def test_a_shrunk_plan_keeps_the_needed_actions_and_members(culprits: tuple[int, ...]) -> None:
    one = shrinker(culprits)
    one.shrunk()
    assert {number for number in one.kept if not is_start(one.plan, number)} == set(culprits)


def test_few_tries_are_enough() -> None:
    one = shrinker((1, 40))
    one.shrunk()
    assert one.tries < len(actions_of(one.plan))


def test_the_end_comes_forward_to_the_violation() -> None:
    one = shrinker((), found_ns=seconds(3))
    assert one.shrunk().part.stop_ns(one.plan) <= seconds(3)


def test_when_the_time_is_over_the_best_so_far_is_given() -> None:
    one = shrinker((0,), limit_s=0)
    assert one.shrunk().part == WHOLE
    assert one.tries == 0


def test_another_guarantee_does_not_count() -> None:
    plan = PROFILES["group"](0).plan

    def other_breaks(part: PlanPart) -> Outcome:
        return attrs.evolve(outcome_of(plan, part, (), 0), guarantees=("Y",))
    assert shrink(outcome_of(plan, WHOLE, (), seconds(60)), plan, other_breaks, 5).part == WHOLE


def test_a_part_is_the_same_actions_at_the_same_times() -> None:
    plan = PROFILES["relay"](0).plan
    whole = dict(WHOLE.actions(plan))
    some = dict(PlanPart(frozenset((1, 5, 9))).actions(plan))
    assert some == {number: whole[number] for number in (1, 5, 9)}


def test_a_start_that_is_cut_off_happens_at_the_end() -> None:
    plan = PROFILES["group"](0).plan
    early = PlanPart(None, until_ns=1).actions(plan)
    assert {action.kind for _, action in early} == {"restart"}
    assert {action.at_ns for _, action in early} == {1}


# --- with real bugs ---------------------------------------------------------------------------------------------------

@pytest.mark.slow
@pytest.mark.parametrize("name", ["windows of NAKACK", "digest exchange", "windows of unicasts"])
def test_a_planted_bug_shrinks_to_few_faults_with_the_same_guarantee(name: str) -> None:
    safeguard = next(one for one in SAFEGUARDS if name in one.name)
    with safeguard.removed():
        outcome = safeguard.first_found(SEEDS)
        assert outcome is not None
        least = shrink_seed(outcome, ENOUGH_SECONDS)
        assert least.guarantees[0] == outcome.guarantees[0]
        assert len(least.faults) <= 3
        assert len(least.faults) + len(least.traffic) < (len(outcome.faults) + len(outcome.traffic)) / 3
        assert least.sim_ns < outcome.sim_ns
        again = run_seed(least.profile, least.seed, least.part)
    assert (again.digest, again.violations) == (least.digest, least.violations)
    assert least.guarantees[0] in least.picture[-1]
    assert len(least.picture) < 80
    assert run_seed(least.profile, least.seed, least.part).violations == ()          # with the safeguard it holds
