"""Timeline and traffic of synthetic archives, without Spark."""
import pyarrow as pa
import pytest

from jgroups_py.archive.layout import recorders
from jgroups_py.archive.reading import read
from jgroups_py.archive.schema import ALL
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.pipeline.report import page
from tests.unit.pipeline.made import archive

OPTIONS = JobOptions(window_ns=500_000_000)


def tables(directory, name):
    job = JOBS[name]
    found = [job.digest(batch, OPTIONS) for recorder in recorders(directory)
             for batch in read(directory, recorder, columns=job.columns, batch_rows=3000)]
    return job.tables(job.fold(pa.concat_tables(found), OPTIONS, True), OPTIONS)


@pytest.mark.parametrize("name", list(JOBS))
def test_every_job_takes_an_empty_batch_and_an_empty_state(name):
    job = JOBS[name]
    nothing = pa.RecordBatch.from_pylist([], pa.schema([ALL.field(column) for column in job.columns]))
    assert len(job.digest(nothing, OPTIONS)) == 0
    tables = job.tables(job.fold(job.state.empty_table(), OPTIONS, True), OPTIONS)
    assert all(len(table) == 0 for table in tables.values())


def test_views_follow_each_other_and_name_who_came_and_went(tmp_path):
    archive(tmp_path, messages=6000)
    views = [(line["site"], line["members"], line["joined"], line["left"])
             for line in tables(tmp_path, "timeline")["views"].to_pylist()]
    assert views == [("NYC", "A, B, C", "A, B, C", ""), ("NYC", "B, C", "", "A"), ("NYC", "B, C, A", "A", ""),
                     ("SFO", "D, E, F", "D, E, F", ""), ("SFO", "D, F", "", "E")]


def test_a_crash_of_a_coordinator_is_a_failover_with_its_gaps(tmp_path):
    archive(tmp_path, messages=12_000)
    gaps = tables(tmp_path, "timeline")["gaps"].to_pylist()
    crash = {(line["origin_site"], line["site"]): line["gap_ns"] for line in gaps if line["members"] == "A"}
    assert {line["what"] for line in gaps} == {"failover: coordinator crashed", "left"}
    assert crash["NYC", "SFO"] > 300_000_000 > crash["NYC", "NYC"] > 100_000_000


def test_traffic_adds_up_to_what_was_sent(tmp_path):
    archive(tmp_path, messages=6000, turnover=False, payload_bytes=100)
    found = tables(tmp_path, "traffic")
    assert sum(line["messages"] for line in found["topics"].to_pylist()) == 6000
    assert {line["topic"] for line in found["topics"].to_pylist()} == {"orders", "prices", "audit"}
    assert [(line["size_below"], line["messages"], line["bytes"]) for line in found["sizes"].to_pylist()] == [
        (128, 6000, 600_000)]
    assert sum(line["messages"] for line in found["received"].to_pylist()) == 6000 * 6
    assert len(found["talkers"]) == 6


def test_names_on_the_page_are_text_and_nothing_else(tmp_path):
    archive(tmp_path, messages=3000, sites=(("<b>NYC", ("A", "B")), ("SFO", ("D", "E"))))
    text = page({**tables(tmp_path, "timeline"), **tables(tmp_path, "traffic")}, "a <script>")
    assert "<b>NYC" not in text
    assert "a <script>" not in text
    assert text.count("<script>") == 1, "that of the page"
    assert "&lt;b&gt;NYC" in text
