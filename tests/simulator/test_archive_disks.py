"""Members that record on disks which are slow or full for a while: the group is as safe and as live as without, and
what is written and what stands in gaps is together what happened."""
from __future__ import annotations

from collections import Counter

import attrs
import pytest

from jgroups_py.config.spec import LayerSpec
from jgroups_py.model.address import Address
from jgroups_py.model.events import ArchiveBusy
from jgroups_py.model.outputs import Record
from jgroups_py.model.units import seconds
from jgroups_py.protocols.archive import ArchiveConfig
from jgroups_py.simulator.archives import Archives
from jgroups_py.simulator.checkers import check
from jgroups_py.simulator.faults.disk_faults import FullDisk, SlowDisk
from jgroups_py.simulator.profiles.base import STARTED_NS, Plan, span
from jgroups_py.simulator.runner import carry_out
from jgroups_py.simulator.world import World
from tests.simulator import test_archive

MESSAGES = ("sent", "delivered")
Number = tuple[str, Address | None, str | None, Address | None, int]


class BadDisks(test_archive.RecordedSites):
    """The profile relay, every member recorded, most of the disks bad for a while."""

    def make_plan(self) -> Plan:
        plan, rng = super().make_plan(), self.rng
        made = [rng.choice((SlowDisk(at_ns, name, span(rng, 0.1, 2), span(rng, 1, 8)),
                            FullDisk(at_ns, name, span(rng, 0.2, 5))))
                for name in self.members for at_ns in (rng.randrange(STARTED_NS, plan.stop_ns),)]
        return attrs.evolve(plan, faults=tuple(sorted([*plan.faults, *made], key=lambda fault: fault.at_ns)))


def world_of(seed: int, on_slow: str, monkeypatch: pytest.MonkeyPatch) -> World:
    """A run, checked."""
    config = ArchiveConfig(directory="archive", payload=True, on_slow=on_slow)
    monkeypatch.setattr(test_archive, "ARCHIVE", LayerSpec("ARCHIVE", config))
    world = World(seed)
    carry_out(world, BadDisks(seed))
    assert list(map(str, check(world.history))) == []
    world.run_while(lambda: any(archive.process.running and (archive.queue or archive.failing)
                                for archive in world.archives.by_recorder.values()), seconds(10))
    return world


def numbers(records: list[Record]) -> Counter[Number]:
    """Each message that rows or gaps speak of."""
    found: Counter[Number] = Counter()
    for record in records:
        kind = record.detail["of"] if record.kind == "gap" else record.kind
        if kind in MESSAGES and record.first is not None:
            size = record.count if record.kind == "gap" else record.rows
            found.update((kind, record.origin, record.stream, record.dest, number)
                         for number in range(record.first, record.first + size))
    return found


def facts(records: list[Record]) -> list[Record]:
    return [record for record in records if record.kind not in (*MESSAGES, "gap")]


@pytest.mark.parametrize("seed", [2, 67])
def test_with_drop_rows_and_gaps_are_what_happened(seed, monkeypatch):
    world = world_of(seed, "drop", monkeypatch)
    alive = [archive for archive in world.archives.by_recorder.values() if archive.process.running]
    assert any(record.kind == "gap" for archive in alive for record in archive.written)
    for archive in alive:
        assert not archive.queue
        assert numbers(archive.written) == numbers(archive.given)
        failed = [record for record in archive.written if record.kind == "gap" and record.detail["of"] not in MESSAGES]
        assert len(facts(archive.written)) + sum(record.count for record in failed) == len(facts(archive.given))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 5])
def test_with_block_the_group_waits_for_slow_disks_and_goes_on(seed, monkeypatch):
    busy_bytes: list[int] = []
    monkeypatch.setattr(Archives, "_notify", lambda self, process, event, notify=Archives._notify: (
        busy_bytes.append(event.waiting_bytes) if isinstance(event, ArchiveBusy) else None,
        notify(self, process, event)))
    world = world_of(seed, "block", monkeypatch)
    assert any(busy_bytes)
    for archive in world.archives.by_recorder.values():
        assert not any(record.kind == "gap" and record.detail["why"] == "slow" for record in archive.written)
        if archive.process.running:
            assert not archive.busy
            assert numbers(archive.written) == numbers(archive.given)
