"""Made archives with planted faults: what the audit is tested with and the benchmarks run on."""
from jgroups_py.pipeline.synthetic.make import make
from jgroups_py.pipeline.synthetic.plan import FAULT_KINDS, ROWS_A_MESSAGE, Fault, Plan

__all__ = ["FAULT_KINDS", "ROWS_A_MESSAGE", "Fault", "Plan", "make"]
