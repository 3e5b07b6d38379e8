"""Archives of growing size through audit and lag, beside what Spark itself takes to count the same rows.

One process a size: made archive (with planted faults, payloads of 1 KB), one session on local[2]. Count, audit and lag
take turns, once to warm up and then three times, of which the medians are shown; the others once to warm up, then once.
`count`: Spark's own Parquet reader and count(*), which reads no column at all; `columns`: it reads the audit's columns;
`all`: it reads everything. `rss`: the driver's Python process and its Java, at most.
"""
from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

ROW = "{:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>14} {:>9} {:>9}"
WATCH_SECONDS = 0.2
MB = 1 << 20
ROUNDS = 3


def add_arguments(parser: ArgumentParser) -> None:
    """Options."""
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 5_000_000, 10_000_000, 20_000_000])
    parser.add_argument("--dir", type=Path, default=Path("/tmp/jgroups-scale"), help="where archives are made")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a payload")
    parser.add_argument("--keep", action="store_true", help="do not remove the archives")
    parser.add_argument("--make", action="store_true", help="only make the archives")
    parser.add_argument("--child", type=Path, help="measure this archive, print JSON")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Make, measure, print."""
    if args.child:
        print(json.dumps(measure(args.child)))
        return 0
    print(ROW.format("rows", "count s", "columns s", "all s", "audit s", "lag s", "audit rows/s", "py MB", "java MB"))
    for rows in args.rows:
        archive = args.dir / f"rows-{rows}"
        if not archive.exists():
            subprocess.run([sys.executable, "-m", "jgroups_py", "pipeline", "make", archive, "--rows", str(rows),
                            "--faults", "3", "--size", str(args.size), "--json"], check=True,
                           stdout=subprocess.DEVNULL)
        if not args.make:
            found = json.loads(subprocess.run(
                [sys.executable, "-m", "benchmarks.pipeline", "scale", "--child", archive], check=True,
                stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
            print(ROW.format(found["rows"], *(f"{found[name]:.2f}" for name in (
                "count", "columns", "all", "audit", "lag")), f"{found['rows'] / found['audit']:,.0f}",
                found["python_mb"], found["java_mb"]), flush=True)
        if not args.keep and not args.make:
            shutil.rmtree(archive)
    return 0


def measure(archive: Path) -> dict[str, Any]:
    """All figures of one archive."""
    from jgroups_py.pipeline import session
    from jgroups_py.pipeline.batch import run_batch
    from jgroups_py.pipeline.job import JobOptions
    from jgroups_py.pipeline.jobs import JOBS
    from jgroups_py.pipeline.time_range import auto_window
    spark = session.start("local[2]")
    options = JobOptions(window_ns=auto_window(archive))
    rows = spark.read.parquet(str(archive))
    total = rows.count()
    audit = list(JOBS["audit"].columns)

    def take(columns: list[str]) -> None:
        rows.select(*columns).write.format("noop").mode("overwrite").save()

    jobs = {"count": rows.count,
            **{name: partial(run_batch, spark, archive, JOBS[name], options) for name in ("audit", "lag")}}
    with Memory(spark) as memory:
        rounds = [{name: timed(work) for name, work in jobs.items()} for _ in range(1 + ROUNDS)][1:]
        found = {name: median(one[name] for one in rounds) for name in jobs}
        for name, columns in (("columns", audit), ("all", rows.columns)):
            take(columns)
            found[name] = timed(partial(take, columns))
    spark.stop()
    return {"rows": total, **found, **memory.most}


def timed(work: Callable[[], Any]) -> float:
    """Seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Memory:
    """The most memory that the driver's two processes had."""

    def __init__(self, spark: Any) -> None:
        self.java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        self.most = {"python_mb": 0, "java_mb": 0}
        self.over = threading.Event()
        self.watcher = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> Memory:
        self.watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.watcher.join()

    def watch(self) -> None:
        """Look now and then."""
        while not self.over.wait(WATCH_SECONDS):
            for name, process in (("python_mb", "self"), ("java_mb", str(self.java))):
                self.most[name] = max(self.most[name], rss_mb(process))


def rss_mb(process: str) -> int:
    """Resident memory."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 // MB
    return 0
