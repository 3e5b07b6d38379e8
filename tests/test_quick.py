"""`./test --quick` selects tests of what has changed, and refuses what it does not understand."""
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.quick import ALWAYS, LEFT_OUT, QUICK, ROOT, TESTS_OF, changed_since, selection_for, selection_of


def test_every_room_of_the_package_has_tests() -> None:
    rooms = {f"jgroups_py/{path.parent.name}/" for path in (ROOT / "jgroups_py").glob("*/__init__.py")}
    assert rooms <= set(TESTS_OF)


def test_what_the_table_names_exists() -> None:
    named = {*QUICK, *LEFT_OUT, *TESTS_OF, *(test for tests in TESTS_OF.values() for test in tests)}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_what_is_left_out_runs_when_it_changes() -> None:
    taken = {test for room in ("jgroups_py/blocks/mqtt/", "jgroups_py/pipeline/") for test in TESTS_OF[room]}
    assert taken >= set(LEFT_OUT)


def test_the_tests_of_a_room_are_run_and_no_others() -> None:
    assert selection_for(["jgroups_py/protocols/relay/sites/trimmer.py"]) == sorted(
        {*ALWAYS, "tests/unit/relay", "tests/scenarios", "tests/wire"})
    assert "tests/unit/protocols" in selection_for(["jgroups_py/protocols/nakack/protocol.py"])
    assert selection_of("jgroups_py/blocks/mqtt/packets.py") != selection_of("jgroups_py/blocks/rpc/rpc.py")


def test_a_changed_test_runs_and_a_helper_runs_the_tests_beside_it() -> None:
    assert selection_of("tests/unit/test_batch.py") == ("tests/unit/test_batch.py",)
    assert selection_of("tests/unit/relay/journal_disk.py") == ("tests/unit/relay",)
    assert selection_of("tests/unit/test_that_was_removed.py") == ()


@pytest.mark.parametrize("path", ["setup.cfg", "jgroups_py/__init__.py", "tests/conftest.py", "something/new.py"])
def test_what_the_table_does_not_have_runs_all_quick_tests(path: str) -> None:
    assert selection_of(path) == QUICK
    assert selection_for([path]) == selection_for(["jgroups_py/version.py", path])


def test_no_path_is_given_twice() -> None:
    for path in (*TESTS_OF, "setup.cfg"):
        tests = selection_for([path])
        assert [one for one in tests for other in tests if one.startswith(f"{other}/")] == []


def test_changed_removed_and_new_files_are_found(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words], cwd=tmp_path,
                       check=True, capture_output=True)
    git("init", "-q")
    for name in ("same", "changed", "removed", "with space"):
        (tmp_path / name).write_text("1")
    (tmp_path / ".gitignore").write_text("ignored")
    git("add", "-A")
    git("commit", "-qm", "first")
    (tmp_path / "changed").write_text("2")
    (tmp_path / "removed").unlink()
    (tmp_path / "with space").write_text("2")
    (tmp_path / "new").write_text("1")
    (tmp_path / "ignored").write_text("1")
    assert changed_since("HEAD", tmp_path) == ["changed", "new", "removed", "with space"]
    with pytest.raises(ValueError, match="no-such-commit"):
        changed_since("no-such-commit", tmp_path)


@pytest.mark.parametrize(("words", "said"), [
    (["--quik"], "unknown argument '--quik'"), (["--changed"], "--changed goes with --quick"),
    (["--quick", "tests"], "after --quick comes --changed or nothing, not 'tests'"),
    (["--quick", "--changed", "HEAD", "more"], "one COMMIT at most"), ([""], "an empty argument"),
    (["--long", "--quick"], "after --long comes nothing, not '--quick'")])
def test_wrong_use_is_refused_before_anything_is_installed(words: list[str], said: str) -> None:
    done = subprocess.run([str(ROOT / "test"), *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "usage: ./test" in done.stderr


def test_help_is_printed() -> None:
    done = subprocess.run([str(ROOT / "test"), "--help"], capture_output=True, text=True, check=True)
    assert "--quick --changed [COMMIT]" in done.stdout
    assert "./test --long" in done.stdout
