"""How to test an application with the simulator: the counter of the examples, on simulated members under faults.

    pytest tests/test_replicated_counter.py                            # the seeds that the tests name
    pytest tests/test_replicated_counter.py --jgroups-seeds 1000       # many more
"""
from __future__ import annotations

from random import Random

import pytest

from examples.replicated_counter import Counter


def add(counter: Counter, rng: Random) -> None:
    """One operation, as some user might do it."""
    counter.add(rng.randint(1, 9))


def all_are_equal(counters: list[Counter]) -> None:
    """What must be so once everything is at rest."""
    values = {counter.channel.name: counter.value for counter in counters}
    assert len(set(values.values())) <= 1, f"the counters differ: {values}"


class NeverBack:
    """What must be so at any time: no counter goes down. One of these a seed, since it remembers."""

    def __init__(self) -> None:
        self.highest: dict[Counter, int] = {}

    def __call__(self, counters: list[Counter]) -> None:
        for counter in counters:
            assert counter.value >= self.highest.get(counter, 0), f"{counter.channel.name} went down"
            self.highest[counter] = counter.value


@pytest.mark.slow
@pytest.mark.jgroups_sim(profile="group", seeds=15)
def test_the_counters_end_equal_in_a_group(simulation):
    simulation.run(Counter, act=add, always=NeverBack(), at_end=all_are_equal)


@pytest.mark.slow
@pytest.mark.jgroups_sim(profile="relay", seeds=10)
def test_the_counters_end_equal_at_all_sites(simulation):
    simulation.run(Counter, act=add, always=NeverBack(), at_end=all_are_equal)
