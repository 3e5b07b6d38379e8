"""pytest --jgroups-seeds: simulate your application, a seed a test.

    @pytest.mark.jgroups_sim(profile="relay", seeds=50)
    def test_all_counters_end_equal(simulation):
        simulation.run(Counter, act=lambda counter, rng: counter.add(rng.randint(1, 9)), at_end=all_equal)

    pytest --jgroups-seeds 1000            # more seeds than the test names: 0 to 1000, half-open
    pytest --jgroups-seeds 137:138         # just that one

The plugin imports nothing else of jgroups_py until a test uses the fixture.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jgroups_py.testing.simulation import Simulation

SEEDS = 20                               # of a test without `seeds` in its mark
SHRINK_SECONDS = 30.0
SUM = "jgroups"                          # property of a test report with the seed's share of the summary

refused: pytest.StashKey[dict[str, str]] = pytest.StashKey()            # test without its seed -> why it cannot be run
shrink_left: pytest.StashKey[dict[str, float]] = pytest.StashKey()      # test without its seed -> seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options."""
    group = parser.getgroup("jgroups", "simulations of applications on jgroups_py")
    group.addoption("--jgroups-seeds", metavar="N|A:B", type=parse_seeds,
                    help="seeds of each simulation: 0 to N, or A to B, half-open (default: of the test)")
    group.addoption("--jgroups-only", metavar="N,N-N", help="do only these actions of each seed's plan")
    group.addoption("--jgroups-until", metavar="TIME", help="heal all faults at this time, if that is earlier")
    group.addoption("--jgroups-shrink-seconds", metavar="S", type=float, default=SHRINK_SECONDS,
                    help=f"time for shrinking failing seeds of one test (default: {SHRINK_SECONDS:g})")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers", "jgroups_sim(profile='group', seeds=20): how the fixture `simulation` simulates; seeds as for "
        "--jgroups-seeds")
    config.stash[shrink_left] = {}
    config.stash[refused] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each seed."""
    if "simulation" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("jgroups_sim")
    given = metafunc.config.getoption("--jgroups-seeds")
    seeds = given if given is not None else parse_seeds(mark.kwargs.get("seeds", SEEDS) if mark is not None else SEEDS)
    metafunc.parametrize("simulation", seeds, indirect=True, ids=[f"seed{seed}" for seed in seeds])


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """`simulation.run(start, act=, always=, at_end=)` simulates an application under one seed; see Trial."""
    from jgroups_py.testing.simulation import Simulation
    mark = request.node.get_closest_marker("jgroups_sim")
    profile = mark.kwargs.get("profile", "group") if mark is not None else "group"
    test, seed = request.node.nodeid.partition("[")[0], request.param
    left, why = request.config.stash[shrink_left], request.config.stash[refused]
    if test in why:
        pytest.skip(f"what an earlier seed reported is the same in each: {why[test]}")
    shrink_s = left.get(test, request.config.getoption("--jgroups-shrink-seconds"))
    made = Simulation(profile, seed, f"pytest {test} --jgroups-seeds {seed}:{seed + 1}", part(request.config), shrink_s)
    yield made
    left[test] = made.shrink_s
    if made.refusal is not None:
        why[test] = str(made.refusal)
    if made.outcome is not None:
        request.node.user_properties.append((SUM, [made.outcome.sim_ns, made.outcome.injected]))


def part(config: pytest.Config) -> Any:
    """The part of each plan to run, by the options."""
    from jgroups_py.model.units import parse_duration
    from jgroups_py.simulator.plan_parts import PlanPart, parse_numbers
    only, until = config.getoption("--jgroups-only"), config.getoption("--jgroups-until")
    return PlanPart(None if only is None else parse_numbers(only), None if until is None else parse_duration(until))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the sum of all simulations."""
    sums = [value for reports in terminalreporter.stats.values() for report in reports
            for name, value in getattr(report, "user_properties", ()) if name == SUM and report.when == "teardown"]
    if sums:
        kinds: Counter[str] = Counter()
        for _, injected in sums:
            kinds.update(injected)
        seconds = sum(sim_ns for sim_ns, _ in sums) / 1e9
        shown = ", ".join(f"{kind} {number}" for kind, number in kinds.most_common())
        terminalreporter.write_line(f"jgroups: {len(sums)} seeds, {seconds:.0f} simulated seconds, "
                                    f"{kinds.total()} faults ({shown or 'none'})")


def parse_seeds(text: str | int) -> range:
    """N or A:B, half-open.

    >>> parse_seeds("3:5"), parse_seeds(2)
    (range(3, 5), range(0, 2))
    """
    first, colon, stop = str(text).partition(":")
    return range(int(first), int(stop)) if colon else range(int(first))
