"""Membership under bursts of faults, and the seeds that once found a bug in it."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.model.address import Address
from jgroups_py.protocols.fd_sock.protocol import FdSock
from jgroups_py.simulator.runner import run_seed
from jgroups_py.simulator.world import World, millis, seconds
from tests.simulator.bursts import Bursts

SEEDS = 60
CHUNK = 5

FOUND_BY = {
    41: "S4: a member that was excluded still followed a cut before it parted from its view",
    1759: "L: by TCP a member stayed in a view whose coordinator had gone on without a message to it",
    2121: "L: by TCP none of the listed hosts was left, and the survivors had no addresses of each other",
    2200: "S4: an excluded member changed its view while messages of the old one were under way inside its stack",
    3692: "L: a joiner that disconnected was let in all the same",
}
"""Seed of profile group -> what it found."""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_bursts_of_faults_break_no_guarantee(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert Bursts(seed).run() == [], f"Bursts({seed}).run()"


@pytest.mark.slow
@pytest.mark.parametrize("seed", FOUND_BY)
def test_a_seed_that_found_a_bug_finds_it_no_more(seed: int) -> None:
    assert run_seed("group", seed).violations == ()


@pytest.mark.slow
def test_a_partner_that_left_while_the_leader_was_busy_is_not_merged() -> None:
    assert Bursts(10247).run() == []


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["udp", pytest.param("tcp", marks=pytest.mark.long)])
def test_fifty_members_start_at_once_split_into_five_and_unite(transport: str) -> None:
    world = World(1)
    names = [f"member-with-a-long-name-{number:03}" for number in range(50)]
    hosts = {"initial_hosts": ",".join(f"{world.ip(name)}[7800]" for name in names[:3]), "port_range": "0"}
    spec = load(transport, hosts if transport == "tcp" else {})
    for name in names:
        world.start(name, spec)
    assert world.run_while(lambda: not world.agreed(names), seconds(3))
    parts = [names[part::5] for part in range(5)]
    world.partition(parts)
    assert world.run_while(lambda: not all(map(world.agreed, parts)), seconds(15))
    world.mend()
    assert world.run_while(lambda: not world.agreed(names), seconds(10))


@pytest.mark.parametrize("transport", ["udp", "tcp"])
@pytest.mark.parametrize("seed", range(10))
def test_a_coordinator_that_crashes_before_a_joiner_has_its_listener_is_excluded_within_a_second(
    seed: int, transport: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the joiner monitors it; the third member has its listener."""
    announce = FdSock.announce

    def announce_to_all_but_new_members(fd_sock: FdSock, members: tuple[Address, ...]) -> None:
        announce(fd_sock, tuple(member for member in members if (fd_sock.me.name, member.name) != ("A", "C")))

    monkeypatch.setattr(FdSock, "announce", announce_to_all_but_new_members)
    world = World(seed)
    spec = load(transport, {"initial_hosts": f"{world.ip('A')}[7800]"} if transport == "tcp" else {})
    for name in "AB":
        world.start(name, spec)
    assert world.run_while(lambda: not world.agreed("AB"), seconds(3))
    world.start("C", spec)
    assert world.run_while(lambda: not world.agreed("ABC"), seconds(3), millis(0.01))
    world.crash("A")
    assert world.run_while(lambda: not world.agreed("BC"), seconds(1), millis(1))


def test_the_coordinator_and_the_next_two_die_together_and_are_out_at_once() -> None:
    world = World(1)
    for name in "ABCDEF":
        world.start(name, load("udp", {}))
    world.run_while(lambda: not world.agreed("ABCDEF"), seconds(3))
    world.run_for(seconds(1))
    for name in world.view_names("A")[:3]:
        world.crash(name)
    survivors = world.running()
    assert world.run_while(lambda: not world.agreed(survivors), millis(200), millis(1))
