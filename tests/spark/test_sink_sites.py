"""The sink over RELAY: each row comes once to the members of both sites, whatever runs twice or dies."""
import os
import signal
import time

import pytest

import jgroups_py as jg
from jgroups_py.archive.reading import read_all
from jgroups_py.pipeline.dedup import Deduplicator
from jgroups_py.system.free_ports import free_range
from tests.integration.members import free_ports
from tests.runtime.helpers import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PLACES = {"A": "nyc", "B": "sfo", "C": "sfo"}
ROW_BYTES = 1000                           # so that Spark hands rows on before a task has read all of them
BATCH_ROWS = 100                           # between Spark and its Python workers
AT_BATCH = 5                               # where something happens to a task's first attempt
KILL_AT = 200                              # messages
PATIENCE_SECONDS = 30.0


class Taker(jg.Receiver):
    """Takes each row once; `on_message` gets every message."""

    def __init__(self, on_message):
        self.deduplicator, self.numbers, self.on_message = Deduplicator(), [], on_message

    def receive(self, message):
        if self.deduplicator.is_new(message.headers):
            self.numbers.append(int(message.payload))
        self.on_message(message)


class Sites:
    """A at NYC, where the sink joins; B and C at SFO. All take every message; A's `on_message` may be replaced."""

    def __init__(self):
        first = free_range(10)
        bridge = {"bridge_port": str(first), "bridge_hosts": f"127.0.0.1[{first}]", "bridge_name": f"bridge-{first}"}
        self.properties = {site: {**free_ports(site), **bridge} for site in ("nyc", "sfo")}
        self.takers = {name: Taker(lambda message: None) for name in PLACES}
        self.channels = [jg.JChannel(site, name=name, properties=self.properties[site], receiver=self.takers[name])
                         for name, site in PLACES.items()]

    def __enter__(self):
        for channel, site in zip(self.channels, PLACES.values(), strict=True):
            channel.connect(site)
        eventually(lambda: all(channel.global_view is not None and len(channel.global_view.sites) == 2
                               for channel in self.channels), "that both sites see each other")
        return self

    def __exit__(self, *_):
        for channel in self.channels:
            channel.close()

    def have(self, expected):
        """Each member has taken these rows, each once."""
        eventually(lambda: all(len(taker.numbers) >= len(expected) for taker in self.takers.values()), "the last row")
        for name, taker in self.takers.items():
            assert sorted(taker.numbers) == expected, name


@pytest.fixture
def sites():
    with Sites() as found:
        yield found


@pytest.fixture
def expected(made):
    """The rows that are sent."""
    rows = read_all(made, ["member", "kind", "row"]).to_pandas()
    return sorted(rows[(rows["member"] == "E") & (rows["kind"] == "sent")]["row"])


def write(spark, made, sites, folder, conduct):
    """Send the rows as a stream, to its end; `conduct` passes on a task's record batches."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", BATCH_ROWS)
    rows = (spark.readStream.format("jgroups").option("columns", "kind,member,incarnation,row").load(str(made))
            .where("member = 'E' and kind = 'sent'")
            .selectExpr(f"rpad(cast(row as string), {ROW_BYTES}, ' ') as payload"))
    writer = (rows.mapInArrow(conduct, rows.schema).writeStream.format("jgroups").option("stack", "nyc")
              .option("cluster", "nyc").option("checkpointLocation", str(folder)).trigger(availableNow=True))
    for name, value in sites.properties["nyc"].items():
        writer = writer.option(f"property.{name}", value)
    writer.start().awaitTermination()


def test_a_task_that_is_retried_and_a_query_that_starts_again_send_no_row_twice(spark, made, sites, expected, tmp_path):
    def fails_once(batches):
        from pyspark import TaskContext
        for number, batch in enumerate(batches):
            if number == AT_BATCH and TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("a task that fails once")
            yield batch

    write(spark, made, sites, tmp_path / "checkpoint", fails_once)
    sites.have(expected)
    retried = {name: taker.deduplicator.duplicates for name, taker in sites.takers.items()}
    assert all(retried.values()), "the first attempt had sent something"
    for path in (tmp_path / "checkpoint" / "commits").iterdir():
        path.unlink()                                       # as if the driver had died before the commit
    write(spark, made, sites, tmp_path / "checkpoint", lambda batches: batches)
    eventually(lambda: all(taker.deduplicator.duplicates >= retried[name] + len(expected)
                           for name, taker in sites.takers.items()), "all rows again")
    sites.have(expected)


def test_a_sink_s_member_that_is_killed_in_its_task_loses_no_row_and_sends_none_twice(
        spark, made, sites, expected, tmp_path):
    dead = tmp_path / "dead"
    came = 0

    def kill(message):
        nonlocal came
        came += 1
        if came == KILL_AT:
            os.kill(int(message.src.name.removeprefix("spark-")), signal.SIGKILL)
            dead.touch()

    def waits_for_its_death(batches):
        from pyspark import TaskContext
        for number, batch in enumerate(batches):
            until = time.monotonic() + PATIENCE_SECONDS
            while number == AT_BATCH and TaskContext.get().attemptNumber() == 0 and not dead.exists():
                assert time.monotonic() < until, "the sink's member was not killed"
                time.sleep(0.01)
            yield batch

    sites.takers["A"].on_message = kill
    write(spark, made, sites, tmp_path / "checkpoint", waits_for_its_death)
    sites.have(expected)
    assert all(taker.deduplicator.duplicates for taker in sites.takers.values()), "the first attempt had sent something"
