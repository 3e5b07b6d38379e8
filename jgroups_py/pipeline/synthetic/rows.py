"""Makes a plan for an archive with an exact number of rows.

A row is what Spark's count(*) counts: a message is one row at its sender and one at each member that delivers it (the
sender among them), a fact (view, start, loss, ...) is one. The rows of a plan can be computed, except for messages that
were on their way to a member when it crashed. So a plan is made for slightly fewer rows, and the last recorder adds
the rest: messages of the stream `unreliable`, which are due to no member.
"""
from __future__ import annotations

from typing import Any

from attrs import evolve

from jgroups_py.pipeline.synthetic.plan import FAULT_KINDS, PlannedLife, SyntheticPlan

FACT_ROWS = 12                             # the most control rows of an incarnation, without those of faults
FAULT_ROWS = 12                            # the most rows that a fault adds
TRIAL_MESSAGES = 1 << 20


def plan_of(rows: int, **options: Any) -> SyntheticPlan:
    """A plan for an archive of `rows` rows. options: fields of SyntheticPlan.

    Raises:
        ValueError: the facts alone are more rows.
    """
    trial = SyntheticPlan(messages=TRIAL_MESSAGES, **options)
    left = rows - _other_rows(trial)
    if left <= 0:
        raise ValueError(f"{rows} rows are too few: at least {_other_rows(trial) + 1}, the facts of all members among "
                         "them")
    plan = evolve(trial, messages=max(1, int(left * TRIAL_MESSAGES / message_rows(trial))), rows=rows)
    while plan.messages > 1 and message_rows(plan) > left:
        plan = evolve(plan, messages=plan.messages - 1)
    return plan


def message_rows(plan: SyntheticPlan) -> int:
    """The most rows that the messages of a plan make."""
    lives = plan.lives()
    sent = sum(_number(plan, origin, origin) for origin in lives)
    return sent + sum(_number(plan, origin, receiver) for origin in lives for receiver in lives)


def _number(plan: SyntheticPlan, origin: PlannedLife, receiver: PlannedLife) -> int:
    """How many messages of an origin are sent while a receiver is a member."""
    first_ns, stop_ns = max(origin.start_ns, receiver.start_ns), min(origin.stop_ns, receiver.stop_ns, plan.duration_ns)
    return max(0, stop_ns - first_ns) // plan.period_ns + 1


def _other_rows(plan: SyntheticPlan) -> int:
    """The most rows of a plan that are no messages."""
    return FACT_ROWS * len(plan.lives()) + FAULT_ROWS * len(FAULT_KINDS) * plan.faults
