"""What is recorded of MQTT messages for the archive of a group, and what the jobs of the pipeline make of it."""
from __future__ import annotations

import pyarrow as pa
import pytest

from jgroups_py.archive.rows import lines_of, plain, unfold
from jgroups_py.archive.schema import ALL, MQTT
from jgroups_py.blocks.mqtt.broker.publication import Publication
from jgroups_py.blocks.mqtt.federation.message_record import DELIVERED, SENT, STREAM, MessageRecord
from jgroups_py.model.address import Address
from jgroups_py.model.events import MessageRun
from jgroups_py.model.outputs import Record
from jgroups_py.pipeline import seqno_ranges
from jgroups_py.pipeline.audit.judge import judge, totals
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.wire.archive_header import address_text
from tests.unit.blocks.mqtt.federation_world import FederationWorld

NODE1, NODE2 = Address(bytes(16), "node1"), Address(bytes(range(16)), "node2")
OPTIONS = JobOptions()


def recorded(names: str) -> FederationWorld:
    world = FederationWorld(names)
    for node in world.nodes.values():
        node.federation.record = MessageRecord()
    return world


def runs(world: FederationWorld, name: str) -> list[tuple[str, object, str, int, list[int]]]:
    record = world.nodes[name].federation.record
    assert record is not None
    return [(run.kind, run.origin, run.topic, run.first, run.sizes) for run in record.take()]


def test_a_message_is_recorded_where_it_is_published_and_where_it_is_taken_over():
    world = recorded("ABC")
    world.client("B", "sub").subscribe("a", qos=1)
    world.run(0.2)
    publisher = world.client("A", "pub")
    publisher.publish("a", b"123", qos=1)
    publisher.publish("b", b"", qos=0)
    world.run(0.2)
    assert runs(world, "A") == [(SENT, None, "a", 1, [3]), (SENT, None, "b", 2, [0])]
    assert runs(world, "B") == [(DELIVERED, "A#1", "a", 1, [3])]
    assert runs(world, "C") == []
    assert runs(world, "B") == [], "once"


def test_what_two_shared_subscriptions_of_a_node_get_is_recorded_once():
    world = recorded("AB")
    member = world.client("B", "member")
    member.subscribe("$share/g/a", qos=1)
    world.client("B", "other").subscribe("$share/h/+", qos=1)
    world.run(0.2)
    world.client("A", "pub").publish("a", b"x", qos=1)
    world.run(0.2)
    assert runs(world, "B") == [(DELIVERED, "A#1", "a", 1, [1])]


def test_messages_of_one_topic_in_a_row_are_one_run():
    record = MessageRecord()
    for number, topic in ((1, "a"), (2, "a"), (3, "b"), (5, "b")):
        record.sent(Publication(topic, bytes(number), number=number, origin=7), 50)
    assert [(run.first, run.sizes) for run in record.take()] == [(1, [1, 2]), (3, [3]), (5, [5])]


def rows(recorder: Address, *made: MessageRun) -> pa.RecordBatch:
    """As the recorder of a member writes them and a reader gives them."""
    records = [Record("start", 0, None, detail={}), *(
        Record(run.kind, run.now_ns, None, len(run.sizes), 1, run.origin or recorder, None, STREAM, run.first,
               sizes=tuple(run.sizes), topic=run.topic) for run in made), Record("stop", 10**9, None, detail={})]
    batch = plain(unfold(lines_of(records, 0, 0)))
    folder = {"cluster": "brokers", "site": None, "member": recorder.name, "incarnation": address_text(recorder)}
    named = [pa.array([folder[name]] * len(batch), pa.string()) if name in folder else batch.column(name)
             for name in ALL.names if name in folder or name in batch.schema.names]
    return pa.RecordBatch.from_arrays(
        named, names=[name for name in ALL.names if name in folder or name in batch.schema.names])


PUBLISHED = rows(NODE1, MessageRun(SENT, 100, None, "a", 1, [10, 10]), MessageRun(SENT, 200, None, "b", 3, [5]))
TAKEN = MessageRun(DELIVERED, 1_000_100, NODE1, "a", 1, [10, 10])


def table(name: str, *batches: pa.RecordBatch) -> dict[str, list[dict[str, object]]]:
    job = JOBS[name]
    found = [job.digest(batch.select(list(job.columns)), OPTIONS) for batch in batches]
    digested = [each if isinstance(each, pa.Table) else pa.Table.from_batches([each]) for each in found]
    made = job.tables(job.fold(pa.concat_tables(digested), OPTIONS, True), OPTIONS)
    return {title: each.to_pylist() for title, each in made.items()}


def test_topics_of_the_traffic_job_are_those_of_mqtt():
    frame = rows(NODE1)                                  # no message of the group itself
    found = table("traffic", PUBLISHED, rows(NODE2, TAKEN), frame)
    assert [(line["topic"], line["messages"], line["bytes"]) for line in found["topics"]] == [("a", 2, 20), ("b", 1, 5)]
    assert found["talkers"] == found["sizes"] == found["received"] == [], "these count what the group carries"


def test_the_lag_of_mqtt_messages_is_measured():
    found = table("lag", PUBLISHED, rows(NODE2, TAKEN))
    line, = found["lag_summary"]
    assert line["messages"] == 2


@pytest.mark.parametrize(("taken", "faults"), [
    ([TAKEN], []),
    ([MessageRun(DELIVERED, 1_000_100, NODE1, "b", 3, [5])], []),
    ([TAKEN, MessageRun(DELIVERED, 1_000_200, NODE1, "a", 2, [10])], ["duplicated"]),
    ([MessageRun(DELIVERED, 1_000_100, NODE1, "c", 9, [5])], ["not_sent"])],
    ids=["all", "some-are-not-wanted", "twice", "never-published"])
def test_the_audit_finds_what_came_twice_and_what_nobody_published(taken, faults):
    spans = [seqno_ranges.digest(batch.select(list(seqno_ranges.COLUMNS)))
             for batch in (PUBLISHED, rows(NODE2, *taken))]
    pairs, findings = judge(seqno_ranges.fold(spans))
    assert [line["fault"] for line in findings.to_pylist()] == faults
    assert totals(pairs)["lost"] == 0


def test_the_stream_has_the_name_of_the_schema():
    assert STREAM == MQTT
