"""Logs, configurations and the memory for writes, by themselves."""
from __future__ import annotations

import pytest

from jgroups_py.blocks.replication import Options
from jgroups_py.blocks.replication.log import NO_MEMBERS, Log, ReplicatedEntry
from jgroups_py.blocks.replication.machine import REMEMBERED, IdempotentMachine
from jgroups_py.blocks.replication.quorums import Configuration
from jgroups_py.model.address import Address
from jgroups_py.model.errors import ConfigError
from jgroups_py.testing.simulation.ledger import Records

A, B, C, D, E = (Address(bytes([number]) * 16, name) for number, name in enumerate("ABCDE", 1))


def log_of(*epochs: int, changes: dict[int, Configuration] | None = None) -> Log:
    log = Log()
    for number, epoch in enumerate(epochs, 1):
        log.append(ReplicatedEntry(epoch, b"id", b"x" * 10, (changes or {}).get(number)))
    return log


# --- configurations ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("members", "voters", "has"), [
    ((A,), (A,), True), ((A, B), (A,), False), ((A, B), (A, B), True), ((A, B, C), (A, C), True),
    ((A, B, C), (A, D, E), False), ((A, B, C, D), (A, B), False), ((A, B, C, D, E), (A, C, E), True), ((), (A,), False),
])
def test_a_quorum_is_more_than_half(members: tuple[Address, ...], voters: tuple[Address, ...], has: bool) -> None:
    assert Configuration(members).has_quorum(voters) is has


def test_a_joint_configuration_needs_both_majorities() -> None:
    joint = Configuration((A, B, C)).between((A, B, D))
    assert joint.all_members == (A, B, D, C)
    assert joint.has_quorum((A, B))
    assert not joint.has_quorum((A, D))                       # most of the new one only
    assert not joint.has_quorum((A, C))
    assert joint.reached({A: 9, B: 3, C: 1, D: 9}.__getitem__) == 3


@pytest.mark.parametrize(("reached", "most"), [((5,), 5), ((5, 3), 3), ((5, 3, 1), 3), ((9, 5, 3, 1), 3)])
def test_what_most_have_reached(reached: tuple[int, ...], most: int) -> None:
    members = (A, B, C, D)[:len(reached)]
    assert Configuration(members).reached(dict(zip(members, reached, strict=True)).__getitem__) == most


# --- the log ----------------------------------------------------------------------------------------------------------

def test_a_log_knows_its_reach_and_its_epochs() -> None:
    log = log_of(0, 1, 1, 3)
    assert log.reach == (3, 5)
    assert [log.epoch_of(number) for number in range(5)] == [0, 0, 1, 1, 3]
    assert log_of(1, 1).reach < log_of(2).reach < log_of(2, 2).reach


def test_folding_keeps_what_follows_and_the_epoch_before() -> None:
    log = log_of(0, 1, 2, 3)
    log.fold(3)
    assert (log.first, log.stop, log.epoch_of(2)) == (3, 5, 1)
    assert [entry.epoch for entry in log.entries(3, 1000)] == [2, 3]
    log.fold(5)
    assert log.reach == (3, 5)


def test_configurations_come_and_go_with_their_entries() -> None:
    one, two = Configuration((A,)), Configuration((A, B))
    log = log_of(0, 1, 1, 1, changes={1: one, 3: two})
    assert (log.configuration, log.changed_at) == (two, 3)
    assert log.configuration_before(3) == one
    assert log.configuration_before(1) == NO_MEMBERS
    log.truncate(3)
    assert (log.configuration, log.changed_at) == (one, 1)
    log.fold(3)
    assert log.configuration == one


def test_a_folded_log_still_knows_the_configuration_at_its_beginning() -> None:
    one, two = Configuration((A,)), Configuration((A, B))
    log = log_of(0, 1, 1, 1, changes={1: one, 3: two})
    log.fold(4)
    assert (log.configuration, log.changed_at) == (two, 3)
    log.begin(9, 5, one)
    assert (log.reach, log.configuration, log.changed_at) == ((5, 9), one, 8)


def test_entries_are_handed_out_by_size_but_one_at_least() -> None:
    log = log_of(1, 1, 1)
    assert len(log.entries(1, 25)) == 2
    assert len(log.entries(1, 5)) == 1
    assert log.entries(4, 100) == ()


# --- writes that come twice -------------------------------------------------------------------------------------------

def test_a_write_happens_once_and_answers_alike() -> None:
    once = IdempotentMachine(Records())
    assert once.apply(b"1", b"x") == once.apply(b"1", b"x")
    assert once.machine.save() == b"x"


def test_the_memory_is_part_of_the_state_and_bounded() -> None:
    once, other = IdempotentMachine(Records()), IdempotentMachine(Records())
    for number in range(REMEMBERED + 10):
        once.apply(str(number).encode(), b"x")
    other.load(once.save())
    assert other.results == once.results
    assert len(other.results) == REMEMBERED
    assert next(iter(other.results)) == b"10"


@pytest.mark.parametrize("weight", [-1, 1 << 32, 1.5, True, "2"])
def test_weights_are_whole_numbers(weight: object) -> None:
    with pytest.raises(ConfigError, match="no weight"):
        Options(weight=weight)                                # type: ignore[arg-type]
