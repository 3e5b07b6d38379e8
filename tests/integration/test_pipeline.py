"""The pipeline on real Spark: one small session for all of it (its start is what takes the time)."""
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest

from jgroups_py.archive.encryption import keys_of
from jgroups_py.archive.layout import recorders, segments
from jgroups_py.archive.reading import read_all
from jgroups_py.cli import main
from jgroups_py.cli.demo import auditing
from jgroups_py.model.errors import ConfigError
from jgroups_py.pipeline.batch import run_batch
from jgroups_py.pipeline.farm import run_farm
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.pipeline.local import run_local
from jgroups_py.pipeline.stream import follow
from tests.runtime.mqtt.federated import nodes, running, until
from tests.runtime.mqtt.processes import tool
from tests.spark.helpers import OPTIONS, faulty, lines, started
from tests.unit.pipeline.made import archive, findings_of
from tests.unit.pipeline.test_reported import excluded, sender, written

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def spark(killed):
    with started("local[2]") as found:
        yield found


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An archive with faults, and what was planted."""
    directory = tmp_path_factory.mktemp("archive")
    return directory, faulty(directory)


@pytest.fixture(scope="module")
def audited(spark, made):
    return run_batch(spark, made[0], JOBS["audit"], OPTIONS)


def test_the_audit_finds_every_planted_fault(audited, made):
    found = [(line["fault"], line["origin_name"], line["incarnation"], line["first"], line["stop"])
             for line in audited["findings"].to_pylist()]
    assert sorted(line for line in found if line[0] != "other_set") == findings_of(made[1])
    assert {line[0] for line in found} >= {"other_set"}


@pytest.mark.parametrize("job", JOBS)
def test_without_spark_the_tables_are_the_same(spark, made, job):
    found = run_local(made[0], JOBS[job], OPTIONS)
    expected = run_batch(spark, made[0], JOBS[job], OPTIONS)
    assert {name: lines(table) for name, table in found.items()} == {
        name: lines(table) for name, table in expected.items()}


def test_what_merged_views_reported_as_missed_is_no_fault_with_and_without_spark(spark, tmp_path):
    """One report has all that B missed, another one only a part of it."""
    for name, number, expected in (("all", 2, [("reported_missed", 3, 5)]),
                                   ("less", 1, [("lost", 3, 4), ("reported_missed", 4, 5)])):
        written(tmp_path / name, sender(), excluded(number))
        found = run_batch(spark, tmp_path / name, JOBS["audit"], OPTIONS)
        alone = run_local(tmp_path / name, JOBS["audit"], OPTIONS)
        assert {table: lines(found[table]) for table in found} == {table: lines(alone[table]) for table in alone}
        shown = sorted((line["fault"], line["first"], line["stop"]) for line in found["findings"].to_pylist())
        assert shown == expected


def test_the_data_source_gives_the_rows_of_the_archive(spark, made):
    columns = ["member", "row", "kind", "seqno", "detail"]
    found = spark.read.format("jgroups").option("columns", ",".join(columns)).load(str(made[0])).toArrow()
    order = [("member", "ascending"), ("row", "ascending"), ("kind", "ascending"), ("seqno", "ascending")]
    assert found.sort_by(order).equals(read_all(made[0], columns).sort_by(order))


def test_filters_on_folders_leave_out_segments(spark, made):
    rows = spark.read.format("jgroups").option("filters", "true").option("columns", "member,site,row")
    found = rows.load(str(made[0])).where("member = 'B' and row < 100")
    assert found.count() == 100
    mine = [len(segments(made[0], recorder)) for recorder in recorders(made[0]) if recorder.member == "B"]
    assert found.rdd.getNumPartitions() == sum(mine)


def test_an_encrypted_archive_gives_the_same_audit_and_rows_with_its_key_file_only(spark, made, audited, tmp_path):
    directory, keyring = tmp_path / "archive", tmp_path / "archive.keys"
    shutil.copytree(made[0], directory)
    assert main(["keys", "generate", "--keyring", str(keyring)]) == 0
    assert main(["archive", "encrypt", str(directory), "--key-file", str(keyring)]) == 0
    found = run_batch(spark, directory, JOBS["audit"], OPTIONS, keys=keys_of(keyring))
    assert {name: lines(table) for name, table in found.items()} == {
        name: lines(table) for name, table in audited.items()}
    rows = spark.read.format("jgroups").option("columns", "row,kind").option("keyFile", str(keyring))
    assert rows.load(str(directory)).count() == spark.read.format("jgroups").load(str(made[0])).count()
    with pytest.raises(ConfigError, match=r"encrypted; give the keyring"):
        run_batch(spark, directory, JOBS["audit"], OPTIONS)
    assert main(["keys", "generate", "--keyring", str(tmp_path / "wrong.keys")]) == 0
    with pytest.raises(ConfigError, match=r"aes: encrypted with key .*, which is not in the keyring .*wrong.keys"):
        run_batch(spark, directory, JOBS["audit"], OPTIONS, keys=keys_of(tmp_path / "wrong.keys"))
    follow(spark, directory, tmp_path / "out", [JOBS["audit"]], OPTIONS, once=True, keys=keys_of(keyring))
    streamed = pq.read_table(tmp_path / "out" / "audit" / "pairs.parquet", partitioning=None)
    assert lines(streamed) == lines(audited["pairs"])


def test_wrong_options_are_errors_that_name_them(spark, made):
    with pytest.raises(Exception, match="option columns: colour is none of cluster"):
        spark.read.format("jgroups").option("columns", "colour").load(str(made[0]))


def copy(of: Path, to: Path, share: float) -> None:
    """The first part of every recorder's segments."""
    for recorder in recorders(of):
        every = segments(of, recorder)
        for segment in every[:int(len(every) * share)]:
            target = to / segment.path.relative_to(of)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(segment.path, target)


def test_a_stream_that_is_stopped_and_goes_on_ends_with_the_tables_of_the_batch_job(spark, made, tmp_path):
    growing, out = tmp_path / "growing", tmp_path / "out"
    for share in (0.5, 1):
        copy(made[0], growing, share)
        follow(spark, growing, out, [JOBS["lag"]], OPTIONS, once=True, max_rows=25_000)
    assert len(list((out / "lag" / "stream" / "checkpoint" / "commits").glob("[0-9]*"))) >= 3
    for table, expected in run_batch(spark, made[0], JOBS["lag"], OPTIONS).items():
        found = pq.read_table(out / "lag" / f"{table}.parquet", partitioning=None)
        assert lines(found) == lines(expected), table


KILLED = """
import os, signal, sys
from pathlib import Path
from jgroups_py.pipeline import session, stream
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.jobs import JOBS
written = stream.write

def write_and_die(*args, **more):
    found = written(*args, **more)
    if len(list(Path(sys.argv[2]).glob("audit/stream/checkpoint/commits/[0-9]*"))) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return found

stream.write = write_and_die
spark = session.start("local[1]", more={"spark.sql.shuffle.partitions": "1"})
stream.follow(spark, Path(sys.argv[1]), Path(sys.argv[2]), [JOBS["audit"]], JobOptions(**eval(sys.argv[3])), once=True,
              max_rows=25_000)
"""


@pytest.fixture(scope="module")
def killed(made, tmp_path_factory):
    """A driver that kills itself, begun while the session of the other tests starts; and where it writes."""
    out = tmp_path_factory.mktemp("killed")
    with (out / "stderr").open("w") as stderr, subprocess.Popen(
            [sys.executable, "-c", KILLED, made[0], out, repr(attrs.asdict(OPTIONS))], stderr=stderr) as child:
        yield child, out


def test_a_driver_killed_between_write_and_commit_changes_nothing(killed, spark, made, audited):
    child, out = killed
    assert child.wait(120) == -signal.SIGKILL, (out / "stderr").read_text()      # its JVM ends later, by itself
    states = sorted(path.name for path in (out / "audit" / "stream").glob("state-*"))
    assert states == ["state-000000000000.parquet", "state-000000000001.parquet"]      # 1 is written, not committed
    follow(spark, made[0], out, [JOBS["audit"]], OPTIONS, once=True, max_rows=25_000)
    for name, expected in audited.items():
        assert lines(pq.read_table(out / "audit" / f"{name}.parquet", partitioning=None)) == lines(expected)


def test_the_farm_runs_what_is_not_done_yet(spark, tmp_path):
    first = run_farm(spark, "group", range(0, 2), tmp_path, size=1)
    (piece,) = tmp_path.glob("sim/profile=group/sources=*/seeds-0-1.parquet")
    written = piece.stat().st_mtime_ns
    again = run_farm(spark, "group", range(0, 3), tmp_path, size=1)
    assert piece.stat().st_mtime_ns == written
    assert [line["seed"] for line in again] == [0, 1, 2]
    assert all(line["ok"] for line in again)
    assert again[:2] == first


def test_the_topics_of_mqtt_brokers_are_those_of_the_traffic_job(spark, tmp_path):
    """Two processes of `jgroups mqtt serve` with ARCHIVE in their stack, and clients of mosquitto."""
    stack = tmp_path / "stack.xml"
    stack.write_text(f"""<config xmlns="urn:org:jgroups">
        <include file="{ROOT}/stacks/tcp.xml"/> <ARCHIVE directory="{tmp_path}/archive"/> </config>""")
    one, two = nodes(tmp_path, 2, {"stack": str(stack)})
    with running(one, two) as processes:
        reader = subprocess.Popen([tool("mosquitto_sub"), "-p", str(two.port), "-t", "plant/+", "-q", "1", "-C", "300"],
                                  stdout=subprocess.PIPE)
        until(lambda: "node2" in one.interested("plant/1"), "interest")
        for topic, number in (("plant/1", 200), ("plant/2", 100), ("unwanted", 50)):
            subprocess.run([tool("mosquitto_pub"), "-p", str(one.port), "-t", topic, "-q", "1", "-l"], check=True,
                           input=b"12345\n" * number, timeout=60)
        assert reader.communicate(timeout=60)[0].count(b"12345") == 300
        assert [process.end()[0] for process in processes] == [0, 0]
    traffic = run_batch(spark, tmp_path / "archive", JOBS["traffic"], OPTIONS)
    topics = {line["topic"]: (line["messages"], line["bytes"]) for line in traffic["topics"].to_pylist()}
    assert topics.pop("")[0] > 0, "the frames of the group have no topic"
    assert topics == {"plant/1": (200, 1000), "plant/2": (100, 500), "unwanted": (50, 250)}
    delivered: Counter[tuple[str, str]] = Counter()          # there is a line for each window of time
    for line in traffic["traffic"].to_pylist():
        if line["kind"] == "delivered" and line["topic"]:
            delivered[line["topic"], line["origin_name"]] += line["messages"]
    assert delivered == {("plant/1", "node1"): 200, ("plant/2", "node1"): 100}
    audit = run_batch(spark, tmp_path / "archive", JOBS["audit"], OPTIONS)
    assert audit["findings"].to_pylist() == []
    assert [(line["origin_tag"], line["delivered"]) for line in audit["pairs"].to_pylist()
            if line["stream"] == "mqtt"] == [("node1", 300)]
    lag = run_batch(spark, tmp_path / "archive", JOBS["lag"], OPTIONS)
    assert sum(line["messages"] for line in lag["lag_summary"].to_pylist()) > 300


def test_the_demo_s_last_word_is_the_audit_and_a_report_lies_beside_the_copies(spark, tmp_path):
    """The last test here: the demo ends the session."""
    archive(tmp_path / "archive", messages=3000)
    progress = []
    found = auditing.audited(tmp_path / "archive", tmp_path, progress.append)
    *_, report, verdict = auditing.as_lines(found)
    pending = found["totals"]["pending"]           # the made archive ends while its members still send
    assert verdict == ("audit: everything arrived once and in order, the same everywhere; "
                       f"{pending:,} were sent too recently to be judged")
    assert report == f"report: {tmp_path}/report/report.html"
    page = (tmp_path / "report" / "report.html").read_text()
    assert page.count("<svg") >= 4
    assert "failover: coordinator crashed" in page
    assert "src=" not in page
    assert page.count("href=") == page.count('href="#')
    assert len(progress) == 1 + len(JOBS)
