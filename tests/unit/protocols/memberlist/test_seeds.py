"""Seeds: nodes in memberlist's frames under loss, splits, crashes, restarts and leaves, until all has healed.

`python -m tests.unit.protocols.memberlist.test_seeds 0 500` runs more of them.
"""
from __future__ import annotations

import sys
from random import Random

import pytest

from jgroups_py.model.outputs import Closed
from tests.unit.protocols.memberlist.town import Town

SEED = "10.0.0.1[7946],10.0.0.2[7946]"


class Life:
    """One seed. The first node always runs, since it is the seed address of the others."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(f"memberlist {seed}")
        self.town = Town(self.rng.choice((0.0, 0.05, 0.3)), seed)
        self.names = "abcdefg"[:self.rng.randint(3, 7)]
        self.starts = 0
        for name in self.names:
            self.begin(name)
            self.town.run(self.rng.uniform(0, 2))

    def begin(self, name: str) -> None:
        self.starts += 1
        self.town.start(name, SEED, tags=f"start={self.starts}")

    def live(self) -> dict[str, str]:
        """Of the nodes that run: name -> the tag of its latest start."""
        found = {}
        for node in self.town.nodes.values():
            if not any(isinstance(output, Closed) for output in self.town.told[node.name]):
                found[node.name] = self.town.members(node.name)[node.name].tags["start"]
        return found

    def act(self) -> None:
        """A random fault, restart or leave."""
        town, name = self.town, self.rng.choice(self.names[1:])
        if name not in self.live():
            self.begin(name)
            return
        match self.rng.randrange(4):
            case 0:
                town.kill(name)
            case 1:
                town.leave(name)
            case 2:
                town.kill(name)
                self.begin(name)
            case _:
                town.apart = {place: self.rng.randrange(2) for place in town.nodes}

    def run(self) -> None:
        for _ in range(self.rng.randint(2, 8)):
            self.act()
            self.town.run(self.rng.choice((0.3, 3, 30)))
            if self.rng.random() < 0.7:
                self.town.apart = {}
        self.town.apart, self.town.loss = {}, 0.0
        self.town.run(150)                                   # several times the interval of exchanges and attempts

    def wrong(self) -> list[str]:
        """The tables that differ from the nodes that run."""
        live, found = self.live(), []
        for name in live:
            seen = {other: member.tags["start"] for other, member in self.town.members(name).items()
                    if member.state in ("alive", "suspect")}
            if seen != live:
                found.append(f"the table of {name} has {seen}, running are {live}")
        return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_in_the_end_all_tables_hold_exactly_the_running_nodes_with_their_latest_tags(seed):
    life = Life(seed)
    life.run()
    assert life.wrong() == []


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        one = Life(number)
        one.run()
        for line in one.wrong():
            sys.stdout.write(f"seed {number}: {line}\n")
