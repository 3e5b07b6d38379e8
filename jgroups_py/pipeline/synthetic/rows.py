"""A plan for exactly so many rows.

A row is what Spark's count(*) counts: a message is one row at its sender and one at each member that delivers it (the
sender among them), a fact (view, start, loss, ...) is one. How many a plan makes is known but for what was on its way
to a member that crashed, so a plan is made for a few less, and the last recorder fills up with messages that reached
no member (`unreliable`, of which nothing is due).
"""
from __future__ import annotations

from typing import Any

from attrs import evolve

from jgroups_py.pipeline.synthetic.plan import FAULT_KINDS, PlannedLife, SyntheticPlan

FACT_ROWS = 12                             # of an incarnation, at most, but for faults
FAULT_ROWS = 12                            # that a fault adds, at most
TRIED_MESSAGES = 1 << 20


def plan_of(rows: int, **options: Any) -> SyntheticPlan:
    """A plan that makes exactly so many rows; `options`: of SyntheticPlan.

    Raises:
        ValueError: these are fewer than the facts alone.
    """
    tried = SyntheticPlan(messages=TRIED_MESSAGES, **options)
    left = rows - _others(tried)
    if left <= 0:
        raise ValueError(f"{rows} rows are too few: at least {_others(tried) + 1}, the facts of all members among them")
    plan = evolve(tried, messages=max(1, int(left * TRIED_MESSAGES / message_rows(tried))), rows=rows)
    while plan.messages > 1 and message_rows(plan) > left:
        plan = evolve(plan, messages=plan.messages - 1)
    return plan


def message_rows(plan: SyntheticPlan) -> int:
    """How many rows the messages of a plan make at most."""
    lives = plan.lives()
    sent = sum(_number(plan, origin, origin) for origin in lives)
    return sent + sum(_number(plan, origin, receiver) for origin in lives for receiver in lives)


def _number(plan: SyntheticPlan, origin: PlannedLife, receiver: PlannedLife) -> int:
    """How many messages of an origin are sent while a receiver is a member."""
    first_ns, stop_ns = max(origin.start_ns, receiver.start_ns), min(origin.stop_ns, receiver.stop_ns, plan.duration_ns)
    return max(0, stop_ns - first_ns) // plan.period_ns + 1


def _others(plan: SyntheticPlan) -> int:
    return FACT_ROWS * len(plan.lives()) + FAULT_ROWS * len(FAULT_KINDS) * plan.faults
