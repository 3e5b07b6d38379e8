"""The audit beside a live group: a sender and a receiver record 1 KB messages while `audit --stream` follows.

Says how many rows a second were recorded and audited, how far the audit was behind at the end of each batch, and the
time from a row's recording to the table that has it (rows between the first and the last of a span count as recorded
evenly).
"""
from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np

from jgroups_py.archive.layout import recorders
from jgroups_py.archive.reading import next_row
from jgroups_py.pipeline.seqno_ranges import MESSAGES
from jgroups_py.system.free_ports import free_range

POINTS = 20                                  # of a span whose delay is looked at
START_SECONDS = 60


def add_arguments(parser: ArgumentParser) -> None:
    """Options."""
    parser.add_argument("--rate", type=int, default=50_000, help="messages a second")
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Measure, print."""
    with tempfile.TemporaryDirectory() as folder:
        archive, out = Path(folder) / "archive", Path(folder) / "out"
        archive.mkdir()
        from jgroups_py.pipeline import session
        from jgroups_py.pipeline.source import JGroupsSource
        spark = session.start("local[2]", more={"spark.sql.shuffle.partitions": "2"})
        spark.dataSource.register(JGroupsSource)
        port = free_range()
        members = [member(name, archive, port) for name in ("sender", "receiver")]
        wait_for(archive, 2)
        follower = measuring(archive, out)
        query = follower.start(spark, archive, False, None)
        tell(members[0], f"flood {args.rate * args.seconds} {args.size} {args.rate}")
        time.sleep(args.seconds)
        sent_until = time.time()
        time.sleep(3)
        assert query.isActive, f"the query ended: {query.exception()}"
        recorded = rows_of(archive)                        # without what the members record of their leaving
        query.stop()
        for each in members:
            tell(each, "leave")
            each.wait(30)
        spark.stop()
        report(follower.seen, recorded, args, sent_until)
    return 0


def member(name: str, archive: Path, port: int) -> subprocess.Popen[str]:
    """A recording member."""
    return subprocess.Popen(
        [sys.executable, "-m", "jgroups_py", "member", "--stack", "udp", "--cluster", "stream", "--name", name,
         "--archive", str(archive), "-p", f"mcast_port={port}"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        text=True)


def tell(member: subprocess.Popen[str], command: str) -> None:
    """A line to its stdin."""
    assert member.stdin is not None, "opened as a pipe"
    member.stdin.write(command + "\n")
    member.stdin.flush()


def wait_for(archive: Path, number: int) -> None:
    """Until so many record."""
    until = time.monotonic() + START_SECONDS
    while len(recorders(archive)) < number:
        assert time.monotonic() < until, "the members did not start"
        time.sleep(0.1)


def rows_of(archive: Path) -> int:
    """How many rows there are now."""
    return sum(next_row(archive, recorder) for recorder in recorders(archive))


def measuring(archive: Path, out: Path) -> Any:
    """A follower that notes, for each batch: when it was done, rows so far, rows behind, delays."""
    from jgroups_py.pipeline.job import JobOptions
    from jgroups_py.pipeline.jobs import JOBS
    from jgroups_py.pipeline.stream import StreamFollower

    class Measuring(StreamFollower):
        rows = 0
        seen: list[tuple[float, int, int, Any]] = []

        def take(self, digests: Any, batch: int) -> None:
            super().take(digests, batch)
            now, spans = time.time(), self.digests
            messages = np.isin(spans.column("kind").to_pylist(), MESSAGES)
            count = np.where(messages, np.asarray(spans.column("stop")) - np.asarray(spans.column("first")), 1)
            first, last = (np.asarray(spans.column(name)) / 1e9 for name in ("wall_ns", "wall_last_ns"))
            walls = np.linspace(first, last, POINTS)
            delays = np.repeat(now - walls.ravel(), np.tile(np.where(messages, count // POINTS, 0), POINTS))
            self.rows += int(count.sum())
            self.seen.append((now, self.rows, rows_of(archive) - self.rows, delays))

    return Measuring(JOBS["audit"], out, JobOptions())


def report(seen: list[tuple[float, int, int, Any]], rows: int, args: Namespace, sent_until: float) -> None:
    """Print it."""
    busy = [each for each in seen if each[0] <= sent_until][2:]
    delays = np.concatenate([each[3] for each in busy])
    thirds = np.array_split([each[2] for each in busy], 3)
    print(f"{args.rate} messages a second wanted; {rows:,} rows recorded, {rows / args.seconds:,.0f} a second; "
          f"{seen[-1][1]:,} audited")
    print(f"{len(seen)} batches, of which {len(busy)} while messages came; "
          "rows behind at a batch's end, by thirds of the time: "
          + ", ".join(f"{np.mean(third):,.0f}" for third in thirds))
    print("from recording to result: " + ", ".join(
        f"p{share} {np.percentile(delays, share):.2f} s" for share in (50, 90, 99)))
