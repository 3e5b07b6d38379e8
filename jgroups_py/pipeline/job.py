"""A job as three pure functions, which batch and streaming share: digest, fold, tables.

digest: a record batch of rows -> a small batch of state; runs in Spark's Python workers, one pass, no shuffle.
fold: state -> less state with the same meaning, however it was split: fold(fold(a) + b) means what fold(a + b) means.
tables: folded state -> the result, by name.

Batch: digest everything, fold once by key on the workers. Streaming: digest each micro-batch, fold it into the state of
the last one. So the final tables are equal by construction, and there is one piece of code to test, without Spark.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa


@attrs.frozen
class JobOptions:
    """The options. settle_ns: see audit.owed; window_ns: of lag and traffic over time; pause_ns: a shorter time
    without a delivery is no gap."""

    settle_ns: int = 1_000_000_000
    window_ns: int = 10_000_000_000
    pause_ns: int = 50_000_000


@attrs.frozen
class Job:
    """One job. columns: of the rows, what the digest needs; fold_by: what has to agree in these has to meet in fold;
    fold's third argument: whether nothing will follow, so nothing has to be kept for it."""

    name: str
    columns: Sequence[str]
    state: pa.Schema
    fold_by: Sequence[str]
    digest: Callable[[Any, JobOptions], Any]
    fold: Callable[[Any, JobOptions, bool], Any]
    tables: Callable[[Any, JobOptions], Mapping[str, Any]]
