"""The pytest plugin, in runs of pytest of its own."""
from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)

PLUGIN = ("-p", "no:jgroups", "-p", "jgroups_py.testing.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:timeout")

SOUND = """
    import pytest
    from tests.simulator.counters import add, all_are_equal, Counter

    @pytest.mark.jgroups_sim(profile="group", seeds="3:6")
    def test_sound(simulation):
        simulation.run(Counter, act=add, at_end=all_are_equal)
"""
NAIVE = SOUND.replace("sound", "naive").replace("Counter", "Naive")


def run(pytester: pytest.Pytester, text: str, *options: str) -> tuple[pytest.RunResult, str]:
    pytester.makepyfile(test_counter=text)
    result = pytester.runpytest_inprocess(*PLUGIN, *options)
    return result, result.stdout.str()


@pytest.mark.slow
def test_a_seed_is_a_test_and_the_sum_is_printed(pytester: pytest.Pytester) -> None:
    result, text = run(pytester, SOUND, "-v")
    result.assert_outcomes(passed=3)
    assert "test_sound[seed5]" in text
    assert "jgroups: 3 seeds, " in text
    assert " faults (" in text


@pytest.mark.slow
@pytest.mark.parametrize(("option", "number"), [("2", 2), ("7:8", 1)])
def test_the_option_selects_the_seeds(pytester: pytest.Pytester, option: str, number: int) -> None:
    result, _ = run(pytester, SOUND, "--jgroups-seeds", option)
    result.assert_outcomes(passed=number)


@pytest.mark.slow
def test_a_failing_seed_prints_a_command_that_shows_just_the_failure(pytester: pytest.Pytester) -> None:
    result, text = run(pytester, NAIVE, "--jgroups-seeds", "30", "-x")
    result.assert_outcomes(failed=1, passed=result.parseoutcomes().get("passed", 0))
    command = next(line for line in text.splitlines() if "run just that: " in line).partition("pytest ")[2].split()
    assert command[0] == "test_counter.py::test_naive"
    again = pytester.runpytest_inprocess(*PLUGIN, *command)
    again.assert_outcomes(failed=1)
    assert "the counters differ" in again.stdout.str()
    assert "shrunk from" not in again.stdout.str()


def test_what_is_no_range_of_seeds_is_wrong_use(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*PLUGIN, "--jgroups-seeds", "many")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_pytest_loads_nothing_of_the_core_where_no_test_simulates(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import sys\ndef test(): assert 'jgroups_py.node.node' not in sys.modules")
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=1)
