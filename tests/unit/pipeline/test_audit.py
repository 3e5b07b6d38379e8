"""The audit on synthetic archives, without Spark: every planted fault is found, and nothing else."""
import pytest

from jgroups_py.pipeline.audit.judge import FAULTS, is_clean, judge, totals
from jgroups_py.pipeline.synthetic import FAULT_KINDS
from tests.unit.pipeline.made import archive, findings_of, folded


def lines(findings):
    return [(line["fault"], line["origin_name"], line["incarnation"], line["first"], line["stop"])
            for line in findings.to_pylist()]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_found_in_a_clean_archive(tmp_path, seed):
    archive(tmp_path, seed=seed, messages=6000)
    pairs, findings = judge(folded(tmp_path))
    assert findings.to_pylist() == []
    sums = totals(pairs)
    assert is_clean(sums)
    assert sums["expected"] == sums["delivered"] > 25_000


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_planted_fault_is_found_and_nothing_else(tmp_path, seed):
    faults = archive(tmp_path, seed=seed, messages=12_000, faults=2)
    assert {fault.kind for fault in faults} == set(FAULT_KINDS)
    pairs, findings = judge(folded(tmp_path))
    found = lines(findings)
    assert sorted(line for line in found if line[0] != "other_set") == findings_of(faults)
    sets = {(line[1], number) for line in found if line[0] == "other_set" for number in range(line[3], line[4])}
    planted = {(fault.origin.name, number) for fault in faults for number in range(fault.first, fault.stop)
               if fault.kind in ("other_set", "lost")}
    assert sets <= planted
    assert sets >= {(fault.origin.name, fault.first) for fault in faults if fault.kind == "other_set"}
    sums = totals(pairs)
    assert sums["expected"] == sums["delivered"] + sums["lost"] + sums["declared_lost"] + sums["skipped"]
    assert not is_clean(sums)
    named = {(line["fault"], line["guarantee"]) for line in findings.to_pylist()}
    assert named >= {("lost", "R3"), ("duplicated", "R3"), ("declared_lost", "R3"), ("out_of_order", "R4"),
                     ("other_set", "S5")}
    assert all(sums[fault] for fault in FAULTS if fault != "not_sent")


@pytest.mark.parametrize("batch_rows", [777, 1 << 20])
def test_the_verdict_does_not_depend_on_how_the_rows_are_cut(tmp_path, batch_rows):
    archive(tmp_path, messages=12_000, faults=2)
    pairs, findings = judge(folded(tmp_path, batch_rows))
    whole_pairs, whole_findings = judge(folded(tmp_path))
    assert pairs.equals(whole_pairs)
    assert sorted(lines(findings)) == sorted(lines(whole_findings))


def test_what_was_sent_just_before_the_open_end_of_a_record_is_not_lost(tmp_path):
    archive(tmp_path, messages=6000, open_end=True)
    pairs, _ = judge(folded(tmp_path))
    assert is_clean(totals(pairs))
