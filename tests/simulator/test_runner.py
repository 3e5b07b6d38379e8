"""Seeds repeat exactly, under any hash seed; failing ones are reported."""
from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from jgroups_py.cli import sim as command
from jgroups_py.simulator import runner
from jgroups_py.simulator.checkers import Violation
from jgroups_py.simulator.history import Crash
from jgroups_py.simulator.plan_parts import PlanPart
from jgroups_py.simulator.profiles import PROFILES, Profile
from jgroups_py.simulator.world import World

DIGESTS = ("from jgroups_py.simulator.runner import run_seed\n"
           "print([run_seed(profile, seed).digest for profile in ('group', 'relay') for seed in (1, 2)])")


def digests(hash_seed: str) -> str:
    """Digests of a few seeds from a process of their own."""
    done = subprocess.run([sys.executable, "-c", DIGESTS], env={**os.environ, "PYTHONHASHSEED": hash_seed},
                          capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


@pytest.mark.slow
def test_a_seed_has_one_history_under_any_hash_seed() -> None:
    assert digests("1") == digests("4711")


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_plans_follow_from_the_seed(profile: str) -> None:
    plans = [PROFILES[profile](seed).plan for seed in (5, 5, 6)]
    assert plans[0] == plans[1] != plans[2]


def crashes_are_forbidden(world: World, setting: Profile) -> list[Violation]:
    """In place of the checkers: complains about any crash."""
    return [Violation("X", "a crash", entry.at_ns) for entry in world.history.entries if isinstance(entry, Crash)][:1]


def seed_with_crash_and_more() -> int:
    """A seed whose plan has a crash among other faults."""
    return next(seed for seed in range(100) if "crash" in (texts := " ".join(
        map(str, PROFILES["group"](seed).plan.faults))) and "split" in texts)


@pytest.mark.slow
def test_an_exception_in_the_core_is_a_failure_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("planted")
    monkeypatch.setattr(runner, "heal", fail)
    outcome = runner.run_seed("group", 1)
    assert outcome.guarantees == ("core",)
    assert "planted" in outcome.violations[0]


# --- the command ------------------------------------------------------------------------------------------------------

def sim(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """Exit code and lines of `jgroups sim`."""
    from argparse import ArgumentParser
    parser = ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["sim", *words])
    return args.run(args), capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_a_failing_seed_prints_the_guarantee_and_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runner, "judged", crashes_are_forbidden)
    seed = seed_with_crash_and_more()
    code, lines = sim(capsys, "--seed", str(seed), "--jobs", "1", "--no-shrink")
    assert code == 1
    assert lines[0] == f"seed {seed} breaks X; reproduce: jgroups sim --profile group --seed {seed}"
    assert "a crash" in lines[1]
    assert lines[-1].startswith("1 seeds, 1 failed, 1 violations")


@pytest.mark.slow
def test_a_failing_seed_is_shrunk_to_a_command_that_shows_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runner, "judged", crashes_are_forbidden)
    _, lines = sim(capsys, "--seed", str(seed_with_crash_and_more()), "--jobs", "1")
    command = next(line for line in lines if line.startswith("run just that: ")).partition(": ")[2]
    again, shown = sim(capsys, *command.split()[2:], "--picture", "--json")
    assert again == 1
    shrunk = json.loads(shown[0])
    assert len(shrunk["faults"]) == 1
    assert "crash" in shrunk["faults"][0]
    assert any(line.endswith("X: a crash") for line in lines)               # the last line of the picture


@pytest.mark.slow
def test_the_last_lines_sum_up_also_by_kind_of_fault(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = sim(capsys, "--seeds", "0:2", "--jobs", "1")
    assert code == 0
    assert lines[-1].startswith("2 seeds, 0 failed, 0 violations, ")
    assert lines[-1].endswith("simulated group-seconds per second of one core")
    assert lines[-3].startswith("faults by kind: ")
    assert lines[-2].startswith("reached: ")
    _, shown = sim(capsys, "--seeds", "0:2", "--jobs", "1", "--json")
    total = json.loads(shown[-1])
    assert sum(total["by_kind"].values()) == total["faults"] > 0
    assert total["sim_hours"] == pytest.approx(total["sim_s"] / 3600)


def test_faults_that_do_not_fit_the_moment_are_not_counted() -> None:
    seed = seed_with_crash_and_more()
    faults = PROFILES["group"](seed).plan.faults
    no_members = PlanPart(frozenset(range(len(faults))))              # the faults, but no member is started
    outcome = runner.run_seed("group", seed, no_members)
    assert "crash" in [fault.kind for fault in faults]
    assert "crash" not in outcome.injected
    assert "partition" in outcome.injected
