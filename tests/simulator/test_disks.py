"""Virtual disks: what survives the crash of a process, and of its machine."""
from __future__ import annotations

import pytest

from jgroups_py.config.load import load
from jgroups_py.config.spec import StackSpec
from jgroups_py.model.units import millis, seconds
from jgroups_py.simulator import history as h
from jgroups_py.simulator.disks import SYNC_NS
from jgroups_py.simulator.faults.disk_faults import FullDisk, SlowDisk
from jgroups_py.simulator.world import World


def site(world: World, sync: str) -> StackSpec:
    return load("nyc", {"hold_dir": "/hold", "hold_sync": sync})


def alone(sync: str = "none", seed: int = 0) -> World:
    """A, alone at NYC with a journal; its table has a site SFO, which never comes."""
    world = World(seed)
    bridge = load("bridge", {"bridge_hosts": f"{world.ip('A')}[7900]", "bridge_port_range": "0"})
    world.start("A", site(world, sync), "nyc", bridge=bridge)
    world.start("Z", load("sfo", {}), "sfo", bridge=load("bridge", {
        "bridge_hosts": f"{world.ip('A')}[7900]", "bridge_port_range": "0"}))
    world.run_for(seconds(5))
    world.crash("Z", power=True)
    world.run_for(seconds(1))
    return world


def on_disk(world: World) -> h.OnDisk:
    return next(entry for entry in reversed(world.history.entries) if isinstance(entry, h.OnDisk))


def test_a_crash_of_the_process_leaves_everything():
    world = alone()
    world.post("A", count=30, size=50)
    world.crash("A")
    assert len(on_disk(world).payloads) == 30
    assert on_disk(world).complete


def test_a_power_cut_leaves_what_was_synced_and_perhaps_more():
    kept = []
    for seed in range(12):
        world = alone("interval", seed)
        world.post("A", count=20, size=50)
        world.run_for(seconds(2))
        for _ in range(20):
            world.post("A", count=1, size=50)
        world.crash("A", power=True)
        found = on_disk(world)
        assert not found.complete
        assert len(found.payloads) >= 20
        kept.append(len(found.payloads))
    assert len(set(kept)) > 3                      # torn at different places


def test_without_syncs_a_power_cut_may_leave_nothing():
    kept = []
    for seed in range(12):
        world = alone("none", seed)
        world.post("A", count=20, size=50)
        world.run_for(seconds(2))
        world.crash("A", power=True)
        kept.append(len(on_disk(world).payloads))
    assert min(kept) == 0


@pytest.mark.parametrize("fault", [SlowDisk(0, "A", seconds(2), seconds(9)), FullDisk(0, "A", seconds(3))], ids=str)
def test_a_fault_of_a_disk_ends(fault: SlowDisk | FullDisk):
    world = alone("every")
    disk = world.disks.of("A")
    assert fault.do(world, lambda name: None)
    assert (disk.sync_ns, disk.full) != (SYNC_NS, False)
    world.run_for(seconds(10))
    assert (disk.sync_ns, disk.full) == (SYNC_NS, False)


def test_a_full_disk_is_reported_and_gets_what_it_missed_when_there_is_room():
    world = alone()
    FullDisk(0, "A", seconds(3)).do(world, lambda name: None)
    world.post("A", count=5, size=50)
    world.run_for(millis(100))
    assert world.stats("A")["RELAY"]["journal_fails"] == 1
    world.run_for(seconds(12))
    assert world.stats("A")["RELAY"]["journal_fails"] == 0
    world.crash("A")
    assert len(on_disk(world).payloads) == 5
    assert not on_disk(world).complete             # it failed in between, so nothing is promised


def test_a_second_member_on_the_same_disk_ends_with_the_reason():
    world = alone()
    twin = world.processes["A"]
    del world.processes["A"]
    second = world.start("A", site(world, "none"), "nyc", host="10.9.9.9")
    world.run_for(seconds(1))
    assert "in use" in str(second.closed_reason)
    assert twin.running
