"""The lag job without Spark: delays as they were made, clocks corrected, streaming equal to batch."""
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from jgroups_py.archive.layout import recorders
from jgroups_py.archive.reading import read
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.lag import digest as lag_digest
from jgroups_py.pipeline.lag.clocks import least_between, offsets
from jgroups_py.pipeline.lag.fold import fold
from jgroups_py.pipeline.lag.state import STATE
from jgroups_py.pipeline.lag.tables import Histogram, tables
from jgroups_py.pipeline.packed_arrays import pack
from tests.unit.pipeline.made import archive

OPTIONS = JobOptions(window_ns=500_000_000)


def digests(directory, batch_rows=2000):
    return [lag_digest.digest(batch, OPTIONS) for recorder in recorders(directory)
            for batch in read(directory, recorder, columns=lag_digest.COLUMNS, batch_rows=batch_rows)]


def batch_tables(directory):
    return tables(fold(pa.concat_tables(digests(directory)), OPTIONS, True), OPTIONS)


def summary(found):
    return {(line["origin_site"], line["site"]): line for line in found["lag_summary"].to_pylist()}


def test_delays_come_out_as_they_were_made(tmp_path):
    archive(tmp_path, messages=6000, turnover=False)
    found = summary(batch_tables(tmp_path))
    assert found["NYC", "NYC"]["p50_ns"] == pytest.approx(250_000, rel=0.1)
    assert found["NYC", "SFO"]["p50_ns"] == pytest.approx(4_000_000, rel=0.1)
    assert found["SFO", "NYC"]["messages"] == 3000 * 3
    assert found["NYC", "NYC"]["messages"] == 3000 * 2          # not what its sender delivered itself
    assert found["NYC", "SFO"]["rpo_ns"] == found["NYC", "SFO"]["max_ns"] < 60_000_000


def test_clocks_that_are_apart_are_estimated_and_taken_off(tmp_path):
    archive(tmp_path, messages=6000, turnover=False, clock_ns=(("SFO", 3_000_000_000),))
    found = batch_tables(tmp_path)
    clock = next(line for line in found["clocks"].to_pylist() if line["here"] == "host-nyc")
    assert clock["offset_ns"] == pytest.approx(3_000_000_000, abs=1_000_000)
    assert abs(clock["offset_ns"] - 3_000_000_000) <= clock["error_ns"] < 2_000_000
    assert summary(found)["NYC", "SFO"]["p50_ns"] == pytest.approx(4_000_000, rel=0.2)
    assert summary(found)["SFO", "NYC"]["p50_ns"] == pytest.approx(4_000_000, rel=0.2)


def test_without_traffic_both_ways_no_offset_is_made_up():
    found = offsets(least_between([("a", "b", 5), ("a", "b", 3), ("a", "a", 1)]))
    assert found["a", "b"].error_ns is None
    assert found["a", "b"].offset_ns == 0
    assert found["a", "a"].error_ns == 0


def test_an_outage_shows_in_lag_backlog_and_pauses(tmp_path):
    archive(tmp_path, messages=12_000)
    found = batch_tables(tmp_path)
    line = summary(found)["NYC", "SFO"]
    assert line["rto_ns"] > 300_000_000
    assert line["rpo_ns"] > 300_000_000
    assert line["max_backlog"] > 0


def test_folding_piece_by_piece_gives_the_tables_of_the_whole(tmp_path):
    archive(tmp_path, messages=6000, faults=1)
    pieces = digests(tmp_path, batch_rows=1500)
    cuts = [0, 3, 4, 9, 15, len(pieces)]
    state = STATE.empty_table()
    for first, stop in pairwise(cuts):
        state = fold(pa.concat_tables([state, *pieces[first:stop]]), OPTIONS, False)
    streamed, whole = tables(state, OPTIONS), batch_tables(tmp_path)
    for name, table in whole.items():
        assert streamed[name].equals(table), name


def counted(directory):
    return sum(line["messages"] for line in batch_tables(directory)["lag_summary"].to_pylist())


def test_a_message_that_came_twice_counts_once_and_a_lost_one_not_at_all(tmp_path):
    archive(tmp_path / "clean", messages=8000)
    faults = archive(tmp_path / "faulty", messages=8000, faults=1)
    missing = sum((fault.stop - fault.first) * len(fault.receivers) for fault in faults if "lost" in fault.kind)
    assert counted(tmp_path / "faulty") == counted(tmp_path / "clean") - missing


def test_quantiles_are_those_of_the_values():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 10**7, 5000)
    bins, counts = np.unique(values // 20_000, return_counts=True)
    line = {"a": pack(bins), "b": pack(counts), "most": int(values.max())}
    found = Histogram.of([(line, 0)])
    for share in (0.5, 0.99, 0.999):
        assert found.quantile_ns(share) == pytest.approx(np.quantile(values, share, method="inverted_cdf"), abs=20_000)
