"""Jobs over a whole archive without Spark: the same digest, fold and tables (job.py), in this process or in several.

For archives of one machine, and for machines without Java. Needs pyarrow and numpy only.
"""
from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from jgroups_py.archive.encryption import ArchiveKeys
from jgroups_py.archive.layout import ArchiveSegment
from jgroups_py.pipeline.job import Job, JobOptions
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.pipeline.partitioning import tasks_of
from jgroups_py.pipeline.progress import Progress
from jgroups_py.pipeline.scan import all_segments, scan

FOLD_ROWS = 50_000
"""Lines of state that are gathered before they are folded: bounds memory whatever the archive's size."""
ALONE_BYTES = 32 << 20
"""An archive below this size is digested in this process: another one takes most of a second to start."""
MOST_SEGMENTS = 8


def run_local(
    archive: Path, job: Job, options: JobOptions, progress: Progress | None = None, keys: ArchiveKeys | None = None,
    processes: int | None = None,
) -> Mapping[str, Any]:
    """All tables of a job over an archive, as Arrow tables: those of `batch.run_batch`, without Spark.

    keys: of an encrypted archive. processes: how many digest (default: as many as processors; 1 for a small archive).

    Raises:
        ConfigError: there is no archive, a segment's key is missing, or it is in clear and keys are given.
    """
    segments = all_segments(archive, keys)
    if processes is None:
        processes = (os.cpu_count() or 1) if bytes_of(segments) >= ALONE_BYTES else 1
    tasks = [segments[task.start:task.stop] for task in tasks_of(len(segments), processes, MOST_SEGMENTS)]
    state = job.state.empty_table()
    for number, found in enumerate(_digested(tasks, job, options, processes), 1):
        state = pa.concat_tables([state, found])
        if len(state) >= FOLD_ROWS:
            state = _fold(state, job, options)
        if progress is not None:
            progress(number, len(tasks))
    return job.tables(job.fold(state, options, True).cast(job.state), options)


def bytes_of(segments: Sequence[ArchiveSegment]) -> int:
    """The size of all files; one that retention deleted just now counts nothing."""
    total = 0
    for segment in segments:
        with suppress(FileNotFoundError):
            total += segment.path.stat().st_size
    return total


def _digested(
    tasks: Sequence[Sequence[ArchiveSegment]], job: Job, options: JobOptions, processes: int,
) -> Iterator[Any]:
    """The state of each task's segments, in the order in which tasks end."""
    if processes == 1:
        for task in tasks:
            yield digest_segments(task, job.name, options)
        return
    # spawn: a fork of a process with threads (those of Arrow) may stand still
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(digest_segments, task, job.name, options) for task in tasks]
        for done in as_completed(running):
            yield done.result()


def digest_segments(segments: Sequence[ArchiveSegment], name: str, options: JobOptions) -> Any:
    """The folded state of a job over some segments, an Arrow table. name: of the job, since a Job cannot be pickled."""
    job = JOBS[name]
    state = job.state.empty_table()
    for segment in segments:
        for rows in scan(segment, job.columns):
            found = job.digest(rows, options)
            if isinstance(found, pa.RecordBatch):
                found = pa.Table.from_batches([found])
            state = pa.concat_tables([state, found.cast(job.state)])
            if len(state) >= FOLD_ROWS:
                state = _fold(state, job, options)
    return _fold(state, job, options)


def _fold(state: Any, job: Job, options: JobOptions) -> Any:
    return job.fold(state, options, False).cast(job.state)
