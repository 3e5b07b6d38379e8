"""The checker of the one order is no formality: the same seeds on stacks without TOTAL break O1."""
from __future__ import annotations

from jgroups_py.config.spec import StackSpec
from jgroups_py.simulator.checkers import Facts, order
from jgroups_py.simulator.process import App, Process
from jgroups_py.simulator.profiles.group import GroupProfile
from jgroups_py.simulator.profiles.order import OrderProfile
from jgroups_py.simulator.runner import carry_out
from jgroups_py.simulator.world import World


class WithoutOrder(OrderProfile):
    """Profile order on the stacks udp and tcp."""

    def start(self, world: World, name: str) -> Process:
        spec = self.spec(world)
        plain = StackSpec(tuple(layer for layer in spec.layers if layer.name != "TOTAL"), spec.source)
        return world.start(name, plain, app=self.app() if self.has_states else App())

    def rested(self, world: World) -> bool:
        return GroupProfile.rested(self, world)


def test_without_total_members_that_go_on_together_differ_in_the_order() -> None:
    broken = 0
    for seed in (1, 2, 4):
        setting, world = WithoutOrder(seed), World(seed)
        carry_out(world, setting)
        broken += any(violation.guarantee == "O1" for violation in order.differences(Facts(world.history)))
    assert broken >= 2
