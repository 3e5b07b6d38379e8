"""Synthetic archives with planted faults, for the tests of the audit and for benchmarks."""
from jgroups_py.pipeline.synthetic.make import make
from jgroups_py.pipeline.synthetic.plan import FAULT_KINDS, Fault, SyntheticPlan
from jgroups_py.pipeline.synthetic.rows import plan_of

__all__ = ["FAULT_KINDS", "Fault", "SyntheticPlan", "make", "plan_of"]
