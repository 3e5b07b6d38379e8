"""`jgroups pipeline` without Spark: synthetic archives, usage errors."""
import json

import pytest

from jgroups_py.cli import main
from jgroups_py.pipeline.synthetic import FAULT_KINDS


def test_an_archive_is_made_with_the_faults_that_it_lists(tmp_path, capsys):
    words = ["make", str(tmp_path / "a"), "--rows", "60000", "--faults", "1", "--size", "0", "--json"]
    assert main(["pipeline", *words]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert sorted(fault["kind"] for fault in printed["faults"]) == sorted(FAULT_KINDS)
    assert main(["archive", "verify", str(tmp_path / "a")]) == 0


@pytest.mark.parametrize(("words", "message"), [
    (["audit", "nowhere", "--out", "out"], "nowhere is not an archive: it has no folders"),
    (["make", ".", "--rows", "7"], ". is not empty"),
    (["make", "new", "--rows", "7"], "7 rows are too few: at least 85, the facts of all members among them"),
    (["sim", "--profile", "group", "--seeds", "0:1", "--out", "out", "--piece", "0"], "--piece 0: at least one seed"),
])
def test_wrong_use_is_an_error_and_ends_with_2(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "something").touch()
    assert main(["pipeline", *words]) == 2
    assert message in capsys.readouterr().err
