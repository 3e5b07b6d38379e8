"""Runs seeds of the simulator on Spark's workers, so that millions of them can be run.

Seeds are run in pieces. A worker publishes the outcomes of a piece as one Parquet file, by rename. So whatever ends a
run, the next one continues with the pieces that have no file. Outcomes of other sources do not count: the folder's name
has a digest of the sources that a seed may run. Workers need the same package and, on a cluster, the folder on shared
storage.

The first tasks run many pieces each and the last ones one: starting a task costs as much as two seeds, and all workers
should end together. The tasks are plain RDDs, which start in a third of the time that a DataFrame takes.
"""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from jgroups_py.model.units import NS_PER_S
from jgroups_py.pipeline.output import publish
from jgroups_py.pipeline.partitioning import tasks_of
from jgroups_py.pipeline.progress import Progress, watched
from jgroups_py.simulator.runner import Outcome, run_seeds
from jgroups_py.simulator.sources import digest_of_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECE_SEEDS = 20
TEXTS = pa.list_(pa.string())
COUNTS = pa.map_(pa.string(), pa.int64())
OUTCOMES = pa.schema([
    pa.field("profile", pa.string()), pa.field("seed", pa.int64()), pa.field("ok", pa.bool_()),
    pa.field("violations", TEXTS), pa.field("guarantees", TEXTS), pa.field("digest", pa.string()),
    pa.field("sim_s", pa.float64()), pa.field("cpu_s", pa.float64()), pa.field("events", pa.int64()),
    pa.field("frames", pa.int64()), pa.field("injected", COUNTS), pa.field("reached", COUNTS),
    pa.field("reproduce", pa.string()),
    pa.field("history", TEXTS)])                            # only if the seed failed


@attrs.frozen
class Piece:
    """Seeds `first` to `stop`, half-open."""

    first: int
    stop: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"seeds-{self.first}-{self.stop}.parquet"


def pieces(seeds: range, size: int = PIECE_SEEDS) -> list[Piece]:
    """Pieces that begin at multiples of `size`, so that overlapping ranges of seeds share them.

    >>> pieces(range(15, 45), 20)
    [Piece(first=15, stop=20), Piece(first=20, stop=40), Piece(first=40, stop=45)]
    """
    cuts = [seeds.start, *range((seeds.start // size + 1) * size, seeds.stop, size), seeds.stop]
    return [Piece(a, b) for a, b in pairwise(cuts)]


def folder_of(out: Path, profile: str) -> Path:
    """The folder for the pieces of a profile, run with the present sources."""
    return out / "sim" / f"profile={profile}" / f"sources={digest_of_sources(profile)}"


def row(outcome: Outcome) -> dict[str, Any]:
    """An outcome as a line of OUTCOMES."""
    return {"profile": outcome.profile, "seed": outcome.seed, "ok": not outcome.violations,
            "violations": list(outcome.violations), "guarantees": list(outcome.guarantees), "digest": outcome.digest,
            "sim_s": outcome.sim_ns / NS_PER_S, "cpu_s": outcome.cpu_s, "events": outcome.events,
            "frames": outcome.frames, "injected": list(outcome.injected.items()),
            "reached": list(outcome.reached.items()), "reproduce": outcome.command,
            "history": list(outcome.history) if outcome.violations else []}


def run_piece(profile: str, piece: Piece, folder: Path) -> None:
    """Run the seeds of a piece and publish their outcomes, unless an earlier attempt has."""
    if (folder / piece.name).exists():
        return
    found = [row(outcome) for outcome in run_seeds(profile, range(piece.first, piece.stop))]
    table = pa.Table.from_pylist(found, OUTCOMES)
    publish(folder / piece.name, lambda path: pq.write_table(table, path))


def run_farm(
    spark: SparkSession, profile: str, seeds: range, out: Path, progress: Progress | None = None,
    size: int = PIECE_SEEDS,
) -> Sequence[Mapping[str, Any]]:
    """Run the pieces that have no file yet; returns the outcomes of all seeds, in order."""
    folder = folder_of(out.resolve(), profile)
    every = pieces(seeds, size)
    to_run = [piece for piece in every if not (folder / piece.name).exists()]
    if to_run:
        _run_on_workers(spark, profile, to_run, folder, progress)
    tables = [pq.read_table(folder / piece.name, partitioning=None) for piece in every]
    outcomes: list[dict[str, Any]] = pa.concat_tables(tables).sort_by("seed").to_pylist()
    return outcomes


def _run_on_workers(
    spark: SparkSession, profile: str, to_run: Sequence[Piece], folder: Path, progress: Progress | None,
) -> None:
    def work(task: range) -> None:
        for number in task:
            run_piece(profile, to_run[number], folder)

    tasks = tasks_of(len(to_run), spark.sparkContext.defaultParallelism)
    names = {piece.name for piece in to_run}
    folder.mkdir(parents=True, exist_ok=True)
    with watched(len(to_run), lambda: len(names.intersection(os.listdir(folder))), progress):
        spark.sparkContext.parallelize(tasks, len(tasks)).foreach(work)
