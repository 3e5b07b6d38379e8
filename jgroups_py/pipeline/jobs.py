"""The jobs by name."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jgroups_py.pipeline import seqno_ranges as spans
from jgroups_py.pipeline import timeline, traffic
from jgroups_py.pipeline.audit.judge import judge
from jgroups_py.pipeline.audit.missing import missing
from jgroups_py.pipeline.job import Job, JobOptions
from jgroups_py.pipeline.lag import digest as lag_digest
from jgroups_py.pipeline.lag import state as lag_state
from jgroups_py.pipeline.lag.fold import fold as fold_lag
from jgroups_py.pipeline.lag.tables import tables as lag_tables


def _audit_tables(state: Any, options: JobOptions) -> Mapping[str, Any]:
    found = spans.fold(state)
    pairs, findings = judge(found, options.settle_ns)
    return {"pairs": pairs, "findings": findings, "missing": missing(found, options.settle_ns)}


JOBS: dict[str, Job] = {job.name: job for job in (
    Job("audit", spans.COLUMNS, spans.SPANS, spans.FOLD_BY, lambda rows, options: spans.digest(rows),
        lambda state, options, final: spans.fold(state), _audit_tables),
    Job("lag", lag_digest.COLUMNS, lag_state.STATE, ("key",), lag_digest.digest, fold_lag, lag_tables),
    Job("timeline", timeline.COLUMNS, lag_state.STATE, timeline.FOLD_BY, timeline.digest, timeline.fold,
        timeline.tables),
    Job("traffic", traffic.COLUMNS, traffic.STATE, traffic.FOLD_BY, traffic.digest, traffic.fold, traffic.tables),
)}
