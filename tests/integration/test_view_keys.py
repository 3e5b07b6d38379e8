"""Keys of views among real processes under a flood: a member that was stopped, or cut off, comes back under new keys.

Nothing is lost among those that stay together, nothing comes twice or out of order to anybody, and the audit of all
archives is clean: what a member missed while it was excluded was reported to it by the merged view. The partition needs
network namespaces: tests/chaos/test_view_keys.py.
"""
from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from jgroups_py.cli import main
from jgroups_py.sealing.identities import KnownMembers, new_identity
from tests.integration.members import Group, Member

pytest.importorskip("pyarrow")
pytest.importorskip("cryptography")
pytestmark = [pytest.mark.real, pytest.mark.slow]
STACKS = Path(__file__).parents[2] / "stacks"
ENCRYPT_LINE = '<ENCRYPT keyring="${keyring:jgroups.keys}"/>'
NAMES = ("A", "B", "C")
RATE, SIZE = 300, 200


def files_of_view_keys(folder: Path, names: Iterable[str] = NAMES) -> str:
    """Identities of the members, and the stack sealed.xml with keys of views and an archive. Returns its path."""
    known = KnownMembers()
    for name in names:
        own = new_identity(os.urandom(32), name)
        known = known.with_member(own.identity)
        path = folder / f"{name}.pem"
        path.touch(0o600)
        path.write_text(own.as_text())
    (folder / "known.json").write_text(known.as_text())
    text = (STACKS / "sealed.xml").read_text()
    assert text.count(ENCRYPT_LINE) == 1
    auth = f'<AUTH identity="${{identity}}" trust="{folder}/known.json"/>'
    text = text.replace(ENCRYPT_LINE, f'<ENCRYPT mode="view"/>{auth}')
    stack = folder / "sealed.xml"
    stack.write_text(text.replace("</config>", f'<ARCHIVE directory="{folder}/archive"/></config>'))
    return str(stack)


def flooded(members: dict[str, Member], number: int) -> dict[str, int]:
    """Each member begins to multicast. Returns how many messages each one will have sent."""
    for member in members.values():
        member.command(f"flood {number} {SIZE} {RATE}")
    return dict.fromkeys(members, number)


def check_received(members: dict[str, Member], together: Iterable[str], sent: dict[str, int]) -> None:
    """All have the last message of each, and none twice or late. Those that stayed together have all of each other's;
    the others lack at most what was sent while they were apart, which is one hole."""
    for name, member in members.items():
        received = member.received_all(sent)["received"]
        for sender, number in sent.items():
            counts = received[sender]
            assert (counts["next"], counts["duplicates"]) == (number, 0), (name, sender, counts)
            if name == sender or (name in together and sender in together):
                assert (counts["count"], counts["out_of_order"]) == (number, 0), (name, sender, counts)
            else:
                assert counts["out_of_order"] <= 1, (name, sender, counts)
        assert name in together or received["A"]["count"] < sent["A"], "they were not apart"


def refused(members: dict[str, Member]) -> dict[str, dict[str, float]]:
    """What ENCRYPT has dropped at each member, but for frames of views that are over or to come."""
    counted = {name: member.stats()["protocols"]["ENCRYPT"] for name, member in members.items()}
    return {name: {key: number for key, number in counts.items() if number and key in (
        "unsigned_dropped", "not_opened_dropped", "unidentified_dropped", "malformed_dropped", "unsealed_dropped")}
        for name, counts in counted.items()}


def check_archives(folder: Path, members: dict[str, Member], capsys: pytest.CaptureFixture[str]) -> None:
    """The audit of what all have recorded is clean. What a member missed was reported to it by the merged view
    (`missed`), which the audit counts as such, and no more than was reported."""
    reported = {(origin, name): number for name, member in members.items() for event in member.events
                if event["event"] == "view" for origin, number in event.get("missed", {}).items()}
    capsys.readouterr()
    assert main(["archive", "audit", str(folder / "archive"), "--json"]) == 0, capsys.readouterr().out
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "clean"
    assert found["totals"]["sent"] > 0
    assert found["totals"]["reported_missed"] > 0, "they were not apart"
    for pair in found["pairs"]:
        assert pair["reported_missed"] <= reported.get((pair["origin"], pair["receiver"]), 0), (pair, reported)


def test_a_member_that_was_stopped_under_a_flood_comes_back_under_new_keys(tmp_path, capsys):
    with Group(files_of_view_keys(tmp_path)) as group:
        for name in NAMES:
            group.spawn(name, identity=tmp_path / f"{name}.pem").ready()
        group.settle(NAMES)
        sent = flooded(group.members, 6000)
        since = {name: group[name].mark() for name in NAMES}
        group["C"].signal(signal.SIGSTOP)
        for name in "AB":
            group[name].view_of("AB", since[name])
        group["C"].signal(signal.SIGCONT)
        since = {name: group[name].mark() for name in NAMES}
        for name in NAMES:
            group[name].view_of(NAMES, since[name])
        for member in group.members.values():
            member.received_all(sent)
        for name, number in flooded(group.members, 100).items():
            sent[name] += number
        check_received(group.members, "AB", sent)
        assert refused(group.members) == {name: {} for name in NAMES}
        for name in NAMES:
            assert group[name].leave() == 0
    check_archives(tmp_path, group.members, capsys)
