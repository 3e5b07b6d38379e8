"""Made archives with planted faults: what the audit is tested with and the benchmarks run on."""
from jgroups_py.pipeline.synthetic.make import make
from jgroups_py.pipeline.synthetic.plan import FAULT_KINDS, Fault, SyntheticPlan
from jgroups_py.pipeline.synthetic.rows import plan_of

__all__ = ["FAULT_KINDS", "Fault", "SyntheticPlan", "make", "plan_of"]
