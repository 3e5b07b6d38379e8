"""A job as three pure functions, which batch and streaming share: digest, fold, tables.

digest: a record batch of rows -> a small batch of state; runs in Spark's Python workers, one pass, no shuffle.
fold: state -> less state with the same meaning, however it was split: fold(fold(a) + b) means what fold(a + b) means.
tables: folded state -> the result, name -> Arrow table.

Batch: digest everything, fold once by key on the workers. Streaming: digest each micro-batch, fold it into the state of
the one before. So the final tables are equal by construction, and there is one piece of code to test, without Spark.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa


@attrs.frozen
class JobOptions:
    """settle_ns: see audit.owed; window_ns: length of a window in figures over time; pause_ns: the shortest time
    without a delivery that counts as a pause."""

    settle_ns: int = 1_000_000_000
    window_ns: int = 10_000_000_000
    pause_ns: int = 50_000_000


@attrs.frozen
class Job:
    """One job. columns: those of the rows that the digest needs; fold_by: lines of state that agree in these columns
    must come to `fold` together; fold's third argument: whether no further state follows, so that `fold` may drop what
    it keeps only for that."""

    name: str
    columns: Sequence[str]
    state: pa.Schema
    fold_by: Sequence[str]
    digest: Callable[[Any, JobOptions], Any]
    fold: Callable[[Any, JobOptions, bool], Any]
    tables: Callable[[Any, JobOptions], Mapping[str, Any]]
