"""The longer tests on real Spark: other readers, a standalone master, the sink (tox -e pipeline)."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

import jgroups_py as jg
from jgroups_py.archive.reading import read_all
from jgroups_py.pipeline import frames, session
from jgroups_py.pipeline.batch import run_batch
from jgroups_py.pipeline.dedup import Deduplicator
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.system.free_ports import free_range
from tests.runtime.helpers import eventually
from tests.spark.helpers import OPTIONS, lines

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def audited(spark, made):
    return run_batch(spark, made, JOBS["audit"], OPTIONS)


def test_spark_s_own_reader_and_the_data_source_give_the_same_audit(spark, made, audited):
    source, native = frames.rows(spark, made, JOBS["audit"].columns), spark.read.parquet(str(made))
    assert native.count() == source.count()
    assert lines(frames.findings(source).toArrow()) == lines(audited["findings"])
    assert lines(frames.audit(native).toArrow()) == lines(audited["pairs"])


class Taker(jg.Receiver):
    """Takes each row of a sink once."""

    def __init__(self):
        self.deduplicator, self.numbers = Deduplicator(), []

    def receive(self, message):
        if self.deduplicator.is_new(message.headers):
            self.numbers.append(int(message.payload))


def test_rows_go_into_a_group_once_even_if_their_batch_runs_twice(spark, made, tmp_path):
    taker, cluster = Taker(), f"sink-{os.getpid()}"
    rows = (spark.readStream.format("jgroups").option("columns", "kind,member,incarnation,row").load(str(made))
            .where("member = 'E' and kind = 'sent'").selectExpr("cast(row as string) as payload"))
    writer = (rows.writeStream.format("jgroups").option("stack", "udp").option("cluster", cluster)
              .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True))
    expected = sorted(read_all(made, ["member", "kind", "row"]).to_pandas()
                      .query("member == 'E' and kind == 'sent'")["row"])
    with jg.JChannel("udp", name="taker", receiver=taker).connect(cluster):
        writer.start().awaitTermination()
        eventually(lambda: len(taker.numbers) >= len(expected))
        assert sorted(taker.numbers) == expected
        for path in (tmp_path / "checkpoint" / "commits").iterdir():
            path.unlink()                                   # as if the driver had died before the commit
        writer.start().awaitTermination()
        eventually(lambda: taker.deduplicator.duplicates >= len(expected))
        assert sorted(taker.numbers) == expected


def test_a_batch_write_sends_every_row_and_a_group_cannot_be_overwritten(spark, made):
    taker, cluster = Taker(), f"batch-{os.getpid()}"
    rows = spark.range(2000).selectExpr("cast(id as string) as payload")
    writer = rows.write.format("jgroups").option("stack", "udp").option("cluster", cluster)
    with jg.JChannel("udp", name="taker", receiver=taker).connect(cluster):
        writer.mode("append").save()
        eventually(lambda: len(taker.numbers) == 2000)
        assert sorted(taker.numbers) == list(range(2000))
        with pytest.raises(Exception, match="a group cannot be overwritten"):
            writer.mode("overwrite").save()


@pytest.fixture
def master():
    """A standalone master with two workers on loopback; its address."""
    port = free_range(2)
    address = f"spark://127.0.0.1:{port}"
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    common = ["--host", "127.0.0.1"]
    commands = [["deploy.master.Master", *common, "--port", str(port), "--webui-port", str(port + 1)]]
    commands += [["deploy.worker.Worker", *common, "--cores", "1", "--memory", "700m", "--webui-port", "0",
                  address]] * 2
    session.prepare_environment(address)
    environment = {**os.environ, "SPARK_NO_DAEMONIZE": "1"}
    started = [subprocess.Popen([program, f"org.apache.spark.{command[0]}", *command[1:]], env=environment,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
               for command in commands]
    yield address
    for process in started:
        os.killpg(process.pid, 15)
        process.wait(20)


def test_a_standalone_master_with_two_workers_gives_the_same_tables_of_all_jobs(spark, made, master, tmp_path):
    command = [sys.executable, "-m", "jgroups_py", "pipeline", "all", made, "--out", tmp_path, "--master", master,
               "--window", f"{OPTIONS.window_ns}ns", "--json"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert found.returncode == 1, found.stderr                # faults are found
    assert json.loads(found.stdout)["audit"]["totals"]["lost"] > 0
    for name, job in JOBS.items():
        for table, expected in run_batch(spark, made, job, OPTIONS).items():
            assert len(expected), f"{name}: {table} is empty, so it shows nothing"
            assert lines(pq.read_table(tmp_path / name / f"{table}.parquet", partitioning=None)) == lines(expected)
