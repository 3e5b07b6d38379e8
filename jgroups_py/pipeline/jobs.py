"""The four jobs by name: audit, lag, timeline, traffic."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jgroups_py.pipeline import seqno_ranges, timeline, traffic
from jgroups_py.pipeline.audit.judge import judge, sent
from jgroups_py.pipeline.audit.missing import missing
from jgroups_py.pipeline.job import Job, JobOptions
from jgroups_py.pipeline.lag import digest as lag_digest
from jgroups_py.pipeline.lag import state as lag_state
from jgroups_py.pipeline.lag.fold import fold as fold_lag
from jgroups_py.pipeline.lag.tables import tables as lag_tables


def _audit_tables(state: Any, options: JobOptions) -> Mapping[str, Any]:
    spans = seqno_ranges.fold(state)
    pairs, findings = judge(spans, options.settle_ns)
    return {"pairs": pairs, "findings": findings, "sent": sent(spans),
            "missing": missing(spans, options.settle_ns)}


JOBS: dict[str, Job] = {job.name: job for job in (
    Job("audit", seqno_ranges.COLUMNS, seqno_ranges.SPANS, seqno_ranges.FOLD_BY,
        lambda rows, options: seqno_ranges.digest(rows), lambda state, options, final: seqno_ranges.fold(state),
        _audit_tables),
    Job("lag", lag_digest.COLUMNS, lag_state.STATE, ("key",), lag_digest.digest, fold_lag, lag_tables),
    Job("timeline", timeline.COLUMNS, lag_state.STATE, timeline.FOLD_BY, timeline.digest, timeline.fold,
        timeline.tables),
    Job("traffic", traffic.COLUMNS, traffic.STATE, traffic.FOLD_BY, traffic.digest, traffic.fold, traffic.tables),
)}
