"""Rows of a sink are taken once, whatever runs twice."""
import pytest

from jgroups_py.model.errors import WireError
from jgroups_py.pipeline.dedup import HEADER_ID, Deduplicator, Row

QUERY = bytes(range(16))


def headers(epoch, partition, number, query=QUERY):
    return {HEADER_ID: Row(query, epoch, partition, number).encode()}


def test_a_task_that_runs_twice_is_taken_once_in_any_order():
    seen = Deduplicator()
    first = [seen.is_new(headers(0, 1, number)) for number in range(5)]
    again = [seen.is_new(headers(0, 1, number)) for number in (4, 0, 5, 3)]
    assert first == [True] * 5
    assert again == [False, False, True, False]
    assert seen.duplicates == 3


def test_queries_epochs_and_partitions_are_told_apart():
    seen = Deduplicator()
    assert all(seen.is_new(found) for found in (
        headers(0, 0, 0), headers(1, 0, 0), headers(0, 1, 0), headers(0, 0, 0, bytes(16))))


def test_memory_is_bounded_and_what_is_long_over_counts_as_seen():
    seen = Deduplicator(kept_epochs=3)
    assert all(seen.is_new(headers(epoch, 0, 0)) for epoch in range(10))
    assert not seen.is_new(headers(2, 0, 7))
    assert seen.is_new(headers(9, 0, 1))


def test_foreign_bytes_in_the_header_are_an_error_with_what_was_expected():
    with pytest.raises(WireError, match="3 bytes are no row of a sink: expected 37 bytes"):
        Deduplicator().is_new({HEADER_ID: b"abc"})
