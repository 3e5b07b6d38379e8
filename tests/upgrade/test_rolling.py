"""A rolling upgrade under load, and the way back: one member after the other is replaced by one of the other version.

All others send meanwhile; one of the members is not stopped but killed. No message is lost, none comes twice, none is
out of order, and no frame is refused. The other version is the last release, or while there is none a pinned commit.
"""
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from time import sleep

import pytest

from jgroups_py.system.free_ports import free_range
from tests.integration import pinned
from tests.integration.members import STARTING_SECONDS, Group
from tests.integration.test_versions import understood_all

pytestmark = pytest.mark.upgrade
FLOOD, SIZE, RATE = 3000, 100, 500
ARRIVING_SECONDS, UNDER_WAY_SECONDS = 120.0, 1.0


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the last release."""
    return pinned.fetch(tmp_path_factory.mktemp("release"), pinned.last_release())


class Load:
    """Floods of the members, and what must have arrived of them. sent: of the present process of each name."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self.groups = list(groups)
        self.sent = {name: 0 for group in self.groups for name in group.members}

    def begin(self, senders: Iterable[str]) -> None:
        """All of these send."""
        for group in self.groups:
            for name in group.members:
                if name in senders:
                    group[name].command(f"flood {FLOOD} {SIZE} {RATE}")
                    self.sent[name] += FLOOD

    def arrived(self, names: Iterable[str]) -> None:
        """Each of these got all that each of them sent, once and in order."""
        names = list(names)
        wanted = {name: self.sent[name] for name in names}
        for group in self.groups:
            for member in [group[name] for name in group.members if name in names]:
                received = member.received_all(wanted, ARRIVING_SECONDS)["received"]
                for name, number in wanted.items():
                    found = received[name]
                    faults = (found["next"] - number, found["duplicates"], found["out_of_order"])
                    assert faults == (0, 0, 0), f"{name} at {member.name}: {found}, sent {number}\n{member.report()}"


def replace(group: Group, name: str, load: Load, sources: Path | None, *, kill: bool) -> None:
    """Replace one member while all others of all groups send."""
    rest = [other for other in load.sent if other != name]
    here = [other for other in group.members if other != name]
    marks = {other: group[other].mark() for other in here}
    load.begin(rest)
    sleep(UNDER_WAY_SECONDS)
    if kill:
        group[name].kill()
    else:
        assert group[name].leave() == 0, group[name].report()
    for other in here:
        group[other].view_of(here, marks[other])
    load.sent[name] = 0
    marks = {other: group[other].mark() for other in here}
    group.spawn(name, sources=sources).ready()
    for other in here:
        group[other].view_of([*here, name], marks[other])
    load.arrived(rest)


@pytest.mark.parametrize("way", ["to this", "back"])
@pytest.mark.parametrize("killed", ["A", "C"])
@pytest.mark.parametrize("stack", ["udp", "tcp"])
def test_a_group_is_upgraded_member_by_member_under_load(stack: str, killed: str, way: str, release: Path) -> None:
    """B, C, D, then A, which is the coordinator all the time; the killed one is A, or one in the middle."""
    before, after = (release, None) if way == "to this" else (None, release)
    with Group(stack, "rolling") as group:
        for name in "ABCD":
            group.spawn(name, sources=before).ready()
        group.settle("ABCD", STARTING_SECONDS)
        load = Load([group])
        for name in "BCDA":
            replace(group, name, load, after, kill=name == killed)
        understood_all(list(group.members.values()))


@pytest.mark.parametrize("way", ["to this", "back"])
@pytest.mark.parametrize("killed", ["A", "E"])
def test_two_sites_are_upgraded_member_by_member_under_load(killed: str, way: str, release: Path) -> None:
    """NYC has A and B, SFO has D and E. Each of the relays and of their backups is replaced; A or E is killed."""
    before, after = (release, None) if way == "to this" else (None, release)
    port = free_range(20)
    bridge = {"bridge_port": port, "bridge_hosts": f"127.0.0.1[{port}]", "bridge_port_range": 19}
    with Group("nyc", "nyc", **bridge) as nyc, Group("sfo", "sfo", **bridge) as sfo:
        for group, names in ((nyc, "AB"), (sfo, "DE")):
            for name in names:
                group.spawn(name, sources=before).ready()
            group.settle(names, STARTING_SECONDS)
        for member in (*nyc.members.values(), *sfo.members.values()):
            member.wait(lambda event: event["event"] == "global_view" and
                        {site: len(names) for site, names in event["sites"].items()} == {"NYC": 2, "SFO": 2},
                        "global view of both sites")
        load = Load([nyc, sfo])
        for group, name in ((nyc, "B"), (sfo, "E"), (nyc, "A"), (sfo, "D")):
            replace(group, name, load, after, kill=name == killed)
        understood_all([*nyc.members.values(), *sfo.members.values()])
