"""Archives of exactly so many rows."""
import pyarrow.compute as pc
import pytest

from jgroups_py.archive.reading import read_all
from jgroups_py.pipeline.audit.judge import is_clean, judge, totals
from jgroups_py.pipeline.synthetic import make, plan_of
from tests.unit.pipeline.made import findings_of, folded


@pytest.mark.parametrize(("rows", "options"), [
    (300, {}), (20_000, {"turnover": False}), (40_001, {"faults": 1}), (40_002, {"faults": 1, "seed": 5}),
    (30_000, {"rate": 100_000, "open_end": True})])
def test_as_many_rows_are_made_as_were_asked_for(tmp_path, rows, options):
    faults = make(tmp_path, plan_of(rows, payload_bytes=0, segment_rows=5000, **options))
    found = read_all(tmp_path, ["kind", "stream"])
    assert len(found) == rows
    filling = pc.sum(pc.equal(found.column("stream"), "unreliable")).as_py() or 0
    assert filling < 1000
    pairs, findings = judge(folded(tmp_path))
    assert is_clean(totals(pairs)) == (not faults)
    planted = {(line["fault"], line["first"]) for line in findings.to_pylist()
               if line["fault"] not in ("other_set", "pending")}
    assert planted == {(what, first) for what, _, _, first, _ in findings_of(faults)}


def test_fewer_rows_than_the_facts_are_refused():
    with pytest.raises(ValueError, match="50 rows are too few: at least 85"):
        plan_of(50)
