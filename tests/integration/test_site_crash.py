"""A whole site is killed under load and started again: what its members held for the other site comes from their disks,
once and in order."""
from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from time import monotonic, sleep

import pytest

from jgroups_py import wire
from jgroups_py.protocols.relay.journal.records import BatchRecord, JournalDamage, read_records, seal_of
from jgroups_py.protocols.relay.journal.seals import place
from jgroups_py.sealing.files import FileCipher, key_of
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.free_ports import free_range
from jgroups_py.system.secrets import SECRETS, read_keyring, write_keyring
from tests.integration.members import STARTING_SECONDS, Event, Group, Member

pytestmark = pytest.mark.real

KEYRING = "hold.keys"
MESSAGES, SIZE, RATE = 100_000, 200, 2500
BEHIND_SECONDS = 1.2                     # how long the other site is stopped before the site is killed
ALL_THERE_SECONDS = 200.0
BEYOND_WINDOW = 10_000                   # bytes of each of 1,000 messages: more than a window, so most was never sent


@pytest.fixture
def sites(tmp_path: Path, request: pytest.FixtureRequest):
    """NYC with A, B, C, which hold messages on disk, and SFO with D, E, F."""
    first = free_range(20)
    bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}]", "bridge_port_range": 19}
    sync, _, sealed = request.param.partition(" ")
    keyring = tmp_path / KEYRING
    write_keyring(keyring, new_keyring(SECRETS.draw(32)), new=True)
    hold = {"hold_dir": tmp_path / "hold", "hold_sync": sync, **({"hold_keyring": keyring} if sealed else {})}
    with Group("nyc", "nyc", **hold, **bridge) as nyc, \
            Group("sfo", "sfo", **bridge) as sfo:
        for group, names in ((nyc, "ABC"), (sfo, "DEF")):
            for name in names:
                group.spawn(name)
        nyc.settle("ABC", 2 * STARTING_SECONDS)
        sfo.settle("DEF", 2 * STARTING_SECONDS)
        for member in (*nyc.members.values(), *sfo.members.values()):
            see_both_sites(member)
        yield nyc, sfo


def see_both_sites(member: Member, since: int = 0) -> None:
    member.wait(lambda event: event["event"] == "global_view" and
                {site: len(names) for site, names in event["sites"].items()} == {"NYC": 3, "SFO": 3},
                "global view of both sites", since)


def journal_ends(folder: Path) -> dict[str, int]:
    """Name of an origin -> one past its highest number in any journal below `folder`."""
    ends: dict[str, int] = {}
    for path in sorted(folder.glob("*/*.hold")):
        data = path.read_bytes()
        head = seal_of(data)
        keys = read_keyring(folder.parent / KEYRING)[0].usable()
        cipher = FileCipher(key_of(head, keys, path.name, KEYRING), head, place(path.name)) if head else None
        for record in read_records(data, wire.Interner(), JournalDamage(), cipher):
            if isinstance(record, BatchRecord):
                name = record.origin.name
                ends[name] = max(ends.get(name, 1), record.first + record.batch.count)
    return ends


def received(member: Member) -> Event:
    """Name of an origin -> what `member` got of its flood."""
    return dict(member.stats()["received"])


def last_count(member: Member, name: str) -> int:
    """The last number that a killed member reported of the messages of `name`."""
    member.process.wait(60)
    output_of(member)
    reports = [event["received"] for event in member.events if event["event"] in ("progress", "stats")]
    return max((found[name]["next"] for found in reports if name in found), default=0)


@pytest.mark.parametrize("sites", [
    "none", pytest.param("every", marks=pytest.mark.long), pytest.param("none sealed", marks=pytest.mark.long),
], indirect=True)
def test_all_members_of_a_site_are_killed_under_load_and_nothing_that_they_delivered_is_lost(
    sites: tuple[Group, Group], tmp_path: Path,
):
    nyc, sfo = sites
    for member in nyc.members.values():
        member.command(f"flood {MESSAGES} {SIZE} {RATE}")
    for member in sfo.members.values():
        member.received_all(dict.fromkeys("ABC", RATE // 2))
    for member in sfo.members.values():
        member.signal(signal.SIGSTOP)
    sleep(BEHIND_SECONDS)
    for member in nyc.members.values():
        member.signal(signal.SIGKILL)
    for member in sfo.members.values():
        member.signal(signal.SIGCONT)
    marks = {member.name: member.mark() for member in sfo.members.values()}
    delivered = {name: max(last_count(member, name) for member in nyc.members.values()) for name in "ABC"}
    on_disk = journal_ends(tmp_path / "hold")
    sealed = [path.read_bytes()[13:19] == b"JGSEAL" for path in (tmp_path / "hold").glob("*/*.hold")]
    assert sealed == [bool(nyc.properties.get("hold_keyring"))] * len(sealed)
    for name, count in delivered.items():
        assert on_disk[name] > count > 0, "numbers on disk begin with 1: what a holder delivered, it has written"

    for name in "CAB":                                   # in another order, so another relay
        nyc.spawn(name)
    nyc.settle("ABC", 2 * STARTING_SECONDS)
    for member in sfo.members.values():
        see_both_sites(member, marks[member.name])
    wanted = {name: stop - 1 for name, stop in on_disk.items()}
    for member in sfo.members.values():
        found = member.received_all(wanted, ALL_THERE_SECONDS)["received"]
        for name, stop in wanted.items():
            assert found[name] == {"count": stop, "next": stop, "duplicates": 0, "out_of_order": 0}, member.name
    assert all(not received(nyc[name]) for name in "ABC"), "the new incarnations do not get what the old ones sent"

    nyc["A"].command("send hello again")
    for member in sfo.members.values():
        member.wait(lambda event: event.get("payload") == "hello again", "message of the new incarnation")
    until = monotonic() + ALL_THERE_SECONDS
    while any(member.stats()["protocols"]["RELAY"]["held_messages"] for member in nyc.members.values()):
        assert monotonic() < until, f"the hold was not trimmed\n{nyc.report()}"
        sleep(0.5)


@pytest.mark.parametrize("sites", ["none"], indirect=True)
@pytest.mark.parametrize("hours", [1, pytest.param(-1, marks=pytest.mark.long)])
def test_a_wall_clock_that_jumps_while_a_site_is_down_drops_nothing(
    sites: tuple[Group, Group], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int,
):
    """A host that starts again before its clock is set, as virtual machines do; `hold_age` is half an hour."""
    nyc, sfo = sites
    for member in sfo.members.values():
        member.signal(signal.SIGSTOP)
    nyc["A"].command(f"flood 1000 {BEYOND_WINDOW}")
    for member in nyc.members.values():
        member.received_all({"A": 1000})
    for member in nyc.members.values():
        member.signal(signal.SIGKILL)
    for member in sfo.members.values():
        member.signal(signal.SIGCONT)
    (tmp_path / "sitecustomize.py").write_text(
        "import time\n"
        f"right, right_ns, ahead_s = time.time, time.time_ns, {hours * 3600}\n"
        "time.time = lambda: right() + ahead_s\n"
        "time.time_ns = lambda: right_ns() + ahead_s * 10**9\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    for name in "ABC":
        nyc.spawn(name)
    nyc.settle("ABC", 2 * STARTING_SECONDS)
    for member in sfo.members.values():
        found = member.received_all({"A": 1000}, ALL_THERE_SECONDS)["received"]["A"]
        assert (found["count"], found["duplicates"], found["out_of_order"]) == (1000, 0, 0), member.name
        assert not [event for event in member.events if event["event"] == "lost"]


@pytest.mark.parametrize("sites", ["none"], indirect=True)
def test_a_site_that_is_stopped_as_planned_sends_on_what_it_held_when_it_is_back(
    sites: tuple[Group, Group], tmp_path: Path,
):
    nyc, sfo = sites
    for member in sfo.members.values():
        member.signal(signal.SIGSTOP)
    nyc["C"].command(f"flood 1000 {BEYOND_WINDOW}")
    for member in nyc.members.values():
        member.received_all({"C": 1000})
    for name in "CBA":                                   # a rolling stop, while no member of SFO answers
        nyc[name].signal(signal.SIGTERM)
        assert nyc[name].process.wait(30) == 0
    for member in sfo.members.values():
        member.signal(signal.SIGCONT)
    for name in "BCA":
        nyc.spawn(name)
    nyc.settle("ABC", 2 * STARTING_SECONDS)
    for member in sfo.members.values():
        found = member.received_all({"C": 1000}, ALL_THERE_SECONDS)["received"]["C"]
        assert (found["count"], found["duplicates"], found["out_of_order"]) == (1000, 0, 0), member.name
        assert not [event for event in member.events if event["event"] == "lost"]


@pytest.mark.parametrize("sites", ["none"], indirect=True)
def test_a_folder_in_use_and_a_folder_of_another_site_are_refused_with_the_reason(
    sites: tuple[Group, Group], tmp_path: Path,
):
    nyc, sfo = sites
    twin = nyc.spawn("A")                                # the first A runs, and is closed below
    assert twin.process.wait(120) == 1
    assert "is in use by another member of this name" in output_of(twin)
    shutil.copytree(tmp_path / "hold" / "B", tmp_path / "hold" / "X")
    alien = sfo.spawn("X", hold_dir=tmp_path / "hold")
    assert alien.process.wait(120) == 1
    assert "belongs to site NYC of cluster nyc, not to site SFO of cluster sfo" in output_of(alien)


def output_of(member: Member) -> str:
    """All that a member printed before it ended."""
    for reader in member.readers:
        reader.join(10)
    return member.report()
