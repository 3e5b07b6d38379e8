"""What tests/conftest.py sees to: limits of processor time, and where real tests are."""
from __future__ import annotations

from pathlib import Path
from time import process_time, sleep

import pytest

from tests.conftest import CEILING_SECONDS, PLACES_OF_REAL, cpu_limit, is_real


def compute(seconds: float) -> None:
    """Take so much of the processor."""
    until = process_time() + seconds
    while process_time() < until:
        pass


def test_what_computes_too_long_fails_and_what_waits_does_not():
    with cpu_limit(0.05):
        sleep(0.2)
    began = process_time()
    with pytest.raises(pytest.fail.Exception, match=r"took more than 0\.05 s of the processor"), cpu_limit(0.05):
        compute(5)
    assert process_time() - began < 5


def test_a_limit_ends_with_what_it_is_for():
    with cpu_limit(0.05):
        pass
    compute(0.1)


def test_no_clock_on_the_wall_ends_a_test_that_computes(request: pytest.FixtureRequest):
    marker = request.node.get_closest_marker("timeout")
    assert not is_real(request.node)
    assert marker.args == (0,)


@pytest.mark.real
def test_one_with_processes_has_a_generous_ceiling(request: pytest.FixtureRequest):
    assert is_real(request.node)
    assert request.node.get_closest_marker("timeout").args == (CEILING_SECONDS,)


def test_the_run_of_real_tests_collects_all_places_that_may_have_some():
    checks = Path(__file__).parent.parent / ".ci" / "checks"
    assert f"real=({' '.join(PLACES_OF_REAL)})\n" in checks.read_text()
