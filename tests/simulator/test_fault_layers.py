"""The fault layers in whole stacks: a group copes with them, and PARTITION makes groups and unites them again."""
from __future__ import annotations

from collections.abc import Sequence

import pytest

from jgroups_py.config.load import load
from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.events import SetPartition
from jgroups_py.model.units import seconds
from jgroups_py.model.view import MergeView
from jgroups_py.protocols import KNOWN
from jgroups_py.simulator import World


def stack_with(*layers: tuple[str, dict[str, object]], name: str = "udp") -> StackSpec:
    """A shipped stack with further layers right above its transport."""
    hosts = {"initial_hosts": "10.0.0.1[7800],10.0.0.2[7800],10.0.0.3[7800]"} if name == "tcp" else {}
    stock = load(name, hosts)
    extra = tuple(LayerSpec(layer, KNOWN[layer].load().Config(**settings)) for layer, settings in layers)
    return StackSpec((stock.layers[0], *extra, *stock.layers[1:]), "test")


def run_until(world: World, done: object, limit_s: float) -> float:
    """Seconds until `done()` holds, or an assertion."""
    began_ns = world.now_ns
    while not done():                                         # type: ignore[operator]
        assert world.now_ns - began_ns < seconds(limit_s), "it took too long"
        world.run_for(seconds(0.1))
    return (world.now_ns - began_ns) / seconds(1)


def started(names: Sequence[str], spec: StackSpec, seed: int = 1) -> World:
    """A world in which these members have one view."""
    world = World(seed)
    for name in names:
        world.start(name, spec)
    run_until(world, lambda: world.agreed(names), 30)
    return world


def test_two_halves_separated_by_partition_go_on_and_merge_when_it_heals() -> None:
    world = started("ABCDE", stack_with(("PARTITION", {})))
    for name in "ABCDE":
        world.inject(name, SetPartition((("A", "B"), ("C", "D", "E"))))
    run_until(world, lambda: world.agreed("AB") and world.agreed("CDE"), 20)
    for name in "AC":
        world.send(name, None, [name.encode()])
    world.run_for(seconds(1))
    assert world.delivered("B")[-1:] == [b"A"]
    assert world.delivered("E")[-1:] == [b"C"]
    halves = {tuple(world.view_of("A").members), tuple(world.view_of("C").members)}      # type: ignore[union-attr]
    for name in "ABCDE":
        world.inject(name, SetPartition(()))
    took = run_until(world, lambda: world.agreed("ABCDE"), 10)
    view = world.view_of("A")
    assert isinstance(view, MergeView)
    assert {tuple(group.members) for group in view.subgroups} == halves
    assert took < 10


def test_members_of_a_partition_from_the_start_form_groups_of_their_own() -> None:
    world = World(2)
    for name in "ABC":
        world.start(name, stack_with(("PARTITION", {"groups": "A,B|C"})))
    world.run_for(seconds(10))
    assert world.agreed("AB")
    assert world.view_names("C") == ["C"]


FAULTS: dict[str, tuple[tuple[str, dict[str, object]], ...]] = {
    "discard": (("DISCARD", {"up_ratio": 0.1, "down_ratio": 0.1}),),
    "duplicate": (("DUPLICATE", {}),),
    "shuffle": (("SHUFFLE", {"max_size": 5, "max_time_ns": "5ms"}),),
    "delay": (("DELAY", {"in_ns": "10ms", "out_ns": "5ms", "constant_delay": False}),),
    "all": (("DISCARD", {"up_ratio": 0.1}), ("DUPLICATE", {}), ("SHUFFLE", {"max_size": 5, "max_time_ns": "5ms"}),
            ("DELAY", {"in_ns": "10ms", "constant_delay": False})),
}


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_group_delivers_everything_in_order_in_spite_of_fault_layers(faults: str, transport: str) -> None:
    world = started("ABC", stack_with(*FAULTS[faults], name=transport))
    sent = {name: [b"%s%d" % (name.encode(), number) for number in range(100)] for name in "ABC"}
    for at in range(0, 100, 5):
        for name in "ABC":
            world.send(name, None, sent[name][at:at + 5])
        world.run_for(seconds(0.01))
    run_until(world, lambda: all(len(world.delivered(name)) == 300 for name in "ABC"), 30)
    for name in "ABC":
        for sender in "ABC":
            assert [p for p in world.delivered(name) if p.startswith(sender.encode())] == sent[sender]
