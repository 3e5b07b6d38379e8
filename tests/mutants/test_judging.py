"""Verdicts: what kills, what hangs, what is not reached; limits of time; and that the working tree stays as it is."""
from __future__ import annotations

import contextlib
import json
import signal

import attrs
import pytest

from tests.mutants import lines, seeds
from tests.mutants.baseline import Baseline, by_turns
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.judging import Verdict, by_seeds, by_units, seed_verdict, unit_verdict
from tests.mutants.patience import Overrun, at_most
from tests.mutants.results import Record, Results, State, good, kills, summary, table
from tests.mutants.rooms import room_of
from tests.mutants.seeds import judge
from tests.mutants.workshop import ROOT, Ended, Workshop

STABLE = "jgroups_py/protocols/stable/protocol.py"
RANGES = "jgroups_py/windows/ranges.py"
TODAY = State("abc", "package", "tests")


@attrs.frozen
class Change:
    """A mutant for these tests."""

    path: str
    line: int
    old: str
    new: str
    key: str = "a"

    def apply(self, source: str) -> str:
        assert self.old in source
        return source.replace(self.old, self.new, 1)


def record(key: str, unit: str, sim: str) -> Record:
    return Record(key, STABLE, 1, "stable", ("-a", "+b"), "abc", "package", "tests", 10.0, Verdict(unit), Verdict(sim))


@pytest.fixture(scope="module")
def workshop():
    with Workshop() as made:
        yield made


# --- the workshop ---------------------------------------------------------------------------------------------------

@pytest.mark.slow
def test_a_change_is_seen_by_what_runs_there_and_gone_afterwards_and_never_in_the_working_tree(workshop):
    before = (ROOT / RANGES).read_text()
    words = ["-c", "import jgroups_py.windows.ranges as r; print(getattr(r, 'X', 0), r.__file__)"]
    for number in (1, 2):                                   # of one length: compiled code of the first must not be used
        with workshop.changed(RANGES, before + f"X = {number}\n"):
            assert workshop.run(words, cpu_s=20).output.split() == [str(number), str(workshop.root / RANGES)]
            assert (ROOT / RANGES).read_text() == before
    assert workshop.run(words, cpu_s=20).output.split()[0] == "0"
    assert workshop.read(RANGES) == before


@pytest.mark.slow
def test_what_computes_for_ever_is_ended_by_its_limit(workshop):
    ended = workshop.run(["-c", "while True: pass"], cpu_s=1)
    assert (ended.over, ended.code) == ("cpu", -signal.SIGXCPU)
    assert ended.cpu_s == pytest.approx(1, abs=0.5)


@pytest.mark.slow
def test_what_takes_all_memory_is_refused_it(workshop):
    ended = workshop.run(["-c", "x = bytearray(1 << 40)"], cpu_s=5)
    assert ended.code == 1
    assert "MemoryError" in ended.output


@pytest.mark.slow
def test_a_process_gets_what_is_given_to_it(workshop):
    ended = workshop.run(["-c", "import sys; print(sys.stdin.read()[::-1])"], cpu_s=5, given="abc")
    assert (ended.code, ended.output, ended.over) == (0, "cba\n", "")


# --- marks ----------------------------------------------------------------------------------------------------------

SOURCE = '''"""Doc."""
from __future__ import annotations


def half(number):
    """Doc."""
    if number > 1:
        return (number
                // 2)
    elif number == 1:
        number = 7
    for step in range(number):
        number -= step
    return number
'''


def test_marks_record_which_statements_ran_and_change_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_marks", {})
    inside: dict[str, object] = {}
    exec(lines.marked("half.py", SOURCE), inside)
    lines.forget()
    half = inside["half"]
    assert callable(half)
    assert half(8) == 4
    found = lines.executed()["half.py"]
    assert [line for line in range(20) if lines.has_line(found, line)] == [7, 8]
    assert half(1) == 7 - sum(range(7))
    found = lines.executed()["half.py"]
    assert [line for line in range(20) if lines.has_line(found, line)] == [7, 8, 10, 11, 12, 13, 14]
    lines.forget()
    assert lines.executed() == {}


def test_a_line_belongs_to_the_statement_that_it_is_in() -> None:
    assert lines.statement_at(SOURCE, 9) == (8, True)
    assert lines.statement_at(SOURCE, 10) == (10, True)
    assert lines.statement_at(SOURCE, 5) == (5, False)


# --- judges ---------------------------------------------------------------------------------------------------------

def baseline_of(*tests: str, at: int) -> Baseline:
    """As if these tests executed one line of STABLE."""
    found = {STABLE: format(1 << at, "x")}
    return Baseline(tuple({"test": test, "cpu_s": 0.1, "lines": found} for test in tests), {})


VOTES = "tests/unit/protocols/test_stable.py"


def line_of(text: str) -> int:
    return next(at for at, line in enumerate((ROOT / STABLE).read_text().splitlines(), 1) if text in line)


@pytest.mark.slow
def test_a_mutant_is_killed_by_the_unit_test_that_fails(workshop):
    at = line_of("self.pass_down(MessagesStable(")
    change = Change(STABLE, at, "self.pass_down(MessagesStable(", "str(MessagesStable(")
    found = by_units(workshop, change, baseline_of(VOTES, at=at))
    assert (found.kind, found.killed, found.reaching) == ("killed", True, 1)
    assert found.by.startswith(f"{VOTES}::")
    harmless = Change(STABLE, at, '"""STABLE', '"""stable')
    assert by_units(workshop, harmless, baseline_of(VOTES, at=at)).kind == "survived"


@pytest.mark.slow
def test_a_mutant_is_killed_by_the_seed_that_a_checker_objects_to(workshop):
    path = "jgroups_py/protocols/nakack/protocol.py"
    source = workshop.read(path)
    old = "            return self.pass_up(batch)\n        if self.naks and sender in self.naks"
    at = source[:source.index(old)].count("\n") + 1
    seed = {"profile": "group", "seed": 0, "cpu_s": 1.0, "digest": "", "lines": {path: format(1 << at, "x")}}
    world = Baseline((), {"group": (seed,)})
    losing = Change(path, at, old, old.replace("self.pass_up(batch)", "None"))
    found = by_seeds(workshop, losing, world, 30.0)
    assert (found.kind, found.by) == ("killed", "jgroups sim --profile group --seed 0")
    assert (found.seeds, found.reaching) == (1, 1)
    assert by_seeds(workshop, Change(path, at, old, old), world, 30.0).kind == "survived"


def test_what_nothing_executes_is_not_judged(workshop):
    change = Change(STABLE, line_of("self.pass_down(MessagesStable("), "a", "b")
    elsewhere = baseline_of(VOTES, at=1)
    assert by_units(workshop, change, elsewhere) == by_seeds(workshop, change, elsewhere, 1.0) == Verdict("unreached")
    assert not Verdict("unreached").killed


def test_only_tests_of_the_room_judge():
    at = line_of("self.pass_down(MessagesStable(")
    room = room_of(STABLE)
    scenario = "tests/scenarios/test_scenarios.py::y"
    known = baseline_of(VOTES, "tests/unit/relay/test_relay.py::x", scenario, at=at)
    assert [test["test"] for test in known.tests_at(room, STABLE, at)] == [VOTES, scenario]


def test_the_profiles_of_the_room_take_turns_and_come_first():
    found = {STABLE: "2"}
    known = Baseline((), {name: tuple({"profile": name, "seed": seed, "lines": found} for seed in range(2))
                          for name in ("replicas", "relay", "split-brain", "group")})
    order = [(seed["profile"], seed["seed"]) for seed in known.seeds_at(room_of(STABLE), STABLE, 1)]
    assert order[:4] == [("group", 0), ("split-brain", 0), ("group", 1), ("split-brain", 1)]
    assert sorted(order[4:]) == [("relay", 0), ("relay", 1), ("replicas", 0), ("replicas", 1)]
    assert known.seeds_at(room_of(STABLE), STABLE, 5) == []
    assert list(by_turns([[{"a": 1}], [], [{"b": 1}, {"b": 2}]])) == [{"a": 1}, {"b": 1}, {"b": 2}]


def test_exit_codes_of_pytest_become_verdicts():
    assert unit_verdict(Ended(0, "", 1.0, ""), 3) == Verdict("survived", cpu_s=1.0, reaching=3)
    failed = unit_verdict(Ended(1, "x\nFAILED tests/a.py::b[c] - assert 1 == 2\n1 failed", 1.0, ""), 3)
    assert (failed.kind, failed.by, failed.what) == ("killed", "tests/a.py::b[c]", "assert 1 == 2")
    assert unit_verdict(Ended(3, "INTERNALERROR", 1.0, ""), 3).kind == "killed"
    assert unit_verdict(Ended(-signal.SIGXCPU, "", 9.0, "cpu"), 3).kind == "timeout"
    hangs = unit_verdict(Ended(1, "FAILED tests/a.py::b - tests.mutants.patience.Overrun", 9.0, ""), 3)
    assert (hangs.kind, hangs.by) == ("timeout", "tests/a.py::b")
    with pytest.raises(RuntimeError, match="ran none"):
        unit_verdict(Ended(5, "", 1.0, ""), 3)


def test_ends_of_seeds_become_verdicts():
    line = json.dumps({"kind": "survived", "by": "", "what": "", "seeds": 4, "other": 1, "cpu_s": 2.0})
    assert seed_verdict(Ended(0, f"warning\n{line}\n", 2.0, ""), 9) == Verdict("survived", "", "", 2.0, 9, 4, 1)
    assert seed_verdict(Ended(1, "NameError: x", 1.0, ""), 9).kind == "killed"
    assert seed_verdict(Ended(-signal.SIGXCPU, "", 1.0, "cpu"), 9).kind == "timeout"


class Outcome:
    """What a seed comes to, for the judge."""

    guarantees = ("F",)

    def __init__(self, digest: str, *violations: str) -> None:
        self.digest, self.violations = digest, violations


def work(*numbers: int) -> list[dict[str, object]]:
    return [{"profile": "group", "seed": number, "digest": "same", "cpu_s": 0.0} for number in numbers]


def test_seeds_are_run_up_to_the_first_violation(monkeypatch):
    outcomes = [Outcome("same"), Outcome("other"), Outcome("other", "F: twice"), Outcome("same")]
    monkeypatch.setattr(seeds, "run_seed", lambda profile, seed: outcomes[seed])
    found = judge(work(0, 1, 2, 3), 60.0)
    assert (found["kind"], found["what"]) == ("killed", "F: F: twice")
    assert found["by"] == "jgroups sim --profile group --seed 2"
    assert (found["seeds"], found["other"]) == (3, 2)


def test_no_seed_begins_once_the_budget_is_spent(monkeypatch):
    spent = iter([0.0, 1.0, 2.0, 2.9, 3.1, 3.2])            # a clock: begin, before each seed, for the verdict
    monkeypatch.setattr(seeds.time, "process_time", lambda: next(spent))
    monkeypatch.setattr(seeds, "run_seed", lambda profile, seed: Outcome("same"))
    found = judge(work(0, 1, 2, 3, 4, 5), 3.0)
    assert (found["kind"], found["seeds"]) == ("survived", 3)


@pytest.mark.parametrize(("differs", "run"), [(3, 100), (None, seeds.ALL_THE_SAME)])
def test_a_mutant_that_makes_no_difference_to_many_seeds_is_let_go(monkeypatch, differs, run):
    monkeypatch.setattr(seeds, "run_seed", lambda profile, seed: Outcome("other" if seed == differs else "same"))
    assert judge(work(*range(100)), 60.0)["seeds"] == run


def test_a_seed_that_does_not_end_is_a_kill(monkeypatch):
    def hang(profile: str, seed: int) -> Outcome:
        while True:
            pass
    monkeypatch.setattr(seeds, "run_seed", hang)
    monkeypatch.setattr(seeds, "PATIENCE_S", 0.05)
    found = judge(work(4), 60.0)
    assert (found["kind"], found["by"]) == ("timeout", "jgroups sim --profile group --seed 4")


def test_an_overrun_is_not_taken_for_an_exception_of_the_core():
    def forever() -> None:
        while True:
            with contextlib.suppress(Exception):            # as the runner of the simulator catches findings
                sum(range(100))
    with pytest.raises(Overrun), at_most(0.02):
        forever()
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0
    assert not issubclass(Overrun, Exception)


# --- results --------------------------------------------------------------------------------------------------------

def test_a_run_goes_on_where_it_was_and_a_torn_line_does_not_count(tmp_path):
    path = tmp_path / "results.jsonl"
    results = Results(path)
    results.add(record("a", "killed", "survived"))
    results.add(record("b", "survived", "survived"))
    results.add(record("b", "killed", "survived"))
    with path.open("a") as file:
        file.write('{"key": "c", "pa')
    again = Results(path)
    assert sorted(again.records) == ["a", "b"]
    assert again.records["b"].unit == Verdict("killed")


def test_a_kill_holds_for_the_same_package_and_a_survivor_only_for_the_same_tests():
    assert record("a", "killed", "survived").still(TODAY, 10.0) == record("a", "killed", "survived")
    newer_tests = attrs.evolve(TODAY, tests="more")
    assert record("a", "killed", "survived").still(newer_tests, 10.0) == record("a", "killed", "survived")
    left = record("a", "survived", "survived").still(newer_tests, 10.0)
    assert (left.unit, left.sim) == (None, Verdict("survived"))
    more_budget = record("a", "survived", "survived").still(TODAY, 20.0)
    assert (more_budget.unit, more_budget.sim) == (Verdict("survived"), None)
    other = record("a", "killed", "killed").still(attrs.evolve(TODAY, package="other"), 10.0)
    assert (other.unit, other.sim) == (None, None)


def test_the_sums_count_each_judge_by_itself():
    found = [record("a", "killed", "survived"), record("b", "killed", "killed"), record("c", "survived", "timeout"),
             record("x::Stable.y::z::1", "unreached", "survived")]
    assert [one.verdict for one in found] == ["unit", "both", "sim", "none"]
    assert kills(found) == (3, 2)
    text = "\n".join(summary(found))
    assert "3 of 4 killed (75 %)" in text
    assert "without any unit test: 2 of 3 (67 %)" in text
    assert list(table(found))[2:] == ["| protocols/stable/protocol.py Stable.y | `-a`<br>`+b` | NOT EXPLAINED |"]
    assert not good(found)


def test_enough_is_95_of_100_half_of_them_by_the_simulator_and_a_reason_for_each_survivor(monkeypatch):
    kill, alone = record("a", "killed", "survived"), record("b", "survived", "killed")
    none = record("x::Stable.y::z::1", "survived", "survived")
    monkeypatch.setattr("tests.mutants.results.EQUIVALENT", {none.key: "the same"})
    assert good([kill] * 47 + [alone] * 48 + [none] * 5)
    assert not good([kill] * 47 + [alone] * 47 + [none] * 6), "94 of 100"
    assert not good([kill] * 49 + [alone] * 46 + [none] * 5), "less than half by the simulator"
    assert not good([kill] * 47 + [alone] * 48 + [attrs.evolve(none, key="e::f")] * 5), "no reason"
    assert not good([])


def test_every_reason_is_one():
    assert all("::" in key and len(reason) > 20 for key, reason in EQUIVALENT.items())


@pytest.mark.parametrize("key", EQUIVALENT)
def test_a_mutant_with_a_reason_is_one_of_todays_sources(key):
    path, function, _, line = key.rpartition("::")[0].split("::", 3)
    assert function.rpartition(".")[2] in (text := (ROOT / path).read_text(encoding="utf-8"))
    assert line in [each.strip() for each in text.splitlines()]
