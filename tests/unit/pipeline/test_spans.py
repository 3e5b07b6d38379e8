"""Digesting rows to spans, and folding spans, against a slow twin."""
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from jgroups_py.archive.schema import ALL
from jgroups_py.pipeline import seqno_ranges as spans


def rows(numbers, kind="delivered", first_row=0, view="v1"):
    """Rows of one recorder: (origin, seqno) each."""
    return [{"cluster": "c", "site": "NYC", "member": "A", "incarnation": "aa", "date": "2026-01-01", "hour": 1,
             "row": first_row + at, "kind": kind, "wall_ns": 10 * (first_row + at), "mono_ns": 0, "view_id": view,
             "origin": origin, "origin_name": origin, "stream": "all", "seqno": seqno, "count": 1, "flags": 0}
            for at, (origin, seqno) in enumerate(numbers)]


def batch(found):
    return pa.Table.from_pylist(found, ALL).combine_chunks().to_batches()[0]


def ranges(table):
    return [(line["origin"], line["first"], line["stop"], line["row"]) for line in table.to_pylist()]


def test_consecutive_numbers_of_one_origin_are_one_span_even_if_others_come_between():
    found = spans.digest(batch(rows([("a", 1), ("b", 7), ("a", 2), ("b", 8), ("a", 3)])))
    assert sorted(ranges(found)) == [("a", 1, 4, 0), ("b", 7, 9, 1)]


def test_a_hole_a_double_and_a_late_one_each_begin_a_span():
    found = spans.digest(batch(rows([("a", 1), ("a", 3), ("a", 3), ("a", 2), ("a", 4)])))
    assert sorted(ranges(found), key=lambda span: span[3]) == [
        ("a", 1, 2, 0), ("a", 3, 4, 1), ("a", 3, 4, 2), ("a", 2, 3, 3), ("a", 4, 5, 4)]


def test_a_view_begins_a_span():
    found = spans.fold([spans.digest(batch(rows([("a", 1)]) + rows([("a", 2)], first_row=1, view="v2")))])
    assert sorted(ranges(found)) == [("a", 1, 2, 0), ("a", 2, 3, 1)]


def test_facts_stay_apart_and_keep_their_detail():
    facts = [{**line, "detail": "{}", "count": 5} for line in rows([("a", 1), ("a", 6)], kind="lost")]
    found = spans.fold([spans.digest(batch(facts))])
    assert sorted(ranges(found)) == [("a", 1, 6, 0), ("a", 6, 11, 1)]
    assert found.column("detail").to_pylist() == ["{}", "{}"]


def slow_twin(found):
    """Spans of one origin, row by row."""
    result = []
    for line in sorted(found, key=lambda line: line["row"]):
        if result and result[-1][1] == line["seqno"]:
            result[-1][1] += 1
        else:
            result.append([line["seqno"], line["seqno"] + 1, line["row"]])
    return [tuple(span) for span in result]


@pytest.mark.parametrize("seed", range(5))
def test_random_records_in_random_pieces_fold_as_the_slow_twin_says(seed):
    rng = Random(seed)
    origins = ["a", "b", "c"]
    upto = dict.fromkeys(origins, 0)
    numbers = []
    for _ in range(400):
        origin = rng.choice(origins)
        upto[origin] += rng.choice([1] * 20 + [0, 2, -1])
        numbers.append((origin, upto[origin]))
    found = rows(numbers)
    cuts = [0, *sorted(rng.sample(range(400), 6)), 400]
    pieces = [spans.digest(batch(found[a:b])) for a, b in pairwise(cuts) if a < b]
    rng.shuffle(pieces)
    table = spans.fold(pieces)
    for origin in origins:
        mine = sorted((line for line in table.to_pylist() if line["origin"] == origin), key=lambda line: line["row"])
        assert [(line["first"], line["stop"], line["row"]) for line in mine] == slow_twin(
            [line for line in found if line["origin"] == origin])


def test_no_rows_make_no_spans():
    nothing = batch(rows([("a", 1)])).slice(1)
    assert len(spans.digest(nothing)) == 0
    assert len(spans.fold([spans.digest(nothing)])) == 0


def test_messages_without_a_number_are_left_out():
    found = [{**line, "seqno": None} for line in rows([("a", 1), ("a", 2)])]
    assert len(spans.digest(batch(found))) == 0
    assert ranges(spans.digest(batch(found + rows([("b", 1)], first_row=2)))) == [("b", 1, 2, 2)]
