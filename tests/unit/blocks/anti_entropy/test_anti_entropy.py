"""Copies of a keyed state become equal: over loss, partitions, clocks that differ, and whatever bytes arrive."""
from __future__ import annotations

from random import Random

import pytest

from jgroups_py.blocks.anti_entropy import HashTree, Settings, Version
from jgroups_py.blocks.anti_entropy.tree import LEAF, place_of
from jgroups_py.config.load import load
from jgroups_py.model.errors import WireError
from jgroups_py.model.outputs import LOCAL
from jgroups_py.model.units import NS_PER_S, millis, seconds
from jgroups_py.simulator import World
from jgroups_py.simulator.network import Weather
from tests.unit.blocks.anti_entropy.copies import Copy, exchange, replica

NAMES = "ABCDE"


def group(names: str = NAMES) -> tuple[World, dict[str, Copy]]:
    """A group whose members each have a copy."""
    world, copies = World(1), {name: Copy() for name in names}
    for name, copy in copies.items():
        world.start(name, load("udp"), app=copy)
    assert world.run_while(lambda: not world.agreed(names), seconds(20))
    return world, copies


def equal(copies: dict[str, Copy]) -> bool:
    return len({copy.replica.root for copy in copies.values()}) == 1


# --- the acceptance case ----------------------------------------------------------------------------------------------

def test_accept_1_13_a_thousand_writes_over_a_fifth_of_loss_end_with_equal_roots() -> None:
    world, copies = group()
    rng = Random(1)
    world.set_weather(Weather(loss_ratio=0.2), LOCAL)
    for number in range(1000):
        name = rng.choice(NAMES)
        copies[name].write(b"key %d" % rng.randrange(400), None if number % 20 == 0 else b"value %d" % number)
        world.run_for(millis(2))
    assert not equal(copies)                             # what was lost is really missing
    assert world.run_while(lambda: not equal(copies), seconds(20))
    first = copies["A"].replica.items()
    assert len(first) > 300
    assert all(copy.replica.items() == first for copy in copies.values())


def test_halves_that_both_wrote_become_equal_and_the_later_write_stays() -> None:
    world, copies = group()
    copies["A"].write(b"both", b"before")
    world.run_for(seconds(1))
    world.partition(["AB", "CDE"], [LOCAL])
    copies["A"].write(b"only here", b"1")
    copies["A"].write(b"both", b"first")
    world.run_for(millis(10))
    copies["C"].write(b"only there", b"2")
    copies["C"].write(b"both", b"second")
    world.run_for(seconds(15))
    assert not equal(copies)
    world.heal()
    assert world.run_while(lambda: not equal(copies), seconds(60))
    assert copies["B"].replica.items() == {b"both": b"second", b"only here": b"1", b"only there": b"2"}


# --- which write wins -------------------------------------------------------------------------------------------------

def test_the_order_of_arrival_does_not_matter() -> None:
    rng = Random(3)
    writers = [replica(name) for name in "XYZ"]
    messages = [rng.choice(writers).write(b"k%d" % rng.randrange(5), b"%d" % number, rng.randrange(3))[1]
                for number in range(60)]
    roots = []
    for _ in range(10):
        copy = replica("copy")
        for message in rng.sample(messages, len(messages)) + messages[:10]:
            copy.receive(message, 0)
        roots.append(copy.root)
    assert len(dict.fromkeys(roots)) == 1


def test_a_write_after_another_one_was_received_wins_though_its_clock_is_behind() -> None:
    ahead, behind = replica("ahead"), replica("behind")
    _, message = ahead.write(b"key", b"first", 1000 * NS_PER_S)
    behind.receive(message, 10 * NS_PER_S)
    behind.write(b"key", b"second", 10 * NS_PER_S)
    exchange(behind, ahead)
    assert ahead.get(b"key") == b"second"


def test_of_two_writes_at_one_time_the_higher_writer_wins_everywhere() -> None:
    a, b = replica("a"), replica("b")
    a.write(b"key", b"of a", 5)
    b.write(b"key", b"of b", 5)
    exchange(a, b)
    assert a.get(b"key") == b.get(b"key") == b"of b"


def test_a_deleted_key_does_not_come_back_with_an_old_copy() -> None:
    a, b, old = replica("a"), replica("b"), replica("old")
    a.write(b"key", b"value", 1)
    exchange(a, old)
    exchange(a, b)
    b.write(b"key", None, 2)
    exchange(b, old)
    exchange(old, a)
    assert [copy.get(b"key") for copy in (a, b, old)] == [None, None, None]
    assert a.root == b.root == old.root


def test_an_entry_from_the_far_future_is_refused_where_that_is_asked_for() -> None:
    strict, wrong = replica("strict", Settings(max_ahead=60 * NS_PER_S)), replica("wrong")
    _, message = wrong.write(b"key", b"value", 3600 * NS_PER_S)
    strict.receive(message, NS_PER_S)
    assert strict.get(b"key") is None
    assert strict.counters["refused"] == 1


# --- exchanges --------------------------------------------------------------------------------------------------------

def test_equal_copies_exchange_one_message() -> None:
    a, b = replica("a"), replica("b")
    assert exchange(a, b) == 1
    _, message = a.write(b"key", b"value", 1)
    b.receive(message, 1)
    assert exchange(a, b) == 3                             # they exchange their causal contexts
    assert exchange(a, b) == exchange(b, a) == 1


def test_one_difference_among_many_keys_costs_a_path_not_the_whole() -> None:
    a, b = replica("a"), replica("b")
    for number in range(5000):
        _, message = a.write(b"%d" % number, b"x", 1)
        b.receive(message, 1)
    assert a.root == b.root
    a.write(b"77", b"y", 2)
    assert exchange(b, a) <= 10
    assert a.root == b.root
    assert b.counters["nodes_differing"] + a.counters["nodes_differing"] <= 8


def test_an_empty_copy_is_filled_in_rounds_of_bounded_size() -> None:
    settings = Settings(message_bytes=1000, max_reply_bytes=5000)
    full, empty = replica("full", settings), replica("empty", settings)
    for number in range(1000):
        full.write(b"%d" % number, bytes(100), 1)
    rounds = 0
    while full.root != empty.root:
        exchange(empty, full)
        rounds += 1
        assert rounds < 50
    assert rounds >= 2
    assert empty.items() == full.items()


def test_any_messages_may_be_lost_and_doubled() -> None:
    rng = Random(5)
    a, b = replica("a"), replica("b")
    for number in range(300):
        rng.choice((a, b)).write(b"%d" % rng.randrange(100), b"%d" % number, number)
    for _ in range(60):
        waiting = [(b, a, a.begin(1000))]
        while waiting:
            to, sender, message = waiting.pop(rng.randrange(len(waiting)))
            if rng.random() < 0.4:
                continue
            if rng.random() < 0.2:
                to.receive(message, 1000)
            waiting += [(sender, to, reply) for reply in to.receive(message, 1000)[1]]
    assert a.root == b.root
    assert len(a.items()) == len({*a.items(), *b.items()})


def test_any_bytes_are_a_message_or_a_wire_error() -> None:
    rng = Random(7)
    a, b = replica("a"), replica("b")
    for number in range(100):
        a.write(b"%d" % number, b"x", 1)
    knowing = a.receive(a.begin(1)[:17] + bytes(16), 1)[1]
    samples = [a.begin(1), *knowing, a.write(b"k", b"v", 1)[1], *b.receive(a.begin(1), 1)[1],
               *a.receive(b.begin(1), 1)[1]]
    refused = 0
    for _ in range(3000):
        data = bytearray(rng.choice(samples))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            b.receive(bytes(data[:rng.randrange(len(data) + 1)]), 1)
        except WireError:
            refused += 1
    assert refused > 1000
    exchange(a, b)
    assert all(b.get(b"%d" % number) is not None for number in range(100))


@pytest.mark.parametrize("key", [b"", bytes(1025)])
def test_a_key_has_a_length(key: bytes) -> None:
    with pytest.raises(ValueError, match="1 to 1024"):
        replica("a").write(key, b"value", 1)


# --- the tree ---------------------------------------------------------------------------------------------------------

def test_a_tree_depends_on_what_it_holds_not_on_how_it_came_there() -> None:
    rng = Random(11)
    for number in (0, 1, LEAF, LEAF + 1, 300):
        content = {b"%d" % key: rng.randbytes(16) for key in range(number)}
        one, other = HashTree(), HashTree()
        for key in content:
            one.put(key, rng.randbytes(16))
            assert len(one.root) == 16                     # asked meanwhile, so that hashes are known and forgotten
        for tree in (one, other):
            for key in rng.sample(list(content), number):
                tree.put(key, content[key])
        assert one.root == other.root
        if number:
            other.put(b"0", bytes(16))
            assert one.root != other.root


def test_the_keys_of_a_node_are_those_whose_places_begin_with_it() -> None:
    tree, keys = HashTree(), [b"%d" % key for key in range(500)]
    for key in keys:
        tree.put(key, bytes(16))
    for node in ("", "3", "a7", "fff"):
        assert tree.keys_of(node) == sorted((key for key in keys if place_of(key).startswith(node)), key=place_of)
    assert sum(len(tree.keys_of(child)) for child in tree.children("")) == 500


def test_versions_are_ordered_by_stamp_and_then_by_writer() -> None:
    low, high = replica("a").me, replica("b").me
    assert Version(1, high) < Version(2, low) < Version(2, high)
