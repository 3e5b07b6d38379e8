"""Jobs over archives without Spark: the tables depend neither on how an archive is cut nor on how many processes."""
import json
import subprocess
import sys

import pytest

from jgroups_py.cli import main
from jgroups_py.model.errors import ConfigError
from jgroups_py.pipeline import local
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.pipeline.local import run_local
from jgroups_py.pipeline.output import document
from jgroups_py.pipeline.terminal_summary import as_lines, exit_code
from tests.unit.pipeline.made import archive, findings_of
from tests.unit.pipeline.test_reported import excluded, sender, written

pytestmark = pytest.mark.real
WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "pandas", "py4j"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from jgroups_py.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""The command line where three packages are not installed."""


def lines(tables):
    return {name: sorted(json.dumps(line, sort_keys=True) for line in table.to_pylist())
            for name, table in tables.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("archive")
    return directory, archive(directory, messages=6000, faults=1)


def test_the_audit_finds_each_planted_fault(made):
    tables = run_local(made[0], JOBS["audit"], JobOptions())
    found = [(line["fault"], line["origin_name"], line["incarnation"], line["first"], line["stop"])
             for line in tables["findings"].to_pylist()]
    assert sorted(line for line in found if line[0] != "other_set") == findings_of(made[1])


@pytest.mark.parametrize("job", JOBS)
def test_state_that_is_folded_early_gives_the_same_tables(made, job, monkeypatch):
    whole = lines(run_local(made[0], JOBS[job], JobOptions()))
    monkeypatch.setattr(local, "FOLD_ROWS", 20)
    monkeypatch.setattr(local, "MOST_SEGMENTS", 1)
    steps = []
    assert lines(run_local(made[0], JOBS[job], JobOptions(), lambda *step: steps.append(step))) == whole
    assert steps[-1][0] == steps[-1][1] == len(steps) > 10


def test_reports_of_what_was_missed_are_no_fault_in_the_command_s_words_and_without_them_all_is_lost(tmp_path):
    for name, missed, code in (("new", 2, 0), ("old", None, 1)):
        written(tmp_path / name, sender(), excluded(missed))
        shown = document("audit", run_local(tmp_path / name, JOBS["audit"], JobOptions()))
        assert exit_code(shown) == code, shown
        words = as_lines(shown)
        if missed:
            assert words[-1] == (
                "audit: everything arrived once and in order, the same everywhere; 2 were reported as missed at a merge"
            )
            assert words[0].split()[-1] == "missed"
        else:
            assert words[-1].startswith("audit: FAULTS FOUND, 1 findings")


def test_no_archive_is_an_error_that_says_what_one_is(tmp_path):
    with pytest.raises(ConfigError, match=r"is not an archive: it has no folders cluster=\*/site=\*"):
        run_local(tmp_path, JOBS["audit"], JobOptions())


def test_the_command_judges_lists_findings_and_writes_nothing_unless_told(made, capsys, tmp_path):
    assert main(["archive", "audit", str(made[0])]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1].startswith("audit: FAULTS FOUND, ")
    assert "each with its range above; " in shown[-1]
    lost = next(fault for fault in made[1] if fault.kind == "lost")
    numbers = f"{lost.first}" if lost.stop == lost.first + 1 else f"{lost.first} to {lost.stop - 1}"
    where = [line for line in shown if line.startswith("lost (") and f": {lost.origin.name}@" in line]
    assert any(f" {numbers} at {lost.receivers[0].name}@" in line for line in where), where
    assert main(["archive", "report", str(made[0]), "--out", str(tmp_path), "--jobs", "traffic,audit", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert sorted(found) == ["audit", "ok", "traffic"]
    assert not found["ok"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit", "report.html", "traffic"]


def test_an_unknown_job_is_a_usage_error(made, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["archive", "report", str(made[0]), "--out", str(tmp_path), "--jobs", "audit,delay"])
    assert ended.value.code == 2
    assert "'delay' is none of audit, lag, timeline, traffic" in capsys.readouterr().err


def test_two_processes_give_the_tables_of_one(tmp_path, monkeypatch):
    archive(tmp_path, messages=6000, faults=1)
    one = lines(run_local(tmp_path, JOBS["lag"], JobOptions(), processes=1))
    monkeypatch.setattr(local, "ALONE_BYTES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert lines(run_local(tmp_path, JOBS["lag"], JobOptions())) == one


def test_neither_spark_nor_pandas_is_needed(tmp_path):
    archive(tmp_path, messages=3000)
    ended = subprocess.run([sys.executable, "-c", WITHOUT, "archive", "report", str(tmp_path), "--out",
                            str(tmp_path / "out"), "--json"], capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout)["audit"]["verdict"] == "clean"
